//! Connections: bounded, and a newcomer finds a place as long as anybody has one without using it.
//!
//! When all places are taken, whoever has been silent for longest and is not waiting for an answer loses its own.
//! So clients that open connections and say nothing, or little, keep nobody out.

use crate::webhook::metrics::{Metrics, TurnedAway};
use axum::Extension;
use axum::middleware::AddExtension;
use axum_server::accept::Accept;
use futures_util::task::AtomicWaker;
use std::{
    collections::BTreeMap,
    future::{Ready, ready},
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Instant,
};
use tower::Layer;

/// All connections of a server. Clones are the same.
#[derive(Clone, Debug)]
pub struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    most: usize,
    began: Instant,
    metrics: Arc<Metrics>,
    /// Locked when a connection comes or goes, and once in ten seconds.
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    numbers: u64,
    connections: BTreeMap<u64, Arc<Watched>>,
}

/// What is known of one connection.
#[derive(Debug, Default)]
struct Watched {
    /// When something came last, in milliseconds since the server began.
    heard: AtomicU64,
    /// Reviews that wait for their answer.
    busy: AtomicUsize,
    is_closed: AtomicBool,
    waker: AtomicWaker,
}

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub struct Connection(Arc<Watched>);

/// As long as it lives, its connection is not closed for another's.
#[derive(Debug)]
pub struct Busy(Arc<Watched>);

/// A stream that is watched.
#[derive(Debug)]
pub struct Stream {
    tcp: TcpStream,
    number: u64,
    watched: Arc<Watched>,
    shared: Arc<Shared>,
}

impl Connections {
    /// At most `most` at once.
    #[must_use]
    pub fn new(most: usize, metrics: Arc<Metrics>) -> Self {
        let shared = Shared { most, began: Instant::now(), metrics, open: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Closes what was silent for `silence`, for ever.
    pub async fn close_the_silent(&self, silence: Duration) {
        let every = (silence / 12).max(Duration::from_millis(10));
        loop {
            tokio::time::sleep(every).await;
            let before = self.shared.now().saturating_sub(millis(silence));
            for watched in self.shared.open().connections.values() {
                if watched.is_idle() && watched.heard.load(Ordering::Relaxed) < before {
                    watched.close();
                    self.shared.metrics.turned_away(TurnedAway::Silent);
                }
            }
        }
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        millis(self.began.elapsed())
    }

    /// Takes a newcomer in; `None`: every place is used.
    fn take_in(&self) -> Option<(u64, Arc<Watched>)> {
        let mut open = self.open();
        if open.connections.len() >= self.most {
            let idle = open.connections.iter().filter(|(_, watched)| watched.is_idle());
            let silent = idle.min_by_key(|(_, watched)| watched.heard.load(Ordering::Relaxed));
            let number = silent.map(|(number, _)| *number)?;
            // Its place is free at once; its task hears of it when it runs next.
            open.connections.remove(&number)?.close();
            self.metrics.turned_away(TurnedAway::Silent);
        }
        let watched = Arc::new(Watched { heard: AtomicU64::new(self.now()), ..Watched::default() });
        open.numbers += 1;
        let number = open.numbers;
        open.connections.insert(number, Arc::clone(&watched));
        self.metrics.connections(open.connections.len());
        Some((number, watched))
    }

    fn let_go(&self, number: u64) {
        let mut open = self.open();
        open.connections.remove(&number);
        self.metrics.connections(open.connections.len());
    }
}

impl Watched {
    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Connection {
    /// A review that came on it is being answered.
    #[must_use]
    pub fn busy(&self) -> Busy {
        self.0.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.0))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S> Accept<TcpStream, S> for Connections {
    type Stream = Stream;
    type Service = AddExtension<S, Connection>;
    type Future = Ready<io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, tcp: TcpStream, service: S) -> Self::Future {
        // Answers are small, and nobody should wait for a second one to fill a packet.
        let taken = tcp.set_nodelay(true).and_then(|()| {
            let all = "every connection is in use";
            self.shared.take_in().ok_or_else(|| {
                self.shared.metrics.turned_away(TurnedAway::Full);
                io::Error::other(all)
            })
        });
        ready(taken.map(|(number, watched)| {
            let service = Extension(Connection(Arc::clone(&watched))).layer(service);
            (Stream { tcp, number, watched, shared: Arc::clone(&self.shared) }, service)
        }))
    }
}

impl Stream {
    /// Whether the place was given to another; else whoever closes it wakes the task.
    fn is_closed(&self, cx: &Context<'_>) -> io::Result<()> {
        self.watched.waker.register(cx.waker());
        match self.watched.is_closed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.let_go(self.number);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.is_closed(cx)?;
        let read = Pin::new(&mut self.tcp).poll_read(cx, buffer);
        if read.is_ready() {
            self.watched.heard.store(self.shared.now(), Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_closed(cx)?;
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.is_closed(cx)?;
        Pin::new(&mut self.tcp).poll_write_vectored(cx, slices)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
