//! Who decides. One replica is enough: many that compete for the next place in the log would mostly get in each
//! other's way, and far ones would never win against near ones.
//!
//! ```text
//!              nobody serves, or three answers stayed out, or it is far and we are near
//!   forwards ──────────────────────────────────────────────────────────────────▶ decides
//!   its asks  ◀────────────────────────────────────────────────────────────────  and serves
//!              another says that it decides, and is nearer (or as near, and first by name);
//!              or its own committer has not heard from the log for half a second
//! ```
//!
//! Believing is enough: when two decide, the log's condition lets one of them through at a time.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// A committer that waits for the log for so long is of no use to others.
const STUCK: Duration = Duration::from_millis(500);

/// So many measurements are looked at: the best of them tells the way from a busy moment.
const SAMPLES: usize = 5;

/// How far the log is: the best of the last round trips.
#[derive(Debug, Default)]
pub(super) struct Distance(VecDeque<Duration>);

/// Whether the committer gets anywhere. One that does not must not decide for all: it would be asked in vain.
#[derive(Debug, Default)]
pub(super) struct Pulse(
    /// It waits for the log since then. A plain mutex, never held across an await.
    Mutex<Option<Instant>>,
);

impl Pulse {
    /// It waits for the log from now on, or still does.
    pub(super) fn waits(&self) {
        self.since(|since| *since = since.or_else(|| Some(Instant::now())));
    }

    /// It has heard from the log.
    pub(super) fn beats(&self) {
        self.since(|since| *since = None);
    }

    /// Whether it has waited too long.
    pub(super) fn is_stuck(&self) -> bool {
        self.since(|since| since.is_some_and(|since| since.elapsed() > STUCK))
    }

    fn since<T>(&self, look: impl FnOnce(&mut Option<Instant>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Distance {
    /// A round trip took so long.
    pub(super) fn measured(&mut self, took: Duration) {
        self.0.push_back(took);
        if self.0.len() > SAMPLES {
            self.0.pop_front();
        }
    }

    /// The best round trip; what was never measured is near.
    pub(super) fn round_trip(&self) -> Duration {
        self.0.iter().min().copied().unwrap_or_default()
    }

    /// 0: under two milliseconds; one more for each doubling. Replicas in one place have the same.
    pub(super) fn class(&self) -> u32 {
        (self.round_trip().as_millis() / 2).checked_ilog2().map_or(0, |log| log + 1)
    }
}

/// Whether whoever is at `mine` should take over from whoever is at `theirs`: only if it is four times nearer, so
/// that noise moves no role.
pub(super) const fn is_much_nearer(mine: u32, theirs: u32) -> bool {
    mine.saturating_add(2) <= theirs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(ms: &[u64]) -> u32 {
        let mut distance = Distance::default();
        ms.iter().for_each(|ms| distance.measured(Duration::from_millis(*ms)));
        distance.class()
    }

    #[test]
    fn each_doubling_is_one_further() {
        let classes = [0, 1, 2, 3, 4, 7, 8, 40, 63, 64].map(|ms| class(&[ms]));
        assert_eq!(classes, [0, 0, 1, 1, 2, 2, 3, 5, 5, 6]);
        assert_eq!(class(&[]), 0);
    }

    #[test]
    fn a_busy_moment_is_no_distance_and_a_move_is_noticed() {
        assert_eq!(class(&[1, 900, 900, 900, 900]), 0);
        assert_eq!(class(&[1, 900, 900, 900, 900, 900]), class(&[900]));
    }

    #[test]
    fn noise_moves_no_role() {
        assert!(!is_much_nearer(0, 1) && !is_much_nearer(3, 3) && is_much_nearer(0, 2));
    }
}
