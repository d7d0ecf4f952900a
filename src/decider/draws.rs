//! Pods that were let through because their workload's promise covers them, and that nobody has seen yet. They need
//! no record, so that nothing but this tells the next pod that their room is taken.
//!
//! ```text
//!  promise of 5: ████ four pods    ░ let through, on its way    the next one asks for itself
//! ```
//!
//! It is what this replica let through. Replicas that do not decide ask the one that does, so that all of them
//! share its memory while it can be reached.

use crate::domain::{
    event::{ObjectRef, PodResize},
    names::{Map, Uid},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// A pod is seen within this time or never comes: an API server asks all its validating webhooks at once, waits for
/// none longer than 30 s, and then writes.
const ON_ITS_WAY: Duration = Duration::from_secs(35);

/// What was let through, by workload. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Draws(Arc<Mutex<Drawn>>);

/// See [`Draws`].
#[derive(Debug, Default)]
pub(super) struct Drawn {
    by_workload: Map<Uid, Vec<Draw>>,
    /// When each was let through, and on whose promise; the oldest first.
    order: VecDeque<(Instant, Uid)>,
}

#[derive(Debug)]
struct Draw {
    at: Instant,
    pod: PodResize<'static>,
}

impl Draws {
    /// Whoever looks and lets through holds this meanwhile. Never held across an await.
    pub(super) fn lock(&self) -> MutexGuard<'_, Drawn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drawn {
    /// Pods other than `asks` that were let draw on `workload`'s promise and were not seen yet. Those that `seen`
    /// knows are forgotten.
    pub(super) fn others(
        &mut self,
        workload: Uid,
        asks: &PodResize<'_>,
        seen: impl Fn(&str) -> bool,
    ) -> Vec<PodResize<'static>> {
        self.forget_the_old();
        let Some(draws) = self.by_workload.get_mut(&workload) else { return Vec::new() };
        draws.retain(|draw| !seen(&draw.pod.uid));
        let others = draws.iter().filter(|draw| draw.pod.uid != asks.uid);
        others.map(|draw| draw.pod.clone()).collect()
    }

    /// `pod` was let draw on `workload`'s promise.
    pub(super) fn put(&mut self, workload: Uid, pod: PodResize<'static>) {
        let at = Instant::now();
        let draws = self.by_workload.entry(workload).or_default();
        draws.retain(|draw| draw.pod.uid != pod.uid);
        draws.push(Draw { at, pod });
        self.order.push_back((at, workload));
    }

    fn forget_the_old(&mut self) {
        while let Some((at, workload)) = self.order.front().copied()
            && at.elapsed() >= ON_ITS_WAY
        {
            self.order.pop_front();
            if let Some(draws) = self.by_workload.get_mut(&workload) {
                draws.retain(|draw| draw.at.elapsed() < ON_ITS_WAY);
                if draws.is_empty() {
                    self.by_workload.remove(&workload);
                }
            }
        }
    }
}

/// A workload among those of all clusters.
pub(super) fn workload(cluster: &str, object: &ObjectRef<'_>) -> Uid {
    // No name of a cluster has a line break.
    Uid::of(&format!("{cluster}\n{}", object.uid))
}
