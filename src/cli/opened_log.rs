//! The log that a command was given with `--log`, with its errors in the command line's words.

use super::{
    Error,
    out::{note, warn},
    progress::Progress,
};
use crate::{
    domain::{
        event::{Event, Kind, Position},
        ledger::{Ledger, Record, ahead::TOGETHER},
        merkle::Frontier,
    },
    event_log::{
        AnyLog, AnyReader, AppendError, Appended, EventLog, Facts, Head, NewEvent, OpenError,
        Reader,
        bulk::{self, Batch, Source},
        codec::{Decoded, Decoder, EncodeError, Scanned},
        survey::Survey,
    },
    projection::fold::ahead,
};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// A log, opened for one command.
pub(super) struct OpenedLog {
    place: String,
    log: Arc<AnyLog>,
    runtime: Runtime,
}

/// Why a reading ended early.
enum Ended {
    /// The log cannot be read, or is not what was written.
    Read(OpenError),
    /// Who read it had enough.
    Told(Error),
}

impl From<OpenError> for Ended {
    fn from(error: OpenError) -> Self {
        Self::Read(error)
    }
}

impl OpenedLog {
    /// Opens a log for appending; a folder or stream that is missing is made.
    pub(super) fn open(place: &str) -> Result<Self, Error> {
        Self::whole(Self::with(place, async || AnyLog::open(place).await)?)
    }

    /// The same; where a running bizrq has the log in a folder, it is asked to append, as far as its socket takes what is
    /// said.
    pub(super) fn open_beside(place: &str) -> Result<Self, Error> {
        let mut by = None;
        let opened = Self::with(place, async || {
            let (log, holder) = AnyLog::open_beside(place).await?;
            by = holder;
            Ok(log)
        })?;
        if let Some(holder) = by {
            note(format!("{place} is held by {holder}, which is asked to append"));
        }
        Self::whole(opened)
    }

    /// As [`Self::open`], also of an archive, which takes on what its log took since.
    pub(super) fn open_to_fill(place: &str) -> Result<Self, Error> {
        Self::whole(Self::with(place, async || AnyLog::open_to_fill(place).await)?)
    }

    /// Says what was cut off.
    fn whole(opened: Self) -> Result<Self, Error> {
        if let Some(torn) = opened.log.torn() {
            let (path, bytes) = (torn.path.display(), torn.bytes);
            warn(format!("{path}: {bytes} bytes of a half-written line at the end were cut off"));
        }
        Ok(opened)
    }

    /// Opens a log for reading; nothing in it is touched.
    pub(super) fn open_read(place: &str) -> Result<Self, Error> {
        Self::with(place, async || AnyLog::open_read(place).await)
    }

    fn with(
        place: &str,
        open: impl AsyncFnOnce() -> Result<AnyLog, OpenError>,
    ) -> Result<Self, Error> {
        let failed = |e: String| Error::log(place, e);
        let runtime = Self::runtime(place)?;
        let log = runtime.block_on(open()).map_err(|e| failed(e.to_string()))?;
        Ok(Self { place: place.to_owned(), log: Arc::new(log), runtime })
    }

    /// Everything waits for the log alone: one thread is enough, beside the caller's, which may wait for others.
    fn runtime(place: &str) -> Result<Runtime, Error> {
        let one = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        one.map_err(|e| Error::log(place, e))
    }

    /// Opens for appending a log, or an archive of it, that continues `base`: one that is missing or empty is begun with `opening`, its
    /// `log.opened`.
    pub(super) fn open_continued(
        place: &str,
        base: &Frontier,
        opening: &NewEvent,
    ) -> Result<Self, Error> {
        let failed = |e: OpenError| Error::log(place, e);
        Self::runtime(place)?.block_on(AnyLog::begin(place, base, opening)).map_err(failed)?;
        Self::open_to_fill(place)
    }

    /// Ends a log and begins the next; gives the tree between them.
    pub(super) fn roll(
        place: &str,
        next: &str,
        opening: impl FnOnce(&Frontier, &str) -> Result<NewEvent, EncodeError>,
    ) -> Result<Frontier, Error> {
        let rolled = Self::runtime(place)?.block_on(AnyLog::roll(place, next, opening));
        rolled.map_err(|e| Error::log(place, e))
    }

    /// Appends records of another log from position `first` on, and nowhere else.
    pub(super) fn append_at(&self, first: Position, events: Vec<NewEvent>) -> Result<(), Error> {
        self.runtime.block_on(self.log.append_at(first, events)).map_err(|e| self.failed(e))
    }

    /// Appends events in their order.
    pub(super) fn append(&self, events: Vec<NewEvent>) -> Result<Appended, Error> {
        self.runtime.block_on(self.log.append(events)).map_err(|e| self.failed(e))
    }

    /// Appends a decision if the last one is still at `expected`; `None` if it is not.
    pub(super) fn decide(
        &self,
        expected: Position,
        decision: NewEvent,
    ) -> Result<Option<Appended>, Error> {
        match self.runtime.block_on(self.log.decide(expected, decision)) {
            Ok(appended) => Ok(Some(appended)),
            Err(AppendError::Conflict { .. }) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Does with the log what takes more than one append.
    pub(super) fn with_log<T>(&self, work: impl AsyncFnOnce(&AnyLog) -> T) -> T {
        self.runtime.block_on(work(&self.log))
    }

    /// The log, for who outlives one call; whoever has it gives it back before [`Self::close`].
    #[cfg(feature = "service")]
    pub(super) fn shared(&self) -> Arc<AnyLog> {
        Arc::clone(&self.log)
    }

    /// Ends writing, and says whether the last root was written.
    pub(super) fn close(self) -> Result<(), Error> {
        let Self { place, log, .. } = self;
        let log = Arc::try_unwrap(log).map_err(|_| Error::log(&place, "is still in use"))?;
        log.close().map_err(|e| Error::log(place, e))
    }

    /// Where the log ends.
    pub(super) fn head(&self) -> Result<Head, Error> {
        self.runtime.block_on(self.log.head()).map_err(|e| self.failed(e))
    }

    /// First and last position.
    pub(super) fn range(&self) -> Result<(Position, Position), Error> {
        self.runtime.block_on(self.log.range()).map_err(|e| self.failed(e))
    }

    /// Reads from the record at `from` on; of several logs the last alone.
    pub(super) fn reader(&self, from: Position) -> Result<AnyReader, Error> {
        self.runtime.block_on(async { self.log.read(from) }).map_err(|e| self.failed(e))
    }

    /// The tree of all its records.
    pub(super) fn tree(&self) -> Result<Frontier, Error> {
        self.runtime.block_on(self.log.tree()).map_err(|e| self.failed(e))
    }

    /// Shows every event that `wanted` lets through to `each`, in order.
    ///
    /// Every record is proved on the way, whether it is wanted or not: no answer comes from a log that was changed.
    /// What was written and cannot be decoded has no effect on anything and is left to `verify`; a newer version of
    /// a known type ends the reading, since nobody can say what it would have changed.
    pub(super) fn read(
        &self,
        wanted: impl Fn(&Scanned<'_>) -> bool,
        mut each: impl FnMut(u64, &Event<'_>),
    ) -> Result<(), Error> {
        let mut decoder = Decoder::default();
        self.proved(|batch| {
            for (position, scanned) in batch.iter() {
                let Some(scanned) = scanned.ok().filter(&wanted) else { continue };
                self.show(&mut decoder, position, &scanned, &mut each)?;
            }
            Ok(())
        })
    }

    /// The same of the records behind `after` alone, which are not proved; gives the position of the last one there is.
    pub(super) fn read_on(
        &self,
        after: Position,
        wanted: impl Fn(&Scanned<'_>) -> bool,
        mut each: impl FnMut(u64, &Event<'_>),
    ) -> Result<Position, Error> {
        let (mut decoder, mut last) = (Decoder::default(), after);
        let mut reader = self.reader(after.saturating_add(1))?;
        while let Some(records) =
            self.runtime.block_on(reader.next()).map_err(|e| self.failed(e))?
        {
            for (position, raw) in records.iter() {
                last = position;
                let Some(scanned) = raw.scan().ok().filter(&wanted) else { continue };
                self.show(&mut decoder, position, &scanned, &mut each)?;
            }
        }
        Ok(last)
    }

    fn show(
        &self,
        decoder: &mut Decoder,
        position: Position,
        scanned: &Scanned<'_>,
        each: &mut impl FnMut(u64, &Event<'_>),
    ) -> Result<(), Error> {
        match decoder.decode(scanned) {
            Ok(Decoded::Event(event)) => match event.data.newer_log() {
                Some(version) => Err(self.newer(position, Kind::LogVersionRaised, version)),
                None => {
                    each(position, &event);
                    Ok(())
                }
            },
            Ok(Decoded::Newer { kind, version }) => Err(self.newer(position, kind, version)),
            Ok(Decoded::Unknown) | Err(_) => Ok(()),
        }
    }

    /// Folds the whole log into `ledger`, which stands before its first record; what
    /// `keep` turns down is as good as unknown. `each` sees every event that is kept. The records are proved on the
    /// way; the ledger's own root says nothing afterwards.
    pub(super) fn fold(
        &self,
        ledger: &mut Ledger,
        keep: impl Fn(&Event<'_>) -> bool,
        mut each: impl FnMut(&Event<'_>),
    ) -> Result<(), Error> {
        let bar = Progress::items("reading", Some(self.head()?.position));
        self.proved(|batch| {
            for events in batch.events_by(TOGETHER) {
                for (position, read) in ahead([&*ledger], events) {
                    let record = match read.event() {
                        Some(event) if !keep(event) => Record::Unknown,
                        _ => read.record(),
                    };
                    ledger.fold(position, &record).map_err(|e| self.failed(e))?;
                    if let Record::Event(event) = record {
                        each(event);
                    }
                }
            }
            bar.more(batch.len() as u64);
            Ok(())
        })
    }

    /// Reads the whole log, proves and counts it, and shows each record to `each`, with what was counted up to it.
    pub(super) fn survey(
        &self,
        label: &str,
        mut each: impl FnMut(Position, &Scanned<'_>, &Survey) -> Result<(), Error>,
    ) -> Result<Survey, Error> {
        // Where it ends is for the bar; whether it can be read the reading says.
        let bar = Progress::items(label, self.head().ok().map(|head| head.position));
        let mut survey = Survey::default();
        let source = Source::log(&self.place, Position::MAX).map_err(|e| self.failed(e))?;
        self.read_all(source, |batch| {
            for (position, scanned) in batch.iter() {
                let scanned =
                    scanned.map_err(|e| self.failed(format!("position {position}: {e}")))?;
                survey.take(position, &scanned).map_err(|e| self.failed(e))?;
                each(position, &scanned, &survey)?;
            }
            bar.at(survey.tree.position());
            Ok(())
        })?;
        Ok(survey)
    }

    /// The log's folder or address, without what is secret.
    pub(super) fn address(&self) -> &str {
        &self.place
    }

    /// How it is kept: a few labels and what they say.
    pub(super) fn storage(&self) -> Result<Facts, Error> {
        self.runtime.block_on(self.log.storage()).map_err(|e| self.failed(e))
    }

    /// Hands the log over in batches. A folder's records are compared with their leaves and the tree with its recorded
    /// roots; a stream has neither.
    fn proved(&self, each: impl FnMut(&Batch) -> Result<(), Error>) -> Result<(), Error> {
        let source = Source::history(&self.place, Position::MAX).map_err(|e| self.failed(e))?;
        self.read_all(source, each)
    }

    fn read_all(
        &self,
        source: Source<'_>,
        mut each: impl FnMut(&Batch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let read = bulk::read(source, |batch| each(batch).map_err(Ended::Told));
        read.map(drop).map_err(|ended| match ended {
            Ended::Read(error) => self.failed(error),
            Ended::Told(error) => error,
        })
    }

    fn newer(&self, position: u64, kind: Kind, version: u32) -> Error {
        let name = kind.name();
        self.failed(format!(
            "position {position} holds {name} in version {version}, which this build does not read; use a newer bizrq"
        ))
    }

    fn failed(&self, why: impl ToString) -> Error {
        Error::log(&self.place, why)
    }
}
