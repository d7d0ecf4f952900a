//! What observers count, for `/metrics`. Labels are names of clusters and of types of events, never of an object.

use crate::domain::event::{Data, Event, StopBasis};
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry, core::Collector};

/// See the head of this file.
#[derive(Debug)]
pub struct Metrics {
    events: IntCounterVec,
    unwitnessed: IntCounterVec,
    drift: IntCounterVec,
    unreadable: IntCounterVec,
    expired: IntCounterVec,
    waiting: IntGaugeVec,
    uncovered: IntGaugeVec,
    skewed: IntGaugeVec,
}

impl Metrics {
    /// Registers everything in `registry`.
    ///
    /// # Errors
    /// When it is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            register(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let gauge = |name: &str, help: &str| {
            register(registry, IntGaugeVec::new(Opts::new(name, help), &["cluster"])?)
        };
        Ok(Self {
            events: counter("bizrq_observe_events_total", "Facts told", &["cluster", "type"])?,
            unwitnessed: counter(
                "bizrq_observe_unwitnessed_ends_total",
                "Stops of pods that nobody saw: absent from a list, or on a lost node",
                &["cluster"],
            )?,
            drift: counter(
                "bizrq_observe_drift_total",
                "Facts that a comparison found missing; of a healthy system none",
                &["cluster"],
            )?,
            unreadable: counter(
                "bizrq_observe_unreadable_total",
                "Versions of objects that cannot be understood",
                &["cluster"],
            )?,
            expired: counter(
                "bizrq_observe_expired_total",
                "Admissions and proposals that never became real, and former charges given back",
                &["cluster"],
            )?,
            waiting: gauge("bizrq_observe_queue_length", "Facts that wait for the log")?,
            uncovered: gauge(
                "bizrq_observe_uncovered_pods",
                "Pods that are charged to a group although no API server asks about them",
            )?,
            skewed: gauge(
                "bizrq_observe_skewed_nodes",
                "Nodes whose clock is more than two seconds off the API server's",
            )?,
        })
    }

    pub(super) fn told(&self, cluster: &str, event: &Event<'_>) {
        let name = event.data.kind().map_or("", |kind| kind.name());
        self.events.with_label_values(&[cluster, name]).inc();
        if let Data::PodStopped(stop) = &event.data
            && matches!(stop.basis, StopBasis::Absent | StopBasis::NodeLost)
        {
            self.unwitnessed.with_label_values(&[cluster]).inc();
        }
    }

    pub(super) fn drifted(&self, cluster: &str, facts: u64) {
        self.drift.with_label_values(&[cluster]).inc_by(facts);
    }

    pub(super) fn unreadable(&self, cluster: &str, versions: usize) {
        self.unreadable.with_label_values(&[cluster]).inc_by(versions as u64);
    }

    pub(super) fn expired(&self, cluster: &str, count: u64) {
        self.expired.with_label_values(&[cluster]).inc_by(count);
    }

    pub(super) fn waiting(&self, cluster: &str, facts: usize) {
        set(&self.waiting, cluster, facts);
    }

    /// Of who does not lead both are 0.
    pub(super) fn seen(&self, cluster: &str, uncovered_pods: usize, skewed_nodes: usize) {
        set(&self.uncovered, cluster, uncovered_pods);
        set(&self.skewed, cluster, skewed_nodes);
    }
}

fn set(gauge: &IntGaugeVec, cluster: &str, count: usize) {
    gauge.with_label_values(&[cluster]).set(i64::try_from(count).unwrap_or(i64::MAX));
}

fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
