//! The one thread that writes a file log.
//!
//! ```text
//!  queue ──▶ [a b c] stage: compare conditions, give positions, encode ──▶ write ──▶ fdatasync ──▶ answer a b c
//!            meanwhile d e f queue and become the next group
//! ```
//!
//! It never answers "written" before the synchronisation, and after one failure never again.

use super::{
    Options,
    recover::Recovered,
    roots::{self, ROOT_EVERY, ROOTS_FILE},
    segments,
};
use crate::domain::{
    event::Position,
    merkle::{Hash, LeafHasher},
};
use crate::event_log::{AppendError, Appended, NewEvent, chain::Tip};
use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};
use tokio::sync::{mpsc, oneshot, watch};

/// Bytes of a group: a few milliseconds of disk, so that one huge group does not keep everyone waiting.
const GROUP_BYTES: usize = 8 << 20;

type Answer = Result<Appended, AppendError>;

/// One append that waits for its answer.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) expected: Option<Position>,
    pub(super) events: Vec<NewEvent>,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// The state of the writing thread.
#[derive(Debug)]
pub(super) struct Committer {
    dir: PathBuf,
    options: Options,
    segment: File,
    segment_bytes: u64,
    roots: File,
    /// Position of the last line of `roots`.
    last_root: Position,
    /// Lines for `roots` that wait until their records are durable.
    due: Vec<(Position, Hash)>,
    /// The tip at the newest of `due`.
    due_tip: Option<Tip>,
    tip: Tip,
    hasher: LeafHasher,
    /// Lines that are not yet written.
    buffer: Vec<u8>,
    /// Why nothing is written any more.
    failed: Option<String>,
    publish: watch::Sender<Tip>,
    /// Held until the thread ends.
    _lock: File,
}

impl Committer {
    /// Goes on where the log ends: cuts off half a line, makes what is there durable, completes `roots`.
    pub(super) fn resume(
        dir: &Path,
        options: Options,
        recovered: Recovered,
        lock: File,
        publish: watch::Sender<Tip>,
    ) -> io::Result<Self> {
        let path = dir.join(segments::name(recovered.segment));
        let segment = File::options().append(true).open(path)?;
        let mut segment_bytes = segment.metadata()?.len();
        if let Some(torn) = &recovered.torn {
            segment_bytes = segment_bytes.saturating_sub(torn.bytes as u64);
            segment.set_len(segment_bytes)?;
        }
        segment.sync_all()?;
        let roots = File::options().create(true).append(true).open(dir.join(ROOTS_FILE))?;
        roots.set_len(recovered.roots.good_bytes)?;
        sync_folder(dir)?;
        let mut committer = Self {
            dir: dir.to_owned(),
            options,
            segment,
            segment_bytes,
            roots,
            last_root: recovered.roots.last_position(),
            due: recovered.due,
            due_tip: None,
            tip: recovered.tip,
            hasher: LeafHasher::default(),
            buffer: Vec::new(),
            failed: None,
            publish,
            _lock: lock,
        };
        committer.write_roots()?;
        if recovered.from_the_first {
            // The next opening shall not read everything again.
            committer.checkpoint()?;
        }
        Ok(committer)
    }

    /// Writes until nobody can send any more, then closes the log.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Request>) -> Result<(), String> {
        while let Some(first) = queue.blocking_recv() {
            let mut bytes = size(&first);
            let mut group = vec![first];
            while bytes < GROUP_BYTES
                && let Ok(request) = queue.try_recv()
            {
                bytes = bytes.saturating_add(size(&request));
                group.push(request);
            }
            self.commit(group);
        }
        if self.failed.is_none()
            && let Err(error) = self.close()
        {
            self.failed = Some(error.to_string());
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Writes a group and answers everyone in it.
    fn commit(&mut self, group: Vec<Request>) {
        let closed_before = self.failed.is_some();
        let (replies, answers): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|request| (request.reply, self.stage(request.expected, &request.events)))
            .unzip();
        if self.failed.is_none() {
            self.failed = self.flush().err().map(|error| error.to_string());
        }
        if self.failed.is_none() {
            // Before the answers: who has one must find its record below the head.
            self.publish.send_replace(self.tip.clone());
        }
        // A failure on the way: what was staged is perhaps written, and a conflict may be with that.
        let failed_now = self.failed.clone().filter(|_| !closed_before);
        for (reply, answer) in replies.into_iter().zip(answers) {
            let unclear = |why| Err(AppendError::Unclear { why });
            // Whoever no longer waits will read the log.
            drop(reply.send(failed_now.clone().map_or(answer, unclear)));
        }
        if self.failed.is_none() {
            self.failed = self.write_roots().err().map(|error| format!("{ROOTS_FILE}: {error}"));
        }
    }

    /// Compares the condition, gives positions, and encodes into the buffer.
    fn stage(&mut self, expected: Option<Position>, events: &[NewEvent]) -> Answer {
        if let Some(why) = &self.failed {
            return Err(AppendError::Closed { why: why.clone() });
        }
        let last_decision = self.tip.last_decision;
        if let Some(expected) = expected.filter(|expected| *expected != last_decision) {
            return Err(AppendError::Conflict { expected, last_decision });
        }
        let first = self.tip.position().saturating_add(1);
        for event in events {
            if let Err(error) = self.roll() {
                self.failed = Some(error.to_string());
                return Err(AppendError::Unclear { why: error.to_string() });
            }
            self.stage_event(event);
        }
        Ok(Appended { first, last: self.tip.position() })
    }

    fn stage_event(&mut self, event: &NewEvent) {
        let position = self.tip.position().saturating_add(1);
        let leaf = event.write_line(position, &mut self.hasher, &mut self.buffer);
        self.tip.tree.append(leaf);
        if event.is_decision() {
            self.tip.last_decision = position;
        }
        if position.is_multiple_of(ROOT_EVERY) {
            self.due.push((position, self.tip.tree.root()));
            self.due_tip = Some(self.tip.clone());
        }
    }

    /// Begins the next segment when this one is full.
    fn roll(&mut self) -> io::Result<()> {
        let bytes = self.segment_bytes.saturating_add(self.buffer.len() as u64);
        if bytes < self.options.segment_bytes || bytes == 0 {
            return Ok(());
        }
        self.flush()?;
        self.segment = create_segment(&self.dir, self.tip.position().saturating_add(1))?;
        self.segment_bytes = 0;
        Ok(())
    }

    /// Writes the buffer and waits until it is durable.
    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.segment.write_all(&self.buffer)?;
        self.segment.sync_data()?;
        self.segment_bytes = self.segment_bytes.saturating_add(self.buffer.len() as u64);
        self.buffer.clear();
        // One batch of 16 MiB must not hold its memory for ever.
        self.buffer.shrink_to(GROUP_BYTES);
        Ok(())
    }

    /// Writes the lines of `roots` that are due, then the head at the last of them.
    fn write_roots(&mut self) -> io::Result<()> {
        use std::fmt::Write as _;
        let mut lines = String::new();
        for (position, root) in self.due.drain(..) {
            writeln!(lines, "{position} {root}").map_err(io::Error::other)?;
            self.last_root = position;
        }
        self.roots.write_all(lines.as_bytes())?;
        self.due_tip.take().map_or(Ok(()), |tip| roots::write_tip(&self.dir, &tip))
    }

    /// Stores root and head as they are now.
    fn checkpoint(&mut self) -> io::Result<()> {
        if self.tip.position() > self.last_root {
            self.due.push((self.tip.position(), self.tip.tree.root()));
        }
        self.due_tip = Some(self.tip.clone());
        self.write_roots()
    }

    fn close(&mut self) -> io::Result<()> {
        self.checkpoint()?;
        self.roots.sync_data()
    }
}

fn size(request: &Request) -> usize {
    request.events.iter().map(NewEvent::bytes).fold(0, usize::saturating_add)
}

/// Creates an empty segment, durably: the folder must know its name before a record in it counts.
pub(super) fn create_segment(dir: &Path, first: Position) -> io::Result<File> {
    let path = dir.join(segments::name(first));
    let file = File::options().append(true).create_new(true).open(path)?;
    file.sync_all()?;
    sync_folder(dir)?;
    Ok(file)
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_log::{conformance::fact, file::recover::recover};

    fn request() -> (Request, oneshot::Receiver<Answer>) {
        let (reply, answer) = oneshot::channel();
        (Request { expected: None, events: vec![fact(1)], reply }, answer)
    }

    #[test]
    fn after_a_failed_synchronisation_nothing_is_acknowledged() {
        let dir = tempfile::tempdir().unwrap();
        let lock = create_segment(dir.path(), 1).unwrap();
        let recovered = recover(dir.path()).unwrap();
        let publish = watch::Sender::new(recovered.tip.clone());
        let mut committer =
            Committer::resume(dir.path(), Options::default(), recovered, lock, publish).unwrap();
        // It takes every byte and cannot be synchronised.
        committer.segment = File::options().append(true).open("/dev/null").unwrap();
        for unclear in [true, false, false] {
            let (request, mut answer) = request();
            committer.commit(vec![request]);
            match answer.try_recv().unwrap().unwrap_err() {
                AppendError::Unclear { .. } => assert!(unclear),
                AppendError::Closed { .. } => assert!(!unclear),
                other => panic!("{other}"),
            }
            assert_eq!(committer.publish.borrow().position(), 0, "readers are told nothing");
        }
    }
}
