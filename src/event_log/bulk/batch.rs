//! A batch of scanned lines: the text in one piece and where the parts of each line are, so that it can move
//! between threads and still be borrowed from.

use super::{Failed, Proof};
use crate::domain::event::Position;
use crate::event_log::{
    codec::{DecodeError, Scanned, scan, scan_text},
    records::Records,
};
use std::ops::Range;

/// Consecutive lines, scanned.
#[derive(Debug, Default)]
pub struct Batch {
    first: Position,
    bytes: usize,
    text: String,
    lines: Vec<Line>,
}

/// One line of the text.
#[derive(Debug)]
enum Line {
    /// Parts of the text: id, type, source, subject, time, recordedat, data.
    Parts([Part; 7]),
    /// An event in another spelling than bizrq's: scanned again by who wants it.
    Whole(Part),
    /// No event.
    Bad(DecodeError),
}

/// A range of the text; a batch is far below 4 GiB.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u32,
    len: u32,
}

impl Batch {
    /// A batch of lines that are not yet scanned.
    pub(super) fn new(records: Records) -> Self {
        let (first, bytes, count) = (records.first(), records.bytes(), records.len());
        let mut batch =
            Self { first, bytes, text: String::new(), lines: Vec::with_capacity(count) };
        let (bytes_of_lines, ends) = records.into_parts();
        match String::from_utf8(bytes_of_lines) {
            Ok(text) => batch.text = text,
            Err(error) => {
                let bytes = error.into_bytes();
                batch.repair(&bytes, &ends);
                return batch;
            }
        }
        let mut start = 0;
        for end in ends {
            batch.lines.push(Line::Whole(Part::new(start..end.saturating_sub(1))));
            start = end;
        }
        batch
    }

    /// Keeps the lines that are UTF-8; rare, so it may copy.
    fn repair(&mut self, bytes: &[u8], ends: &[usize]) {
        let mut start = 0;
        for end in ends {
            let line = bytes.get(start..end.saturating_sub(1)).unwrap_or_default();
            start = *end;
            match std::str::from_utf8(line) {
                Ok(line) => {
                    let from = self.text.len();
                    self.text.push_str(line);
                    self.lines.push(Line::Whole(Part::new(from..self.text.len())));
                }
                Err(error) => {
                    self.lines.push(Line::Bad(DecodeError::NotUtf8 { at: error.valid_up_to() }));
                }
            }
        }
    }

    /// Scans every line.
    pub(super) fn scan(&mut self) {
        let text = &self.text;
        for line in &mut self.lines {
            if let Line::Whole(part) = line {
                match scan_text(part.of(text)) {
                    Ok(scanned) => *line = Line::of(&scanned, *part, text),
                    Err(error) => *line = Line::Bad(error),
                }
            }
        }
    }

    /// Scans every line of a log and adds it to the proof.
    pub(super) fn prove(&mut self, proof: &mut Proof<'_>) -> Result<(), Failed> {
        let text = &self.text;
        for (position, line) in (self.first..).zip(&mut self.lines) {
            let failed = |why| Failed::Line(position, why);
            let part = match line {
                Line::Whole(part) => *part,
                Line::Bad(error) => return Err(failed(error.clone().into())),
                Line::Parts(_) => continue,
            };
            let scanned = scan_text(part.of(text)).map_err(|error| failed(error.into()))?;
            proof.chain.push(&scanned).map_err(|error| failed(error.into()))?;
            proof.check_root(position)?;
            *line = Line::of(&scanned, part, text);
        }
        Ok(())
    }

    /// Position of the first line: in the log, or the line number of a file.
    #[must_use]
    pub const fn first(&self) -> Position {
        self.first
    }

    /// How many lines.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Bytes that were read, for a progress bar.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Position (or line number) and attributes of each line, or why it is no event.
    pub fn iter(&self) -> impl Iterator<Item = (Position, Result<Scanned<'_>, DecodeError>)> {
        (self.first..).zip(self.lines.iter().map(|line| match line {
            Line::Parts([id, type_name, source, subject, time, recorded_at, data]) => {
                let part = |part: &Part| part.of(&self.text).into();
                Ok(Scanned {
                    id: part(id),
                    type_name: part(type_name),
                    source: part(source),
                    subject: part(subject),
                    time: part(time),
                    recorded_at: part(recorded_at),
                    data: data.of(&self.text),
                    leaf: None,
                })
            }
            Line::Whole(part) => scan(part.of(&self.text).as_bytes()),
            Line::Bad(error) => Err(error.clone()),
        }))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }
}

impl Line {
    /// Notes where the parts are, if all of them are parts of the text as it stands.
    fn of(scanned: &Scanned<'_>, line: Part, text: &str) -> Self {
        let attributes = [
            &scanned.id,
            &scanned.type_name,
            &scanned.source,
            &scanned.subject,
            &scanned.time,
            &scanned.recorded_at,
        ];
        let mut parts = [line; 7];
        let strings = attributes.into_iter().map(|a| a.as_str()).chain([scanned.data]);
        for (part, string) in parts.iter_mut().zip(strings) {
            let Some(range) = range_of(text, string) else {
                return Self::Whole(line);
            };
            *part = Part::new(range);
        }
        Self::Parts(parts)
    }
}

/// Where a string that was borrowed from `text` lies in it; `None` for one that was not.
fn range_of(text: &str, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (end <= text.len()).then_some(start..end)
}

impl Part {
    /// A range that does not fit is empty, and an empty line is no event.
    fn new(range: Range<usize>) -> Self {
        let fit = |n: usize| u32::try_from(n).ok();
        let parts = fit(range.start).zip(fit(range.len()));
        let (start, len) = parts.unwrap_or_default();
        Self { start, len }
    }

    fn of(self, text: &str) -> &str {
        let start = self.start as usize;
        text.get(start..start.saturating_add(self.len as usize)).unwrap_or_default()
    }
}
