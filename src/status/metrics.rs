//! What is counted of statuses and mirrors. Labels have names from short lists, and names of clusters.

use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};

/// See the head of this file.
#[derive(Debug)]
pub struct Metrics {
    patches: IntCounterVec,
    superseded: IntCounter,
    mirrors: IntCounterVec,
    in_the_way: IntGaugeVec,
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
        let mirrors =
            Opts::new("bizrq_mirrors_written_total", "Mirrors written, by what became of it");
        let in_the_way = Opts::new(
            "bizrq_mirrors_in_the_way",
            "Quota objects that are no mirrors and have the name of one",
        );
        let patches = IntCounterVec::new(patches, &["outcome"])?;
        let drops = IntCounterVec::new(drops, &["why"])?;
        registry.register(Box::new(patches.clone()))?;
        registry.register(Box::new(drops.clone()))?;
        let mirrors = IntCounterVec::new(mirrors, &["cluster", "outcome"])?;
        let in_the_way = IntGaugeVec::new(in_the_way, &["cluster"])?;
        registry.register(Box::new(mirrors.clone()))?;
        registry.register(Box::new(in_the_way.clone()))?;
        let superseded = drops.with_label_values(&["superseded"]);
        Ok(Self { patches, superseded, mirrors, in_the_way })
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

    /// A mirror in `cluster` was made, changed or removed, or that failed.
    pub(super) fn mirrored(&self, cluster: &str, outcome: &str) {
        self.mirrors.with_label_values(&[cluster, outcome]).inc();
    }

    /// So many objects in `cluster` have the name of a mirror and are none.
    pub(super) fn in_the_way(&self, cluster: &str, objects: usize) {
        let objects = i64::try_from(objects).unwrap_or(i64::MAX);
        self.in_the_way.with_label_values(&[cluster]).set(objects);
    }
}
