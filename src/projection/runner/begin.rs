//! Where a fold begins: with the store's rows, with those of a snapshot, or with the first record.

use super::Error;
use crate::{
    domain::{
        event::Position,
        ledger::{self, Ledger},
        merkle::{Frontier, Hash},
    },
    projection::{
        checkpoint::Checkpoint,
        snapshot::Snapshots,
        store::{self, Store},
    },
};
use std::collections::BTreeSet;

/// Where a ledger came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// From rows of the store: nobody is told anything before the log has borne them out.
    Store,
    /// From rows of a snapshot: the same.
    Snapshot,
    /// From the first record on: the log says all of it.
    Log,
}

/// What the log has yet to bear out.
#[derive(Clone, Debug, Default)]
pub(super) struct Claim {
    /// The record with which the reading begins is the last one that the rows follow from, by its leaf.
    pub(super) leaf: Option<Hash>,
    /// The records lead to the tree that the log had at the start. (A log on a stream keeps none.)
    pub(super) tree: Option<Frontier>,
}

impl Claim {
    pub(super) const fn is_open(&self) -> bool {
        self.leaf.is_some() || self.tree.is_some()
    }
}

/// Where a fold begins.
pub(super) struct Beginning<S> {
    pub(super) store: S,
    pub(super) ledger: Ledger,
    pub(super) checkpoint: Checkpoint,
    pub(super) origin: Origin,
    /// Why the store's rows are of no use.
    pub(super) discarded: Option<String>,
}

/// Finds where to begin: the store's rows, a snapshot's, or none. None lies behind `end`.
pub(super) fn begin<S: Store>(
    mut store: S,
    snapshots: Option<&Snapshots>,
    options: ledger::Options,
    end: Position,
    refuted: &BTreeSet<Position>,
) -> Result<Beginning<S>, Error> {
    let mut discarded = store.moved_aside().map(ToOwned::to_owned);
    match Checkpoint::load(&store, options) {
        Ok(Some((ledger, checkpoint))) if ledger.position() <= end => {
            return Ok(Beginning { store, ledger, checkpoint, origin: Origin::Store, discarded });
        }
        Ok(None) => {}
        Ok(Some((ledger, _))) => {
            let at = ledger.position();
            let why = format!("it stands at position {at}, but the log ends at {end}");
            discarded.get_or_insert(why);
            store.discard()?;
        }
        Err(error @ store::Error::Damaged { .. }) => {
            discarded.get_or_insert_with(|| error.to_string());
            store.discard()?;
        }
        Err(error) => return Err(error.into()),
    }
    let checkpoint = Checkpoint::default();
    let usable = |at: Position| at <= end && !refuted.contains(&at);
    let newest = snapshots.and_then(|snapshots| snapshots.newest(options, usable));
    let (mut ledger, origin) = match newest {
        Some(ledger) => (ledger, Origin::Snapshot),
        None => (Ledger::new(options), Origin::Log),
    };
    ledger.note_everything();
    Ok(Beginning { store, ledger, checkpoint, origin, discarded })
}
