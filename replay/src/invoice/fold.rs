//! Folds a log into a bill: once if its periods were closed as they were known, else once more with all closings.

use crate::reading::{Halt, Log};
use bizrq::{
    cli::Error,
    domain::{
        billing::{self, Billing, Closing, Terms, Told},
        event::{Data, Position},
        merkle::Hash,
    },
    projection::fold::Read,
};

/// What was folded, and up to where.
pub(crate) struct Folded {
    pub(crate) billing: Billing,
    pub(crate) position: Position,
    pub(crate) root: Hash,
    /// The billed time was closed by then: nothing changes the bill any more.
    pub(crate) closed: bool,
}

/// How reading ended.
enum Ended {
    /// At the end.
    End,
    /// The billed time was closed.
    Closed,
    /// A period was closed as known earlier.
    Unforeseen,
}

/// Who looks on: after each record.
pub(crate) type Look<'l> = dyn FnMut(&Billing, &Read<'_>) + 'l;

/// Folds the log up to `limit`, or up to where the billed time was closed. `look` may see the first records twice.
pub(crate) fn fold(
    log: &Log,
    terms: &Terms,
    limit: Position,
    look: &mut Look<'_>,
) -> Result<Folded, Error> {
    match folded(log, terms, limit, Vec::new(), look)? {
        Some(folded) => Ok(folded),
        None => {
            let closings = closings(log, limit)?;
            let again = folded(log, terms, limit, closings, look)?;
            again.ok_or_else(|| {
                Error::log(&log.place, "its closed periods changed while it was read")
            })
        }
    }
}

/// `None`: all closings must be known beforehand.
fn folded(
    log: &Log,
    terms: &Terms,
    limit: Position,
    closings: Vec<Closing>,
    look: &mut Look<'_>,
) -> Result<Option<Folded>, Error> {
    let mut billing = Billing::new(terms.clone(), closings);
    let limit = billing.limit().map_or(limit, |closed| closed.min(limit));
    let mut ended = Ended::End;
    let tree = log.decoded("billing", limit, |position, read| {
        ended = match billing.take(position, &read.record()) {
            Ok(Told::More) => {
                look(&billing, read);
                return Ok(());
            }
            Ok(Told::Closed) => Ended::Closed,
            Err(billing::Error::Unforeseen { .. }) => Ended::Unforeseen,
            Err(billing::Error::Stop(stop)) => return Err(Error::log(&log.place, stop).into()),
        };
        Err(Halt::Enough)
    })?;
    let tree = match (tree, ended) {
        (_, Ended::Unforeseen) => return Ok(None),
        (Some(tree), _) => tree,
        (None, _) => log.tree(billing.limit().unwrap_or(limit))?,
    };
    let (position, root) = (tree.position(), tree.root());
    let closed = billing.limit().is_some_and(|closed| closed <= position);
    if closed
        && let Some(closing) = billing.closing()
        && closing.root != root
    {
        let Closing { at, position, root: said, .. } = closing;
        let why = format!(
            "record {at} closes a period at position {position} with root {said}; the records give {root}"
        );
        return Err(Error::log(&log.place, why));
    }
    Ok(Some(Folded { billing, position, root, closed }))
}

/// Every closing up to `limit`.
pub(crate) fn closings(log: &Log, limit: Position) -> Result<Vec<Closing>, Error> {
    let mut closings: Vec<Closing> = Vec::new();
    log.decoded("looking for closed periods", limit, |position, read| {
        if let Some(Data::PeriodClosed(data)) = read.event().map(|event| &event.data)
            && let Ok(closing) = Closing::new(closings.last(), position, data)
        {
            closings.push(closing);
        }
        Ok(())
    })?;
    Ok(closings)
}
