//! What a ledger keeps.

use crate::domain::{
    meter::{Retain, Window},
    pod::Basis,
};
use serde::{Deserialize, Serialize};

/// What a ledger keeps, and of which part of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Which clock is metered.
    pub basis: Basis,
    /// The part of time that is metered.
    pub window: Window,
    /// Keep hourly differences.
    pub history: bool,
    /// How long a pod that ended is remembered.
    pub retain: Retain,
    /// Keep the book of quotas; without it only usage is known.
    pub quotas: bool,
}

impl Default for Options {
    /// Held time, all of it, with hourly differences; ended pods for 35 days of heartbeats.
    fn default() -> Self {
        Self {
            basis: Basis::Held,
            window: Window::default(),
            history: true,
            retain: Retain::Heartbeats,
            quotas: true,
        }
    }
}
