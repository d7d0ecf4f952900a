//! The side of whoever holds the lock: it takes requests one by one, believes nothing in them, and appends.

use super::{
    CONDITIONAL, ENDING, Head, LINE, MOST_BYTES, MOST_EVENTS, Reply, SOCKET, UNCONDITIONAL, kind,
    matter,
};
use crate::{
    domain::event::{Position, TypeName},
    event_log::{
        AppendError, EventLog, NewEvent, ReadError, Reader,
        codec::{Decoded, Decoder, MAX_LINE_BYTES, scan},
    },
};
use std::{
    fs,
    future::Future,
    io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

/// So long a command may take to say what it asks, and to take its answer: others wait.
const IN_TIME: Duration = Duration::from_secs(5);
/// Records behind what a command saw that are looked at: some minutes of a busy log.
const MOST_BEHIND: u64 = 1_000_000;
/// After the system could not accept a connection.
const AGAIN: Duration = Duration::from_millis(200);

/// The socket in the folder of a log that this process holds.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// The user that this process runs as.
    owner: u32,
    in_time: Duration,
    /// Sources that this process is itself: what it tells of them nobody else ends.
    own: Vec<String>,
}

/// What was asked.
struct Request {
    head: Head,
    events: Vec<NewEvent>,
}

impl Control {
    /// Listens in `dir`, whose lock the caller holds: a socket that is there was left by who held it before.
    ///
    /// # Errors
    /// What the operating system says: a path that is too long for a socket, a file system that knows none.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(SOCKET);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(&path)?,
            Ok(_) => {
                let why = format!("{} is no socket; move it away", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(&path)?;
        // Who came before this line is asked who they are like everybody.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let owner = fs::metadata(&path)?.uid();
        Ok(Self { listener, path, owner, in_time: IN_TIME, own: Vec::new() })
    }

    /// Refuses to end what these sources tell: an observer at work would go on, and find all of it still there.
    #[must_use]
    pub fn with_own(self, own: Vec<String>) -> Self {
        Self { own, ..self }
    }

    /// Lets commands take `in_time` to say what they ask.
    #[cfg(test)]
    pub(super) fn with_time(self, in_time: Duration) -> Self {
        Self { in_time, ..self }
    }

    /// Appends to `log` what commands ask for, until `end` comes true; what was begun is finished. `told` hears of
    /// each request what came of it.
    pub async fn serve(
        self,
        log: &impl EventLog,
        end: impl Future<Output = ()>,
        told: impl Fn(&str),
    ) {
        let mut end = pin!(end);
        loop {
            let accepted = tokio::select! {
                () = &mut end => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => told(&self.answer(stream, log).await),
                Err(error) => {
                    told(&format!("no connection: {error}"));
                    sleep(AGAIN).await;
                }
            }
        }
        // Whoever comes now finds out that nobody is there.
        let _ = fs::remove_file(&self.path);
    }

    async fn answer(&self, mut stream: UnixStream, log: &impl EventLog) -> String {
        let reply = match self.asked(&mut stream).await {
            Ok(request) => act(log, request).await,
            Err(why) => Reply::Refused { why },
        };
        let mut line = serde_json::to_vec(&reply).unwrap_or_default();
        line.push(b'\n');
        // Who does not take it reads the log.
        let _ = timeout(self.in_time, stream.write_all(&line)).await;
        format!("{reply:?}")
    }

    async fn asked(&self, stream: &mut UnixStream) -> Result<Request, String> {
        let user = stream.peer_cred().map_err(|why| why.to_string())?.uid();
        if user != self.owner && user != 0 {
            return Err(format!("user {user} may not append; user {} may", self.owner));
        }
        let late = |_| format!("the request did not come within {:?}", self.in_time);
        timeout(self.in_time, request(stream, &self.own)).await.map_err(late)?
    }
}

/// Reads a request; what is wrong with it.
async fn request(stream: &mut UnixStream, own: &[String]) -> Result<Request, String> {
    let mut head = Vec::new();
    let mut reader = BufReader::new(stream);
    line(&mut reader, LINE, &mut head).await?;
    let head: Head = serde_json::from_slice(&head).map_err(|why| format!("head: {why}"))?;
    if head.events == 0 || head.events > MOST_EVENTS {
        return Err(format!("events: {}; from 1 to {MOST_EVENTS} are taken", head.events));
    }
    let allowed = if head.expected.is_some() { &CONDITIONAL[..] } else { &UNCONDITIONAL[..] };
    let (mut decoder, mut events, mut bytes) = (Decoder::default(), Vec::new(), Vec::new());
    let mut left = MOST_BYTES;
    for number in 1..=head.events {
        let wrong = |why: String| format!("event {number}: {why}");
        bytes.clear();
        let most = left.min(MAX_LINE_BYTES);
        line(&mut reader, most as u64, &mut bytes).await.map_err(wrong)?;
        left = left.saturating_sub(bytes.len());
        let scanned = scan(&bytes).map_err(|why| wrong(why.to_string()))?;
        let known = kind(&scanned).filter(|kind| allowed.contains(kind));
        let decoded = decoder.decode(&scanned).map_err(|why| wrong(why.to_string()))?;
        let (Some(_), Decoded::Event(_)) = (known, decoded) else {
            return Err(wrong(format!("`{}` is not taken here", scanned.type_name)));
        };
        if known.is_some_and(|kind| ENDING.contains(&kind))
            && let Some(own) = own.iter().find(|own| **own == *scanned.source)
        {
            return Err(format!(
                "{own} is observed by the process that has the log; start that one without it first"
            ));
        }
        events.push(NewEvent::copied(&scanned).map_err(|why| wrong(why.to_string()))?);
    }
    Ok(Request { head, events })
}

/// Reads a line of at most so many bytes, without its end.
async fn line(
    reader: &mut (impl AsyncBufRead + Unpin),
    most: u64,
    line: &mut Vec<u8>,
) -> Result<(), String> {
    reader.take(most).read_until(b'\n', line).await.map_err(|why| why.to_string())?;
    match line.pop() {
        Some(b'\n') => Ok(()),
        _ => Err(format!("ends early, or is longer than {most} bytes")),
    }
}

async fn act(log: &impl EventLog, Request { head, mut events }: Request) -> Reply {
    if let Some(expected) = head.expected {
        return match (events.pop(), events.pop()) {
            (Some(decision), None) => told(log.decide(expected, decision).await),
            _ => Reply::Refused { why: "what has a condition is appended alone".to_owned() },
        };
    }
    match behind(log, head.seen, &events).await {
        Ok(None) => told(log.append(events).await),
        Ok(Some(position)) => Reply::Overtaken { position },
        Err(why) => Reply::Refused { why },
    }
}

/// The first record behind `seen` that is about the same matter as one of these.
async fn behind(
    log: &impl EventLog,
    seen: Position,
    events: &[NewEvent],
) -> Result<Option<Position>, String> {
    let unread = |why: ReadError| why.to_string();
    let matters: Vec<_> = events
        .iter()
        .filter_map(|event| match TypeName::parse(event.leaf_input().type_name) {
            TypeName::Known(kind) => matter(kind),
            _ => None,
        })
        .collect();
    let last = log.head().await.map_err(unread)?.position;
    if last.saturating_sub(seen) > MOST_BEHIND {
        return Err(format!("the log is at {last}, and was read up to {seen}; read it anew"));
    }
    let mut reader = log.read(seen.saturating_add(1)).map_err(unread)?;
    while let Some(records) = reader.next().await.map_err(unread)? {
        for (position, raw) in records.iter() {
            let scanned = raw.scan().map_err(|why| format!("position {position}: {why}"))?;
            if kind(&scanned).and_then(matter).is_some_and(|matter| matters.contains(&matter)) {
                return Ok(Some(position));
            }
        }
    }
    Ok(None)
}

fn told(appended: Result<super::Appended, AppendError>) -> Reply {
    match appended {
        Ok(super::Appended { first, last }) => Reply::Appended { first, last },
        Err(AppendError::Conflict { last_decision, .. }) => Reply::Conflict { last_decision },
        Err(AppendError::Unclear { why }) => Reply::Unclear { why },
        Err(AppendError::Closed { why }) => Reply::Closed { why },
        Err(other) => Reply::Refused { why: other.to_string() },
    }
}
