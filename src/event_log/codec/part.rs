//! A piece of a text by its place: it moves between threads beside the text, where a borrowed piece cannot.

use std::ops::Range;

/// A range of a text; a batch of lines is far below 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::event_log) struct Part {
    start: u32,
    len: u32,
}

impl Part {
    /// A range that does not fit is empty, and an empty line is no event.
    pub(in crate::event_log) fn new(range: Range<usize>) -> Self {
        let fit = |n: usize| u32::try_from(n).ok();
        let parts = fit(range.start).zip(fit(range.len()));
        let (start, len) = parts.unwrap_or_default();
        Self { start, len }
    }

    /// Where a piece that was borrowed from `text` lies in it; `None` for one that was not.
    pub(in crate::event_log) fn within(text: &str, piece: &str) -> Option<Self> {
        let start = (piece.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        let end = start.checked_add(piece.len())?;
        (end <= text.len()).then(|| Self::new(start..end))
    }

    /// The piece.
    pub(in crate::event_log) fn of(self, text: &str) -> &str {
        let start = self.start();
        text.get(start..start.saturating_add(self.len as usize)).unwrap_or_default()
    }

    /// Bytes before it.
    pub(in crate::event_log) const fn start(self) -> usize {
        self.start as usize
    }
}
