//! Opens the log that a person named: a folder, or the address of a server.

#[cfg(feature = "jetstream")]
use super::jetstream::{self, JetStreamLog, JetStreamReader};
use super::{
    AppendError, Appended, EventLog, Head, NewEvent, OpenError, ReadError, Reader, Records,
    archive,
    codec::EncodeError,
    file::{FileLog, FileReader, Options, Torn, control, rollover, segments},
    memory::{MemoryLog, MemoryReader},
};
use crate::domain::{event::Position, merkle::Frontier};
use std::{collections::BTreeMap, path::Path};

/// A location without what stands before an `@`: a secret.
#[must_use]
pub fn shown(location: &str) -> String {
    match (location.split_once("://"), location.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        _ => location.to_owned(),
    }
}

/// A log of any provider.
#[derive(Debug)]
pub enum AnyLog {
    /// A folder.
    File(FileLog),
    /// A stream on a server.
    #[cfg(feature = "jetstream")]
    JetStream(JetStreamLog),
    /// Gone with the process.
    Memory(MemoryLog),
}

/// Reads an [`AnyLog`].
#[derive(Debug)]
pub enum AnyReader {
    /// A folder.
    File(FileReader),
    /// A stream on a server.
    #[cfg(feature = "jetstream")]
    JetStream(Box<JetStreamReader>),
    /// Gone with the process.
    Memory(MemoryReader),
}

impl AnyLog {
    /// Opens the log at `location` for appending and reading; a folder or stream that is missing is made.
    ///
    /// # Errors
    /// [`OpenError`]: another writer, no log, an archive, damaged, unsafe, out of reach.
    pub async fn open(location: &str) -> Result<Self, OpenError> {
        let dir = Path::new(last(location));
        if archive::is_one(dir) {
            return Err(segments::not_a_log(dir, archive::TAKES_NONE).into());
        }
        Self::open_to_fill(location).await
    }

    /// The same, also of an archive, for who takes on what its log took since.
    ///
    /// # Errors
    /// [`OpenError`], as of [`Self::open`].
    pub async fn open_to_fill(location: &str) -> Result<Self, OpenError> {
        let location = last(location);
        #[cfg(feature = "jetstream")]
        if is_address(location) {
            let options = jetstream::Options::from_environment(location)?;
            return Ok(Self::JetStream(JetStreamLog::open(options).await?));
        }
        FileLog::open(folder(location)?, &Options::default()).map(Self::File)
    }

    /// The same; where a running process holds a folder's lock, records are appended by way of it: what it takes, see
    /// [`control`]. Who that is, if so.
    ///
    /// # Errors
    /// [`OpenError`], as of [`Self::open`].
    pub async fn open_beside(location: &str) -> Result<(Self, Option<String>), OpenError> {
        match Self::open(location).await {
            Err(OpenError::Locked { path, holder }) => {
                let dir = Path::new(last(location));
                if !control::is_there(dir) {
                    return Err(OpenError::Locked { path, holder });
                }
                Ok((Self::File(FileLog::open_beside(dir).await?), Some(holder)))
            }
            opened => Ok((opened?, None)),
        }
    }

    /// Opens the log at `location` for reading; nothing in it is touched.
    ///
    /// # Errors
    /// [`OpenError`]: no log, out of reach.
    pub async fn open_read(location: &str) -> Result<Self, OpenError> {
        let location = last(location);
        #[cfg(feature = "jetstream")]
        if is_address(location) {
            let options = jetstream::Options::from_environment(location)?;
            return Ok(Self::JetStream(JetStreamLog::open_read(options).await?));
        }
        FileLog::open_read(folder(location)?).map(Self::File)
    }

    /// The half line that opening for appending cut off: tell a person.
    #[must_use]
    pub const fn torn(&self) -> Option<&Torn> {
        match self {
            Self::File(log) => log.torn(),
            #[cfg(feature = "jetstream")]
            Self::JetStream(_) => None,
            Self::Memory(_) => None,
        }
    }

    /// Begins at `location` the log that continues `base` with `opening`, its `log.opened`; one that is begun already
    /// is left alone.
    ///
    /// # Errors
    /// [`OpenError`]: no log can be begun there.
    pub async fn begin(
        location: &str,
        base: &Frontier,
        opening: &NewEvent,
    ) -> Result<(), OpenError> {
        #[cfg(feature = "jetstream")]
        if is_address(location) {
            let options = jetstream::Options::from_environment(location)?;
            return Ok(JetStreamLog::begin(options, opening.clone()).await?);
        }
        let dir = folder(location)?;
        match segments::list(dir).is_ok_and(|firsts| !firsts.is_empty()) {
            true => Ok(()),
            false => rollover::begin(dir, base, opening),
        }
    }

    /// Ends the log at `location` for ever and begins `next` (a folder; of a stream the next one's name), whose first
    /// record `opening` makes of the tree and the name of the log that ended. Interrupted and done again, it is
    /// finished.
    ///
    /// # Errors
    /// [`OpenError`]: it is continued elsewhere, is being written, or `next` is something already.
    pub async fn roll(
        location: &str,
        next: &str,
        opening: impl FnOnce(&Frontier, &str) -> Result<NewEvent, EncodeError>,
    ) -> Result<Frontier, OpenError> {
        #[cfg(feature = "jetstream")]
        if is_address(location) {
            let options = jetstream::Options::from_environment(location)?;
            let next = match is_address(next) {
                true => jetstream::Options::from_environment(next)?.stream,
                false => next.to_owned(),
            };
            return Ok(JetStreamLog::roll(options, &next, opening).await?.tree);
        }
        let (dir, next) = (folder(location)?, folder(next)?);
        let tree = rollover::seal(dir, next).await?;
        if segments::list(next)?.is_empty() {
            rollover::begin(next, &tree, &opening(&tree, location)?)?;
        }
        rollover::continues(next, &tree)?;
        Ok(tree)
    }

    /// First and last position: the first record's need not be 1, and the last is one less in an empty log.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn range(&self) -> Result<(Position, Position), ReadError> {
        let first = match self {
            Self::File(log) => segments::list(log.dir())?.first().copied().unwrap_or(1),
            #[cfg(feature = "jetstream")]
            Self::JetStream(log) => log.beginning().await?.position().saturating_add(1),
            Self::Memory(_) => 1,
        };
        Ok((first, self.head().await?.position))
    }

    /// Appends records of another log, the first of them at position `first`; where the log ends elsewhere, nothing.
    /// For a copy that nobody else appends to.
    ///
    /// # Errors
    /// [`AppendError`].
    pub async fn append_at(
        &self,
        first: Position,
        records: Vec<NewEvent>,
    ) -> Result<(), AppendError> {
        match self {
            Self::File(log) => log.append_at(first, records).await,
            #[cfg(feature = "jetstream")]
            Self::JetStream(log) => log.append_at(first, &records).await,
            // It dies with the process: nobody copies into it.
            Self::Memory(_) => Err(AppendError::ReadOnly),
        }
    }

    /// How the log is kept: for a person who looks after it.
    ///
    /// # Errors
    /// [`OpenError`] when it cannot be found out.
    pub async fn storage(&self) -> Result<Facts, OpenError> {
        match self {
            Self::File(log) => log.storage(),
            #[cfg(feature = "jetstream")]
            Self::JetStream(log) => Ok(log.storage().await.map_err(ReadError::from)?),
            Self::Memory(_) => Ok(Facts::from([("provider", "memory".to_owned())])),
        }
    }

    /// Ends writing, and says whether everything that belongs beside the records was written.
    ///
    /// # Errors
    /// [`AppendError::Closed`] when that failed, or an append before it.
    pub fn close(self) -> Result<(), AppendError> {
        match self {
            Self::File(log) => log.close(),
            #[cfg(feature = "jetstream")]
            Self::JetStream(_) => Ok(()),
            Self::Memory(_) => Ok(()),
        }
    }
}

/// How a log is kept, for people: labels and what they say.
pub type Facts = BTreeMap<&'static str, String>;

/// Whether `location` is the address of a server, not a folder.
#[must_use]
pub fn is_address(location: &str) -> bool {
    location.contains("://")
}

/// The logs that `location` names, the earliest first: folders with commas between, at last perhaps an address, which
/// may have commas of its own. What is a folder as it stands is one log.
#[must_use]
pub fn places(location: &str) -> Vec<&str> {
    if Path::new(location).exists() {
        return vec![location];
    }
    let scheme = location.find("://").unwrap_or(location.len());
    let address = location.get(..scheme).and_then(|before| before.rfind(','));
    let (folders, address) = match (scheme < location.len(), address) {
        (true, None) => return vec![location],
        (true, Some(comma)) => location.split_at(comma),
        (false, _) => (location, ""),
    };
    let address = address.strip_prefix(',');
    folders.split(',').chain(address).filter(|place| !place.is_empty()).collect()
}

/// The one that takes records.
fn last(location: &str) -> &str {
    places(location).last().copied().unwrap_or(location)
}

/// The folder that `location` names.
pub(super) fn folder(location: &str) -> Result<&Path, OpenError> {
    if is_address(location) {
        return Err(OpenError::Unsupported { location: location.to_owned() });
    }
    Ok(Path::new(location))
}

impl EventLog for AnyLog {
    type Reader = AnyReader;

    async fn append(&self, events: Vec<NewEvent>) -> Result<Appended, AppendError> {
        match self {
            Self::File(log) => log.append(events).await,
            #[cfg(feature = "jetstream")]
            Self::JetStream(log) => log.append(events).await,
            Self::Memory(log) => log.append(events).await,
        }
    }

    async fn decide(
        &self,
        expected: Position,
        decision: NewEvent,
    ) -> Result<Appended, AppendError> {
        match self {
            Self::File(log) => log.decide(expected, decision).await,
            #[cfg(feature = "jetstream")]
            Self::JetStream(log) => log.decide(expected, decision).await,
            Self::Memory(log) => log.decide(expected, decision).await,
        }
    }

    async fn head(&self) -> Result<Head, ReadError> {
        match self {
            Self::File(log) => log.head().await,
            #[cfg(feature = "jetstream")]
            Self::JetStream(log) => log.head().await,
            Self::Memory(log) => log.head().await,
        }
    }

    async fn tree(&self) -> Result<Frontier, ReadError> {
        match self {
            Self::File(log) => log.tree().await,
            #[cfg(feature = "jetstream")]
            Self::JetStream(log) => log.tree().await,
            Self::Memory(log) => log.tree().await,
        }
    }

    async fn known_tree(&self) -> Result<Option<Frontier>, ReadError> {
        match self {
            Self::File(log) => log.known_tree().await,
            #[cfg(feature = "jetstream")]
            Self::JetStream(log) => log.known_tree().await,
            Self::Memory(log) => log.known_tree().await,
        }
    }

    fn read(&self, from: Position) -> Result<AnyReader, ReadError> {
        match self {
            Self::File(log) => log.read(from).map(AnyReader::File),
            #[cfg(feature = "jetstream")]
            Self::JetStream(log) => {
                log.read(from).map(|reader| AnyReader::JetStream(Box::new(reader)))
            }
            Self::Memory(log) => log.read(from).map(AnyReader::Memory),
        }
    }

    fn max_event_bytes(&self) -> usize {
        match self {
            Self::File(log) => log.max_event_bytes(),
            #[cfg(feature = "jetstream")]
            Self::JetStream(log) => log.max_event_bytes(),
            Self::Memory(log) => log.max_event_bytes(),
        }
    }
}

impl Reader for AnyReader {
    async fn next(&mut self) -> Result<Option<Records>, ReadError> {
        match self {
            Self::File(reader) => reader.next().await,
            #[cfg(feature = "jetstream")]
            Self::JetStream(reader) => reader.next().await,
            Self::Memory(reader) => reader.next().await,
        }
    }

    async fn tail(&mut self) -> Result<Records, ReadError> {
        match self {
            Self::File(reader) => reader.tail().await,
            #[cfg(feature = "jetstream")]
            Self::JetStream(reader) => reader.tail().await,
            Self::Memory(reader) => reader.tail().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_names_folders_and_at_last_an_address() {
        let cases: [(&str, &[&str]); 6] = [
            ("log", &["log"]),
            ("old,log", &["old", "log"]),
            ("nats://a:1,b:2", &["nats://a:1,b:2"]),
            ("old,nats://a:1,b:2", &["old", "nats://a:1,b:2"]),
            ("x,y,tls://a", &["x", "y", "tls://a"]),
            ("", &[]),
        ];
        for (location, expected) in cases {
            assert_eq!(places(location), expected, "{location}");
        }
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("a,b");
        std::fs::create_dir(&odd).unwrap();
        let odd = odd.to_str().unwrap();
        assert_eq!(places(odd), [odd]);
    }
}
