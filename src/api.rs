//! The query API: what the ledger says of quotas and usage, the log's events as they come, and a page to look at, by
//! HTTP on a port of its own.
//!
//! ```text
//!  GET /                   the page
//!  GET /v1/quotas          the tree          GET /v1/quotas/{name}   one group
//!  GET /v1/usage           whole hours       GET /v1/events          the log, as it grows
//!  GET /v1/workloads       what is charged   GET /v1/pods            what runs
//!  GET /v1/pods/{uid}      one pod, segment by segment
//!  GET /v1/burndown        how a budget came to what is left of it
//!  GET /v1/refusals        who heard no      GET /v1/state           the tree of a while ago
//!  POST /v1/fits           would it fit?
//! ```
//!
//! It only reads: the fold's ledger for a question, the log for events. Who asks sees what [`Access`] says of their token.
//! As long as it asks nobody who they are, it listens on loopback only, and answers only who calls it by a loopback name,
//! so that no page of the web can ask it.

pub mod access;
mod answer;
mod burndown;
mod events;
pub mod fits;
mod metrics;
pub mod openapi;
mod page;
mod pods;
mod problem;
mod quotas;
mod refusals;
mod running;
mod server;
mod state;
mod usage;
mod view;
mod workloads;

pub use access::Access;
pub use metrics::Metrics;

use crate::{domain::time::Timestamp, event_log::AnyLog, projection::Projection};
use access::{Asker, Sees};
use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderValue, header, uri::Authority},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use fits::Judge;
use problem::Problem;
use rustls::ServerConfig;
use std::{fmt, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::spawn_blocking,
    time::timeout,
};
use tower_http::compression::{
    CompressionLayer,
    predicate::{DefaultPredicate, Predicate, SizeAbove},
};
use view::View;

/// Questions that are worked on at once; one more waits.
const QUESTIONS: usize = 4;
/// Questions that may wait.
const WAITING: usize = 256;
/// What the system keeps of an answer that is not taken.
const SEND_BUFFER: u32 = 256 << 10;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// Bytes of an answer that fit into one packet of an Ethernet, beside its head.
const PACKET: u64 = 1200;
/// So long a question may take, with everything that it waits for.
const IN_TIME: Duration = Duration::from_secs(15);

/// What is asked. Clones are the same.
#[derive(Clone)]
pub struct Source {
    /// The log, for its events.
    pub log: Arc<AnyLog>,
    /// The fold of that log.
    pub projection: Projection,
    /// The instant that spend is counted up to.
    pub now: fn() -> Timestamp,
    /// Who may see what.
    pub access: Access,
    /// Who reads manifests, if anybody does.
    pub judge: Option<Arc<dyn Judge>>,
    /// What is counted, if anybody reads that.
    pub metrics: Option<Arc<Metrics>>,
}

/// What every request sees.
#[derive(Clone)]
struct Api {
    source: Source,
    /// One permit for each question that waits or is worked on, and one for each that is worked on.
    places: [Arc<Semaphore>; 2],
    listeners: Arc<Semaphore>,
    readers: Arc<Semaphore>,
    past: Arc<state::Past>,
    /// Comes true when streams are to end.
    ending: watch::Receiver<bool>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("status", &self.projection.status()).finish_non_exhaustive()
    }
}

/// Binds `address`, which must be of this host alone unless `access` asks who comes.
///
/// # Errors
/// What the operating system says; [`io::ErrorKind::PermissionDenied`] of an address that others reach.
pub async fn bind(address: SocketAddr, access: &Access) -> io::Result<TcpListener> {
    if access.is_open() && !address.ip().is_loopback() {
        let why = "the API asks nobody who they are, so it listens on 127.0.0.1 or [::1] only; \
                   make it know tokens first";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    // Connections inherit it: what a client does not take is not kept by the system either.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Answers on `listener`, with `tls` if it is given, until `end` comes true; streams are ended then.
///
/// # Errors
/// What the operating system says.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    source: Source,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (ending, streams) = watch::channel(false);
    let ended = async move {
        end.await;
        let _ = ending.send(true);
    };
    server::serve(listener, tls, routes(source, streams), ended).await
}

fn routes(source: Source, ending: watch::Receiver<bool>) -> Router {
    let places = [WAITING, QUESTIONS].map(|most| Arc::new(Semaphore::new(most)));
    let listeners = Arc::new(Semaphore::new(events::LISTENERS));
    let (readers, past) = (Arc::new(Semaphore::new(events::READERS)), Arc::default());
    let api = Api { source, places, listeners, readers, past, ending };
    let asked = Router::new()
        .route("/v1/quotas", get(quotas::all))
        .route("/v1/quotas/{name}", get(quotas::one))
        .route("/v1/usage", get(usage::usage))
        .route("/v1/burndown", get(burndown::burndown))
        .route("/v1/events", get(events::events))
        .route("/v1/workloads", get(workloads::workloads))
        .route("/v1/pods", get(running::pods))
        .route("/v1/pods/{uid}", get(pods::one))
        .route("/v1/refusals", get(refusals::refusals))
        .route("/v1/state", get(state::state))
        .route("/v1/fits", post(fits::fits))
        .layer(DefaultBodyLimit::max(fits::MOST_BYTES))
        .route_layer(middleware::from_fn_with_state(api.clone(), identify));
    Router::new()
        .merge(asked)
        .merge(page::routes())
        .fallback(async || {
            Problem::not_found("there is nothing under this path; see / or /v1/quotas")
        })
        .method_not_allowed_fallback(async || Problem::no_method())
        .layer(middleware::from_fn(in_time))
        .layer(CompressionLayer::new().compress_when(worth_compressing()))
        .layer(middleware::from_fn_with_state(api.clone(), guard))
        .layer(middleware::from_fn_with_state(api.clone(), metrics::measure))
        .with_state(api)
}

/// What fits into one packet costs more to compress than to send; streams of events go out piece by piece.
fn worth_compressing() -> impl Predicate {
    DefaultPredicate::new().and(SizeAbove::new(PACKET))
}

impl Api {
    /// Waits for a question's turn.
    async fn place(&self) -> Result<Place, Problem> {
        let [waiting, working] = &self.places;
        let waits = Arc::clone(waiting).try_acquire_owned().map_err(|_| Problem::busy())?;
        let works = Arc::clone(working).acquire_owned().await.map_err(|_| Problem::busy())?;
        match self.source.projection.status().caught_up {
            true => Ok([waits, works]),
            false => Err(Problem::not_ready()),
        }
    }

    /// Looks something up on what `sees` shows; whoever looks has a place.
    fn look<T>(
        &self,
        sees: &Sees,
        look: impl FnOnce(&View<'_>, Timestamp) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let ledger = self.source.projection.ledger();
        look(&View::new(&ledger, sees)?, (self.source.now)())
    }

    /// Works a question out on what `sees` shows of the ledger as it is now, away from who serves connections.
    async fn ask<T: Send + 'static>(
        &self,
        sees: Sees,
        question: impl FnOnce(&View<'_>, Timestamp) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = self.place().await?;
        let source = self.source.clone();
        let answered = spawn_blocking(move || {
            let ledger = source.projection.ledger();
            // Who asked may be gone; the work is not, so it keeps its place.
            let _place = place;
            question(&View::new(&ledger, &sees)?, (source.now)())
        });
        answered.await.unwrap_or_else(|died| Err(Problem::internal(&died)))
    }
}

/// A place among the questions that wait, and one among those that are worked on.
type Place = [OwnedSemaphorePermit; 2];

type Shared = State<Api>;
/// What who asks may see.
type Seen = Extension<Sees>;

/// Finds out who asks; no answer is worked out for who may see nothing.
async fn identify(State(api): Shared, mut request: Request, next: Next) -> Response {
    // A request's body cannot be shared, so nothing of it is kept while others are asked.
    let asker = Asker::of(request.headers());
    let identified = async {
        let asker = asker?;
        let sees = api.source.access.sees(&asker).await?;
        Ok::<_, Problem>((asker, sees))
    };
    match identified.await {
        Ok((asker, sees)) => {
            request.extensions_mut().insert(asker);
            request.extensions_mut().insert(sees);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Ends what takes too long. A stream has begun by then, and is not ended by this.
async fn in_time(request: Request, next: Next) -> Response {
    let answered = timeout(IN_TIME, next.run(request)).await;
    answered.unwrap_or_else(|_| Problem::late().into_response())
}

/// Turns away who calls this host by another name (a page of the web whose name leads here), and tells browsers to
/// load nothing from elsewhere.
async fn guard(State(api): Shared, request: Request, next: Next) -> Response {
    // With tokens it needs no such care: no page has one that was not given to it.
    if api.source.access.is_open() && !calls_this_host(&request) {
        return Problem::misdirected().into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether whoever asks calls this host by a name of its own: by the header `Host`, or as HTTP/2 does, by the address of
/// what is asked; by neither another.
fn calls_this_host<B>(request: &hyper::Request<B>) -> bool {
    let host = request.headers().get(header::HOST);
    // What is no text is no name of this host.
    let host = host.map(|host| host.to_str().unwrap_or_default());
    let names = [host, request.uri().authority().map(Authority::as_str)];
    names.iter().any(Option::is_some) && names.into_iter().flatten().all(is_loopback)
}

/// Whether `host`, with or without a port, names this host alone.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_called_by_its_header_or_by_the_address() {
        let asked = |uri: &str, host: Option<&[u8]>| {
            let mut request = hyper::Request::get(uri);
            if let Some(host) = host {
                request = request.header(header::HOST, host);
            }
            calls_this_host(&request.body(()).unwrap())
        };
        for (uri, host, is) in [
            ("/v1/quotas", Some(&b"127.0.0.1:8080"[..]), true),
            ("https://127.0.0.1:8080/v1/quotas", None, true),
            ("https://localhost/v1/quotas", Some(b"localhost"), true),
            ("/v1/quotas", None, false),
            ("/v1/quotas", Some(b"evil.example"), false),
            ("/v1/quotas", Some(b"\xff"), false),
            ("https://evil.example/v1/quotas", None, false),
            ("https://evil.example/v1/quotas", Some(b"localhost"), false),
            ("https://localhost/v1/quotas", Some(b"evil.example"), false),
            ("https://me@localhost/v1/quotas", None, false),
        ] {
            assert_eq!(asked(uri, host), is, "{uri} {host:?}");
        }
    }

    #[test]
    fn only_this_host_is_loopback() {
        for (host, is) in [
            ("localhost", true),
            ("localhost:8080", true),
            ("127.0.0.1:8080", true),
            ("[::1]:8080", true),
            ("evil.example:8080", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1:8080", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(host), is, "{host}");
        }
    }
}
