//! How far back each source of facts can still be believed.
//!
//! An observer's heartbeats add up to the time in which nothing was missed. What ended more than 35 such days
//! ago is forgotten; an observation of something unknown that lies further back than that is a repetition of what was
//! forgotten. A source without heartbeats (imports) is remembered for ever. Beside it: which cluster a source is, and
//! up to which versions of its objects everything was told, so that another cluster under its name is found out.

use super::{names::ClusterId, table::Table, text::Text, time::Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

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
    cluster: Cluster,
}

/// What was told of a cluster itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The uid that it was bound to last, if it was.
    pub bound: Option<Box<str>>,
    /// When it ended, if it did.
    pub retired: Option<Timestamp>,
    /// Per kind the newest version that everything was told up to, since it was bound.
    pub versions: BTreeMap<Box<str>, u64>,
    /// The newest heartbeat.
    pub synced: Option<Timestamp>,
}

impl Sources {
    /// Takes a heartbeat at `time`: nothing was missed since `since`. Returns whether the horizon moved.
    pub fn synced(&mut self, cluster: ClusterId, since: Timestamp, time: Timestamp) -> bool {
        self.table.extend_to(cluster.index().saturating_add(1), Source::default);
        self.table.get_mut(cluster.index()).is_some_and(|source| source.synced(since, time))
    }

    /// What is known of the cluster itself.
    #[must_use]
    pub fn cluster(&self, cluster: ClusterId) -> Option<&Cluster> {
        self.table.get(cluster.index()).map(Source::cluster)
    }

    /// Takes the versions of a heartbeat; a version that is no number says nothing.
    pub fn reached(
        &mut self,
        cluster: ClusterId,
        versions: &BTreeMap<Text<'_>, Text<'_>>,
        time: Timestamp,
    ) {
        let known = self.known(cluster);
        known.synced = known.synced.max(Some(time));
        for (kind, version) in versions {
            let Ok(version) = version.parse::<u64>() else { continue };
            match known.versions.get_mut(&**kind) {
                Some(newest) => *newest = version.max(*newest),
                None => drop(known.versions.insert((**kind).into(), version)),
            }
        }
    }

    /// Takes a binding. Another uid is another cluster, whose versions begin anew; with none the name stands for no
    /// cluster until the next one. Returns whether it was news.
    pub fn bound(&mut self, cluster: ClusterId, uid: &str) -> bool {
        let known = self.known(cluster);
        let news = known.bound.as_deref() != Some(uid);
        if news {
            known.bound = (!uid.is_empty()).then(|| uid.into());
            known.versions.clear();
            known.retired = None;
        }
        news
    }

    /// Takes the end of a cluster. Returns whether it was news.
    pub fn retired(&mut self, cluster: ClusterId, at: Timestamp) -> bool {
        let known = self.known(cluster);
        let news = known.retired != Some(at);
        known.retired = Some(at);
        news
    }

    fn known(&mut self, cluster: ClusterId) -> &mut Cluster {
        &mut self.table.at_mut(cluster.index(), Source::default).cluster
    }

    /// Nothing of this source that lies before is remembered; `None` while everything is.
    #[must_use]
    pub fn horizon(&self, cluster: ClusterId) -> Option<Timestamp> {
        self.table.get(cluster.index())?.horizon
    }
}

impl Source {
    pub(super) const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

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

    #[test]
    fn another_uid_is_another_cluster_whose_versions_begin_anew() {
        let (mut sources, east) = (Sources::default(), ClusterId(1));
        let versions = |text: &'static str| BTreeMap::from([("pods".into(), text.into())]);
        assert!(sources.bound(east, "a"));
        sources.reached(east, &versions("812"), day(1));
        sources.reached(east, &versions("90"), day(2));
        sources.reached(east, &versions("none"), day(1));
        let known = sources.cluster(east).unwrap().clone();
        assert_eq!((known.versions["pods"], known.synced), (812, Some(day(2))));
        assert!(!sources.bound(east, "a"));
        assert_eq!(sources.cluster(east), Some(&known));
        assert!(sources.bound(east, "b") && sources.cluster(east).unwrap().versions.is_empty());
    }
}
