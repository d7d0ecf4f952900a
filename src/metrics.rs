//! Metrics and health, for those who look after the process: plain HTTP on a port of its own, which answers from the
//! first moment on.
//!
//! ```text
//!  GET /metrics   what was counted, as Prometheus reads it
//!  GET /healthz   the process works
//!  GET /readyz    reviews can be answered, or what is waited for
//! ```

mod decider;
mod groups;

pub use decider::register as register_decider;
pub use groups::register as register_groups;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus::{Registry, TextEncoder};
use std::{fmt, future::Future, io, net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, task::spawn_blocking};

/// What is told.
#[derive(Clone)]
pub struct Told {
    /// What was counted.
    pub registry: Registry,
    /// What is waited for, if the process is not ready.
    pub waits_for: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").field("registry", &self.registry).finish_non_exhaustive()
    }
}

/// Tells on `listener` until `end` comes true.
///
/// # Errors
/// What the operating system says.
pub async fn serve(
    listener: TcpListener,
    told: Told,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, routes(told)).with_graceful_shutdown(end).await
}

/// Binds `address`.
///
/// # Errors
/// What the operating system says.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

fn routes(told: Told) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(told)
}

async fn metrics(State(told): State<Told>) -> Response {
    // Some of it is read off the ledger, which may have to be waited for.
    let gathered =
        spawn_blocking(move || TextEncoder::new().encode_to_string(&told.registry.gather()));
    let failed = match gathered.await {
        Ok(Ok(text)) => {
            return ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response();
        }
        Ok(Err(error)) => error.to_string(),
        Err(died) => died.to_string(),
    };
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{failed}\n")).into_response()
}

async fn readyz(State(told): State<Told>) -> Response {
    match (told.waits_for)() {
        None => "ready\n".into_response(),
        Some(why) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")).into_response()
        }
    }
}
