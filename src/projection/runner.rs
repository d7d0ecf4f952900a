//! The runner: one task that folds a log into a ledger, tells how far it is, and commits rows to a store.
//!
//! ```text
//!  start ─▶ mark beyond the log? discard ─▶ fold from the first record ─▶ at the mark: same root, same rows?
//!                                                                         no: discard, and say so
//!        ─▶ caught up ─▶ tail … ─▶ a newer version, a changed record: stopped, said to everybody who waits
//! ```
//!
//! It never skips a record and never serves a store that the log does not bear out. Time is only used to decide
//! when to commit.

use super::{
    desk::Desk,
    fold::Read,
    rows::{self, Row, Written},
    store::{self, Mark, Store},
};
use crate::{
    domain::{
        event::Position,
        ledger::{self, Ledger, Stop},
        merkle::{Hash, LeafHasher},
    },
    event_log::{
        EventLog, ReadError, Reader, Records,
        chain::LeafDiffers,
        codec::{DecodeError, Decoder, Scanned},
        records::Raw,
    },
};
use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// How a log is projected.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What the ledger keeps.
    pub ledger: ledger::Options,
    /// Rows are committed after this many records …
    pub commit_records: u64,
    /// … or after this time, if anything changed.
    pub commit_every: Duration,
}

/// Folds a log; see [`Runner::run`].
pub struct Runner<S> {
    store: S,
    options: Options,
    ledger: Arc<RwLock<Ledger>>,
    status: watch::Sender<Status>,
    decoder: Decoder,
    hasher: LeafHasher,
    /// What the store was found to hold, until the fold has come to its mark.
    found: Option<Mark>,
    /// `None` until then: nothing is committed over what is not yet compared.
    written: Option<Written>,
}

/// What others see of a running fold. Clones see the same.
#[derive(Clone, Debug)]
pub struct Projection {
    /// A plain lock: the runner holds it for a few hundred records at a time (under a millisecond), readers for a
    /// question, nobody across an await.
    ledger: Arc<RwLock<Ledger>>,
    status: watch::Receiver<Status>,
}

/// How far the fold is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The last record that was applied.
    pub position: Position,
    /// The last record that the store's rows follow from.
    pub committed: Position,
    /// Everything that the log held when the runner started has been applied.
    pub caught_up: bool,
    /// Records that were quarantined.
    pub quarantined: u64,
    /// Records that repeated what was known, or what was forgotten.
    pub repeated: u64,
    /// What became of the rows that the store held at the start.
    pub store: Found,
    /// Why nothing more is applied: everything that waits is told.
    pub stopped: Option<Arc<str>>,
}

/// What became of the rows that the store held at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// There were none, or the fold has not come to them yet.
    #[default]
    Nothing,
    /// The log bears them out.
    Confirmed,
    /// They were thrown away: a person should know why.
    Discarded {
        /// Why.
        why: Arc<str>,
    },
}

/// Why the fold ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A record is no event.
    #[error("position {position}: {why}")]
    NoEvent {
        /// The record.
        position: Position,
        /// What is wrong.
        why: DecodeError,
    },
    /// A record is not what was written.
    #[error("position {position}: {why}")]
    Changed {
        /// The record.
        position: Position,
        /// What is wrong.
        why: LeafDiffers,
    },
    /// The ledger cannot go on.
    #[error(transparent)]
    Stop(#[from] Stop),
    /// Rows cannot be kept.
    #[error("the store does not take rows: {0}")]
    Store(#[from] store::Error),
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

/// Records that are applied without letting readers in between: about a quarter of a millisecond.
const APPLY_RECORDS: usize = 256;

impl Default for Options {
    /// A restart folds at most 100,000 records again (a tenth of a second), or what came in two seconds.
    fn default() -> Self {
        Self {
            ledger: ledger::Options::default(),
            commit_records: 100_000,
            commit_every: Duration::from_secs(2),
        }
    }
}

impl Projection {
    /// The ledger as it is now. Hold it for a question, not across an await: the fold waits meanwhile.
    pub fn ledger(&self) -> RwLockReadGuard<'_, Ledger> {
        // A ledger changes a record at a time, whole or not at all: a panic elsewhere leaves it right.
        self.ledger.read().unwrap_or_else(PoisonError::into_inner)
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

    async fn wait(&mut self, reached: impl Fn(&Status) -> bool) -> Result<(), Stopped> {
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

impl<S: Store> Runner<S> {
    /// A runner that keeps its rows in `store`, and what others see of it.
    #[must_use]
    pub fn new(store: S, options: Options) -> (Self, Projection) {
        let ledger = Arc::new(RwLock::new(Ledger::new(options.ledger)));
        let status = watch::Sender::new(Status::default());
        let seen = Projection { ledger: Arc::clone(&ledger), status: status.subscribe() };
        let (decoder, hasher) = Default::default();
        let (found, written) = (None, None);
        (Self { store, options, ledger, status, decoder, hasher, found, written }, seen)
    }

    /// Folds `log` from its first record on, until `end` comes true; then commits, and gives the store back.
    ///
    /// # Errors
    /// [`Error`]; it was told to everybody who waits, too.
    pub async fn run<L: EventLog>(mut self, log: &L, end: impl Future) -> Result<S, Error> {
        let folded = self.fold(log, end).await;
        if let Err(error) = &folded {
            // What came before the record that ended it was applied; whether that was all is not asked any more.
            self.progress(Position::MAX);
            let why: Arc<str> = error.to_string().into();
            self.status.send_modify(|status| status.stopped = Some(why));
        }
        folded.map(|()| self.store)
    }

    async fn fold<L: EventLog>(&mut self, log: &L, end: impl Future) -> Result<(), Error> {
        let head = log.head().await?.position;
        self.look_at_the_store(head)?;
        let mut reader = log.read(1)?;
        let mut end = pin!(end);
        let mut due = Instant::now() + self.options.commit_every;
        self.progress(head);
        loop {
            let records = tokio::select! {
                biased;
                _ = &mut end => break,
                records = timeout_at(due, reader.tail()) => records.ok().transpose()?,
            };
            if let Some(records) = records {
                self.take(&records, head)?;
            }
            let waiting = self.waiting();
            if waiting >= self.options.commit_records || Instant::now() >= due {
                due = Instant::now() + self.options.commit_every;
                if waiting > 0 {
                    self.commit().await?;
                }
            }
            // A memory log is always ready: others on this thread get their turn.
            tokio::task::yield_now().await;
        }
        if self.waiting() > 0 { self.commit().await } else { Ok(()) }
    }

    /// Notes what the store holds, to be compared; rows beyond the log's end cannot be and are thrown away.
    fn look_at_the_store(&mut self, head: Position) -> Result<(), Error> {
        match self.store.mark() {
            Ok(None) => self.written = Some(Written::default()),
            Ok(Some(mark)) if mark.position() > head => {
                let at = mark.position();
                let why = format!("it stands at position {at}, but the log ends at {head}");
                self.discard(&why)?;
            }
            Ok(Some(mark)) => self.found = Some(mark),
            Err(error @ store::Error::Damaged { .. }) => self.discard(&error.to_string())?,
            Err(error) => return Err(error.into()),
        }
        // The mark of nothing is no record that the fold could come to.
        self.compare_with_the_store()
    }

    fn discard(&mut self, why: &str) -> Result<(), Error> {
        self.store.discard()?;
        self.found = None;
        self.written = Some(Written::default());
        let why = why.into();
        self.status.send_modify(|status| {
            status.store = Found::Discarded { why };
            status.committed = 0;
        });
        Ok(())
    }

    /// Scans, decodes and applies; up to the store's mark first, if that lies within.
    fn take(&mut self, records: &Records, head: Position) -> Result<(), Error> {
        let all: Vec<_> = records.iter().collect();
        for chunk in all.chunks(APPLY_RECORDS) {
            let mut chunk = chunk;
            if let Some(mark) = self.found.as_ref().map(Mark::position) {
                let (before, behind) =
                    chunk.split_at(chunk.partition_point(|(position, _)| *position <= mark));
                self.apply(before)?;
                self.compare_with_the_store()?;
                chunk = behind;
            }
            self.apply(chunk)?;
            self.progress(head);
        }
        Ok(())
    }

    fn apply(&mut self, records: &[(Position, Raw<'_>)]) -> Result<(), Error> {
        let read = records.iter().map(|(position, raw)| {
            let position = *position;
            let scanned = raw.clone().scan().map_err(|why| Error::NoEvent { position, why })?;
            let leaf = self.leaf(position, &scanned)?;
            Ok((position, leaf, Read::new(&mut self.decoder, &scanned)))
        });
        // What comes before a bad record is applied all the same.
        let mut bad = Ok(());
        let read: Vec<_> = read.map_while(|r| r.map_err(|error| bad = Err(error)).ok()).collect();
        let mut ledger = self.ledger.write().unwrap_or_else(PoisonError::into_inner);
        for (position, leaf, read) in read {
            read.apply(&mut ledger, position, leaf)?;
        }
        bad
    }

    /// The record's leaf, which is the one that was written beside it, if one was.
    fn leaf(&mut self, position: Position, scanned: &Scanned<'_>) -> Result<Hash, Error> {
        let computed = self.hasher.leaf(position, &scanned.leaf_input());
        match scanned.leaf {
            Some(recorded) if recorded != computed => {
                let why = LeafDiffers::Changed { recorded, computed };
                Err(Error::Changed { position, why })
            }
            _ => Ok(computed),
        }
    }

    /// At the store's mark: the same root and the same rows, or the store is thrown away.
    fn compare_with_the_store(&mut self) -> Result<(), Error> {
        let ledger = Arc::clone(&self.ledger);
        let ledger = ledger.read().unwrap_or_else(PoisonError::into_inner);
        let Some(mark) = self.found.take_if(|mark| mark.position() == ledger.position()) else {
            return Ok(());
        };
        let at = mark.position();
        if mark.tree != *ledger.frontier() {
            let (root, found) = (ledger.root(), mark.root());
            let why = format!("at position {at} it stands for root {found}, the log's is {root}");
            return self.discard(&why);
        }
        let mut held = BTreeMap::new();
        let all = self.store.rows(&mut |Row(key, value)| {
            held.insert(key, value);
        });
        match all {
            Err(error @ store::Error::Damaged { .. }) => return self.discard(&error.to_string()),
            all => all?,
        }
        let expected = rows::of(&ledger);
        if let Some(key) = rows::first_difference(&held, &expected) {
            let why = format!("at position {at} its row {key:?} is not what the log says");
            return self.discard(&why);
        }
        self.written = Some(Written::found(held));
        self.status.send_modify(|status| {
            status.store = Found::Confirmed;
            status.committed = at;
        });
        Ok(())
    }

    /// Records that are applied and not committed; none while the store is not yet compared.
    fn waiting(&self) -> u64 {
        let status = self.status.borrow();
        let waiting = status.position.saturating_sub(status.committed);
        if self.written.is_some() { waiting } else { 0 }
    }

    async fn commit(&mut self) -> Result<(), Error> {
        let Some(written) = &mut self.written else { return Ok(()) };
        let batch = {
            let ledger = self.ledger.read().unwrap_or_else(PoisonError::into_inner);
            written.batch(&ledger)
        };
        let position = batch.mark.position();
        // Disks block; a runtime of one thread has no other to hand the work to.
        let multi = tokio::runtime::Handle::current().runtime_flavor()
            == tokio::runtime::RuntimeFlavor::MultiThread;
        let store = &mut self.store;
        if multi {
            tokio::task::block_in_place(|| store.commit(batch))?
        } else {
            store.commit(batch)?
        }
        self.status.send_modify(|status| status.committed = position);
        Ok(())
    }

    fn progress(&self, head: Position) {
        let ledger = self.ledger.read().unwrap_or_else(PoisonError::into_inner);
        let (position, counts) = (ledger.position(), ledger.counts());
        let quarantined = ledger.quarantined().len() as u64;
        drop(ledger);
        self.status.send_modify(|status| {
            status.position = position;
            status.caught_up |= position >= head;
            status.quarantined = quarantined;
            status.repeated = counts.repeated.saturating_add(counts.dropped);
        });
    }
}

#[cfg(test)]
mod tests;
