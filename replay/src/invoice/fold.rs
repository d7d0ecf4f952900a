//! Folds a log into a bill: once if its periods were closed as they were known and nothing was said of pods long after
//! they ended; else once more, knowing all closings and these pods.

use crate::reading::{Halt, Log, Nothing};
use bizrq::{
    cli::Error,
    domain::{
        billing::{self, Billing, Closing, Terms, Told},
        event::{Data, Position},
        merkle::Hash,
        meter::seals::Seals,
        names::{ObjectId, Set},
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

/// So many records about pods are read before one that ended is forgotten: what is said of it afterwards mostly comes
/// within seconds, which these are in the largest of clusters.
const WAIT: u64 = 1 << 15;

/// What is known of the log beforehand.
#[derive(Default)]
struct Known {
    /// Every period that it closes, where one is closed as known earlier.
    closings: Option<Vec<Closing>>,
    /// Pods that must not be forgotten early.
    late: Set<ObjectId>,
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

/// Who looks on: after each record, which it may see again.
pub(crate) type Look<'l> = dyn FnMut(&Billing, &Read<'_>) + 'l;

/// Folds the log up to `limit`, or up to where the billed time was closed.
pub(crate) fn fold(
    log: &Log,
    terms: &Terms,
    limit: Position,
    look: &mut Look<'_>,
) -> Result<Folded, Error> {
    let mut known = Known::default();
    loop {
        if let Some(folded) = folded(log, terms, limit, &mut known, look)? {
            return Ok(folded);
        }
    }
}

/// `None`: once more, by what is known now.
fn folded(
    log: &Log,
    terms: &Terms,
    limit: Position,
    known: &mut Known,
    look: &mut Look<'_>,
) -> Result<Option<Folded>, Error> {
    let closings = known.closings.clone().unwrap_or_default();
    let seals = Seals::new(WAIT, known.late.clone());
    let mut billing = Billing::new(terms.clone(), closings).sealing(seals);
    let limit = billing.limit().map_or(limit, |closed| closed.min(limit));
    let mut ended = Ended::End;
    let tree = log.decoded("billing", limit, &mut billing, |billing, position, read| {
        ended = match billing.take(position, &read.record()) {
            Ok(Told::More) => {
                look(billing, read);
                return Ok(());
            }
            Ok(Told::Closed) => Ended::Closed,
            Err(billing::Error::Unforeseen { .. }) => Ended::Unforeseen,
            Err(billing::Error::Stop(stop)) => return Err(Error::log(&log.place, stop).into()),
        };
        Err(Halt::Enough)
    })?;
    if let Some(late) = billing.late() {
        // Never the same twice: those that are known are kept.
        known.late.extend(late);
    }
    let tree = match (tree, ended) {
        (_, Ended::Unforeseen) if known.closings.is_some() => {
            return Err(Error::log(&log.place, "its closed periods changed while it was read"));
        }
        (_, Ended::Unforeseen) => {
            known.closings = Some(self::closings(log, limit)?);
            return Ok(None);
        }
        _ if billing.late().is_some() => return Ok(None),
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
    log.decoded("looking for closed periods", limit, &mut Nothing, |_, position, read| {
        if let Some(Data::PeriodClosed(data)) = read.event().map(|event| &event.data)
            && let Ok(closing) = Closing::new(closings.last(), position, data)
        {
            closings.push(closing);
        }
        Ok(())
    })?;
    Ok(closings)
}
