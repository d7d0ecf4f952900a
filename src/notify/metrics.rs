//! What is counted of notices. Labels have names from short lists.

use super::notice::{Notice, Told};
use crate::domain::time::Timestamp;
use prometheus::{
    IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use std::collections::BTreeMap;
use tokio::sync::watch;

/// See the head of this file.
#[derive(Debug)]
pub struct Metrics {
    told: IntCounterVec,
    delay: IntGauge,
    waits: IntGauge,
}

impl Metrics {
    /// Registers everything in `registry`.
    ///
    /// # Errors
    /// When it is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let told = Opts::new("bizrq_notices_total", "Notices told by this process, by their kind");
        let told = IntCounterVec::new(told, &["kind"])?;
        let help = "Milliseconds from the instant that the newest notice names until it was told";
        let delay = IntGauge::new("bizrq_notice_delay_milliseconds", help)?;
        let help = "1 while notices cannot be written where they belong";
        let waits = IntGauge::new("bizrq_notices_waiting", help)?;
        registry.register(Box::new(told.clone()))?;
        registry.register(Box::new(waits.clone()))?;
        registry.register(Box::new(delay.clone()))?;
        Ok(Self { told, delay, waits })
    }

    /// Whether this is new.
    pub(super) fn waits(&self, waits: bool) -> bool {
        let was = self.waits.get();
        self.waits.set(i64::from(waits));
        was != self.waits.get()
    }

    pub(super) fn told(&self, notice: &Notice, now: Timestamp) {
        self.told.with_label_values(&[notice.kind.as_str()]).inc();
        if notice.stands {
            self.delay.set(now.since(notice.at));
        }
    }
}

/// How many topics stand, counted whenever somebody looks.
struct Standing {
    told: watch::Receiver<Option<Told>>,
    standing: IntGaugeVec,
}

/// Registers what `told` shows.
///
/// # Errors
/// When it is registered already.
pub fn show(
    registry: &Registry,
    told: watch::Receiver<Option<Told>>,
) -> Result<(), prometheus::Error> {
    let help = "What was told and is not over, by alert; 0 where another process leads";
    let standing = IntGaugeVec::new(Opts::new("bizrq_notices_standing", help), &["alert"])?;
    registry.register(Box::new(Standing { told, standing }))
}

impl Collector for Standing {
    fn desc(&self) -> Vec<&Desc> {
        self.standing.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut counts = BTreeMap::<_, i64>::new();
        for (_, notice) in self.told.borrow().iter().flat_map(Told::standing) {
            let count = counts.entry(notice.topic.what.alert()).or_default();
            *count = count.saturating_add(1);
        }
        self.standing.reset();
        for (alert, count) in counts {
            self.standing.with_label_values(&[alert]).set(count);
        }
        self.standing.collect()
    }
}
