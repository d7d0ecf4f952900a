//! The runner: one task that folds a log into a ledger, tells how far it is, and commits rows to a store.
//!
//! ```text
//!  start ─▶ rows of the store? else of a snapshot? else nothing ─▶ fold the tail ─▶ at the log's head: same root?
//!                                                                     no: throw them away, say so, start again
//!        ─▶ caught up ─▶ tail … ─▶ a newer version, a changed record: stopped, said to everybody who waits
//! ```
//!
//! It never skips a record, and tells nobody a position before the log has borne out where it started. Rows are
//! written on a thread of their own while the fold goes on, one commit at a time. Time is only used to decide
//! when to commit.

mod begin;
mod commit;
mod status;

use super::{
    checkpoint::Checkpoint,
    fold::Read,
    snapshot::Snapshots,
    store::{self, Store},
};
use crate::{
    domain::{
        event::Position,
        ledger::{self, Ledger, Stop, ahead::TOGETHER},
        merkle::{Frontier, Hash, LeafHasher},
    },
    event_log::{
        EventLog, Head, ReadError, Reader, Records,
        chain::LeafDiffers,
        codec::{DecodeError, Decoder, Scanned},
        records::Raw,
    },
};
use begin::{Beginning, Claim, Origin, begin};
use commit::{Wrote, written};
pub use status::{Found, Projection, Status, Stopped};
use std::{
    collections::BTreeSet,
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    task::{JoinError, JoinHandle, spawn_blocking},
    time::{Instant, sleep, sleep_until, timeout},
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
    /// `None` while a commit is under way, and after one has failed.
    store: Option<S>,
    /// The commit that is under way.
    writing: Option<JoinHandle<Wrote<S>>>,
    /// Somebody asks for a snapshot; it is made with the next commit.
    asked: Arc<Notify>,
    wanted: bool,
    snapshots: Option<Snapshots>,
    options: Options,
    ledger: Arc<RwLock<Ledger>>,
    status: watch::Sender<Status>,
    decoder: Decoder,
    hasher: LeafHasher,
    checkpoint: Checkpoint,
    /// Where the log ended at the start.
    head: Head,
    /// Where the ledger came from.
    origin: Origin,
    /// What the log has yet to bear out.
    claim: Claim,
    /// Snapshots that the log did not bear out.
    refuted: BTreeSet<Position>,
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
    /// The store cannot be read nor emptied.
    #[error("the store can neither be read nor emptied: {0}")]
    Store(#[from] store::Error),
    /// The log's own records do not give its root.
    #[error(
        "the records up to position {position} give root {computed}, but the log says {said}; verify the log"
    )]
    Root {
        /// Where the log ended when it was asked.
        position: Position,
        /// From the records.
        computed: Hash,
        /// What the log says.
        said: Hash,
    },
    /// A thread of the program ended by a panic.
    #[error("a thread that read or wrote rows panicked: {0}")]
    Panicked(#[from] JoinError),
}

/// Records that are applied without letting readers in between: about a quarter of a millisecond.
const APPLY_RECORDS: usize = 256;

/// So long the fold waits at most to hear where the log ends.
const HEAD_WAIT: Duration = Duration::from_secs(1);

/// Between two questions to a log that is away.
const RETRY: Duration = Duration::from_millis(200);

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

impl<S: Store> Runner<S> {
    /// A runner that keeps its rows in `store`, and what others see of it.
    #[must_use]
    pub fn new(store: S, options: Options) -> (Self, Projection) {
        let ledger = Arc::new(RwLock::new(Ledger::new(options.ledger)));
        let status = watch::Sender::new(Status::default());
        let asked = Arc::new(Notify::new());
        let seen = Projection {
            ledger: Arc::clone(&ledger),
            status: status.subscribe(),
            asked: Arc::clone(&asked),
        };
        let runner = Self {
            store: Some(store),
            writing: None,
            asked,
            wanted: false,
            snapshots: None,
            options,
            ledger,
            status,
            decoder: Decoder::default(),
            hasher: LeafHasher::default(),
            checkpoint: Checkpoint::default(),
            head: Head::default(),
            origin: Origin::Log,
            claim: Claim::default(),
            refuted: BTreeSet::new(),
        };
        (runner, seen)
    }

    /// The same, that begins with the newest readable of these snapshots where the store has no rows, and adds one
    /// when it is asked to.
    #[must_use]
    pub fn with_snapshots(self, snapshots: Snapshots) -> Self {
        Self { snapshots: Some(snapshots), ..self }
    }

    /// Folds `log` until `end` comes true; then commits, and gives the store back, unless it failed.
    ///
    /// # Errors
    /// [`Error`]; it was told to everybody who waits, too.
    pub async fn run<L: EventLog>(mut self, log: &L, end: impl Future) -> Result<Option<S>, Error> {
        let folded = self.fold(log, end).await;
        if let Err(error) = &folded {
            let why: Arc<str> = error.to_string().into();
            self.status.send_modify(|status| status.stopped = Some(why));
        }
        folded.map(|()| self.store)
    }

    async fn fold<L: EventLog>(&mut self, log: &L, end: impl Future) -> Result<(), Error> {
        let mut end = pin!(end);
        let Some(reader) = self.start(log, end.as_mut()).await? else { return Ok(()) };
        // A reading goes on over commits: what a reader has begun with a slow server would else begin again for ever.
        let mut reading = pin!(next(reader));
        let mut due = Instant::now() + self.options.commit_every;
        loop {
            let read = tokio::select! {
                biased;
                _ = &mut end => break,
                written = written(&mut self.writing) => {
                    self.take_back(written)?;
                    continue;
                }
                () = self.asked.notified() => {
                    self.wanted = true;
                    continue;
                }
                read = &mut reading => Some(read),
                () = sleep_until(due) => None,
            };
            if let Some((reader, records)) = read {
                let reader = match self.take(&records?)? {
                    true => Some(reader),
                    false => self.start(log, end.as_mut()).await?,
                };
                let Some(reader) = reader else { break };
                reading.set(next(reader));
            }
            let is_due = Instant::now() >= due;
            if is_due {
                due = Instant::now() + self.options.commit_every;
                self.look_ahead(log).await;
            }
            // One at a time: while a commit is written, what changes meanwhile becomes one commit more.
            let enough = self.waiting() >= self.options.commit_records;
            if (is_due || enough) && self.writing.is_none() && (self.waiting() > 0 || self.wanted) {
                self.commit().await?;
            }
            // A memory log is always ready: others on this thread get their turn.
            tokio::task::yield_now().await;
        }
        if self.waiting() > 0 {
            self.commit().await?;
        }
        self.finish_writing().await
    }

    /// Asks where the log ends, to be told how far behind the fold is. Nothing depends on the answer.
    async fn look_ahead<L: EventLog>(&mut self, log: &L) {
        let head = timeout(HEAD_WAIT, log.head()).await;
        if let Ok(Ok(head)) = head {
            self.status.send_modify(|status| status.head = head.position);
        }
    }

    /// Finds where to begin, and reads the log from there: from the last record of rows on, to see that it is theirs.
    /// A log that is away is waited for, as later by the reader; `None` when `end` comes before it.
    async fn start<L: EventLog>(
        &mut self,
        log: &L,
        end: Pin<&mut impl Future>,
    ) -> Result<Option<L::Reader>, Error> {
        let Some(head) = head(log, end).await? else { return Ok(None) };
        self.head = head;
        let head = self.head.position;
        self.status.send_modify(|status| status.head = head);
        self.begin().await?;
        let began = self.position();
        self.claim.tree = log.known_tree().await?.filter(|tree| tree.position() >= began);
        if self.origin == Origin::Log {
            // An empty log has nothing to bear out.
            self.claim.tree.take_if(|tree| tree.position() == 0);
            self.progress();
        } else {
            let ledger = self.ledger.read().unwrap_or_else(PoisonError::into_inner);
            self.claim.leaf = Some(ledger.leaf());
        }
        Ok(Some(log.read(began.max(1))?))
    }

    async fn begin(&mut self) -> Result<(), Error> {
        self.finish_writing().await?;
        let Some(store) = self.store.take() else { return Ok(()) };
        let (options, end) = (self.options.ledger, self.head.position);
        let (snapshots, refuted) = (self.snapshots.clone(), self.refuted.clone());
        let found = move || begin(store, snapshots.as_ref(), options, end, &refuted);
        let Beginning { store, ledger, checkpoint, origin, discarded } =
            spawn_blocking(found).await??;
        let began = ledger.position();
        (self.store, self.checkpoint, self.origin) = (Some(store), checkpoint, origin);
        *self.ledger.write().unwrap_or_else(PoisonError::into_inner) = ledger;
        self.status.send_modify(|status| {
            status.began = began;
            status.committed = if origin == Origin::Store { began } else { 0 };
            // Of several reasons to throw rows away the first is the one that a person should know.
            if let (Found::Nothing, Some(why)) = (&status.store, discarded) {
                status.store = Found::Discarded { why: why.into() };
            }
        });
        Ok(())
    }

    /// Scans, decodes and applies; `false` when the log did not bear out where the fold began.
    fn take(&mut self, records: &Records) -> Result<bool, Error> {
        let all: Vec<_> = records.iter().collect();
        let mut rest = all.as_slice();
        if let Some(leaf) = self.claim.leaf.take()
            && let Some((position, raw)) = all.first()
        {
            if !self.is_the_last(leaf, *position, raw)? {
                return Ok(false);
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        if let Some(tree) = self.claim.tree.clone() {
            let (first, behind) =
                rest.split_at(rest.partition_point(|(at, _)| *at <= tree.position()));
            self.take_chunks(first)?;
            if self.position() >= tree.position() && !self.leads_to(&tree)? {
                return Ok(false);
            }
            rest = behind;
        }
        self.take_chunks(rest)?;
        Ok(true)
    }

    /// Whether the record with which the log begins to be read is the last one that the rows follow from.
    fn is_the_last(
        &mut self,
        leaf: Hash,
        position: Position,
        raw: &Raw<'_>,
    ) -> Result<bool, Error> {
        let scanned = raw.clone().scan().map_err(|why| Error::NoEvent { position, why })?;
        let found = self.leaf(position, &scanned)?;
        let same = found == leaf && position == self.position();
        if !same {
            self.refute(format!(
                "its last record, at position {position}, has the leaf {leaf}, but {found} is there"
            ))?;
        } else if self.claim.tree.is_none() {
            self.confirm();
        }
        Ok(same)
    }

    /// Whether the records lead to the tree that the log has.
    fn leads_to(&mut self, tree: &Frontier) -> Result<bool, Error> {
        self.claim.tree = None;
        let (position, said) = (tree.position(), tree.root());
        let computed = self.ledger.read().unwrap_or_else(PoisonError::into_inner).root();
        if computed == said {
            self.confirm();
            return Ok(true);
        }
        if self.origin == Origin::Log {
            return Err(Error::Root { position, computed, said });
        }
        let began = self.status.borrow().began;
        self.refute(format!("its rows of position {began} lead to root {computed} at position {position}, but the log has {said}"))?;
        Ok(false)
    }

    fn confirm(&mut self) {
        if self.origin == Origin::Store {
            self.status.send_if_modified(|status| {
                let first = status.store == Found::Nothing;
                if first {
                    status.store = Found::Confirmed;
                }
                first
            });
        }
        self.progress();
    }

    /// The rows are of another log: they are not begun with again.
    fn refute(&mut self, why: String) -> Result<(), Error> {
        self.claim = Claim::default();
        if self.origin == Origin::Store {
            self.store.as_mut().map_or(Ok(()), Store::discard)?;
            let why = format!("it is of another log: {why}").into();
            self.status.send_modify(|status| status.store = Found::Discarded { why });
        } else {
            self.refuted.insert(self.status.borrow().began);
        }
        Ok(())
    }

    fn take_chunks(&mut self, records: &[(Position, Raw<'_>)]) -> Result<(), Error> {
        for chunk in records.chunks(APPLY_RECORDS) {
            let applied = self.apply(chunk);
            self.progress();
            applied?;
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
        for read in read.chunks(TOGETHER) {
            ledger.look_ahead(read.iter().filter_map(|(_, _, read)| read.event()));
            for (position, leaf, read) in read {
                read.apply(&mut ledger, *position, *leaf)?;
            }
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

    /// Tells how far the fold is, unless the log has yet to bear out where it began.
    fn progress(&self) {
        if self.origin != Origin::Log && self.claim.is_open() {
            return;
        }
        let ledger = self.ledger.read().unwrap_or_else(PoisonError::into_inner);
        let (position, counts) = (ledger.position(), ledger.counts());
        let quarantined = ledger.quarantined().len() as u64;
        drop(ledger);
        let caught_up = !self.claim.is_open() && position >= self.head.position;
        self.status.send_modify(|status| {
            status.position = position;
            status.head = status.head.max(position);
            status.caught_up |= caught_up;
            status.quarantined = quarantined;
            status.repeated = counts.repeated.saturating_add(counts.dropped);
        });
    }

    fn position(&self) -> Position {
        self.ledger.read().unwrap_or_else(PoisonError::into_inner).position()
    }
}

/// Where the log ends, once it is there to be asked; `None` when `end` comes while it is away.
async fn head<L: EventLog>(
    log: &L,
    mut end: Pin<&mut impl Future>,
) -> Result<Option<Head>, ReadError> {
    loop {
        match log.head().await {
            Err(error) if error.is_away() => {}
            head => return head.map(Some),
        }
        tokio::select! {
            biased;
            _ = &mut end => return Ok(None),
            () = sleep(RETRY) => {}
        }
    }
}

/// The next records, and the reader they came from.
async fn next<R: Reader>(mut reader: R) -> (R, Result<Records, ReadError>) {
    let records = reader.tail().await;
    (reader, records)
}

#[cfg(test)]
mod tests;
