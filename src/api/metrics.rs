//! What the API counts, for `/metrics`: how long answers took. Labels have names from short lists, never of a group.

use super::Shared;
use axum::{
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::Response,
};
use prometheus::{HistogramOpts, HistogramVec, Registry};
use std::time::Instant;

/// See the head of this file.
#[derive(Debug)]
pub struct Metrics {
    seconds: HistogramVec,
}

/// From what one group takes to the longest that any question may; close about a millisecond, in which one group is to
/// be answered.
const SECONDS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.00075, 0.001, 0.0015, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
    0.5, 1.0, 2.5, 5.0, 15.0,
];

impl Metrics {
    /// Registers everything in `registry`.
    ///
    /// # Errors
    /// When it is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let seconds = HistogramOpts::new(
            "bizrq_api_request_duration_seconds",
            "Time from the head of a request to the head of its answer, in seconds",
        );
        let seconds = seconds.buckets(SECONDS.to_vec());
        let seconds = HistogramVec::new(seconds, &["route", "method", "status"])?;
        registry.register(Box::new(seconds.clone()))?;
        Ok(Self { seconds })
    }
}

/// Measures an answer, if anybody reads that.
pub(super) async fn measure(State(api): Shared, request: Request, next: Next) -> Response {
    let Some(metrics) = &api.source.metrics else { return next.run(request).await };
    let begun = Instant::now();
    // A path that is not there, and a method that nobody knows, may be anything: they have one name together.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = match *request.method() {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        _ => "other",
    };
    let response = next.run(request).await;
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    let status = response.status();
    let seconds = metrics.seconds.with_label_values(&[route, method, status.as_str()]);
    seconds.observe(begun.elapsed().as_secs_f64());
    response
}
