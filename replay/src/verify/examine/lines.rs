//! The lines of all segments of a folder one after another, whatever they say. Memory is one line.

use crate::reading::Log;
use bizrq::{
    cli::Error,
    domain::event::{Kind, Position},
    event_log::{
        codec::{MAX_LINE_BYTES, scan},
        file::segments,
    },
};
use std::{
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    vec::IntoIter,
};

/// Reads lines.
pub(super) struct Lines<'l> {
    log: &'l Log,
    dir: &'l Path,
    segments: IntoIter<Position>,
    current: Option<Segment>,
}

struct Segment {
    first: Position,
    path: PathBuf,
    packed: bool,
    file: BufReader<segments::Bytes>,
    line: u64,
}

/// What comes next.
pub(super) enum Next {
    Line(Line),
    /// The rest of a compressed segment, which cannot be unpacked.
    Damaged(Damaged),
}

/// One line, without its line break.
pub(super) struct Line {
    pub(super) file: PathBuf,
    /// From 1.
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
    /// The position that the file's name and the line's number say.
    pub(super) hint: Position,
    first_of_segment: Position,
}

/// A compressed segment that cannot be unpacked to its end.
pub(super) struct Damaged {
    pub(super) file: PathBuf,
    /// Its first record.
    pub(super) first: Position,
    /// Its last, if another segment follows.
    pub(super) last: Option<Position>,
    pub(super) why: String,
}

impl<'l> Lines<'l> {
    pub(super) fn open(log: &'l Log, dir: &'l Path) -> Result<Self, Error> {
        let segments = segments::list(dir).map_err(|e| Error::log(&log.place, e))?;
        Ok(Self { log, dir, segments: segments.into_iter(), current: None })
    }

    /// The next line. Half a line at the end of the log is none: it was never acknowledged.
    pub(super) fn next(&mut self) -> Result<Option<Next>, Error> {
        loop {
            let segment = match &mut self.current {
                Some(segment) => segment,
                None => match self.segments.next() {
                    Some(first) => {
                        let segment = Segment::open(self.dir, first);
                        let failed = |e| self.failed(&segments::path(self.dir, first), &e);
                        self.current.insert(segment.map_err(failed)?)
                    }
                    None => return Ok(None),
                },
            };
            let mut bytes = Vec::new();
            // One byte more than a line may have tells that it is too long.
            let most = MAX_LINE_BYTES.saturating_add(2) as u64;
            if let Err(error) = (&mut segment.file).take(most).read_until(b'\n', &mut bytes) {
                return self.pass(&error).map(Some);
            }
            let whole = bytes.last() == Some(&b'\n');
            if bytes.is_empty()
                || (!whole && self.segments.as_slice().is_empty() && (bytes.len() as u64) < most)
            {
                self.current = None;
                continue;
            }
            if whole {
                bytes.pop();
            }
            segment.line = segment.line.saturating_add(1);
            return Ok(Some(Next::Line(Line {
                file: segment.path.clone(),
                number: segment.line,
                bytes,
                hint: segment.first.saturating_add(segment.line).saturating_sub(1),
                first_of_segment: segment.first,
            })));
        }
    }

    /// Goes on behind a segment that cannot be read any further, if it is the compression that is at fault.
    fn pass(&mut self, error: &io::Error) -> Result<Next, Error> {
        let damaged = |segment: &Segment| segment.packed && error.raw_os_error().is_none();
        match self.current.take() {
            Some(segment) if damaged(&segment) => {
                let last = self.segments.as_slice().first().map(|next| next.saturating_sub(1));
                let Segment { first, path: file, .. } = segment;
                Ok(Next::Damaged(Damaged { file, first, last, why: error.to_string() }))
            }
            segment => {
                let path = segment.map_or_else(|| self.dir.to_owned(), |segment| segment.path);
                Err(self.failed(&path, error))
            }
        }
    }

    fn failed(&self, path: &Path, error: &io::Error) -> Error {
        Error::log(&self.log.place, format!("{}: {error}", path.display()))
    }
}

impl Segment {
    fn open(dir: &Path, first: Position) -> io::Result<Self> {
        let file = BufReader::with_capacity(1 << 20, segments::Bytes::open(dir, first)?);
        let (path, packed) = (segments::path(dir, first), segments::is_packed(dir, first));
        Ok(Self { first, path, packed, file, line: 0 })
    }
}

impl Line {
    /// Whether it is the `log.opened` that a log begins with which continues another.
    pub(super) fn begins_continued_log(&self) -> bool {
        let opens =
            || scan(&self.bytes).is_ok_and(|s| *s.type_name == *Kind::LogOpened.type_name());
        self.number == 1 && self.first_of_segment > 1 && opens()
    }
}
