//! Reading a log from its first record to its last or to a position, with a progress bar. Every record is
//! proved on the way; memory is a few megabytes.

use bizrq::{
    cli::{Error, progress::Progress},
    domain::event::Position,
    event_log::{
        bulk::{self, Summary},
        codec::{DecodeError, Scanned},
        file::{OpenError, segments},
    },
};
use std::{fs, path::PathBuf};

/// A log that a person named.
pub(crate) struct Log {
    pub(crate) place: String,
    pub(crate) dir: PathBuf,
    /// Bytes of all segments, for the progress bar.
    bytes: u64,
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
        if place.contains("://") {
            let location = place.to_owned();
            return Err(Error::log(place, OpenError::Unsupported { location }));
        }
        let dir = PathBuf::from(place);
        let firsts = segments::list(&dir).map_err(|e| Error::log(place, e))?;
        if firsts.is_empty() {
            let why = "it has no segment (a file like 00000000000000000001.jsonl); is it a log?";
            return Err(Error::log(place, why));
        }
        let size = |first| fs::metadata(dir.join(segments::name(first))).map_or(0, |m| m.len());
        let bytes = firsts.into_iter().map(size).fold(0, u64::saturating_add);
        Ok(Self { place: place.to_owned(), dir, bytes })
    }

    /// Position of the first record.
    pub(crate) fn first(&self) -> Result<Position, Error> {
        let firsts = segments::list(&self.dir).map_err(|e| Error::log(&self.place, e))?;
        Ok(firsts.first().copied().unwrap_or(1))
    }

    /// A bar for one reading of the whole log.
    pub(crate) fn progress(&self, label: &str) -> Progress {
        Progress::bytes(label, Some(self.bytes))
    }

    /// Hands every record up to `limit` to `each`, in order.
    pub(crate) fn each(
        &self,
        label: &str,
        limit: Position,
        mut each: impl FnMut(Position, Result<Scanned<'_>, DecodeError>) -> Result<(), Halt>,
    ) -> Result<Summary, Halt> {
        let bar = self.progress(label);
        bulk::read(bulk::Source::Log { dir: &self.dir, limit }, |batch| {
            for (position, line) in batch.iter() {
                each(position, line)?;
            }
            bar.more(batch.bytes() as u64);
            Ok(())
        })
    }
}
