//! Raw records as a reader hands them out: lines in one buffer, with their positions.

use crate::domain::event::Position;

/// Consecutive records: position and line (without the line break) of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    first: Position,
    bytes: Vec<u8>,
    /// Where each line ends, its line break included.
    ends: Vec<usize>,
}

impl Records {
    /// Cuts whole lines, each with its line break, into records from `first` on.
    #[must_use]
    pub fn from_lines(first: Position, bytes: Vec<u8>) -> Self {
        let ends = memchr::memchr_iter(b'\n', &bytes).map(|at| at.saturating_add(1)).collect();
        Self { first, bytes, ends }
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
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all lines with their line breaks.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Position and line of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Position, &[u8])> {
        let mut start = 0;
        (self.first..).zip(self.ends.iter().map(move |end| {
            let line = self.bytes.get(start..end.saturating_sub(1)).unwrap_or_default();
            start = *end;
            line
        }))
    }

    /// Forgets the first `count` records and gives the rest.
    #[must_use]
    pub fn skip(mut self, count: u64) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.len());
        let Some(last) = count.checked_sub(1) else { return self };
        let cut = self.ends.get(last).copied().unwrap_or(self.bytes.len());
        self.bytes.drain(..cut);
        self.ends.drain(..count);
        self.ends.iter_mut().for_each(|end| *end = end.saturating_sub(cut));
        self.first = self.first.saturating_add(count as u64);
        self
    }

    /// The first `count` records, and the bytes of the others.
    pub(super) fn split(mut self, count: u64) -> (Self, Vec<u8>) {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.len());
        let cut = count.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
        self.ends.truncate(count);
        let others = self.bytes.split_off(cut);
        (self, others)
    }

    /// The lines, and where each of them ends, its line break included.
    pub(super) fn into_parts(self) -> (Vec<u8>, Vec<usize>) {
        (self.bytes, self.ends)
    }

    /// Gives back the buffer, to be filled again.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_positions_and_the_first_can_be_skipped() {
        let records = Records::from_lines(7, b"a\n\nccc\n".to_vec());
        let all: Vec<_> = records.iter().collect();
        assert_eq!(all, [(7, &b"a"[..]), (8, b""), (9, b"ccc")]);
        assert_eq!(records.next_position(), 10);
        let rest = records.clone().skip(2);
        assert_eq!(rest.iter().collect::<Vec<_>>(), [(9, &b"ccc"[..])]);
        assert_eq!(records.clone().skip(0), records);
        let (first, others) = records.clone().split(2);
        assert_eq!(first.iter().collect::<Vec<_>>(), [(7, &b"a"[..]), (8, b"")]);
        assert_eq!(others, b"ccc\n");
        assert!(records.skip(9).is_empty());
    }
}
