//! Raw records as a reader hands them out, with their positions: lines in one buffer, or the parts of messages.

use super::codec::{DecodeError, Scanned, scan};
use crate::domain::event::Position;

/// Consecutive records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records {
    first: Position,
    cut: Cut,
}

/// One record, as its log keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
// Messages are read by the million; a box each would be an allocation each.
#[allow(clippy::large_enum_variant)]
pub enum Raw<'a> {
    /// A line, without its line break.
    Line(&'a [u8]),
    /// Attributes and data, which came apart.
    Parts(Scanned<'a>),
}

/// The records, and where each of them is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cut {
    /// Where each line ends, its line break included.
    Lines { bytes: Vec<u8>, ends: Vec<usize> },
    /// Where each part of each message ends.
    Messages { text: String, ends: Vec<[usize; PARTS]> },
}

/// Of a message: id, type, source, subject, time, recordedat, data.
const PARTS: usize = 7;

impl Records {
    /// Cuts whole lines, each with its line break, into records from `first` on.
    #[must_use]
    pub fn from_lines(first: Position, bytes: Vec<u8>) -> Self {
        let ends = memchr::memchr_iter(b'\n', &bytes).map(|at| at.saturating_add(1)).collect();
        Self { first, cut: Cut::Lines { bytes, ends } }
    }

    /// No messages yet; the first will be at `first`.
    #[must_use]
    pub const fn of_messages(first: Position) -> Self {
        Self { first, cut: Cut::Messages { text: String::new(), ends: Vec::new() } }
    }

    /// Adds a message: `parts` appends its parts to the text and says where each ends.
    pub fn push(&mut self, parts: impl FnOnce(&mut String) -> [usize; PARTS]) {
        if let Cut::Messages { text, ends } = &mut self.cut {
            ends.push(parts(text));
        }
    }

    /// Position of the first record.
    #[must_use]
    pub const fn first(&self) -> Position {
        self.first
    }

    /// Position behind the last record.
    #[must_use]
    pub fn next_position(&self) -> Position {
        self.first.saturating_add(self.len() as u64)
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        match &self.cut {
            Cut::Lines { ends, .. } => ends.len(),
            Cut::Messages { ends, .. } => ends.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all records: lines with their line breaks, or attributes and data.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        match &self.cut {
            Cut::Lines { bytes, .. } => bytes.len(),
            Cut::Messages { text, .. } => text.len(),
        }
    }

    /// Position and record of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Position, Raw<'_>)> {
        (self.first..).zip((0..self.len()).filter_map(|at| self.get(at)))
    }

    /// The last one.
    #[must_use]
    pub fn last(&self) -> Option<(Position, Raw<'_>)> {
        let at = self.len().checked_sub(1)?;
        Some((self.first.saturating_add(at as u64), self.get(at)?))
    }

    fn get(&self, at: usize) -> Option<Raw<'_>> {
        let before = at.checked_sub(1);
        match &self.cut {
            Cut::Lines { bytes, ends } => {
                let start = before.and_then(|before| ends.get(before)).copied().unwrap_or(0);
                let end = ends.get(at)?.saturating_sub(1);
                Some(Raw::Line(bytes.get(start..end)?))
            }
            Cut::Messages { text, ends } => {
                let mut start = before.and_then(|b| ends.get(b)?.last()).copied().unwrap_or(0);
                let [id, type_name, source, subject, time, recorded_at, data] =
                    ends.get(at)?.map(|end| {
                        let part = text.get(start..end).unwrap_or_default();
                        start = end;
                        part
                    });
                Some(Raw::Parts(Scanned {
                    id: id.into(),
                    type_name: type_name.into(),
                    source: source.into(),
                    subject: subject.into(),
                    time: time.into(),
                    recorded_at: recorded_at.into(),
                    data,
                    leaf: None,
                }))
            }
        }
    }

    /// Forgets the first `count` lines and gives the rest.
    #[must_use]
    pub(super) fn skip(mut self, count: u64) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.len());
        if let (Cut::Lines { bytes, ends }, Some(last)) = (&mut self.cut, count.checked_sub(1)) {
            let cut = ends.get(last).copied().unwrap_or(bytes.len());
            bytes.drain(..cut);
            ends.drain(..count);
            ends.iter_mut().for_each(|end| *end = end.saturating_sub(cut));
            self.first = self.first.saturating_add(count as u64);
        }
        self
    }

    /// The first `count` lines, and the bytes of the others.
    pub(super) fn split(mut self, count: u64) -> (Self, Vec<u8>) {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.len());
        let Cut::Lines { bytes, ends } = &mut self.cut else { return (self, Vec::new()) };
        let cut = count.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or(0);
        ends.truncate(count);
        let others = bytes.split_off(cut);
        (self, others)
    }

    /// The lines, and where each of them ends, its line break included; messages have none.
    pub(super) fn into_lines(self) -> (Vec<u8>, Vec<usize>) {
        match self.cut {
            Cut::Lines { bytes, ends } => (bytes, ends),
            Cut::Messages { .. } => Default::default(),
        }
    }

    /// The text of messages, and where each part of each of them ends; lines have none.
    pub(super) fn into_messages(self) -> (String, Vec<[usize; PARTS]>) {
        match self.cut {
            Cut::Messages { text, ends } => (text, ends),
            Cut::Lines { .. } => Default::default(),
        }
    }

    /// Gives back the buffer, to be filled again.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        match self.cut {
            Cut::Lines { bytes, .. } => bytes,
            Cut::Messages { text, .. } => text.into_bytes(),
        }
    }
}

impl<'a> Raw<'a> {
    /// Its attributes and its data, not yet decoded.
    ///
    /// # Errors
    /// [`DecodeError`] when a line is no event; what came apart is taken as it is.
    pub fn scan(self) -> Result<Scanned<'a>, DecodeError> {
        match self {
            Self::Line(line) => scan(line),
            Self::Parts(scanned) => Ok(scanned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(records: &Records) -> Vec<(Position, &[u8])> {
        let line = |(position, raw)| match raw {
            Raw::Line(line) => (position, line),
            Raw::Parts(_) => panic!("a line"),
        };
        records.iter().map(line).collect()
    }

    #[test]
    fn lines_have_their_positions_and_the_first_can_be_skipped() {
        let records = Records::from_lines(7, b"a\n\nccc\n".to_vec());
        assert_eq!(lines(&records), [(7, &b"a"[..]), (8, b""), (9, b"ccc")]);
        assert_eq!(records.next_position(), 10);
        assert_eq!(lines(&records.clone().skip(2)), [(9, &b"ccc"[..])]);
        assert_eq!(records.clone().skip(0), records);
        let (first, others) = records.clone().split(2);
        assert_eq!(lines(&first), [(7, &b"a"[..]), (8, b"")]);
        assert_eq!(others, b"ccc\n");
        assert!(records.skip(9).is_empty());
    }

    #[test]
    fn messages_have_their_positions_and_parts() {
        let mut records = Records::of_messages(3);
        for n in ["1", "2"] {
            let parts = ["id", "", "source", "", "t", "r", "{}"];
            records.push(|text| {
                parts.map(|part| {
                    text.extend([part, n]);
                    text.len()
                })
            });
        }
        assert_eq!((records.len(), records.next_position()), (2, 5));
        let (position, raw) = records.iter().nth(1).unwrap();
        let scanned = raw.scan().unwrap();
        assert_eq!((position, &*scanned.id, &*scanned.type_name), (4, "id2", "2"));
        assert_eq!((&*scanned.source, scanned.data), ("source2", "{}2"));
    }
}
