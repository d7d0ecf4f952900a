//! Segments of a file log: names, and reading them in order. Takes no lock and writes nothing.
//!
//! ```text
//! 00000000000000000001.jsonl   00000000000000004711.jsonl        named by the position of the first record
//! └── lines 1 to 4710 ───────┘ └── lines from 4711 on, growing ──▶ (half a line) ◀ not there yet
//! 00000000000000000001.jsonl.zst                                 the same lines in an archive, and none is added
//! ```

use crate::domain::event::Position;
use crate::event_log::{
    LineError, ReadError, Records,
    codec::{DecodeError, MAX_LINE_BYTES},
};
use memchr::memrchr;
use std::{
    fmt,
    fs::{self, File},
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
};

/// Bytes read at once: enough that system calls do not matter, little enough for the caches.
const CHUNK_BYTES: usize = 1 << 20;

/// Reads the lines of a folder of segments in order, to the end as it is now, and on when there is more.
#[derive(Debug)]
pub struct SegmentReader {
    dir: PathBuf,
    file: Bytes,
    /// Position of the first line of `file`.
    segment: Position,
    /// Position of the next line.
    next: Position,
    /// Lines before this one are read and not given.
    from: Position,
    /// What was read behind the last line break.
    rest: Vec<u8>,
    /// A buffer to read into.
    spare: Vec<u8>,
}

/// A segment's bytes as they were written, whether it is compressed or not.
pub struct Bytes(Box<dyn Read + Send + Sync>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bytes")
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Bytes {
    /// Opens the segment that begins at `first`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn open(dir: &Path, first: Position) -> io::Result<Self> {
        let file = File::open(path(dir, first))?;
        if is_packed(dir, first) {
            return Ok(Self(Box::new(zstd::stream::read::Decoder::new(file)?)));
        }
        Ok(Self(Box::new(file)))
    }
}

/// File name of the segment that begins at `first`.
#[must_use]
pub fn name(first: Position) -> String {
    format!("{first:020}.jsonl")
}

/// File name of the compressed segment that begins at `first`.
#[must_use]
pub fn packed_name(first: Position) -> String {
    format!("{first:020}.jsonl.zst")
}

/// Whether the segment that begins at `first` is compressed: it is part of an archive, and complete.
#[must_use]
pub fn is_packed(dir: &Path, first: Position) -> bool {
    dir.join(packed_name(first)).exists()
}

/// The file of the segment that begins at `first`.
#[must_use]
pub fn path(dir: &Path, first: Position) -> PathBuf {
    dir.join(if is_packed(dir, first) { packed_name(first) } else { name(first) })
}

/// First positions of the segments in `dir`, ascending.
///
/// # Errors
/// [`ReadError`] when it is no folder or cannot be read.
pub fn list(dir: &Path) -> Result<Vec<Position>, ReadError> {
    let io = |source| ReadError::Io { path: dir.to_owned(), source };
    let entries = fs::read_dir(dir).map_err(|error| match error.kind() {
        ErrorKind::NotFound => not_a_log(dir, "there is no such folder"),
        ErrorKind::NotADirectory => not_a_log(dir, "it is a file; a log is a folder"),
        _ => io(error),
    })?;
    let mut firsts = Vec::new();
    for entry in entries {
        firsts.extend(entry.map_err(io)?.file_name().to_str().and_then(first_of));
    }
    firsts.sort_unstable();
    firsts.dedup();
    Ok(firsts)
}

/// The position that a segment's file name says.
fn first_of(name: &str) -> Option<Position> {
    let name = name.strip_suffix(".zst").unwrap_or(name);
    let digits = name.strip_suffix(".jsonl").filter(|digits| digits.len() == 20)?;
    digits.parse().ok().filter(|first| *first > 0)
}

pub(in crate::event_log) fn not_a_log(path: &Path, why: &str) -> ReadError {
    ReadError::NotALog { path: path.to_owned(), why: why.to_owned() }
}

impl SegmentReader {
    /// Reads from the record at `from` on, which need not be there yet.
    ///
    /// # Errors
    /// [`ReadError`] when there are no segments or the log begins behind `from`.
    pub fn open(dir: &Path, from: Position) -> Result<Self, ReadError> {
        let from = from.max(1);
        let segments = list(dir)?;
        let Some(first) = segments.first().copied() else {
            return Err(not_a_log(
                dir,
                "it has no segment (a file like 00000000000000000001.jsonl)",
            ));
        };
        let Some(segment) = segments.into_iter().take_while(|s| *s <= from).last() else {
            let to = first.saturating_sub(1);
            return Err(ReadError::Missing { path: dir.to_owned(), from, to });
        };
        let file = open_segment(dir, segment)?;
        let (rest, spare) = Default::default();
        Ok(Self { dir: dir.to_owned(), file, segment, next: segment, from, rest, spare })
    }

    /// The next records, at most to position `limit`; `None` at the end as it is now.
    ///
    /// # Errors
    /// [`ReadError`] for what cannot be read, a line without end, or records that are missing in between.
    pub fn next(&mut self, limit: Position) -> Result<Option<Records>, ReadError> {
        let mut looked_again = false;
        while self.next <= limit {
            let read = self.fill()?;
            if let Some(records) = self.cut_lines(limit) {
                let before = self.from.saturating_sub(records.first());
                let records = records.skip(before);
                if !records.is_empty() {
                    return Ok(Some(records));
                }
            } else if self.rest.len() > MAX_LINE_BYTES {
                return Err(self.line_error(DecodeError::TooLong { bytes: self.rest.len() }.into()));
            } else if read > 0 {
                looked_again = false;
            } else if !self.roll()? {
                match self.later_segment()? {
                    None => return Ok(None),
                    // The writer may have gone on and rolled over between two looks: look once more.
                    Some(_) if !looked_again => looked_again = true,
                    Some(later) => return Err(self.gap(later)),
                }
            }
        }
        Ok(None)
    }

    /// Takes a buffer back, to spare the allocator the next megabyte.
    pub fn recycle(&mut self, spare: Vec<u8>) {
        self.spare = spare;
    }

    /// Position of the next line.
    #[must_use]
    pub const fn next_position(&self) -> Position {
        self.next
    }

    /// Bytes behind the last line break: half a line, at the end of the log.
    #[must_use]
    pub const fn torn_bytes(&self) -> usize {
        self.rest.len()
    }

    /// First position of the segment that is being read.
    #[must_use]
    pub const fn segment(&self) -> Position {
        self.segment
    }

    /// The file and the line in it, from 1, of a position of the segment that is being read.
    #[must_use]
    pub fn place(&self, position: Position) -> (PathBuf, u64) {
        let line = position.saturating_sub(self.segment).saturating_add(1);
        (path(&self.dir, self.segment), line)
    }

    /// Reads up to a chunk behind `rest`; says how much.
    fn fill(&mut self) -> Result<usize, ReadError> {
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.clear();
        bytes.reserve(CHUNK_BYTES.saturating_add(self.rest.len()));
        bytes.append(&mut self.rest);
        let read = (&mut self.file).take(CHUNK_BYTES as u64).read_to_end(&mut bytes);
        self.rest = bytes;
        read.map_err(|source| self.unreadable(source))
    }

    /// Compressed data that is damaged: the record from which on nothing can be read.
    fn unreadable(&self, source: io::Error) -> ReadError {
        let path = path(&self.dir, self.segment);
        if source.raw_os_error().is_some() || !is_packed(&self.dir, self.segment) {
            return ReadError::Io { path, source };
        }
        let lines = memchr::memchr_iter(b'\n', &self.rest).count() as u64;
        ReadError::Damaged { path, position: self.next.saturating_add(lines), source }
    }

    /// Takes the whole lines out of `rest`, at most to `limit`.
    fn cut_lines(&mut self, limit: Position) -> Option<Records> {
        let end = memrchr(b'\n', &self.rest)?.saturating_add(1);
        let mut bytes = std::mem::take(&mut self.rest);
        self.rest = bytes.split_off(end);
        let mut records = Records::from_lines(self.next, bytes);
        let over = records.next_position().saturating_sub(1).saturating_sub(limit);
        if over > 0 {
            let within = (records.len() as u64).saturating_sub(over);
            let (kept, back) = records.split(within);
            records = kept;
            self.rest = [back, std::mem::take(&mut self.rest)].concat();
        }
        self.next = records.next_position();
        Some(records)
    }

    /// Goes on with the segment that begins at the next position, if there is one.
    fn roll(&mut self) -> Result<bool, ReadError> {
        if self.next == self.segment || !path(&self.dir, self.next).exists() {
            return Ok(false);
        }
        if !self.rest.is_empty() {
            return Err(self.line_error(LineError::Torn));
        }
        if let Some(other) = self.later_segment()?.filter(|first| *first < self.next) {
            return Err(self.gap(other));
        }
        self.file = open_segment(&self.dir, self.next)?;
        self.segment = self.next;
        Ok(true)
    }

    /// A segment behind this one that does not begin where this one ends.
    fn later_segment(&self) -> Result<Option<Position>, ReadError> {
        Ok(list(&self.dir)?.into_iter().find(|first| *first > self.segment))
    }

    fn gap(&self, later: Position) -> ReadError {
        let path = self.dir.clone();
        if later < self.next {
            return ReadError::Overlap {
                path,
                segment: later,
                reached: self.next.saturating_sub(1),
            };
        }
        if self.rest.is_empty() {
            ReadError::Missing { path, from: self.next, to: later.saturating_sub(1) }
        } else {
            self.line_error(LineError::Torn)
        }
    }

    fn line_error(&self, why: LineError) -> ReadError {
        let (path, line) = self.place(self.next);
        ReadError::Line { path, line, position: self.next, why }
    }
}

fn open_segment(dir: &Path, first: Position) -> Result<Bytes, ReadError> {
    Bytes::open(dir, first).map_err(|source| ReadError::Io { path: path(dir, first), source })
}
