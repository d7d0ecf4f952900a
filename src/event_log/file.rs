//! The log as a folder: append-only segments of JSON lines. The embedded default, and the archive format.
//!
//! ```text
//! DIR/00000000000000000001.jsonl   one event a line; named by the position of its first
//! DIR/00000000000000104858.jsonl   the last segment grows; a new one begins at 64 MiB
//! DIR/roots                        `position root` every 1,024 positions and on close
//! DIR/frontier                     the tree at the newest root, so that opening is fast
//! DIR/lock                         held by the one writer
//! DIR/control                      where commands ask a writer that runs for long to append for them
//! DIR/sealed                       after a roll-over: which log goes on
//! DIR/00000000000000000001.jsonl.zst  instead, in an archive: whole, and never written again
//! ```
//!
//! One thread writes (group commit: what queues while the disk works is written and synchronised at once).
//! After a failed write nothing is acknowledged any more until the log is opened again. Nothing is ever
//! changed or removed but the half line that a killed writer left. Readers take no lock and write nothing.

mod committer;
pub mod control;
mod reader;
mod recover;
pub mod rollover;
pub mod roots;
pub mod segments;

use super::{
    AppendError, Appended, EventLog, Facts, Head, NewEvent, OpenError, ReadError, archive,
    chain::Tip,
    lock::{self, Lock},
};
use crate::domain::{event::Position, merkle::Frontier};
use committer::{Committer, Request};
pub use reader::FileReader;
pub use recover::Torn;
pub(super) use recover::base;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    thread::JoinHandle,
};
use tokio::sync::{mpsc, oneshot, watch};

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A segment that has reached this many bytes gets no further line.
    pub segment_bytes: u64,
}

/// A log in a folder. Dropping it writes the last root and frees the lock.
#[derive(Debug)]
pub struct FileLog {
    dir: PathBuf,
    writer: Option<Writer>,
    torn: Option<Torn>,
    /// Whoever holds the lock, to be asked; `None`: nobody is.
    holder: Option<control::Holder>,
}

/// The writing side.
#[derive(Debug)]
struct Writer {
    requests: mpsc::Sender<Request>,
    tip: watch::Receiver<Tip>,
    thread: JoinHandle<Result<(), String>>,
}

/// Requests that may wait for the writer: more than a group commit takes, few enough to be little memory.
const QUEUE: usize = 1024;

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20 }
    }
}

impl FileLog {
    /// Opens the log in `dir` for appending and reading. A folder that is missing or empty becomes a log.
    ///
    /// # Errors
    /// [`OpenError`]: another writer, no log, damaged.
    pub fn open(dir: &Path, options: &Options) -> Result<Self, OpenError> {
        make_folder(dir)?;
        if segments::list(dir)?.last().is_some_and(|first| segments::is_packed(dir, *first)) {
            return Err(segments::not_a_log(dir, archive::TAKES_NONE).into());
        }
        let lock = lock(dir)?;
        if let Some(rollover::Seal { position, next, .. }) = rollover::seal_of(dir)? {
            return Err(OpenError::Sealed { path: dir.to_owned(), position, next });
        }
        if segments::list(dir)?.is_empty() {
            let path = dir.join(segments::name(1));
            committer::create_segment(dir, 1).map_err(|source| OpenError::Io { path, source })?;
        }
        let recovered = recover::recover(dir)?;
        let torn = recovered.torn.clone();
        let published = watch::Sender::new(recovered.tip.clone());
        let tip = published.subscribe();
        let committer = Committer::resume(dir, *options, recovered, lock, published)
            .map_err(|source| OpenError::Io { path: dir.to_owned(), source })?;
        let (requests, queue) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("event-log".to_owned())
            .spawn(move || committer.run(queue))
            .map_err(|source| OpenError::Io { path: dir.to_owned(), source })?;
        let writer = Some(Writer { requests, tip, thread });
        Ok(Self { dir: dir.to_owned(), writer, torn, holder: None })
    }

    /// Opens the log in `dir` for reading, also while another process writes. Nothing is touched.
    ///
    /// # Errors
    /// [`OpenError::Read`] when there is no log.
    pub fn open_read(dir: &Path) -> Result<Self, OpenError> {
        segments::SegmentReader::open(dir, Position::MAX)?;
        Ok(Self { dir: dir.to_owned(), writer: None, torn: None, holder: None })
    }

    /// The half line that was cut off when the log was opened for appending: tell a person.
    #[must_use]
    pub const fn torn(&self) -> Option<&Torn> {
        self.torn.as_ref()
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Appends records of another log, the first of them at position `first`; where the log ends elsewhere, nothing.
    ///
    /// # Errors
    /// [`AppendError`].
    pub async fn append_at(
        &self,
        first: Position,
        records: Vec<NewEvent>,
    ) -> Result<(), AppendError> {
        let writer = self.writer.as_ref().ok_or(AppendError::ReadOnly)?;
        // This is the only writer, and nobody appends beside a copy.
        let last = writer.tip.borrow().position();
        if last.checked_add(1) != Some(first) {
            return Err(AppendError::Elsewhere { first, last });
        }
        self.append(records).await.map(drop)
    }

    /// Segments, their bytes, and what was done to the folder.
    ///
    /// # Errors
    /// [`OpenError`] when the folder cannot be read.
    pub fn storage(&self) -> Result<Facts, OpenError> {
        let io = |source| OpenError::Io { path: self.dir.clone(), source };
        let segments = segments::list(&self.dir)?;
        let sizes = segments.iter().map(|first| segments::path(&self.dir, *first).metadata());
        let sizes: Vec<u64> =
            sizes.map(|m| m.map(|m| m.len())).collect::<Result<_, _>>().map_err(io)?;
        let bytes = sizes.into_iter().fold(0, u64::saturating_add);
        let mut facts = Facts::from([
            ("provider", "file".to_owned()),
            ("segments", segments.len().to_string()),
            ("bytesOnDisk", bytes.to_string()),
        ]);
        let recorded = roots::Roots::read(&self.dir)?.last_position();
        facts.insert("lastRecordedRoot", format!("at position {recorded}"));
        if let Some(seal) = rollover::seal_of(&self.dir)? {
            facts.insert("sealed", format!("at position {}; {} goes on", seal.position, seal.next));
        }
        Ok(facts)
    }

    /// Ends writing: writes the last root and frees the lock.
    ///
    /// # Errors
    /// [`AppendError::Closed`] when that failed, or an append before it.
    pub fn close(mut self) -> Result<(), AppendError> {
        self.end().map_err(|why| AppendError::Closed { why })
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(Writer { requests, thread, .. }) = self.writer.take() else { return Ok(()) };
        // The thread ends once nobody can send any more.
        drop(requests);
        thread.join().unwrap_or_else(|_| Err("the writing thread panicked".to_owned()))
    }

    async fn send(
        &self,
        expected: Option<Position>,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        if let Some(holder) = &self.holder {
            return holder.send(expected, &events).await;
        }
        let writer = self.writer.as_ref().ok_or(AppendError::ReadOnly)?;
        let (reply, answer) = oneshot::channel();
        let ended = |_| AppendError::Closed { why: "the writing thread ended".to_owned() };
        writer.requests.send(Request { expected, events, reply }).await.map_err(ended)?;
        let lost = |_| AppendError::Unclear { why: "the writing thread ended".to_owned() };
        answer.await.map_err(lost)?
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        // A root that was not written is computed again on open: `close` is for those who want to know.
        let _ = self.end();
    }
}

impl EventLog for FileLog {
    type Reader = FileReader;

    async fn append(&self, events: Vec<NewEvent>) -> Result<Appended, AppendError> {
        self.send(None, events).await
    }

    async fn decide(
        &self,
        expected: Position,
        decision: NewEvent,
    ) -> Result<Appended, AppendError> {
        if !decision.is_decision() {
            return Err(AppendError::NotADecision { id: decision.id().to_owned() });
        }
        self.send(Some(expected), vec![decision]).await
    }

    async fn head(&self) -> Result<Head, ReadError> {
        self.tip().await.map(|tip| tip.head())
    }

    async fn tree(&self) -> Result<Frontier, ReadError> {
        self.tip().await.map(|tip| tip.tree)
    }

    async fn known_tree(&self) -> Result<Option<Frontier>, ReadError> {
        self.tree().await.map(Some)
    }

    fn read(&self, from: Position) -> Result<FileReader, ReadError> {
        let acknowledged = self.writer.as_ref().map(|writer| writer.tip.clone());
        FileReader::open(&self.dir, from, acknowledged)
    }
}

impl FileLog {
    /// The writer's, or what the folder says now.
    async fn tip(&self) -> Result<Tip, ReadError> {
        if let Some(writer) = &self.writer {
            return Ok(writer.tip.borrow().clone());
        }
        let dir = self.dir.clone();
        reader::blocking(&self.dir, move || match recover::recover(&dir) {
            Ok(recovered) => Ok(recovered.tip),
            Err(OpenError::Read(error)) => Err(error),
            Err(other) => Err(ReadError::Contradicted(Box::new(other))),
        })
        .await
    }
}

/// Makes the folder, or sees that it is empty or a log.
fn make_folder(dir: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { path: dir.to_owned(), source };
    if !dir.exists() {
        fs::create_dir_all(dir).map_err(io)?;
        // The folder's own name must be durable, too; the root folder has no parent.
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        return parent.map_or(Ok(()), committer::sync_folder).map_err(io);
    }
    if !segments::list(dir)?.is_empty() {
        return Ok(());
    }
    for entry in fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        if name != "lock" && name != rollover::BEGINNING {
            let why = format!("it holds {} and no segment; give a new folder", name.display());
            return Err(segments::not_a_log(dir, &why).into());
        }
    }
    Ok(())
}

/// Makes the folder of an archive, or sees that it is one with compressed segments, or empty.
pub(super) fn make_folder_for_archive(dir: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { path: dir.to_owned(), source };
    fs::create_dir_all(dir).map_err(io)?;
    let segments = segments::list(dir)?;
    if let Some(plain) = segments.iter().find(|first| !segments::is_packed(dir, **first)) {
        let why = format!("{} is not compressed; give a new folder", segments::name(*plain));
        return Err(segments::not_a_log(dir, &why).into());
    }
    for entry in fs::read_dir(dir).map_err(io)?.filter(|_| segments.is_empty()) {
        let name = entry.map_err(io)?.file_name();
        // A segment that was begun and never finished is written again.
        if name != "lock" && !name.to_string_lossy().ends_with(".new") {
            let why = format!("it holds {} and no segment; give a new folder", name.display());
            return Err(segments::not_a_log(dir, &why).into());
        }
    }
    Ok(())
}

/// Takes the lock of the one writer.
pub(super) fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("lock");
    match lock::take(&path) {
        Ok(Lock::Ours(file)) => Ok(file),
        Ok(Lock::Held(holder)) => Err(OpenError::Locked { path, holder }),
        Err(source) => Err(OpenError::Io { path, source }),
    }
}
