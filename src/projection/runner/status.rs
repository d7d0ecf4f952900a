//! What others see of a running fold: the ledger, how far it is, and what became of the rows that were kept.

use crate::{
    domain::{event::Position, ledger::Ledger},
    projection::desk::Desk,
};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use tokio::sync::{Notify, watch};

/// What others see of a running fold. Clones see the same.
#[derive(Clone, Debug)]
pub struct Projection {
    /// A plain lock: the runner holds it for a few hundred records at a time (under a millisecond), readers for a
    /// question, nobody across an await.
    pub(super) ledger: Arc<RwLock<Ledger>>,
    pub(super) status: watch::Receiver<Status>,
    pub(super) asked: Arc<Notify>,
}

/// How far the fold is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The last record that was applied.
    pub position: Position,
    /// The last record that the store's rows follow from.
    pub committed: Position,
    /// The last record that the log is known to hold.
    pub head: Position,
    /// Everything that the log held when the runner started has been applied.
    pub caught_up: bool,
    /// Records that were quarantined.
    pub quarantined: u64,
    /// Records that repeated what was known, or what was forgotten.
    pub repeated: u64,
    /// What became of the rows that the store held at the start.
    pub store: Found,
    /// Where the fold began: with the rows of the store or of a snapshot; 0 with the first record.
    pub began: Position,
    /// Why rows are not kept any more. The fold goes on without; the next start folds more again.
    pub unkept: Option<Arc<str>>,
    /// Where the last snapshot stands that was asked for; 0: none was written.
    pub snapshot: Position,
    /// Why the last snapshot that was asked for could not be written.
    pub unwritten: Option<Arc<str>>,
    /// Why nothing more is applied: everything that waits is told.
    pub stopped: Option<Arc<str>>,
}

/// What became of the rows that the store held at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// There were none, or the log has not borne them out yet.
    #[default]
    Nothing,
    /// The log bears them out: the fold goes on from them.
    Confirmed,
    /// They were thrown away: a person should know why.
    Discarded {
        /// Why.
        why: Arc<str>,
    },
}

/// The fold does not reach the position that was waited for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the projection stopped at position {position}: {why}")]
pub struct Stopped {
    /// The last record that was applied.
    pub position: Position,
    /// Why.
    pub why: Arc<str>,
}

impl Projection {
    /// The ledger as it is now; not to be served before [`Self::caught_up`]. Hold it for a question, not across an
    /// await: the fold waits meanwhile.
    pub fn ledger(&self) -> RwLockReadGuard<'_, Ledger> {
        // A ledger changes a record at a time, whole or not at all: a panic elsewhere leaves it right.
        self.ledger.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same if nobody changes it right now, nor waits to; else `None`.
    #[must_use]
    pub fn try_ledger(&self) -> Option<RwLockReadGuard<'_, Ledger>> {
        match self.ledger.try_read() {
            Ok(ledger) => Some(ledger),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The ledger as it is now, to try decisions out on it.
    #[must_use]
    pub fn desk(&self) -> Desk<'_> {
        Desk(self.ledger.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far the fold is.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Why nothing more is applied, if so.
    #[must_use]
    pub fn ended(&self) -> Option<Arc<str>> {
        let stopped = self.status.borrow().stopped.clone();
        // Without a runner nobody will ever change the status again.
        stopped.or_else(|| self.status.has_changed().is_err().then(|| "it was shut down".into()))
    }

    /// Asks for a snapshot: it is written with the next commit, while the fold goes on, and [`Status::snapshot`] says
    /// where it stands. Asking twice before that is asking once; without snapshots it is nothing.
    pub fn ask_for_snapshot(&self) {
        self.asked.notify_one();
    }

    /// Waits until the record at `position` is applied.
    ///
    /// # Errors
    /// [`Stopped`] when the fold ends before it.
    pub async fn wait_for(&mut self, position: Position) -> Result<(), Stopped> {
        self.wait(|status| status.position >= position).await
    }

    /// Waits until everything is applied that the log held when the runner started.
    ///
    /// # Errors
    /// [`Stopped`] when the fold ends before that.
    pub async fn caught_up(&mut self) -> Result<(), Stopped> {
        self.wait(|status| status.caught_up).await
    }

    pub(super) async fn wait(&mut self, reached: impl Fn(&Status) -> bool) -> Result<(), Stopped> {
        let stopped = |status: &Status, why: Arc<str>| Stopped { position: status.position, why };
        loop {
            let seen = self.status.borrow_and_update().clone();
            if reached(&seen) {
                return Ok(());
            }
            if let Some(why) = &seen.stopped {
                return Err(stopped(&seen, Arc::clone(why)));
            }
            if self.status.changed().await.is_err() {
                let last = self.status();
                // Its last word may be what was waited for.
                let why = last.stopped.clone().unwrap_or_else(|| "it was shut down".into());
                return if reached(&last) { Ok(()) } else { Err(stopped(&last, why)) };
            }
        }
    }
}
