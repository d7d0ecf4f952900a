//! The log that a command was given with `--log`, with its errors in the command line's words.

use super::{Error, progress::Progress};
use crate::{
    domain::{
        event::{Event, Kind},
        ledger::{Ledger, Record},
        merkle::{Hash, LeafHasher},
    },
    event_log::{
        AnyLog, Appended, EventLog, Head, NewEvent, Reader,
        codec::{Decoded, Decoder, Scanned, scan},
    },
};
use tokio::runtime::{Builder, Runtime};

/// A log, opened for one command.
pub(super) struct OpenedLog {
    place: String,
    log: AnyLog,
    runtime: Runtime,
}

impl OpenedLog {
    /// Opens a log for appending; a folder that is missing is made.
    pub(super) fn open(place: &str) -> Result<Self, Error> {
        Self::with(place, AnyLog::open)
    }

    /// Opens a log for reading; nothing in it is touched.
    pub(super) fn open_read(place: &str) -> Result<Self, Error> {
        Self::with(place, AnyLog::open_read)
    }

    fn with<E: ToString>(
        place: &str,
        open: impl Fn(&str) -> Result<AnyLog, E>,
    ) -> Result<Self, Error> {
        let failed = |e: String| Error::log(place, e);
        // Everything waits for the log alone: one thread is enough.
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| failed(e.to_string()))?;
        let _inside = runtime.enter();
        let log = open(place).map_err(|e| failed(e.to_string()))?;
        drop(_inside);
        Ok(Self { place: place.to_owned(), log, runtime })
    }

    /// Appends events in their order.
    pub(super) fn append(&self, events: Vec<NewEvent>) -> Result<Appended, Error> {
        self.runtime.block_on(self.log.append(events)).map_err(|e| self.failed(e))
    }

    /// Does with the log what takes more than one append.
    pub(super) fn with_log<T>(&self, work: impl AsyncFnOnce(&AnyLog) -> T) -> T {
        self.runtime.block_on(work(&self.log))
    }

    /// Ends writing, and says whether the last root was written.
    pub(super) fn close(self) -> Result<(), Error> {
        let Self { place, log, .. } = self;
        log.close().map_err(|e| Error::log(place, e))
    }

    /// Where the log ends.
    pub(super) fn head(&self) -> Result<Head, Error> {
        self.runtime.block_on(self.log.head()).map_err(|e| self.failed(e))
    }

    /// Shows every event that `wanted` lets through to `each`, in order.
    ///
    /// What cannot be decoded has no effect on anything and is left to `verify`; a newer version of a known type
    /// ends the reading, since nobody can say what it would have changed.
    pub(super) fn read(
        &self,
        wanted: impl Fn(&Scanned<'_>) -> bool,
        mut each: impl FnMut(u64, &Event<'_>),
    ) -> Result<(), Error> {
        let mut reader = self.log.read(1).map_err(|e| self.failed(e))?;
        let mut decoder = Decoder::default();
        while let Some(records) =
            self.runtime.block_on(reader.next()).map_err(|e| self.failed(e))?
        {
            for (position, line) in records.iter() {
                let Ok(scanned) = scan(line) else { continue };
                if !wanted(&scanned) {
                    continue;
                }
                match decoder.decode(&scanned) {
                    Ok(Decoded::Event(event)) => each(position, &event),
                    Ok(Decoded::Newer { kind, version }) => {
                        return Err(self.newer(position, kind, version));
                    }
                    Ok(Decoded::Unknown) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Folds the whole log into `ledger`, which has applied nothing of it but `ahead` events of its own; what
    /// `keep` turns down is as good as unknown. `each` sees every event that is kept.
    pub(super) fn fold(
        &self,
        ledger: &mut Ledger,
        keep: impl Fn(&Event<'_>) -> bool,
        mut each: impl FnMut(&Event<'_>),
    ) -> Result<(), Error> {
        let ahead = ledger.position();
        let bar = Progress::items("reading", Some(self.head()?.position));
        let mut reader = self.log.read(1).map_err(|e| self.failed(e))?;
        let (mut decoder, mut hasher) = (Decoder::default(), LeafHasher::default());
        while let Some(records) =
            self.runtime.block_on(reader.next()).map_err(|e| self.failed(e))?
        {
            for (position, line) in records.iter() {
                let scanned = scan(line).map_err(|e| e.to_string());
                let leaf = scanned.as_ref().map_or_else(
                    |_| Hash::default(),
                    |s| s.leaf.unwrap_or_else(|| hasher.leaf(position, &s.leaf_input())),
                );
                let decoded = scanned.and_then(|s| decoder.decode(&s).map_err(|e| e.to_string()));
                let record = match &decoded {
                    Ok(Decoded::Event(event)) if keep(event) => Record::Event(event),
                    Ok(Decoded::Newer { kind, version }) => {
                        Record::Newer { kind: *kind, version: *version }
                    }
                    Ok(_) => Record::Unknown,
                    Err(why) => Record::Undecodable(why.clone()),
                };
                let position = position.saturating_add(ahead);
                ledger.apply_record(position, leaf, &record).map_err(|e| self.failed(e))?;
                if let Record::Event(event) = record {
                    each(event);
                }
            }
            bar.more(records.len() as u64);
        }
        Ok(())
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
