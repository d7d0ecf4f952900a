//! What is counted of notices. Labels have names from short lists.

use super::notice::Notice;
use crate::domain::time::Timestamp;
use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

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
