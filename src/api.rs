//! The query API: what the ledger says of quotas and usage, the log's events as they come, and a page to look at, by
//! HTTP on a port of its own.
//!
//! ```text
//!  GET /                   the page
//!  GET /v1/quotas          the tree          GET /v1/quotas/{name}   one group
//!  GET /v1/usage           whole hours       GET /v1/events          the log, as it grows
//! ```
//!
//! It only reads: the fold's ledger for a question, the log for events. As long as it asks nobody who they are, it
//! listens on loopback only, and answers only who calls it by a loopback name, so that no page of the web can ask it.

mod answer;
mod events;
mod page;
mod problem;
mod quotas;
mod usage;

use crate::{
    domain::{ledger::Ledger, time::Timestamp},
    event_log::AnyLog,
    projection::Projection,
};
use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use problem::Problem;
use std::{fmt, future::Future, io, net::SocketAddr, sync::Arc};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::spawn_blocking,
};

/// Questions that are worked on at once; one more waits.
const QUESTIONS: usize = 4;
/// Questions that may wait.
const WAITING: usize = 256;

/// What is asked. Clones are the same.
#[derive(Clone)]
pub struct Source {
    /// The log, for its events.
    pub log: Arc<AnyLog>,
    /// The fold of that log.
    pub projection: Projection,
    /// The instant that spend is counted up to.
    pub now: fn() -> Timestamp,
}

/// What every request sees.
#[derive(Clone)]
struct Api {
    source: Source,
    /// One permit for each question that waits or is worked on, and one for each that is worked on.
    places: Arc<[Semaphore; 2]>,
    listeners: Arc<Semaphore>,
    /// Comes true when streams are to end.
    ending: watch::Receiver<bool>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("status", &self.projection.status()).finish_non_exhaustive()
    }
}

/// Binds `address`, which must be of this host alone.
///
/// # Errors
/// What the operating system says; [`io::ErrorKind::PermissionDenied`] of an address that others reach.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        let why = "the API asks nobody who they are, so it listens on 127.0.0.1 or [::1] only";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    TcpListener::bind(address).await
}

/// Answers on `listener` until `end` comes true; streams are ended then.
///
/// # Errors
/// What the operating system says.
pub async fn serve(
    listener: TcpListener,
    source: Source,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (ending, streams) = watch::channel(false);
    let ended = async move {
        end.await;
        let _ = ending.send(true);
    };
    axum::serve(listener, routes(source, streams)).with_graceful_shutdown(ended).await
}

fn routes(source: Source, ending: watch::Receiver<bool>) -> Router {
    let places = Arc::new([Semaphore::new(WAITING), Semaphore::new(QUESTIONS)]);
    let listeners = Arc::new(Semaphore::new(events::LISTENERS));
    Router::new()
        .route("/v1/quotas", get(quotas::all))
        .route("/v1/quotas/{name}", get(quotas::one))
        .route("/v1/usage", get(usage::usage))
        .route("/v1/events", get(events::events))
        .route("/", get(page::html))
        .route("/page.css", get(page::css))
        .route("/page.js", get(page::js))
        .fallback(async || {
            Problem::not_found("there is nothing under this path; see / or /v1/quotas")
        })
        .layer(middleware::from_fn(guard))
        .with_state(Api { source, places, listeners, ending })
}

impl Api {
    /// Works a question out on the ledger as it is now, away from who serves connections.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Ledger, Timestamp) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let [waiting, working] = &*self.places;
        let Ok(_waits) = waiting.try_acquire() else { return Err(Problem::busy()) };
        let Ok(_works) = working.acquire().await else { return Err(Problem::busy()) };
        if !self.source.projection.status().caught_up {
            return Err(Problem::not_ready());
        }
        let source = self.source.clone();
        let answered =
            spawn_blocking(move || question(&source.projection.ledger(), (source.now)()));
        answered.await.unwrap_or_else(|died| Err(Problem::internal(&died)))
    }
}

type Shared = State<Api>;

/// Turns away who calls this host by another name (a page of the web whose name leads here), and tells browsers to
/// load nothing from elsewhere.
async fn guard(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_loopback) {
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
