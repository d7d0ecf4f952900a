//! Pods that ended are forgotten soon after, by whoever can read the records once more.
//!
//! ```text
//!  pod 1  ├──────── row ────────┤ final stop ─ so many records ─▶ fingerprint, 8 bytes
//!  pod 2  ├── row ──┤ ───────────────────────▶ fingerprint ──▶ a record after all: late, and its row is kept next time
//! ```
//!
//! What a pod used is in the sums; its row is needed for what is said of it afterwards, which is rare, and mostly comes
//! soon: a better stop, the same stop from another observer. So memory follows the pods that run. A record about a pod
//! whose row is gone is not counted, and the pod is named: read once more, with the rows of these kept, the records give
//! what they give where nothing is forgotten. A fingerprint that two pods share costs one such reading and nothing else.

use crate::domain::{
    names::{ClusterId, Map, ObjectId, Set, Uid},
    time::Timestamp,
};
use std::{collections::VecDeque, mem};

/// Which pods were forgotten, and which must not be.
#[derive(Clone, Debug, Default)]
pub struct Seals {
    /// Records about pods that are still read before a row goes.
    wait: u64,
    /// Records about pods that were read.
    read: u64,
    /// Pods that ended, and by then their rows go.
    ended: VecDeque<(u64, ObjectId)>,
    kept: Set<ObjectId>,
    late: Set<ObjectId>,
    sealed: Map<ClusterId, Sealed>,
}

/// Fingerprints of one cluster's pods. The older half goes when no source can repeat any of it.
#[derive(Clone, Debug, Default)]
struct Sealed {
    older: Half,
    newer: Half,
}

#[derive(Clone, Debug, Default)]
struct Half {
    prints: Set<u64>,
    /// The newest instant that a record of any of them was dated.
    newest: Timestamp,
}

impl Seals {
    /// Rows go `wait` records about pods after a final stop; those of `kept` stay.
    #[must_use]
    pub fn new(wait: u64, kept: Set<ObjectId>) -> Self {
        Self { wait, kept, ..Self::default() }
    }

    /// Pods that a record came about when they were forgotten: what was counted lacks it.
    #[must_use]
    pub const fn late(&self) -> &Set<ObjectId> {
        &self.late
    }

    /// Bytes that fingerprints take, without the room that a set has to spare.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let halves = self.sealed.values().flat_map(|sealed| [&sealed.older, &sealed.newer]);
        let prints: usize = halves.map(|half| half.prints.len()).sum();
        prints.saturating_mul(size_of::<u64>())
    }

    /// Notes that a record about a pod is read.
    pub(super) fn tick(&mut self) {
        self.read = self.read.saturating_add(1);
    }

    /// Notes that a pod's stop is final.
    pub(super) fn end(&mut self, pod: ObjectId) {
        if !self.kept.contains(&pod) {
            self.ended.push_back((self.read.saturating_add(self.wait), pod));
        }
    }

    /// A pod whose row goes now, if it is still final.
    pub(super) fn due(&mut self) -> Option<ObjectId> {
        let (by, pod) = *self.ended.front()?;
        if by >= self.read {
            return None;
        }
        self.ended.pop_front();
        Some(pod)
    }

    /// Notes that a pod's row is gone; its records were dated up to `newest`.
    pub(super) fn seal(&mut self, pod: ObjectId, newest: Timestamp) {
        let half = &mut self.sealed.entry(pod.cluster).or_default().newer;
        half.prints.insert(print(pod.uid));
        half.newest = half.newest.max(newest);
    }

    /// Whether an unknown pod is one whose row is gone; it is late from now on.
    pub(super) fn is_sealed(&mut self, pod: ObjectId) -> bool {
        let print = print(pod.uid);
        let is_sealed = self.sealed.get(&pod.cluster).is_some_and(|sealed| {
            sealed.newer.prints.contains(&print) || sealed.older.prints.contains(&print)
        }) && !self.kept.contains(&pod);
        if is_sealed {
            self.late.insert(pod);
        }
        is_sealed
    }

    /// Nothing of the cluster that is dated before `horizon` is remembered anywhere any more.
    pub(super) fn passed(&mut self, cluster: ClusterId, horizon: Timestamp) {
        let Some(Sealed { older, newer }) = self.sealed.get_mut(&cluster) else { return };
        if older.newest < horizon {
            *older = mem::take(newer);
        }
    }
}

fn print(uid: Uid) -> u64 {
    uid.words().into_iter().fold(0, |print, word| print.rotate_left(32) ^ word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::ORIGIN;

    fn pod(cluster: u32, uid: &str) -> ObjectId {
        ObjectId { cluster: ClusterId(cluster), uid: Uid::of(uid) }
    }

    #[test]
    fn a_row_goes_after_so_many_records_and_its_pod_is_known_again() {
        let mut seals = Seals::new(2, Set::from_iter([pod(1, "kept")]));
        seals.tick();
        seals.end(pod(1, "a"));
        seals.end(pod(1, "kept"));
        for due in [None, None, None, Some(pod(1, "a")), None] {
            assert_eq!(seals.due(), due);
            seals.tick();
        }
        seals.seal(pod(1, "a"), ORIGIN);
        assert_eq!(seals.bytes(), 8);
        for (pod, sealed) in [(pod(1, "a"), true), (pod(2, "a"), false), (pod(1, "b"), false)] {
            assert_eq!(seals.is_sealed(pod), sealed);
        }
        assert_eq!(*seals.late(), Set::from_iter([pod(1, "a")]));
    }

    #[test]
    fn fingerprints_go_when_no_record_of_theirs_can_be_taken_for_a_new_one() {
        let day = |n: i64| ORIGIN.shifted(n * 86_400_000);
        let mut seals = Seals::new(0, Set::default());
        for n in 0..200_i64 {
            seals.seal(pod(1, &n.to_string()), day(n));
            seals.passed(ClusterId(1), day(n - 35));
            let known = |n: i64, seals: &mut Seals| seals.is_sealed(pod(1, &n.to_string()));
            for still in (n - 35).max(0)..=n {
                assert!(known(still, &mut seals), "{still} at {n}");
            }
            assert!(seals.bytes() <= 8 * 72, "{} at {n}", seals.bytes());
        }
    }
}
