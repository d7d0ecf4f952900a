//! What is counted of statuses. Labels have names from short lists.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

/// See the head of this file.
#[derive(Debug)]
pub struct Metrics {
    patches: IntCounterVec,
    superseded: IntCounter,
}

/// What became of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patched {
    /// It is shown.
    Applied,
    /// There is no such object any more.
    Gone,
    /// The API server says no. Why.
    Refused(String),
    /// The API server does not answer. Why.
    Away(String),
}

impl Metrics {
    /// Registers everything in `registry`.
    ///
    /// # Errors
    /// When it is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let patches =
            Opts::new("bizrq_status_patches_total", "Statuses written, by what became of it");
        let drops = Opts::new("bizrq_status_drops_total", "Statuses that were never written");
        let patches = IntCounterVec::new(patches, &["outcome"])?;
        let drops = IntCounterVec::new(drops, &["why"])?;
        registry.register(Box::new(patches.clone()))?;
        registry.register(Box::new(drops.clone()))?;
        Ok(Self { patches, superseded: drops.with_label_values(&["superseded"]) })
    }

    pub(super) fn patched(&self, patched: &Patched) {
        let outcome = match patched {
            Patched::Applied => "applied",
            Patched::Gone => "gone",
            Patched::Refused(_) => "refused",
            Patched::Away(_) => "away",
        };
        self.patches.with_label_values(&[outcome]).inc();
    }

    /// So many were replaced by newer ones before they were written.
    pub(super) fn superseded(&self, count: u64) {
        self.superseded.inc_by(count);
    }
}
