//! A server for tests, and what answers in it.

use super::client::{Client, PATIENCE};
use bizrq::{
    clock,
    domain::time::{HOUR_MS, Timestamp},
    webhook::{
        metrics::Metrics,
        server::{About, Answered, Limits, NoReview, Readiness, Reviews, Server},
        tls::{Current, Pair, issue, rotation::Authority},
    },
};
use bytes::Bytes;
use prometheus::Registry;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Semaphore, oneshot},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

/// Says yes to every review of `east`: after a while if it has a number of milliseconds in `wait`, when it is released
/// if it is `held`.
#[derive(Clone)]
pub(super) struct Yes {
    pub(super) readiness: Readiness,
    pub(super) holding: Arc<AtomicUsize>,
    pub(super) released: Arc<Semaphore>,
}

impl Default for Yes {
    fn default() -> Self {
        let released = Arc::new(Semaphore::new(0));
        Self { readiness: Readiness::Ready, holding: Arc::default(), released }
    }
}

impl Yes {
    /// Waits until so many held reviews have come.
    pub(super) async fn holds(&self, reviews: usize) {
        let come = async {
            while self.holding.load(Ordering::Relaxed) < reviews {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, come).await.expect("a held review does not come");
    }

    /// Answers so many held reviews.
    pub(super) fn release(&self, reviews: usize) {
        self.released.add_permits(reviews);
    }
}

impl Reviews for Yes {
    fn knows(&self, cluster: &str) -> bool {
        cluster == "east"
    }

    async fn review(
        &self,
        about: About,
        cluster: &str,
        body: Bytes,
        _: Instant,
    ) -> Result<Answered, NoReview> {
        let review: Value =
            serde_json::from_slice(&body).map_err(|error| NoReview(error.to_string()))?;
        let uid = review["request"]["uid"].as_str();
        let uid = uid.ok_or_else(|| NoReview("request.uid is missing".into()))?;
        if let Some(ms) = review["wait"].as_u64() {
            sleep(Duration::from_millis(ms)).await;
        }
        if review["held"] == true {
            self.holding.fetch_add(1, Ordering::Relaxed);
            self.released.acquire().await.unwrap().forget();
        }
        let said = format!("{about:?} of {cluster}");
        let json = json!({"response": {"uid": uid, "allowed": true, "said": said}}).to_string();
        Ok(Answered { json: json.into_bytes(), decision: "allowed", reason: "NothingGrows".into() })
    }

    fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }
}

/// A review with this uid.
pub(super) fn review(uid: &str) -> Vec<u8> {
    json!({"request": {"uid": uid}}).to_string().into_bytes()
}

/// A review that is answered after a while.
pub(super) fn slow_review(uid: &str, wait: Duration) -> Vec<u8> {
    json!({"request": {"uid": uid}, "wait": wait.as_millis()}).to_string().into_bytes()
}

/// A review that is answered when [`Yes::release`] says so.
pub(super) fn held_review(uid: &str) -> Vec<u8> {
    json!({"request": {"uid": uid}, "held": true}).to_string().into_bytes()
}

/// An authority, and pairs that it signed.
pub(crate) struct Ca(pub(crate) Authority);

impl Ca {
    pub(crate) fn new() -> Self {
        let now = clock::now();
        Self(issue::authority(now, now.shifted(24 * HOUR_MS)).unwrap())
    }

    /// Certificate and key for `localhost`, as PEM.
    pub(crate) fn issue(&self, from: Timestamp, until: Timestamp) -> (String, String) {
        let serving = issue::serving(&self.0, &["localhost".into()], from, until).unwrap();
        (serving.certificate, serving.key)
    }

    /// One that holds now.
    pub(crate) fn pair(&self) -> Pair {
        let now = clock::now();
        let (certificate, key) = self.issue(now, now.shifted(HOUR_MS));
        Pair::parse(certificate.as_bytes(), key.as_bytes(), now).unwrap()
    }
}

/// A server that serves until it is stopped.
pub(crate) struct Served {
    pub(super) ca: Ca,
    pub(super) address: SocketAddr,
    pub(super) current: Arc<Current>,
    pub(super) registry: Registry,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

/// Bounds that are reached in a test's time. What must not happen has ten times what must.
pub(crate) fn limits() -> Limits {
    Limits { notice: Duration::ZERO, ..Limits::default() }
}

impl Served {
    pub(super) fn start(limits: Limits) -> Self {
        Self::start_with(Yes::default(), limits)
    }

    pub(crate) fn start_with(reviews: impl Reviews, limits: Limits) -> Self {
        let (ca, registry) = (Ca::new(), Registry::new());
        let current = Arc::new(Current::default());
        current.show(ca.pair());
        let metrics = Arc::new(Metrics::new(&registry).unwrap());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(any, reviews, Arc::clone(&current), metrics, limits).unwrap();
        let address = server.address().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.serve(stopped));
        Self { ca, address, current, registry, stop, task }
    }

    pub(super) async fn http1(&self) -> Client {
        Client::connect(self.address, &self.ca.0.certificate, b"http/1.1").await.unwrap()
    }

    pub(crate) async fn http2(&self) -> Client {
        Client::connect(self.address, &self.ca.0.certificate, b"h2").await.unwrap()
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(self) {
        self.begin_to_stop().await.unwrap().unwrap();
    }

    pub(super) fn begin_to_stop(self) -> JoinHandle<std::io::Result<()>> {
        self.stop.send(()).unwrap();
        self.task
    }

    /// How many were turned away for this reason.
    pub(super) fn turned_away(&self, why: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|f| f.name() == "bizrq_webhook_turned_away_total");
        let lines = family.map(|f| f.get_metric().to_vec()).unwrap_or_default();
        let of = lines.iter().filter(|m| m.get_label().iter().any(|l| l.value() == why));
        of.map(|m| m.get_counter().get_value()).sum()
    }
}
