//! How far back each source of facts can still be believed.
//!
//! An observer's heartbeats add up to the time in which nothing was missed. What ended more than 35 such days
//! ago is forgotten; an observation of something unknown that lies further back than that is a repetition of what was
//! forgotten. A source without heartbeats (imports) is remembered for ever.

use super::{names::ClusterId, table::Table, time::Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// 35 days, in milliseconds.
const REMEMBERED_MS: i64 = 35 * 24 * 3_600_000;
/// Marks are an hour apart: the horizon lies up to an hour further back than it must.
const MARK_MS: i64 = 3_600_000;

/// Heartbeats of every source.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub(super) table: Table<Source, 1>,
}

/// Heartbeats of one source.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Source {
    last: Option<Timestamp>,
    /// Milliseconds in which nothing was missed.
    watched: i64,
    /// `(watched, instant)` at heartbeats, oldest first; the first is the horizon or newer.
    marks: VecDeque<(i64, Timestamp)>,
    horizon: Option<Timestamp>,
}

impl Sources {
    /// Takes a heartbeat at `time`: nothing was missed since `since`. Returns whether the horizon moved.
    pub fn synced(&mut self, cluster: ClusterId, since: Timestamp, time: Timestamp) -> bool {
        self.table.extend_to(cluster.index().saturating_add(1), Source::default);
        self.table.get_mut(cluster.index()).is_some_and(|source| source.synced(since, time))
    }

    /// Nothing of this source that lies before is remembered; `None` while everything is.
    #[must_use]
    pub fn horizon(&self, cluster: ClusterId) -> Option<Timestamp> {
        self.table.get(cluster.index())?.horizon
    }
}

impl Source {
    fn synced(&mut self, since: Timestamp, time: Timestamp) -> bool {
        if self.last.is_some_and(|last| time <= last) {
            return false;
        }
        let from = self.last.map_or(since, |last| last.max(since));
        self.watched = self.watched.saturating_add(time.since(from).max(0));
        self.last = Some(time);
        if self
            .marks
            .back()
            .is_none_or(|(watched, _)| self.watched.saturating_sub(*watched) >= MARK_MS)
        {
            self.marks.push_back((self.watched, time));
        }
        let limit = self.watched.saturating_sub(REMEMBERED_MS);
        let before = self.horizon;
        while let Some((_, instant)) = self.marks.front().filter(|(watched, _)| *watched <= limit) {
            self.horizon = Some(*instant);
            self.marks.pop_front();
        }
        self.horizon != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(n: i64) -> Timestamp {
        Timestamp::from_millis(n * 24 * 3_600_000).unwrap()
    }

    #[test]
    fn only_days_with_heartbeats_count() {
        let mut sources = Sources::default();
        let east = ClusterId(3);
        for n in 1..=35 {
            sources.synced(east, day(n - 1), day(n));
        }
        assert_eq!(sources.horizon(east), None, "34 days after the first mark");
        // A gap of a hundred days, then beats again.
        sources.synced(east, day(135), day(136));
        assert_eq!(sources.horizon(east), Some(day(1)));
        sources.synced(east, day(136), day(137));
        assert_eq!(sources.horizon(east), Some(day(2)));
        assert_eq!(sources.horizon(ClusterId(0)), None);
    }
}
