//! What is counted of notices. Labels have names from short lists.

use super::due::Notice;
use crate::domain::time::Timestamp;
use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

/// See the head of this file.
#[derive(Debug)]
pub struct Metrics {
    told: IntCounterVec,
    delay: IntGauge,
}

impl Metrics {
    /// Registers everything in `registry`.
    ///
    /// # Errors
    /// When it is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let told = Opts::new("bizrq_notices_total", "Notices told by this process, by their kind");
        let told = IntCounterVec::new(told, &["kind"])?;
        let help = "Milliseconds from the instant of the newest notice until it was told";
        let delay = IntGauge::new("bizrq_notice_delay_milliseconds", help)?;
        registry.register(Box::new(told.clone()))?;
        registry.register(Box::new(delay.clone()))?;
        Ok(Self { told, delay })
    }

    pub(super) fn told(&self, notice: &Notice, now: Timestamp) {
        self.told.with_label_values(&[notice.kind]).inc();
        self.delay.set(now.since(notice.at));
    }
}
