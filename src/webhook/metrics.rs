//! What the webhook counts, for `/metrics`. Labels have names from short lists, never of an object.

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry, core::Collector,
};
use std::time::Duration;

/// Why something was turned away, without an answer to a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// No review that can be answered.
    NoReview,
    /// A body larger than any review.
    TooLarge,
    /// A body that did not come in time.
    Slow,
    /// A body that broke off.
    Broken,
    /// Too many reviews, or bytes of them, at once.
    Busy,
    /// Nothing can be answered yet.
    NotReady,
    /// Not answered in time.
    Late,
    /// A connection that said nothing for long, or for longer than the others when all places were taken.
    Silent,
    /// A connection for which there was no place.
    Full,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Metrics {
    decisions: IntCounterVec,
    seconds: Histogram,
    turned_away: IntCounterVec,
    untold: IntCounter,
    connections: IntGauge,
}

/// From what a decision takes without the log to what an API server waits for at most.
const SECONDS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

impl Metrics {
    /// Registers everything in `registry`.
    ///
    /// # Errors
    /// When it is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            register(registry, counter)
        };
        let seconds = HistogramOpts::new(
            "bizrq_admission_seconds",
            "Time from the head of a review to its answer, in seconds",
        );
        let seconds = Histogram::with_opts(seconds.buckets(SECONDS.to_vec()))?;
        let help = "Refusals that the log was not told of: too many at once, or it was away";
        let untold = IntCounter::new("bizrq_webhook_refusals_untold_total", help)?;
        let connections = IntGauge::new("bizrq_webhook_connections", "Open connections")?;
        Ok(Self {
            decisions: counter(
                "bizrq_admission_decisions_total",
                "Reviews answered, by what the API server was told",
                &["decision", "reason"],
            )?,
            seconds: register(registry, seconds)?,
            turned_away: counter(
                "bizrq_webhook_turned_away_total",
                "Requests and connections that got no answer to a review",
                &["why"],
            )?,
            untold: register(registry, untold)?,
            connections: register(registry, connections)?,
        })
    }

    /// So many refusals are told nobody but whoever asked.
    pub fn untold(&self, refusals: u64) {
        self.untold.inc_by(refusals);
    }

    pub(super) fn answered(&self, decision: &str, reason: &str, took: Duration) {
        self.decisions.with_label_values(&[decision, reason]).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    pub(super) fn turned_away(&self, why: TurnedAway) {
        self.turned_away.with_label_values(&[why.name()]).inc();
    }

    pub(super) fn connections(&self, open: usize) {
        self.connections.set(i64::try_from(open).unwrap_or(i64::MAX));
    }
}

impl TurnedAway {
    /// As the label says it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoReview => "NoReview",
            Self::TooLarge => "TooLarge",
            Self::Slow => "Slow",
            Self::Broken => "Broken",
            Self::Busy => "Busy",
            Self::NotReady => "NotReady",
            Self::Late => "Late",
            Self::Silent => "Silent",
            Self::Full => "Full",
        }
    }
}

fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
