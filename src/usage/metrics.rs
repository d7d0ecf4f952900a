//! What is counted of usage events.

use crate::domain::event::Position;
use prometheus::{IntCounter, IntGauge, Registry};

/// See the head of this file.
#[derive(Debug)]
pub struct Metrics {
    told: IntCounter,
    position: IntGauge,
    began: IntGauge,
    waits: IntGauge,
}

impl Metrics {
    /// Registers everything in `registry`.
    ///
    /// # Errors
    /// When it is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let told =
            IntCounter::new("bizrq_usage_events_total", "Usage events told by this process")?;
        let help =
            "Position of the log up to which this process told usage; 0 where it does not lead";
        let position = IntGauge::new("bizrq_usage_position", help)?;
        let help = "Position of the snapshot from which this process read on to go on telling usage; 0: it read the whole log";
        let began = IntGauge::new("bizrq_usage_began_position", help)?;
        let help = "1 while usage events cannot be published";
        let waits = IntGauge::new("bizrq_usage_waiting", help)?;
        registry.register(Box::new(told.clone()))?;
        registry.register(Box::new(position.clone()))?;
        registry.register(Box::new(began.clone()))?;
        registry.register(Box::new(waits.clone()))?;
        Ok(Self { told, position, began, waits })
    }

    /// Whether this is new.
    pub(super) fn waits(&self, waits: bool) -> bool {
        let was = self.waits.get();
        self.waits.set(i64::from(waits));
        was != self.waits.get()
    }

    pub(super) fn began(&self, position: Position) {
        self.began.set(i64::try_from(position).unwrap_or(i64::MAX));
    }

    pub(super) fn told(&self, events: usize, position: Position) {
        self.told.inc_by(events as u64);
        self.position.set(i64::try_from(position).unwrap_or(i64::MAX));
    }
}
