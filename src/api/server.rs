//! The API's connections: so many at once, and none that takes for ever.
//!
//! ```text
//!  accept ─place?─▶ Held { stream, place } ─[TLS in 10 s]─▶ hyper: heads in 10 s ─▶ routes, each in 15 s
//!                     └ a client that takes nothing for 45 s is cut off
//! ```

use axum::{Router, extract::Request};
use axum_server::{
    Handle, Server,
    accept::Accept,
    service::SendService,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use hyper::body::Incoming;
use hyper_util::rt::TokioTimer;
use rustls::ServerConfig;
use std::{
    future::{Future, Ready, ready},
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};

/// Connections at once: every listener's, and as many for questions.
pub(super) const CONNECTIONS: usize = 2 * super::events::LISTENERS;
/// So long a client may take to say what it asks; so long it may keep a connection and ask nothing.
const HEAD: Duration = Duration::from_secs(10);
/// So long a client may take nothing of its answer: longer than a stream waits before it says why it ends.
pub(super) const TAKEN_WITHIN: Duration = Duration::from_secs(45);
/// So long answers that were begun may take when the process ends.
const FAREWELL: Duration = Duration::from_secs(5);
/// What is kept of a connection's bytes, each way.
const BUFFER: usize = 32 << 10;
/// Questions that one connection may ask at once (HTTP/2).
const STREAMS: u32 = 32;

/// Serves `routes`, by HTTPS if `tls` is given, until `end` comes true.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    routes: Router,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let server = axum_server::from_tcp(listener.into_std()?)?;
    let places = Places(Arc::new(Semaphore::new(CONNECTIONS)));
    match tls {
        None => accept(server.acceptor(places), routes, end).await,
        Some(config) => {
            let tls = RustlsAcceptor::new(RustlsConfig::from_config(config));
            // A place is taken before the handshake, and what a client does not take of it counts, too.
            let tls = tls.handshake_timeout(HEAD).acceptor(places);
            accept(server.acceptor(tls), routes, end).await
        }
    }
}

async fn accept<A>(
    server: Server<SocketAddr, A>,
    routes: Router,
    end: impl Future<Output = ()>,
) -> io::Result<()>
where
    A: Accept<TcpStream, Router> + Clone + Send + Sync + 'static,
    A::Stream: AsyncRead + AsyncWrite + Unpin + Send,
    A::Service: SendService<Request<Incoming>> + Send,
    A::Future: Send,
{
    let handle = Handle::new();
    let mut server = server.handle(handle.clone()).first_request_timeout(HEAD);
    let http = server.http_builder();
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER);
    http.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS).max_send_buf_size(BUFFER);
    let serving = server.serve(routes.into_make_service());
    let ending = async {
        end.await;
        handle.graceful_shutdown(Some(FAREWELL));
        std::future::pending().await
    };
    tokio::select! {
        served = serving => served,
        () = ending => Ok(()),
    }
}

/// A place for each connection; who finds none is hung up on.
#[derive(Clone)]
struct Places(Arc<Semaphore>);

/// A connection that has a place.
struct Held<S> {
    stream: S,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    _place: OwnedSemaphorePermit,
}

impl<I, S> Accept<I, S> for Places {
    type Stream = Held<I>;
    type Service = S;
    type Future = Ready<io::Result<(Held<I>, S)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let place = Arc::clone(&self.0).try_acquire_owned();
        let held = place.map(|place| Held { stream, stalled: None, _place: place });
        let full = |_| io::Error::new(io::ErrorKind::ConnectionRefused, "all places are taken");
        ready(held.map(|held| (held, service)).map_err(full))
    }
}

impl<S: Unpin> Held<S> {
    /// What a write came to; one that waits for too long is an error.
    fn within<T>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.stalled = None;
            return wrote;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(TAKEN_WITHIN)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Held<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Held<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.within(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within(cx, ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_cut_off_and_who_takes_slowly_is_not() {
        let (client, server) = duplex(16);
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let mut held = Held { stream: server, stalled: None, _place: place };
        let writing = tokio::spawn(async move { held.write_all(&[7; 96]).await });
        let mut client = client;
        let mut bytes = [0; 16];
        for _ in 0..3 {
            sleep(TAKEN_WITHIN - Duration::from_secs(1)).await;
            client.read_exact(&mut bytes).await.unwrap();
        }
        assert!(!writing.is_finished() && places.available_permits() == 0);
        let failed = writing.await.unwrap().unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        assert_eq!(places.available_permits(), 1);
    }
}
