//! Several places that are no one history: where they begin to differ.
//!
//! ```text
//!  named before  1 ───────────────── reached        block by block, then record by record of the first that differs
//!  the next          base ──────────────────▶
//! ```

use super::finding::{Finding, What};
use crate::reading::{Halt, Log};
use bizrq::{
    cli::Error,
    domain::{
        event::Position,
        merkle::{Frontier, Hash, LeafHasher},
    },
    event_log::{
        OpenError, any,
        bulk::{self, Source},
        file::roots::ROOT_EVERY,
    },
};

/// What an error is about that says that places do not follow each other; `None` if it says something else.
pub(super) fn differing(log: &Log, error: &OpenError) -> Result<Option<Finding>, Error> {
    let (location, base, reached) = match error {
        OpenError::NotContinued { location, base, reached } => (location, *base, *reached),
        OpenError::AnotherHistory { location, reached } => (location, 0, *reached),
        _ => return Ok(None),
    };
    if base > reached {
        let from = reached.saturating_add(1);
        return Ok(Some(Finding::of(What::Removed, from, base, error.to_string())));
    }
    let places = any::places(&log.place);
    // An address may be written in another way than it was named; it is the last.
    let which = places.iter().position(|place| place == location);
    let which = which.unwrap_or_else(|| places.len().saturating_sub(1));
    let (before, rest) = places.split_at(which);
    let Some(next) = rest.first().filter(|_| !before.is_empty()) else { return Ok(None) };
    let pair = Pair { log, before: before.join(","), next };
    pair.differ(reached).map(|finding| {
        // What both hold is the same: they differ in what the next continues.
        let unknown = || Finding::of(What::Places, reached, reached, error.to_string());
        Some(finding.unwrap_or_else(unknown))
    })
}

/// Two places, of which the next should hold what the one before does, from where it begins.
struct Pair<'l> {
    log: &'l Log,
    before: String,
    next: &'l str,
}

impl Pair<'_> {
    /// The first record up to `to` that is not the same in both.
    fn differ(&self, to: Position) -> Result<Option<Finding>, Error> {
        let first = bulk::first(self.next).map_err(|e| Error::log(self.next, e))?;
        let (before, next) =
            (self.blocks(&self.before, first, to)?, self.blocks(self.next, first, to)?);
        let same = before.iter().zip(&next).take_while(|(before, next)| before == next).count();
        let from = first.saturating_add(ROOT_EVERY.saturating_mul(same as u64));
        let to = to.min(from.saturating_add(ROOT_EVERY).saturating_sub(1));
        if from > to {
            return Ok(None);
        }
        let leaves = |place| {
            let mut leaves = Vec::new();
            self.leaves(place, from, to, |leaf| leaves.push(leaf)).map(|()| leaves)
        };
        let (before, next) = (leaves(&self.before)?, leaves(self.next)?);
        let same = before.iter().zip(&next).take_while(|(before, next)| before == next).count();
        let position = from.saturating_add(same as u64);
        let (one, other) = (&self.before, self.next);
        let why = match (before.get(same), next.get(same)) {
            (Some(leaf), Some(found)) => format!("{one} has leaf {leaf}, {other} has leaf {found}"),
            (Some(_), None) => format!("{one} has the record, {other} ends before it"),
            (None, Some(_)) => format!("{one} ends before the record, {other} has it"),
            (None, None) => return Ok(None),
        };
        Ok(Some(Finding::of(What::Places, position, position, why)))
    }

    /// The root of each block of records by itself.
    fn blocks(&self, place: &str, from: Position, to: Position) -> Result<Vec<Hash>, Error> {
        let (mut blocks, mut block) = (Vec::new(), Frontier::default());
        self.leaves(place, from, to, |leaf| {
            block.append(leaf);
            if block.position() == ROOT_EVERY {
                blocks.push(std::mem::take(&mut block).root());
            }
        })?;
        if block.position() > 0 {
            blocks.push(block.root());
        }
        Ok(blocks)
    }

    fn leaves(
        &self,
        place: &str,
        from: Position,
        to: Position,
        mut each: impl FnMut(Hash),
    ) -> Result<(), Error> {
        let mut hasher = LeafHasher::default();
        let source = Source::log(place, to).map_err(|e| Error::log(place, e))?;
        let read = bulk::read(source, |batch| {
            for (position, line) in batch.iter().filter(|(position, _)| *position >= from) {
                let scanned =
                    line.map_err(|e| Error::log(place, format!("position {position}: {e}")))?;
                each(hasher.leaf(position, &scanned.leaf_input()));
            }
            Ok::<_, Halt>(())
        });
        self.log.finished(read).map(drop)
    }
}
