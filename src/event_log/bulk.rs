//! Reads many events fast, on two threads: one reads, splits, scans, proves and parses, the caller puts events
//! together and applies them.
//!
//! ```text
//!  thread A: bytes ─▶ lines ─▶ attributes ─▶ leaf = recorded? ─▶ tree ─▶ roots ─▶ outlines  │ bounded queue
//!  caller:   Batch ─▶ events ─▶ apply                                              ◀────────┘ of batches
//! ```
//!
//! A log's records are proved on the way, whoever reads them; loose lines (a file, a pipe) carry positions of
//! another log or none, and are numbered by line. Memory is a few batches, or a few times the longest line.

mod batch;
mod lines;
#[cfg(feature = "jetstream")]
mod stream;

use super::{
    LineError, OpenError, ReadError, any,
    chain::Chain,
    codec::Decoder,
    file::{
        base,
        roots::Roots,
        segments::{self, SegmentReader},
    },
    records::Records,
};
use crate::domain::{
    event::Position,
    merkle::{Frontier, Hash},
};
pub use batch::{Batch, Numbered};
use lines::LineReader;
use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, SyncSender},
};

/// Where events are read from.
pub enum Source<'a> {
    /// A file log.
    Log {
        /// The folder.
        dir: &'a Path,
        /// Nothing behind this position is read; [`Position::MAX`] for everything.
        limit: Position,
    },
    /// A stream.
    #[cfg(feature = "jetstream")]
    Stream {
        /// Where, and who we are.
        options: Box<super::jetstream::Options>,
        /// Nothing behind this position is read.
        limit: Position,
    },
    /// Logs, each of which continues the one before.
    Logs {
        /// The earliest first.
        parts: Vec<Source<'a>>,
        /// Whether the first must begin at position 1: what is summed up must have a beginning.
        whole: bool,
    },
    /// Lines from anywhere else; see [`crate::input`].
    Lines {
        /// What to call it in errors.
        name: &'a Path,
        /// The bytes.
        input: Box<dyn Read + Send>,
    },
}

impl<'a> Source<'a> {
    /// The log at `location`: a folder, an address, or several, each of which continues the one before.
    ///
    /// # Errors
    /// [`OpenError`] when an address is none.
    pub fn log(location: &'a str, limit: Position) -> Result<Self, OpenError> {
        let parts: Result<_, _> =
            any::places(location).into_iter().map(|place| Self::part(place, limit)).collect();
        Ok(Self::Logs { parts: parts?, whole: false })
    }

    /// As [`Self::log`], from position 1 on: a history that can be summed up.
    ///
    /// # Errors
    /// [`OpenError`] when an address is none.
    pub fn history(location: &'a str, limit: Position) -> Result<Self, OpenError> {
        match Self::log(location, limit)? {
            Self::Logs { parts, .. } => Ok(Self::Logs { parts, whole: true }),
            other => Ok(other),
        }
    }

    /// Nothing behind this position is read.
    fn limit(&self) -> Position {
        match self {
            Self::Log { limit, .. } => *limit,
            #[cfg(feature = "jetstream")]
            Self::Stream { limit, .. } => *limit,
            Self::Logs { parts, .. } => parts.iter().map(Self::limit).max().unwrap_or(0),
            Self::Lines { .. } => Position::MAX,
        }
    }

    fn part(location: &'a str, limit: Position) -> Result<Self, OpenError> {
        #[cfg(feature = "jetstream")]
        if any::is_address(location) {
            return Self::stream(location, limit);
        }
        Ok(Self::Log { dir: any::folder(location)?, limit })
    }
}

/// Position of the first record of the log at `location`.
///
/// # Errors
/// [`OpenError`] when there is no log.
pub fn first(location: &str) -> Result<Position, OpenError> {
    let location = any::places(location).first().copied().unwrap_or(location);
    #[cfg(feature = "jetstream")]
    if any::is_address(location) {
        return stream::first(super::jetstream::Options::from_environment(location)?);
    }
    let dir = any::folder(location)?;
    let no_segment =
        || segments::not_a_log(dir, "it has no segment (a file like 00000000000000000001.jsonl)");
    segments::list(dir)?.first().copied().ok_or_else(|| no_segment().into())
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines, also those that are no events.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of a log: the tree of all its records up to the last that was read.
    pub tree: Option<Frontier>,
    /// Bytes of the half line at the end of a log, which does not count.
    pub torn_bytes: usize,
}

/// Batches that may wait: A may run ahead of the caller by a few, so that neither waits for the other's hiccups.
const QUEUE: usize = 4;

/// Reads everything and hands it to `each` in order.
///
/// # Errors
/// [`OpenError`] for what cannot be read or is not what was written, or the error of `each`, which ends the
/// reading. Loose lines that are no events are no error: the batch has the reason.
pub fn read<E: From<OpenError>>(
    source: Source<'_>,
    mut each: impl FnMut(&Batch) -> Result<(), E>,
) -> Result<Summary, E> {
    let (filled, batches) = mpsc::sync_channel(QUEUE);
    let (empty, spares) = mpsc::channel();
    std::thread::scope(|scope| {
        let producer = scope.spawn(move || produce(source, None, &filled, &spares));
        // Owned here: when `each` fails it is dropped, and the producer stops at its next batch.
        let batches: Receiver<Batch> = batches;
        for batch in batches {
            each(&batch)?;
            // A producer that has ended wants no more of them.
            let _ = empty.send(batch);
        }
        producer.join().unwrap_or_else(|_| Err(panicked())).map_err(E::from)
    })
}

/// Reads a source; of a log `before` is the tree that it must continue.
fn produce(
    source: Source<'_>,
    before: Option<&Frontier>,
    filled: &SyncSender<Batch>,
    spares: &Receiver<Batch>,
) -> Result<Summary, OpenError> {
    match source {
        Source::Log { dir, limit } => read_log(dir, limit, before, filled, spares),
        #[cfg(feature = "jetstream")]
        Source::Stream { options, limit } => {
            stream::read_stream(*options, limit, before, filled, spares)
        }
        Source::Lines { name, input } => read_lines(name, input, filled, spares),
        Source::Logs { parts, whole } => {
            let mut all = Summary { tree: whole.then(Frontier::default), ..Summary::default() };
            for part in parts {
                if all.tree.as_ref().is_some_and(|tree| tree.position() >= part.limit()) {
                    break;
                }
                let read = produce(part, all.tree.as_ref(), filled, spares)?;
                all.lines = all.lines.saturating_add(read.lines);
                all.bytes = all.bytes.saturating_add(read.bytes);
                (all.tree, all.torn_bytes) = (read.tree, read.torn_bytes);
                if all.tree.is_none() {
                    // Whoever reads had enough.
                    break;
                }
            }
            Ok(all)
        }
    }
}

/// A log continues the one before it, or begins a history. One that begins earlier, as a log does that was archived
/// while it goes on, must hold the very records up to the tree that is given back.
fn continues<'f>(
    base: &Frontier,
    before: Option<&'f Frontier>,
    place: &str,
) -> Result<Option<&'f Frontier>, OpenError> {
    let Some(before) = before.filter(|before| *before != base) else { return Ok(None) };
    if base.position() < before.position() {
        return Ok(Some(before));
    }
    let (location, base, reached) = (place.to_owned(), base.position(), before.position());
    match reached {
        0 => Err(OpenError::Continues { location, base }),
        _ => Err(OpenError::NotContinued { location, base, reached }),
    }
}

/// What two logs hold must be the same in both.
fn same(known: &Frontier, tree: &Frontier, place: &str) -> Result<(), OpenError> {
    if known == tree {
        return Ok(());
    }
    Err(OpenError::AnotherHistory { location: place.to_owned(), reached: known.position() })
}

fn panicked() -> OpenError {
    let source = std::io::Error::other("the reading thread panicked");
    OpenError::Io { path: PathBuf::new(), source }
}

/// Reads a log and proves every record.
fn read_log(
    dir: &Path,
    limit: Position,
    before: Option<&Frontier>,
    filled: &SyncSender<Batch>,
    spares: &Receiver<Batch>,
) -> Result<Summary, OpenError> {
    let roots = Roots::read(dir)?;
    let base = base(dir)?;
    let name = dir.display().to_string();
    let known = continues(&base.tree, before, &name)?;
    let mut reader = SegmentReader::open(dir, base.position().saturating_add(1))?;
    let mut proof = Proof { dir, roots: roots.entries(), chain: Chain::resume(base.tree) };
    let (mut summary, mut decoder) = (Summary::default(), Decoder::default());
    loop {
        // What the log before it holds as well is proved to be the same, and handed over once.
        let again = known.filter(|known| proof.chain.tree().position() < known.position());
        let Some(records) = reader.next(again.map_or(limit, Frontier::position))? else { break };
        let place = |position, why| {
            let (path, line) = reader.place(position);
            ReadError::Line { path, line, position, why }
        };
        if again.is_none() {
            summary.count(&records);
        }
        let mut batch = spares.try_recv().unwrap_or_default();
        let spare = batch.refill(records);
        batch.prove(&mut proof, &mut decoder).map_err(|failed| match failed {
            Failed::Line(position, why) => place(position, why).into(),
            Failed::Root(error) => error,
        })?;
        reader.recycle(spare);
        let tree = proof.chain.tree();
        match again {
            Some(known) if tree.position() == known.position() => same(known, tree, &name)?,
            None if filled.send(batch).is_err() => return Ok(summary),
            _ => {}
        }
    }
    let found = proof.chain.tree().position();
    let recorded = roots.last_position().min(limit);
    if found < recorded {
        return Err(OpenError::Truncated { path: dir.to_owned(), recorded, found });
    }
    if let Some(known) = known.filter(|known| found < known.position()) {
        same(known, proof.chain.tree(), &name)?;
    }
    // Behind a limit whole lines follow as well.
    summary.torn_bytes = if found < limit { reader.torn_bytes() } else { 0 };
    summary.tree = Some(proof.chain.tree().clone());
    Ok(summary)
}

/// Reads loose lines.
fn read_lines(
    name: &Path,
    input: Box<dyn Read + Send>,
    filled: &SyncSender<Batch>,
    spares: &Receiver<Batch>,
) -> Result<Summary, OpenError> {
    let mut reader = LineReader::new(name, input);
    let (mut summary, mut decoder) = (Summary::default(), Decoder::default());
    while let Some(records) = reader.next()? {
        summary.count(&records);
        let mut batch = spares.try_recv().unwrap_or_default();
        let spare = batch.refill(records);
        batch.scan(&mut decoder);
        if filled.send(batch).is_err() {
            return Ok(summary);
        }
        reader.recycle(spare);
    }
    Ok(summary)
}

impl Summary {
    fn count(&mut self, records: &Records) {
        self.lines = self.lines.saturating_add(records.len() as u64);
        self.bytes = self.bytes.saturating_add(records.bytes() as u64);
    }
}

/// The tree so far, and the recorded roots that are still ahead.
struct Proof<'a> {
    dir: &'a Path,
    roots: &'a [(Position, Hash)],
    chain: Chain,
}

/// What a proof found.
enum Failed {
    /// The record at this position.
    Line(Position, LineError),
    /// A root.
    Root(OpenError),
}

impl Proof<'_> {
    /// Compares with the line of `roots` at `position`, if there is one.
    fn check_root(&mut self, position: Position) -> Result<(), Failed> {
        let Some(((at, recorded), rest)) = self.roots.split_first() else { return Ok(()) };
        if *at > position {
            return Ok(());
        }
        self.roots = rest;
        let computed = self.chain.tree().root();
        if *recorded == computed {
            return Ok(());
        }
        let path = self.dir.join(super::file::roots::ROOTS_FILE);
        Err(Failed::Root(OpenError::RootDiffers { path, position, recorded: *recorded, computed }))
    }
}

#[cfg(test)]
mod tests;
