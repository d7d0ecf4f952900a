//! The server: HTTP/1.1 and 2 over TLS, for API servers, and bounded in everything that a client can make it hold.
//!
//! ```text
//!  POST /validate/workloads/{cluster} ─┐
//!  POST /validate/quotas/{cluster}    ─┴▶ body, in time, within the budget ─▶ [Reviews] ─▶ AdmissionReview
//!  GET  /healthz, /readyz
//! ```
//!
//! It knows HTTP and nothing of what a review means. What is turned away in a moment of overload is told to come
//! again (`Retry-After`), which an API server does, within its own timeout, with the same body and uid.

mod body;
pub mod connections;
mod timeout;

use super::{
    metrics::{Metrics, TurnedAway},
    tls::{self, Current},
};
use crate::{clock, domain::time::Timestamp};
use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use axum_server::{
    Handle,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use body::{Budget, NoBody};
use bytes::Bytes;
use connections::{Connection, Connections};
use std::{
    future::Future,
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

/// What answers reviews: decodes, decides, finds the words.
pub trait Reviews: Send + Sync + 'static {
    /// Whether this cluster's reviews are answered here.
    fn knows(&self, cluster: &str) -> bool;

    /// The answer to `body` as JSON, before `deadline`.
    fn review(
        &self,
        about: About,
        cluster: &str,
        body: Bytes,
        deadline: Instant,
    ) -> impl Future<Output = Result<Answered, NoReview>> + Send;

    /// Whether reviews can be answered.
    fn readiness(&self) -> Readiness;
}

/// Whether reviews can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Yes; also while the log is away, of which answers speak.
    Ready,
    /// Not yet: by old numbers nothing may be decided. What is waited for.
    CatchingUp(String),
    /// Only what needs no decision, for good. Why.
    Stopped(String),
}

/// Which of the two webhooks is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Workloads, pods, scales.
    Workloads,
    /// Quota objects.
    Quotas,
}

/// An answer, and how it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// An `AdmissionReview`.
    pub json: Vec<u8>,
    /// `allowed` or `refused`.
    pub decision: &'static str,
    /// One of a short list, never of an object.
    pub reason: String,
}

/// The body is no review that can be answered: HTTP 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoReview(pub String);

/// What clients can make the server hold, and for how long. Each number is a bound, not a wish.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections. Below 1,024 with the log's files and a few more: the usual number of open files.
    pub connections: usize,
    /// A connection on which nothing came for so long is closed. API servers send a ping every 30 s.
    pub silence: Duration,
    /// A TLS handshake.
    pub handshake: Duration,
    /// The head of a request; also an idle connection of HTTP/1.1, which therefore must not be much shorter than what
    /// clients keep such a connection for.
    pub head: Duration,
    /// A body.
    pub body: Duration,
    /// Bytes of one body. An API server takes objects of up to 3 MiB; a review of an update holds two of them.
    pub body_bytes: usize,
    /// Bytes of all bodies at once: small ones, and what large ones have beyond that, each so much.
    pub bodies_bytes: usize,
    /// Reviews that are being answered.
    pub reviews: usize,
    /// The time that a review has if the API server does not say.
    pub review: Duration,
    /// Between "not ready" and the end of accepting: until no new connection is sent here.
    pub notice: Duration,
    /// For the last reviews, once nothing is accepted any more.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 768,
            silence: Duration::from_secs(120),
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(60),
            body: Duration::from_secs(5),
            body_bytes: 7 << 20,
            bodies_bytes: 64 << 20,
            reviews: 4096,
            review: Duration::from_secs(10),
            notice: Duration::from_secs(5),
            farewell: Duration::from_secs(15),
        }
    }
}

/// A server that is bound, and not yet serving.
pub struct Server<R> {
    shared: Arc<Shared<R>>,
    listener: TcpListener,
    connections: Connections,
}

/// What every request sees.
struct Shared<R> {
    reviews: R,
    limits: Limits,
    current: Arc<Current>,
    metrics: Arc<Metrics>,
    budget: Budget,
    /// One permit for each review that is being answered.
    places: Semaphore,
    is_ending: AtomicBool,
    now: fn() -> Timestamp,
}

impl<R: Reviews> Server<R> {
    /// Binds `address`, to be served with the certificate that `current` shows.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn bind(
        address: SocketAddr,
        reviews: R,
        current: Arc<Current>,
        metrics: Arc<Metrics>,
        limits: Limits,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let connections = Connections::new(limits.connections, Arc::clone(&metrics));
        let shared = Arc::new(Shared::new(reviews, current, metrics, limits));
        Ok(Self { shared, listener, connections })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`; then says "not ready", waits until nobody new is sent here, stops accepting, and
    /// answers what was asked.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn serve(self, stop: impl Future) -> io::Result<()> {
        let Self { shared, listener, connections } = self;
        let limits = shared.limits;
        let config = tls::server_config(Arc::clone(&shared.current)).map_err(io::Error::other)?;
        let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(Arc::new(config)))
            .handshake_timeout(limits.handshake)
            .acceptor(connections.clone());
        let handle = Handle::new();
        let mut server = axum_server::from_tcp(listener)?
            .handle(handle.clone())
            .acceptor(acceptor)
            .first_request_timeout(limits.head);
        let http = server.http_builder();
        http.http1().header_read_timeout(limits.head).max_buf_size(64 << 10);
        // A review is 5 to 50 KiB; a stream that needs more asks for it.
        http.http2().max_concurrent_streams(250).initial_connection_window_size(1 << 20);
        let serving = server.serve(routes(Arc::clone(&shared)).into_make_service());
        let ending = async {
            stop.await;
            shared.is_ending.store(true, Ordering::Relaxed);
            tokio::time::sleep(limits.notice).await;
            handle.graceful_shutdown(Some(limits.farewell));
            std::future::pending().await
        };
        let sweeping = connections.close_the_silent(limits.silence);
        tokio::select! {
            served = serving => served,
            () = ending => Ok(()),
            () = sweeping => Ok(()),
        }
    }
}

impl<R> Shared<R> {
    fn new(reviews: R, current: Arc<Current>, metrics: Arc<Metrics>, limits: Limits) -> Self {
        Self {
            reviews,
            limits,
            current,
            metrics,
            budget: Budget::new(limits.body_bytes, limits.bodies_bytes),
            places: Semaphore::new(limits.reviews),
            is_ending: AtomicBool::new(false),
            now: clock::now,
        }
    }
}

/// Every route, without a socket: for tests, and for whoever brings its own.
pub fn router<R: Reviews>(
    reviews: R,
    current: Arc<Current>,
    metrics: Arc<Metrics>,
    limits: Limits,
) -> Router {
    routes(Arc::new(Shared::new(reviews, current, metrics, limits)))
}

fn routes<R: Reviews>(shared: Arc<Shared<R>>) -> Router {
    Router::new()
        .route("/validate/workloads/{cluster}", post(workloads::<R>))
        .route("/validate/quotas/{cluster}", post(quotas::<R>))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz::<R>))
        .with_state(shared)
}

type Shares<R> = State<Arc<Shared<R>>>;

async fn workloads<R: Reviews>(
    State(shared): Shares<R>,
    Path(cluster): Path<String>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    shared.review(About::Workloads, &cluster, query.as_deref(), request).await
}

async fn quotas<R: Reviews>(
    State(shared): Shares<R>,
    Path(cluster): Path<String>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    shared.review(About::Quotas, &cluster, query.as_deref(), request).await
}

async fn readyz<R: Reviews>(State(shared): Shares<R>) -> Response {
    match shared.not_ready() {
        None => "ready\n".into_response(),
        Some(why) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")).into_response()
        }
    }
}

impl<R: Reviews> Shared<R> {
    async fn review(
        &self,
        about: About,
        cluster: &str,
        query: Option<&str>,
        request: Request,
    ) -> Response {
        let began = Instant::now();
        if !self.reviews.knows(cluster) {
            let text = format!(
                "cluster `{cluster}` is not served here; look at the webhook's url or path\n"
            );
            return (StatusCode::NOT_FOUND, text).into_response();
        }
        let connection = request.extensions().get::<Connection>().cloned();
        let deadline = timeout::deadline(began, query, self.limits.review);
        let in_time = deadline.min(began + self.limits.body);
        let body = match self.budget.read(request.into_body(), in_time).await {
            Ok(body) => body,
            Err(no_body) => return self.no_body(no_body),
        };
        let Ok(_place) = self.places.try_acquire() else {
            return self.come_again(TurnedAway::Busy, "too many reviews are being answered");
        };
        // From here on the client has done its part, and its connection is not closed for another's.
        let _busy = connection.as_ref().map(Connection::busy);
        if let Readiness::CatchingUp(why) = self.reviews.readiness() {
            return self.come_again(TurnedAway::NotReady, &format!("not ready: {why}"));
        }
        let review = self.reviews.review(about, cluster, body.bytes(), deadline);
        match timeout_at(deadline, review).await {
            Ok(Ok(answered)) => {
                self.metrics.answered(answered.decision, &answered.reason, began.elapsed());
                ([(header::CONTENT_TYPE, "application/json")], answered.json).into_response()
            }
            Ok(Err(no_review)) => self.turn_away(
                TurnedAway::NoReview,
                StatusCode::BAD_REQUEST,
                format!("this is no AdmissionReview that can be answered: {no_review}\n"),
            ),
            Err(_) => self.turn_away(
                TurnedAway::Late,
                StatusCode::GATEWAY_TIMEOUT,
                "the review was not answered in time\n",
            ),
        }
    }

    fn not_ready(&self) -> Option<String> {
        if self.is_ending.load(Ordering::Relaxed) {
            return Some("shutting down".to_owned());
        }
        if !self.current.is_valid((self.now)()) {
            return Some("there is no certificate whose time is now".to_owned());
        }
        match self.reviews.readiness() {
            Readiness::Ready => None,
            Readiness::CatchingUp(why) | Readiness::Stopped(why) => Some(why),
        }
    }

    fn no_body(&self, no_body: NoBody) -> Response {
        let (why, status) = match no_body {
            NoBody::TooLarge { .. } => (TurnedAway::TooLarge, StatusCode::PAYLOAD_TOO_LARGE),
            NoBody::Slow => (TurnedAway::Slow, StatusCode::REQUEST_TIMEOUT),
            NoBody::Broken(_) => (TurnedAway::Broken, StatusCode::BAD_REQUEST),
            NoBody::NoRoom => return self.come_again(TurnedAway::Busy, &no_body.to_string()),
        };
        self.turn_away(why, status, format!("{no_body}\n"))
    }

    fn come_again(&self, why: TurnedAway, text: &str) -> Response {
        let mut response =
            self.turn_away(why, StatusCode::SERVICE_UNAVAILABLE, format!("{text}; come again\n"));
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        response
    }

    fn turn_away(&self, why: TurnedAway, status: StatusCode, text: impl Into<Body>) -> Response {
        self.metrics.turned_away(why);
        (status, text.into()).into_response()
    }
}
