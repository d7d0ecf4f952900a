//! The lines of all segments one after another, whatever they say. Memory is one line.

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
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    vec::IntoIter,
};

/// Reads lines.
pub(super) struct Lines<'l> {
    log: &'l Log,
    segments: IntoIter<Position>,
    current: Option<Segment>,
}

struct Segment {
    first: Position,
    path: PathBuf,
    file: BufReader<segments::Bytes>,
    line: u64,
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

impl<'l> Lines<'l> {
    pub(super) fn open(log: &'l Log) -> Result<Self, Error> {
        let segments = segments::list(&log.dir).map_err(|e| Error::log(&log.place, e))?;
        Ok(Self { log, segments: segments.into_iter(), current: None })
    }

    /// The next line. Half a line at the end of the log is none: it was never acknowledged.
    pub(super) fn next(&mut self) -> Result<Option<Line>, Error> {
        loop {
            let segment = match &mut self.current {
                Some(segment) => segment,
                None => match self.segments.next() {
                    Some(first) => self.current.insert(Segment::open(self.log, first)?),
                    None => return Ok(None),
                },
            };
            let mut bytes = Vec::new();
            // One byte more than a line may have tells that it is too long.
            let most = MAX_LINE_BYTES.saturating_add(2) as u64;
            let read = (&mut segment.file).take(most).read_until(b'\n', &mut bytes);
            read.map_err(|e| {
                Error::log(&self.log.place, format!("{}: {e}", segment.path.display()))
            })?;
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
            return Ok(Some(Line {
                file: segment.path.clone(),
                number: segment.line,
                bytes,
                hint: segment.first.saturating_add(segment.line).saturating_sub(1),
                first_of_segment: segment.first,
            }));
        }
    }
}

impl Segment {
    fn open(log: &Log, first: Position) -> Result<Self, Error> {
        let path = segments::path(&log.dir, first);
        let file = segments::Bytes::open(&log.dir, first)
            .map_err(|e| Error::log(&log.place, format!("{}: {e}", path.display())))?;
        Ok(Self { first, path, file: BufReader::with_capacity(1 << 20, file), line: 0 })
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
