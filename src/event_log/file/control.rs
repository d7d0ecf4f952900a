//! How a command appends to a folder whose lock a running process has: it asks that process.
//!
//! ```text
//!  command ──a request──▶ DIR/control ──▶ whoever holds DIR/lock ──append, decide──▶ segments
//!     ▲  └── reads the folder itself            │ one request a connection, one connection at a time
//!     └────────────────an answer────────────────┘
//! ```
//!
//! A request is a [`Head`] and then its events, each a line as in the log, whose leaf says nothing; the answer is one line.
//! The command judges what it appends as it does with the lock, on what it read of the folder. What nobody else could have
//! appended then, somebody can now: so a request says up to where its command had read ([`Head::seen`]), and is refused if
//! something of the same matter stands behind that.
//!
//! The socket is its owner's alone, and whoever comes by it is asked for their user by the system: only who could write
//! the folder anyway gets in, and root. Nothing of it is reached over a network. A command believes an answer when it finds
//! its records where it was told they are.

mod server;

pub use server::Control;

use super::{FileLog, FileReader};
use crate::{
    domain::{
        event::{Kind, Position, TypeName},
        merkle::LeafHasher,
    },
    event_log::{
        AppendError, Appended, EventLog, NewEvent, OpenError, ReadError, Reader,
        codec::Scanned,
        lock::{self, Lock},
    },
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::timeout,
};

/// The socket in a log's folder.
const SOCKET: &str = "control";
/// Bytes of a request: the ends of some hundred thousand pods.
const MOST_BYTES: usize = 64 << 20;
/// Events of a request.
const MOST_EVENTS: usize = 200_000;
/// Bytes of a head, and of an answer.
const LINE: u64 = 4096;
/// So long a command waits for its answer: for those before it, and for the disk.
const PATIENCE: Duration = Duration::from_secs(60);

/// What may be appended by way of the socket: what commands say, and what they say of a cluster that is no more.
const UNCONDITIONAL: [Kind; 6] = [
    Kind::QuotaDeclared,
    Kind::UsageAdjusted,
    Kind::ClusterBound,
    Kind::ClusterRetired,
    Kind::PodStopped,
    Kind::WorkloadGone,
];
/// The same, on the condition that the last decision is still the last, and not without it.
const CONDITIONAL: [Kind; 1] = [Kind::PeriodClosed];
/// Of these, what ends things that an observer at work still sees.
const ENDING: [Kind; 3] = [Kind::ClusterRetired, Kind::PodStopped, Kind::WorkloadGone];
/// Matters in which what somebody else appended meanwhile may change what is right.
const MATTERS: [&str; 2] = ["quota", "cluster"];

/// What a request begins with.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// The position up to which the command had read, at least.
    seen: Position,
    /// The position of the last decision, if the event is to be appended behind that alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Position>,
    /// How many lines follow.
    events: usize,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Reply {
    /// It is durable.
    Appended { first: Position, last: Position },
    /// Another decision came first.
    Conflict { last_decision: Position },
    /// Something of the same matter came first.
    Overtaken { position: Position },
    /// Nothing was written, and will not be.
    Refused { why: String },
    /// It may have been written or not.
    Unclear { why: String },
    /// The log takes nothing any more.
    Closed { why: String },
}

/// Who is asked to append.
#[derive(Debug)]
pub(super) struct Holder {
    dir: PathBuf,
    /// Where the log ended when it was opened, before anything of it was read.
    seen: Position,
}

/// Whether somebody can be asked to append to the log in `dir`.
pub(in crate::event_log) fn is_there(dir: &Path) -> bool {
    dir.join(SOCKET).exists()
}

/// What a record is about: `quota` of `quota.declared`.
fn matter(kind: Kind) -> Option<&'static str> {
    let matter = kind.name().split('.').next()?;
    MATTERS.into_iter().find(|known| *known == matter)
}

fn kind(scanned: &Scanned<'_>) -> Option<Kind> {
    match TypeName::parse(&scanned.type_name) {
        TypeName::Known(kind) | TypeName::Newer { kind, .. } => Some(kind),
        TypeName::Unknown => None,
    }
}

impl FileLog {
    /// Opens the log in `dir` for reading, and for appending by way of the process that holds its lock.
    ///
    /// # Errors
    /// [`OpenError`] when there is no log.
    pub async fn open_beside(dir: &Path) -> Result<Self, OpenError> {
        let mut log = Self::open_read(dir)?;
        let seen = log.head().await?.position;
        log.holder = Some(Holder { dir: dir.to_owned(), seen });
        Ok(log)
    }
}

impl Holder {
    /// Has events appended; with `expected`, one decision on that condition.
    pub(super) async fn send(
        &self,
        expected: Option<Position>,
        events: &[NewEvent],
    ) -> Result<Appended, AppendError> {
        let request = self.request(expected, events)?;
        let away = |why: io::Error| AppendError::Away { why: self.place(why) };
        let stream = UnixStream::connect(self.dir.join(SOCKET)).await.map_err(away)?;
        let reply = match timeout(PATIENCE, ask(stream, &request)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(why)) => return Err(self.what_is_known(events, &self.place(why)).await),
            Err(_) => {
                let why = self.place(format!("no answer within {} s", PATIENCE.as_secs()));
                return Err(self.what_is_known(events, &why).await);
            }
        };
        match reply {
            Reply::Appended { first, last } => {
                let appended = Appended { first, last };
                match self.is_there(events, appended).await {
                    true => Ok(appended),
                    false => {
                        let why = format!("it says {first} to {last}, where the log has others");
                        Err(AppendError::Unclear { why: self.place(why) })
                    }
                }
            }
            Reply::Conflict { last_decision } => {
                Err(AppendError::Conflict { expected: expected.unwrap_or_default(), last_decision })
            }
            Reply::Overtaken { position } => Err(AppendError::Overtaken { position }),
            Reply::Refused { why } => Err(AppendError::Refused { why }),
            Reply::Unclear { why } => Err(AppendError::Unclear { why }),
            Reply::Closed { why } => Err(AppendError::Closed { why }),
        }
    }

    fn request(
        &self,
        expected: Option<Position>,
        events: &[NewEvent],
    ) -> Result<Vec<u8>, AppendError> {
        let refused = |why: String| AppendError::Refused { why };
        let head = Head { seen: self.seen, expected, events: events.len() };
        let mut request = serde_json::to_vec(&head).map_err(|why| refused(why.to_string()))?;
        request.push(b'\n');
        let mut hasher = LeafHasher::default();
        for event in events {
            // Where it will stand is not known; whoever takes it makes its leaf.
            event.write_line(0, &mut hasher, &mut request);
        }
        match request.len() <= MOST_BYTES && events.len() <= MOST_EVENTS {
            true => Ok(request),
            false => Err(refused(format!(
                "{} events of {} bytes are more than a running process is asked to append; stop it, and run the command again",
                events.len(),
                request.len()
            ))),
        }
    }

    /// Whether the folder has what the answer says: somebody else who may write it may have put a socket there.
    async fn is_there(&self, events: &[NewEvent], Appended { first, last }: Appended) -> bool {
        let mut there = 0_usize;
        let compare = |position, scanned: &Scanned<'_>| {
            let ours = events.get(there).filter(|_| position <= last);
            let same = ours.is_some_and(|event| scanned.id == event.id());
            there = there.saturating_add(usize::from(same));
            same
        };
        let read = self.each_behind(first.saturating_sub(1), compare).await;
        read.is_ok() && there == events.len()
    }

    /// The holder did not answer: what the folder says about events that it was asked to append.
    async fn what_is_known(&self, events: &[NewEvent], why: &str) -> AppendError {
        // Once nobody holds the lock nothing more comes of it.
        let ended = matches!(lock::take(&self.dir.join("lock")), Ok(Lock::Ours(_)));
        let ids: HashSet<&str> = events.iter().map(NewEvent::id).collect();
        let found = match self.find(&ids).await {
            Ok(found) => found,
            Err(unread) => return AppendError::Unclear { why: format!("{why}; {unread}") },
        };
        match (found, ended) {
            (0, true) => AppendError::Away { why: format!("{why}: it ended") },
            (found, _) => AppendError::Unclear {
                why: format!(
                    "{why}; the log now holds {found} of {}; run the command again, what is there is not appended twice",
                    ids.len()
                ),
            },
        }
    }

    /// How many of these the log holds behind what was seen.
    async fn find(&self, ids: &HashSet<&str>) -> Result<usize, ReadError> {
        let mut found = HashSet::new();
        let look = |_, scanned: &Scanned<'_>| {
            found.extend(ids.get(&*scanned.id).copied());
            true
        };
        self.each_behind(self.seen, look).await?;
        Ok(found.len())
    }

    /// Shows the records behind `after` until `wanted` says no.
    async fn each_behind(
        &self,
        after: Position,
        mut wanted: impl FnMut(Position, &Scanned<'_>) -> bool,
    ) -> Result<(), ReadError> {
        let mut reader = FileReader::open(&self.dir, after.saturating_add(1), None)?;
        while let Some(records) = reader.next().await? {
            let read =
                records.iter().filter_map(|(position, raw)| Some((position, raw.scan().ok()?)));
            for (position, scanned) in read {
                if !wanted(position, &scanned) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn place(&self, why: impl std::fmt::Display) -> String {
        format!("{}: {why}", self.dir.join(SOCKET).display())
    }
}

/// Sends a request and reads its answer.
async fn ask(stream: UnixStream, request: &[u8]) -> io::Result<Reply> {
    let (reading, mut writing) = stream.into_split();
    // Who refuses it may not read it to the end: the answer is there all the same.
    let sent = writing.write_all(request).await;
    let mut line = String::new();
    BufReader::new(reading.take(LINE)).read_line(&mut line).await?;
    if line.is_empty() {
        sent?;
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it gave no answer"));
    }
    Ok(serde_json::from_str(&line)?)
}

#[cfg(test)]
mod tests;
