//! Decisions that the log has acknowledged and the projection has not read yet. They count all the same.
//!
//! ```text
//!  log:    … 41 f   42 D   43 f   44 D   45 D
//!  ledger: up to 42 ──┘            └──────┴── overlay: 44, 45, done again in every trial
//! ```
//!
//! One leaves when the ledger has come to its position: under the ledger's lock, so never missing, never twice.

use crate::domain::{
    book::{Error, Stamp, Trial},
    event::{Data, Event, Position},
    names::Names,
};
use std::collections::VecDeque;

/// A decision that the log has acknowledged.
#[derive(Debug)]
struct Acknowledged {
    position: Position,
    event: Event<'static>,
}

/// Acknowledged and not read, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct Overlay(VecDeque<Acknowledged>);

impl Overlay {
    /// The log has acknowledged `event` at `position`, behind all others.
    pub(super) fn push(&mut self, position: Position, event: Event<'static>) {
        self.0.push_back(Acknowledged { position, event });
    }

    /// The ledger has read everything up to `position`.
    pub(super) fn read(&mut self, position: Position) {
        while self.0.front().is_some_and(|first| first.position <= position) {
            self.0.pop_front();
        }
    }

    /// Where the newest stands.
    pub(super) fn last(&self) -> Option<Position> {
        self.0.back().map(|last| last.position)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Does them all, as the fold will.
    pub(super) fn redo(&self, trial: &mut Trial<'_>, names: &mut Names) -> Result<(), Error> {
        for Acknowledged { position, event } in &self.0 {
            let cluster = names.cluster(&event.source);
            let stamp = Stamp { position: *position, time: event.time, cluster };
            match &event.data {
                Data::WorkloadsAdmitted(batch) => trial.admitted(names, stamp, batch)?,
                Data::QuotaProposed(proposal) => {
                    let name = event.subject.strip_prefix("quotas/").unwrap_or_default();
                    let group = names.group(name);
                    trial.proposed(names, stamp, group, proposal)?;
                }
                // Nothing else is decided here.
                _ => {}
            }
        }
        Ok(())
    }
}
