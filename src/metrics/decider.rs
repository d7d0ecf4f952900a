//! What the decider shows at `/metrics`: read off its counts whenever somebody looks.
//!
//! `bizrq_admission_decisions_total` is the webhook's, which counts every answer; the decider's is not shown beside it.

use crate::decider::{APPEND_BOUNDS_US, Counts, Decider};
use prometheus::{
    IntCounter, IntGauge, Registry,
    core::{Collector, Desc},
    proto::{Bucket, Histogram, Metric, MetricFamily, MetricType},
};
use std::collections::HashMap;

/// Registers what a decider shows.
///
/// # Errors
/// When it is registered already.
pub fn register(registry: &Registry, decider: Decider) -> Result<(), prometheus::Error> {
    let counters = COUNTERS.iter().map(|(name, help, _)| IntCounter::new(*name, *help));
    registry.register(Box::new(Metrics {
        decider,
        counters: counters.collect::<Result<_, _>>()?,
        queue: IntGauge::new("bizrq_decider_queue_length", "Reviews that wait to be taken up")?,
        decides: IntGauge::new("bizrq_decider_decides", "1: this replica decides for all")?,
        appends: Desc::new(APPENDS.0.to_owned(), APPENDS.1.to_owned(), Vec::new(), HashMap::new())?,
    }))
}

/// Name, help, and which count.
type Counted = (&'static str, &'static str, fn(&Counts) -> u64);

const COUNTERS: [Counted; 10] = [
    ("bizrq_decider_repeated_total", "Asked before: answered from memory or log", |c| c.repeated),
    ("bizrq_decider_batch_items_total", "Admissions and proposals recorded", |c| c.recorded),
    ("bizrq_decider_queue_full_total", "Refused because the queue was full", |c| c.queue_full),
    ("bizrq_decider_conflicts_total", "Appends that another decision preceded", |c| c.conflicts),
    ("bizrq_decider_unclear_total", "Appends of unknown outcome", |c| c.unclear),
    ("bizrq_decider_forwarded_total", "Asks that another replica answered", |c| c.forwarded),
    ("bizrq_decider_unanswered_total", "Asks forwarded in vain", |c| c.unanswered),
    ("bizrq_decider_served_total", "Asks answered for other replicas", |c| c.served),
    ("bizrq_decider_ignored_total", "Messages that were not understood, or too many", |c| {
        c.ignored
    }),
    ("bizrq_decider_roles_total", "Times that this replica began to decide for all", |c| c.roles),
];

const APPENDS: (&str, &str) =
    ("bizrq_event_log_append_seconds", "How long appends of decisions took, in seconds");

/// See the head of this file.
struct Metrics {
    decider: Decider,
    counters: Vec<IntCounter>,
    queue: IntGauge,
    decides: IntGauge,
    appends: Desc,
}

impl Collector for Metrics {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = [&self.queue, &self.decides].into_iter().flat_map(Collector::desc);
        let counters = self.counters.iter().flat_map(Collector::desc);
        counters.chain(gauges).chain([&self.appends]).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let counts = self.decider.counts();
        for (counter, (.., count)) in self.counters.iter().zip(COUNTERS) {
            counter.inc_by(count(&counts).saturating_sub(counter.get()));
        }
        self.queue.set(i64::try_from(self.decider.queue_length()).unwrap_or(i64::MAX));
        self.decides.set(i64::from(self.decider.decides()));
        let gauges = [&self.queue, &self.decides].into_iter().flat_map(Collector::collect);
        let counters = self.counters.iter().flat_map(Collector::collect);
        counters.chain(gauges).chain([appends(&counts)]).collect()
    }
}

/// The histogram of append times, from the decider's buckets.
fn appends(counts: &Counts) -> MetricFamily {
    let mut sum = 0;
    let bounds = APPEND_BOUNDS_US.iter().map(|us| std::time::Duration::from_micros(*us));
    let buckets = bounds.zip(counts.append_buckets).map(|(bound, count)| {
        sum += count;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound.as_secs_f64());
        bucket.set_cumulative_count(sum);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(counts.append_buckets.iter().sum());
    histogram.set_sample_sum(counts.append_sum.as_secs_f64());
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    let mut family = MetricFamily::default();
    family.set_name(APPENDS.0.to_owned());
    family.set_help(APPENDS.1.to_owned());
    family.set_field_type(MetricType::HISTOGRAM);
    family.set_metric(vec![metric]);
    family
}
