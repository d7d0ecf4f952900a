//! When certificates end, at `/metrics`: read off what is shown whenever somebody looks.

use super::Current;
use crate::domain::time::Timestamp;
use prometheus::{
    Gauge, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use std::sync::Arc;

/// See the head of this file.
struct Metrics {
    current: Arc<Current>,
    from: Gauge,
    until: Gauge,
}

/// Registers the times of the certificate that `server` (`webhook`, `api`) shows; while there is none, nothing is told.
///
/// # Errors
/// When that of this server is registered already.
pub fn register(
    registry: &Registry,
    server: &str,
    current: Arc<Current>,
) -> Result<(), prometheus::Error> {
    let gauge = |name, help| Gauge::with_opts(Opts::new(name, help).const_label("server", server));
    registry.register(Box::new(Metrics {
        current,
        from: gauge(
            "bizrq_certificate_not_before_timestamp_seconds",
            "When the certificate that is shown begins to hold, in seconds since 1970",
        )?,
        until: gauge(
            "bizrq_certificate_expiration_timestamp_seconds",
            "When the certificate that is shown expires, in seconds since 1970",
        )?,
    }))
}

impl Collector for Metrics {
    fn desc(&self) -> Vec<&Desc> {
        [&self.from, &self.until].into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(validity) = self.current.validity() else { return Vec::new() };
        // Below 2^53: exact.
        let seconds = |at: Timestamp| at.millis() as f64 / 1000.0;
        self.from.set(seconds(validity.from));
        self.until.set(seconds(validity.until));
        [&self.from, &self.until].into_iter().flat_map(Collector::collect).collect()
    }
}
