//! What a log held before it was filled: read again beside the archive and compared with it, record by record.

use crate::{
    cli::{Error, opened_log::OpenedLog},
    domain::{
        event::Position,
        merkle::{Frontier, Hash, LeafHasher},
    },
    event_log::{AnyReader, Reader, codec::Scanned},
};
use std::collections::VecDeque;

/// The records that a log holds, in order.
pub(super) struct Held<'l> {
    log: &'l OpenedLog,
    /// All of them, and what they continue.
    pub(super) tree: Frontier,
    /// Position of the first.
    first: Position,
    reader: AnyReader,
    /// Read, not compared.
    leaves: VecDeque<(Position, Hash)>,
    hasher: LeafHasher,
}

impl<'l> Held<'l> {
    /// Those from `from` on.
    pub(super) fn of(log: &'l OpenedLog, from: Position) -> Result<Self, Error> {
        let (first, _) = log.range()?;
        let reader = log.reader(from.max(first))?;
        let (leaves, hasher) = Default::default();
        Ok(Self { log, tree: log.tree()?, first, reader, leaves, hasher })
    }

    /// Whether an archive from `first` to `last` can go on here, as far as positions tell.
    pub(super) fn meets(&self, first: Position, last: Position) -> Result<(), Error> {
        let (from, to) = (self.first, self.tree.position());
        if from > last {
            return self.refused(&format!(
                "it begins at position {from}, behind the archive's last, {last}; nothing can be put before it: name \
                 both, the archive first, with a comma between"
            ));
        }
        if first > to.saturating_add(1) {
            let (gap, until) = (to.saturating_add(1), first.saturating_sub(1));
            return self.refused(&format!(
                "it ends at position {to} and the archive begins at {first}: the records {gap} to {until} are missing \
                 between them; import an archive that has these first"
            ));
        }
        Ok(())
    }

    /// The archive's record at `position` must be the one that is here.
    pub(super) fn compare(
        &mut self,
        position: Position,
        scanned: &Scanned<'_>,
    ) -> Result<(), Error> {
        if position < self.first {
            return Ok(());
        }
        let (at, here) = self.next()?;
        let there = self.hasher.leaf(position, &scanned.leaf_input());
        if (at, here) == (position, there) {
            return Ok(());
        }
        self.another(&format!(
            "the first that differs is at position {position}: its leaf is {here}, there {there}"
        ))
    }

    /// The archive's tree up to where this log ends must be this log's.
    pub(super) fn compare_trees(&self, there: &Frontier) -> Result<(), Error> {
        if *there == self.tree {
            return Ok(());
        }
        let (position, here, there) = (self.tree.position(), self.tree.root(), there.root());
        self.another(&format!("at position {position} it has root {here}, the archive {there}"))
    }

    fn next(&mut self) -> Result<(Position, Hash), Error> {
        if self.leaves.is_empty() {
            let read = self.log.with_log(async |_| self.reader.next().await);
            let records = read.map_err(|e| Error::log(self.log.address(), e))?;
            for (position, raw) in records.iter().flat_map(|records| records.iter()) {
                let scanned = raw.scan().map_err(|e| {
                    Error::log(self.log.address(), format!("position {position}: {e}"))
                })?;
                self.leaves
                    .push_back((position, self.hasher.leaf(position, &scanned.leaf_input())));
            }
        }
        let ended = || Error::log(self.log.address(), "it ends before it did; verify it");
        self.leaves.pop_front().ok_or_else(ended)
    }

    fn another(&self, why: &str) -> Result<(), Error> {
        self.refused(&format!(
            "it holds other records than the archive ({why}); import into an empty log"
        ))
    }

    fn refused(&self, why: &str) -> Result<(), Error> {
        Err(Error::log(self.log.address(), why))
    }
}
