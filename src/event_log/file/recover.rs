//! Finds the end of a file log: from the stored frontier when `roots` vouches for it, else from the first
//! record. Every line that is read on the way is checked against its leaf, every root against `roots`.

use super::{
    OpenError,
    roots::{self, ROOT_EVERY, Roots},
    segments::{self, SegmentReader},
};
use crate::domain::{event::Position, merkle::Hash};
use crate::event_log::{
    LineError, ReadError,
    chain::{Chain, Tip, continued},
    codec::Scanned,
    records::Raw,
};
use std::path::{Path, PathBuf};

/// Half a line at the end of a log, which was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The segment.
    pub path: PathBuf,
    /// The position that the record would have had.
    pub position: Position,
    /// How many bytes were there.
    pub bytes: usize,
}

/// What is known of a log after it was read to its end.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) tip: Tip,
    /// First position of the last segment.
    pub(super) segment: Position,
    pub(super) torn: Option<Torn>,
    /// Whether everything was read, for want of a frontier to believe.
    pub(super) from_the_first: bool,
    pub(super) roots: Roots,
    /// Lines that `roots` lacks at its end.
    pub(super) due: Vec<(Position, Hash)>,
}

/// Reads the log in `dir` to its end.
pub(super) fn recover(dir: &Path) -> Result<Recovered, OpenError> {
    let roots = Roots::read(dir)?;
    let stored = roots::read_tip(dir)
        .filter(|tip| tip.position() > 0 && roots.get(tip.position()) == Some(tip.tree.root()));
    let from_the_first = stored.is_none();
    let start = stored.map_or_else(|| base(dir), Ok)?;
    let (began, mut last_decision) = (start.position(), start.last_decision);
    let mut reader = SegmentReader::open(dir, began.saturating_add(1))?;
    let mut chain = Chain::resume(start.tree);
    let mut due = Vec::new();
    while let Some(records) = reader.next(Position::MAX)? {
        for (position, raw) in records.iter() {
            let scanned = push(&mut chain, raw).map_err(|why| {
                let (path, line) = reader.place(position);
                ReadError::Line { path, line, position, why }
            })?;
            if scanned.is_decision() {
                last_decision = position;
            }
            check_root(dir, &roots, &chain, &mut due)?;
        }
        reader.recycle(records.into_bytes());
    }
    let (found, recorded) = (reader.next_position().saturating_sub(1), roots.last_position());
    if found < recorded.max(began) {
        return Err(OpenError::Truncated { path: dir.to_owned(), recorded, found });
    }
    let torn = (reader.torn_bytes() > 0).then(|| Torn {
        path: reader.place(reader.next_position()).0,
        position: reader.next_position(),
        bytes: reader.torn_bytes(),
    });
    let tip = Tip { last_decision, tree: chain.tree().clone() };
    Ok(Recovered { tip, segment: reader.segment(), torn, from_the_first, roots, due })
}

fn push<'a>(chain: &mut Chain, raw: Raw<'a>) -> Result<Scanned<'a>, LineError> {
    let scanned = raw.scan()?;
    chain.push(&scanned)?;
    Ok(scanned)
}

/// Compares the root at the chain's position with its line, or notes that the line is due.
fn check_root(
    dir: &Path,
    roots: &Roots,
    chain: &Chain,
    due: &mut Vec<(Position, Hash)>,
) -> Result<(), OpenError> {
    let position = chain.tree().position();
    if let Some(recorded) = roots.get(position) {
        let computed = chain.tree().root();
        if recorded != computed {
            let path = dir.join(roots::ROOTS_FILE);
            return Err(OpenError::RootDiffers { path, position, recorded, computed });
        }
    } else if position.is_multiple_of(ROOT_EVERY) && position > roots.last_position() {
        due.push((position, chain.tree().root()));
    }
    Ok(())
}

/// What a log begins with: nothing, or the log that its first record continues.
pub(in crate::event_log) fn base(dir: &Path) -> Result<Tip, OpenError> {
    let first = segments::list(dir)?.first().copied().unwrap_or(1);
    let Some(position) = first.checked_sub(1).filter(|base| *base > 0) else {
        return Ok(Tip::default());
    };
    let records = SegmentReader::open(dir, first)?.next(first)?;
    let first_record = records.as_ref().and_then(|r| r.iter().next());
    let tree = first_record.and_then(|(_, raw)| continued(&raw.scan().ok()?));
    let tree = tree.filter(|tree| tree.position() == position);
    let tree = tree.ok_or_else(|| OpenError::NoBase { path: dir.to_owned(), first })?;
    Ok(Tip { last_decision: 0, tree })
}
