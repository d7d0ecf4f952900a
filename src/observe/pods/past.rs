//! What is still asked of sightings that were let go of: a pod whose containers start again and again must stay small.

use super::{Sighting, State};
use crate::domain::time::Timestamp;
use std::sync::Arc;

/// What is still asked of sightings that were let go of.
#[derive(Clone, Debug)]
pub(super) struct Past {
    /// The first one.
    pub(super) first: Sighting,
    /// The first one with a node.
    pub(super) bound: Option<Arc<State>>,
    /// The version of the last one.
    pub(super) version: u64,
    pub(super) first_started: Option<Timestamp>,
    /// The newest proof of life.
    pub(super) lived: Option<Timestamp>,
    /// When a deletion was asked for, the last time that a grace was left.
    pub(super) requested: Option<Timestamp>,
}

impl Past {
    pub(super) fn of(first: Sighting) -> Self {
        let mut past = Self {
            bound: None,
            version: first.version,
            first_started: None,
            lived: None,
            requested: None,
            first: first.clone(),
        };
        past.take(&first);
        past
    }

    pub(super) fn take(&mut self, sighting: &Sighting) {
        let state = &sighting.state;
        if self.bound.is_none() && state.start.is_some() {
            self.bound = Some(Arc::clone(state));
        }
        self.version = self.version.max(sighting.version);
        self.first_started = [self.first_started, state.first_started].into_iter().flatten().min();
        self.lived = self.lived.max(sighting.proof);
        let deletion = state.deletion.filter(|d| !d.final_step);
        self.requested = deletion.map(|d| d.requested).or(self.requested);
    }
}
