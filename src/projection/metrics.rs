//! What the fold shows at `/metrics`: read off its status whenever somebody looks.

use super::runner::Projection;
use prometheus::{
    IntGauge, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// See the head of this file.
struct Metrics {
    seen: Projection,
    position: IntGauge,
    committed: IntGauge,
    lag: IntGauge,
    stopped: IntGauge,
    store_failed: IntGauge,
    quarantined: IntGauge,
    repeated: IntGauge,
    snapshot: IntGauge,
    root: IntGaugeVec,
    unreviewed: IntGauge,
}

/// Registers what a fold shows.
///
/// # Errors
/// When it is registered already.
pub fn register(registry: &Registry, seen: Projection) -> Result<(), prometheus::Error> {
    let gauge = IntGauge::new;
    let root =
        Opts::new("bizrq_projection_root_info", "Root of the log at the position of the fold");
    registry.register(Box::new(Metrics {
        seen,
        position: gauge("bizrq_projection_position", "Last record that was applied")?,
        committed: gauge("bizrq_projection_committed_position", "Last record in the store's rows")?,
        lag: gauge("bizrq_projection_lag_events", "Records in the log that are not applied yet")?,
        stopped: gauge("bizrq_projection_stopped", "1: nothing more is applied; see the log")?,
        store_failed: gauge("bizrq_projection_store_failed", "1: rows are not kept any more")?,
        quarantined: gauge("bizrq_projection_quarantined_events", "Records that were not taken")?,
        repeated: gauge(
            "bizrq_projection_repeated_events",
            "Records that repeated what was known",
        )?,
        snapshot: gauge("bizrq_projection_snapshot_position", "Position of the last snapshot")?,
        root: IntGaugeVec::new(root, &["root"])?,
        unreviewed: gauge(
            "bizrq_projection_unreviewed_groups",
            "Groups in which something is charged that no review admitted",
        )?,
    }))
}

impl Metrics {
    fn all(&self) -> [&dyn Collector; 10] {
        [
            &self.position,
            &self.committed,
            &self.lag,
            &self.stopped,
            &self.store_failed,
            &self.quarantined,
            &self.repeated,
            &self.snapshot,
            &self.root,
            &self.unreviewed,
        ]
    }
}

impl Collector for Metrics {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let status = self.seen.status();
        self.position.set(number(status.position));
        self.committed.set(number(status.committed));
        self.lag.set(number(status.head.saturating_sub(status.position)));
        self.stopped.set(i64::from(self.seen.ended().is_some()));
        self.store_failed.set(i64::from(status.unkept.is_some()));
        self.quarantined.set(number(status.quarantined));
        self.repeated.set(number(status.repeated));
        self.snapshot.set(number(status.snapshot));
        let ledger = self.seen.ledger();
        let root = ledger.root().to_string();
        let unreviewed = ledger.book().map_or(0, |book| book.unreviewed_groups());
        drop(ledger);
        self.unreviewed.set(i64::try_from(unreviewed).unwrap_or(i64::MAX));
        self.root.reset();
        self.root.with_label_values(&[&root]).set(1);
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}
