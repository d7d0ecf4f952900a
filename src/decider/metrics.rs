//! What the decider counts. Whoever serves `/metrics` reads a [`Counts`]; names of objects are never in it. What API
//! servers were told in the end is counted by the webhook, not here.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Upper bounds of the buckets of append times, in microseconds: a local log takes 100 to 400, a far one 20,000 to
/// 50,000, the deadline is 5,000,000.
pub const APPEND_BOUNDS_US: [u64; 14] = [
    100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 409_600, 1_638_400,
    6_553_600,
];

/// Everything that was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `bizrq_decider_repeated_total`: answered from memory or from the log, because it was asked before.
    pub repeated: u64,
    /// `bizrq_event_log_append_seconds`: how long appends of decisions took, by bucket; the last has no bound.
    pub append_buckets: [u64; APPEND_BOUNDS_US.len() + 1],
    /// Their sum.
    pub append_sum: Duration,
    /// `bizrq_decider_batch_items_total`: admissions and proposals that were recorded.
    pub recorded: u64,
    /// `bizrq_decider_queue_full_total`: refused with `LogUnavailable` because the queue was full.
    pub queue_full: u64,
    /// `bizrq_decider_conflicts_total`: appends before which another decision came.
    pub conflicts: u64,
    /// `bizrq_decider_unclear_total`: appends of which it was not known whether they landed.
    pub unclear: u64,
    /// `bizrq_decider_forwarded_total`: asks that another replica answered.
    pub forwarded: u64,
    /// `bizrq_decider_unanswered_total`: asks that were forwarded, and decided here because no answer came.
    pub unanswered: u64,
    /// `bizrq_decider_served_total`: asks that were answered for other replicas.
    pub served: u64,
    /// `bizrq_decider_ignored_total`: messages that were malformed, of another version, or too many.
    pub ignored: u64,
    /// `bizrq_decider_roles_total`: times that this replica began to decide for all.
    pub roles: u64,
}

/// The counters behind [`Counts`].
#[derive(Debug, Default)]
pub(super) struct Metrics(
    /// A plain mutex: a few additions, never across an await.
    Mutex<Counts>,
);

impl Metrics {
    /// Changes the counters.
    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn appended(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.count(|counts| {
            let bucket = APPEND_BOUNDS_US.partition_point(|bound| *bound < us);
            counts.append_buckets[bucket] += 1;
            counts.append_sum += took;
        });
    }

    pub(super) fn read(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
