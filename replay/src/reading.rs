//! Reading a log from its first record to its last or to a position, with a progress bar. Every record is
//! proved on the way; memory is a few megabytes.

use bizrq::{
    cli::{Error, progress::Progress},
    domain::{
        billing::Billing,
        event::Position,
        hours::NanoHours,
        ledger::{Applied, Ledger, ahead::TOGETHER},
        merkle::{Frontier, Hash, LeafHasher},
        quantity::Milli,
        quota::Unit,
        time::Timestamp,
    },
    event_log::{
        OpenError, any,
        bulk::{self, Batch, Source, Summary},
    },
    projection::fold::{Read, ahead},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A log that a person named.
pub(crate) struct Log {
    pub(crate) place: String,
    /// Those of its places that are folders, the earliest first.
    pub(crate) folders: Vec<PathBuf>,
    /// Position of the first record.
    pub(crate) first: Position,
    /// Bytes of all segments, for the progress bar; unknown of a stream and of what is compressed.
    bytes: Option<u64>,
}

/// Why reading ended before the end.
pub(crate) enum Halt {
    /// Enough was read.
    Enough,
    /// The log cannot be read, or is not what was written.
    Log(OpenError),
    /// What is done with the records failed.
    Failed(Error),
}

impl From<OpenError> for Halt {
    fn from(error: OpenError) -> Self {
        Self::Log(error)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Log {
    pub(crate) fn open(place: &str) -> Result<Self, Error> {
        let first = bulk::first(place).map_err(|e| Error::log(place, e))?;
        let folders = any::places(place).into_iter().filter(|part| !any::is_address(part));
        let folders: Vec<_> = folders.map(PathBuf::from).collect();
        let is_stream = any::places(place).into_iter().any(any::is_address);
        let bytes = folders.iter().map(|dir| input_bytes(dir)).sum();
        let bytes = if is_stream { None } else { bytes };
        Ok(Self { place: place.to_owned(), folders, first, bytes })
    }

    /// A bar for one reading of the whole log.
    pub(crate) fn progress(&self, label: &str) -> Progress {
        Progress::bytes(label, self.bytes)
    }

    /// Hands every record up to `limit` to `each`, in batches and in order.
    pub(crate) fn each(
        &self,
        label: &str,
        limit: Position,
        mut each: impl FnMut(&Batch) -> Result<(), Halt>,
    ) -> Result<Summary, Halt> {
        let bar = self.progress(label);
        bulk::read(Source::log(&self.place, limit)?, |batch| {
            each(batch)?;
            bar.more(batch.bytes() as u64);
            Ok(())
        })
    }

    /// As [`Self::each`], of a log that must be sound and begin at its beginning, decoded and with leaves, for
    /// `folds`; `each` may say that it has enough.
    pub(crate) fn records<F: Folds>(
        &self,
        label: &str,
        limit: Position,
        folds: &mut F,
        mut each: impl FnMut(&mut F, &Record<'_>) -> Result<(), Halt>,
    ) -> Result<(), Error> {
        self.begins()?;
        let mut hasher = LeafHasher::default();
        let done = self.each(label, limit, |batch| {
            let mut lines = batch.iter();
            for events in batch.events_by(TOGETHER) {
                for (position, read) in ahead(folds.ledgers(), events) {
                    // A log whose leaves are proved has no line without one.
                    let line = lines.next().and_then(|(_, line)| line.ok());
                    let leaf = line.map(|scanned| hasher.leaf(position, &scanned.leaf_input()));
                    each(folds, &Record { position, leaf: leaf.unwrap_or_default(), read })?;
                }
            }
            Ok(())
        });
        self.finished(done).map(drop)
    }

    /// As [`Self::records`], without leaves: faster. Gives the tree of all that was read, unless `each` had enough.
    pub(crate) fn decoded<F: Folds>(
        &self,
        label: &str,
        limit: Position,
        folds: &mut F,
        mut each: impl FnMut(&mut F, Position, &Read<'_>) -> Result<(), Halt>,
    ) -> Result<Option<Frontier>, Error> {
        self.begins()?;
        let done = self.each(label, limit, |batch| {
            for events in batch.events_by(TOGETHER) {
                for (position, read) in ahead(folds.ledgers(), events) {
                    each(folds, position, &read)?;
                }
            }
            Ok(())
        });
        let read = self.finished(done)?;
        Ok(read.map(|read| read.tree.unwrap_or_default()))
    }

    /// The tree of the records up to `limit`.
    pub(crate) fn tree(&self, limit: Position) -> Result<Frontier, Error> {
        let read = self.each("hashing", limit, |_| Ok(()));
        self.finished(read).map(|read| read.and_then(|read| read.tree).unwrap_or_default())
    }

    /// What is summed up must have a beginning.
    fn begins(&self) -> Result<(), Error> {
        if self.first == 1 {
            return Ok(());
        }
        let (location, base) = (self.place.clone(), self.first.saturating_sub(1));
        Err(Error::log(&self.place, OpenError::Continues { location, base }))
    }

    /// The last position that was published up to `at`, by the publishers' clocks.
    pub(crate) fn published_up_to(&self, at: Timestamp) -> Result<Position, Error> {
        let mut last = 0;
        let looked = self.each("looking for the instant", Position::MAX, |batch| {
            for (position, line) in batch.iter() {
                let published = line.ok().and_then(|s| Timestamp::parse(&s.recorded_at).ok());
                if published.is_some_and(|published| published <= at) {
                    last = position;
                }
            }
            Ok(())
        });
        self.finished(looked).map(|_| last)
    }

    /// What was read, unless whoever read it had enough.
    pub(crate) fn finished(&self, read: Result<Summary, Halt>) -> Result<Option<Summary>, Error> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(Halt::Enough) => Ok(None),
            Err(Halt::Failed(error)) => Err(error),
            Err(Halt::Log(error)) => {
                let why = format!("{error}; `bizrq-replay verify` says more");
                Err(Error::log(&self.place, why))
            }
        }
    }

    /// Applies a record.
    pub(crate) fn apply(&self, ledger: &mut Ledger, record: &Record<'_>) -> Result<Applied, Error> {
        let Record { position, leaf, read } = record;
        read.apply(ledger, *position, *leaf).map_err(|stop| Error::log(&self.place, stop))
    }
}

/// Bytes of the segments in a folder, as they are read; `None` where one is compressed.
fn input_bytes(dir: &Path) -> Option<u64> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    let mut bytes = 0_u64;
    for entry in entries {
        match entry.path().extension().and_then(|extension| extension.to_str()) {
            Some("jsonl") => bytes = bytes.saturating_add(entry.metadata().map_or(0, |m| m.len())),
            Some("zst") => return None,
            _ => {}
        }
    }
    Some(bytes)
}

/// What records are read for, and which ledgers take them: these look ahead.
pub(crate) trait Folds {
    /// None for who folds nothing.
    fn ledgers(&self) -> impl Iterator<Item = &Ledger>;
}

impl Folds for Ledger {
    fn ledgers(&self) -> impl Iterator<Item = &Ledger> {
        std::iter::once(self)
    }
}

impl Folds for Billing {
    fn ledgers(&self) -> impl Iterator<Item = &Ledger> {
        self.ledger().ledgers()
    }
}

/// Nothing is folded.
pub(crate) struct Nothing;

impl Folds for Nothing {
    fn ledgers(&self) -> impl Iterator<Item = &Ledger> {
        std::iter::empty()
    }
}

/// A record of a log, decoded.
pub(crate) struct Record<'a> {
    pub(crate) position: Position,
    leaf: Hash,
    pub(crate) read: Read<'a>,
}

/// An instant on the command line.
pub(crate) fn instant(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).map_err(|e| e.to_string())
}

/// Milli-units of `key`, as Kubernetes writes them.
pub(crate) fn quantity(key: &str, milli: Milli) -> String {
    Unit::of(key).written(milli)
}

/// Unit-hours.
pub(crate) fn hours(exact: i128) -> String {
    NanoHours::of(exact).to_string()
}
