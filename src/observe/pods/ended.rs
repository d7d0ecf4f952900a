//! When a pod ended, and between which instants that lies.

use super::{Sighting, Surroundings};
use crate::domain::{event::StopBasis, time::Timestamp};

/// When a pod ended, and how that is known.
pub(super) struct Ended {
    pub(super) basis: StopBasis,
    /// What is billed.
    pub(super) time: Timestamp,
    pub(super) earliest: Timestamp,
    pub(super) latest: Timestamp,
}

impl Ended {
    pub(super) const fn at(basis: StopBasis, time: Timestamp) -> Self {
        Self { basis, time, earliest: time, latest: time }
    }

    /// Of an end for which the API server keeps no instant: what arrived at once is billed at its arrival, what did
    /// not at the earliest instant: what is not proved is uncertain, not charged.
    pub(super) fn unsaid(
        basis: StopBasis,
        sighting: &Sighting,
        earliest: Timestamp,
        around: &impl Surroundings,
    ) -> Self {
        match sighting.received {
            Some(received) => {
                let time = received.max(earliest);
                Self { basis, time, earliest, latest: time }
            }
            None => {
                let latest = around.next_api_time(sighting.version, earliest);
                Self { basis, time: earliest, earliest, latest }
            }
        }
    }
}
