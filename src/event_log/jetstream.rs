//! The log as a stream of NATS JetStream: any number of processes append to it and read it; the server keeps it.
//!
//! ```text
//!  append ──▶ bizrq.v1.fact.<cluster> ┐                          position = base + sequence in the stream
//!         ──▶ bizrq.v1.note.<cluster> ├─▶ stream BIZRQ ─▶ ordered consumer from a position of our own ─▶ reader
//!  decide ──▶ bizrq.v1.decision       ┘   expected last sequence of the subject = the last decision
//! ```
//!
//! A stream that could lose a record (deletes, purges, limits that discard, memory) is never opened. Nothing newer
//! than server 2.9 is relied on; the server's memory of message ids is an optimisation, never a promise. Words of
//! NATS (stream, subject, consumer) stay in here.

mod append;
mod connect;
mod lane;
mod reader;
mod rollover;
mod state;
mod stream;

use super::{
    AppendError, Appended, EventLog, Facts, Head, NewEvent, ReadError, Reader as _, chain::Chain,
    codec::EncodeError,
};
use crate::domain::{event::Position, merkle::Frontier};
use append::{Appender, Guard};
pub use connect::{Credentials, Options, Secret, Tls};
pub use reader::JetStreamReader;
pub use rollover::Rolled;
use rollover::Streams;
use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};
pub use stream::Difference;

/// A log on a NATS server. Clones are the same log, by the same connection.
#[derive(Clone)]
pub struct JetStreamLog {
    /// As it was configured.
    name: Arc<str>,
    streams: Arc<Streams>,
    /// `None` for one that was opened for reading.
    appender: Option<Arc<RwLock<Arc<Appender>>>>,
}

/// Why a log on NATS cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is none.
    #[error("{location}: {why}")]
    Address {
        /// What was given, without what must not be shown.
        location: String,
        /// What is wrong, and the remedy.
        why: String,
    },
    /// A file of credentials or certificates cannot be used.
    #[error("{}: {why}", path.display())]
    Credentials {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong, and the remedy.
        why: String,
    },
    /// No server answers, or none lets us in.
    #[error("{log}: {why}; is the server running, and are address and credentials right?")]
    Connect {
        /// Where.
        log: String,
        /// What the client says.
        why: String,
    },
    /// There is no such stream.
    #[error("{log}: there is no such stream; the first command that appends makes it")]
    Absent {
        /// Server and stream.
        log: String,
    },
    /// The stream cannot be made.
    #[error("{log}: the stream cannot be made: {why}")]
    Create {
        /// Server and stream.
        log: String,
        /// What the server says.
        why: String,
    },
    /// The stream could lose or change records.
    #[error("{log} is no safe place for a log: {}", stream::list(differences))]
    Unsafe {
        /// Server and stream.
        log: String,
        /// What is not as it must be.
        differences: Vec<Difference>,
    },
    /// It is not as it was, or cannot be asked.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// Why a stream cannot be read, or is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The server does not answer.
    #[error("{log}: the server does not answer ({why})")]
    Away {
        /// Server and stream.
        log: String,
        /// What happened.
        why: String,
    },
    /// The stream is gone.
    #[error("{log}: the stream is gone; restore it from a backup")]
    Gone {
        /// Server and stream.
        log: String,
    },
    /// Records are missing: deleted, purged, or in the log before.
    #[error(
        "{log}: the records {from} to {to} are missing; restore the stream from a backup, or read them in the log that it continues"
    )]
    Missing {
        /// Server and stream.
        log: String,
        /// First that is missing.
        from: Position,
        /// Last that is missing.
        to: Position,
    },
    /// The end is gone.
    #[error(
        "{log}: the log ends at position {found}, but it had reached {known}: records were lost, or the stream was restored from an older backup"
    )]
    Truncated {
        /// Server and stream.
        log: String,
        /// Last position that was seen.
        known: Position,
        /// Last position now.
        found: Position,
    },
    /// A record that was read is another one now.
    #[error(
        "{log}: the record at position {position} is not the one that was read before: the stream was replaced"
    )]
    Changed {
        /// Server and stream.
        log: String,
        /// The record.
        position: Position,
    },
    /// A message cannot be placed.
    #[error("{log}: {why}")]
    Malformed {
        /// Server and stream.
        log: String,
        /// What is wrong.
        why: String,
    },
}

impl JetStreamLog {
    /// Opens the log for appending and reading: makes the stream if it is missing, else sees that it is safe.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let name = options.stream.as_str().into();
        let streams = Arc::new(Streams::open(options, true).await?);
        let appender = Appender::new(streams.current());
        Ok(Self { name, streams, appender: Some(Arc::new(RwLock::new(Arc::new(appender)))) })
    }

    /// Opens the log for reading; nothing is made or changed.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open_read(options: Options) -> Result<Self, OpenError> {
        let name = options.stream.as_str().into();
        let streams = Arc::new(Streams::open(options, false).await?);
        Ok(Self { name, streams, appender: None })
    }

    /// The connection, for requests between replicas.
    #[must_use]
    pub fn client(&self) -> async_nats::Client {
        self.streams.current().client.clone()
    }

    /// The name that its stream was configured with: the same for all replicas, also after a roll-over.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.name
    }

    /// The name of the stream beside the log that takes `subject` (which may end in `>`), for what follows from the log
    /// and is told to others: kept as safely as the log. If none takes it, one is made, called `stream`.
    ///
    /// # Errors
    /// [`OpenError`]: it cannot be made, or what is there could lose what it is told.
    pub async fn side_stream(
        &self,
        stream: &str,
        subject: &str,
        description: &str,
    ) -> Result<String, OpenError> {
        stream::beside(&self.streams.current(), stream, subject, description).await
    }

    /// The tree before the first record that the server has: not empty where that continues another log.
    ///
    /// # Errors
    /// [`StreamError`].
    pub async fn beginning(&self) -> Result<Frontier, StreamError> {
        self.streams.beginning().await
    }
}

impl JetStreamLog {
    /// How the server keeps it, for people.
    ///
    /// # Errors
    /// [`StreamError`].
    pub async fn storage(&self) -> Result<Facts, StreamError> {
        let mut stream = self.streams.look().await?;
        let mut info = stream.info().await?;
        if info.config.sealed {
            // It was ended since it was last looked at.
            stream.end().await?;
            stream = self.streams.look().await?;
            info = stream.info().await?;
        }
        let limit = |n: i64| if n > 0 { n.to_string() } else { "none".to_owned() };
        let server = stream.client.server_info().version;
        let mut facts = Facts::from([
            ("provider", "jetstream".to_owned()),
            ("stream", info.config.name.clone()),
            ("serverVersion", server),
            ("bytesOnDisk", info.state.bytes.to_string()),
            ("limitOfBytes", limit(info.config.max_bytes)),
            ("limitOfRecords", limit(info.config.max_messages)),
            ("replicas", info.config.num_replicas.to_string()),
        ]);
        facts.insert("settings", stream::judged(&stream).await?);
        if let Some(cluster) = info.cluster {
            facts.insert("leader", cluster.leader.unwrap_or_else(|| "none".to_owned()));
            let behind = cluster.replicas.iter().filter(|replica| !replica.current).count();
            facts.insert("replicasBehind", behind.to_string());
        }
        if let Some(before) = self.streams.before().await? {
            facts.insert("previousStream", before);
        }
        Ok(facts)
    }

    /// Appends records of another log from position `first` on, or nothing.
    ///
    /// # Errors
    /// [`AppendError`].
    pub async fn append_at(
        &self,
        first: Position,
        records: &[NewEvent],
    ) -> Result<(), AppendError> {
        self.place(Guard::Copy(first), records).await.map(drop)
    }

    /// Begins the stream with `opening`, which continues another log; a stream that has records is left alone.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn begin(options: Options, opening: NewEvent) -> Result<(), OpenError> {
        let stream = Streams::open(options, true).await?.current();
        if stream.end().await? == 0 {
            let failed = |e: AppendError| stream.away_because(&e.to_string());
            Appender::new(Arc::clone(&stream)).append_first(opening).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Ends the log's stream for ever and begins the next one, named `next`, with the record that `opening` makes of
    /// the tree and the name of the stream that ended. Interrupted and done again, it is finished. Takes an operator's
    /// credentials.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn roll(
        options: Options,
        next: &str,
        opening: impl FnOnce(&Frontier, &str) -> Result<NewEvent, EncodeError>,
    ) -> Result<Rolled, OpenError> {
        rollover::roll(options, next, opening).await
    }

    /// Appends; where the stream was ended, to the one that goes on.
    async fn place(&self, guard: Guard, events: &[NewEvent]) -> Result<Appended, AppendError> {
        let current = self.appender.as_ref().ok_or(AppendError::ReadOnly)?;
        let appender = Arc::clone(&current.read().unwrap_or_else(PoisonError::into_inner));
        let refused = match appender.append(guard, events).await {
            Err(refused @ AppendError::Refused { .. }) => refused,
            other => return other,
        };
        let away = |error: StreamError| AppendError::Away { why: error.to_string() };
        let next = self.streams.follow(appender.stream()).await.map_err(away)?;
        if Arc::ptr_eq(&next, appender.stream()) {
            return Err(refused);
        }
        let appender = {
            let mut current = current.write().unwrap_or_else(PoisonError::into_inner);
            // Of several that were turned away one has made it.
            if !Arc::ptr_eq(current.stream(), &next) {
                *current = Arc::new(Appender::new(next));
            }
            Arc::clone(&current)
        };
        appender.append(guard, events).await
    }
}

impl EventLog for JetStreamLog {
    type Reader = JetStreamReader;

    async fn append(&self, events: Vec<NewEvent>) -> Result<Appended, AppendError> {
        self.place(Guard::Free, &events).await
    }

    async fn decide(
        &self,
        expected: Position,
        decision: NewEvent,
    ) -> Result<Appended, AppendError> {
        if !decision.is_decision() {
            return Err(AppendError::NotADecision { id: decision.id().to_owned() });
        }
        self.place(Guard::LastDecision(expected), &[decision]).await
    }

    async fn head(&self) -> Result<Head, ReadError> {
        let stream = self.streams.look().await?;
        let head = stream.head().await;
        if !stream.is_sealed() {
            return Ok(head?);
        }
        // It was ended since it was last looked at.
        Ok(self.streams.look().await?.head().await?)
    }

    /// Reads every record: a stream keeps no tree.
    async fn tree(&self) -> Result<Frontier, ReadError> {
        let mut chain = Chain::resume(self.beginning().await?);
        let mut reader = self.read(chain.tree().position().saturating_add(1))?;
        while let Some(records) = reader.next().await? {
            records.iter().filter_map(|(_, raw)| raw.scan().ok()).for_each(|scanned| {
                chain.add(&scanned);
            });
        }
        Ok(chain.tree().clone())
    }

    fn read(&self, from: Position) -> Result<JetStreamReader, ReadError> {
        Ok(JetStreamReader::new(Arc::clone(&self.streams), from))
    }

    /// What the server takes, less what we add.
    fn max_event_bytes(&self) -> usize {
        append::max_event_bytes(&self.streams.current())
    }
}

impl fmt::Debug for JetStreamLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStreamLog")
            .field("log", &self.streams.current().name)
            .finish_non_exhaustive()
    }
}
