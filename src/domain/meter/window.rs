//! The part of time that is metered.

use crate::domain::{event::Period, pod::Segment, time::Timestamp};
use serde::{Deserialize, Serialize};

/// The part of time that is metered; everything outside is cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// First instant inside; `None`: from the beginning.
    pub from: Option<Timestamp>,
    /// First instant after it; what runs then counts as running. `None`: to the end.
    pub to: Option<Timestamp>,
}

impl Window {
    /// The part of `segment` inside the window. What runs at its end counts as running.
    #[must_use]
    pub fn cut(self, segment: Segment) -> Option<Segment> {
        let mut cut = segment;
        if self.from.is_none() && self.to.is_none() {
            return Some(cut);
        }
        if let Some(to) = self.to {
            if cut.from > to {
                return None;
            }
            cut.to = cut.to.filter(|t| *t <= to);
        }
        cut.uncertain = cut.uncertain.and_then(|doubt| {
            let from = self.from.map_or(doubt.from, |from| doubt.from.max(from));
            let to = self.to.map_or(doubt.to, |to| doubt.to.min(to));
            (from < to).then_some(Period { from, to })
        });
        if let Some(from) = self.from {
            if cut.to.is_some_and(|to| to <= from) {
                cut.uncertain?;
                cut.to = Some(from);
            }
            cut.from = cut.from.max(from);
        }
        Some(cut)
    }
}
