//! A TCP proxy in the test's process that delays, cuts and swallows.
//!
//! Each direction of a connection is a task that reads into a bounded queue and one that writes it out when its
//! time has come, so a delay costs no throughput.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// A proxy before one server. Dropping it ends its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    faults: Arc<Faults>,
    listener: JoinHandle<()>,
}

/// What the proxy does to what passes.
#[derive(Debug)]
struct Faults {
    delay_micros: AtomicU64,
    away: AtomicBool,
    swallow_answers: AtomicBool,
    swallow_requests: AtomicBool,
    /// Counts the cuts: a connection ends when it changes.
    cuts: watch::Sender<u64>,
}

#[derive(Clone, Copy)]
enum Direction {
    Requests,
    Answers,
}

/// Pieces of at most 64 KiB on their way in one direction: 16 MiB, more than a connection has in flight in 20 ms.
const QUEUE: usize = 256;

impl Proxy {
    /// Begins to pass connections on to `server`, a port of this machine.
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, super::server::free_port())).await;
        let listener = listener.unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::new(Faults {
            delay_micros: AtomicU64::new(0),
            away: AtomicBool::new(false),
            swallow_answers: AtomicBool::new(false),
            swallow_requests: AtomicBool::new(false),
            cuts: watch::Sender::new(0),
        });
        let passed = Arc::clone(&faults);
        let listener = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !passed.away.load(Relaxed) {
                    tokio::spawn(pass(client, server, Arc::clone(&passed)));
                }
            }
        });
        Self { port, faults, listener }
    }

    /// Where clients connect.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// From now on every byte is this late, in either direction.
    pub(crate) fn delay(&self, each_way: Duration) {
        self.faults.delay_micros.store(each_way.as_micros().try_into().unwrap(), Relaxed);
    }

    /// Ends every connection; new ones are welcome.
    pub(crate) fn cut(&self) {
        self.faults.cuts.send_modify(|n| *n += 1);
    }

    /// As if the machine were away: connections end, new ones are closed at once. Until [`Self::back`].
    pub(crate) fn away(&self) {
        self.faults.away.store(true, Relaxed);
        self.cut();
    }

    /// The end of [`Self::away`].
    pub(crate) fn back(&self) {
        self.faults.away.store(false, Relaxed);
    }

    /// Whether what the server says from now on is lost. A piece of a message may be: [`Self::cut`] before answers
    /// pass again.
    pub(crate) fn swallow_answers(&self, swallow: bool) {
        self.faults.swallow_answers.store(swallow, Relaxed);
    }

    /// As [`Self::swallow_answers`], of what clients say.
    pub(crate) fn swallow_requests(&self, swallow: bool) {
        self.faults.swallow_requests.store(swallow, Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
        self.cut();
    }
}

impl Faults {
    fn swallows(&self, direction: Direction) -> bool {
        match direction {
            Direction::Requests => self.swallow_requests.load(Relaxed),
            Direction::Answers => self.swallow_answers.load(Relaxed),
        }
    }
}

async fn pass(client: TcpStream, server: u16, faults: Arc<Faults>) {
    let mut cuts = faults.cuts.subscribe();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
    let Ok(server) = TcpStream::connect(address).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = carry(from_client, to_server, &faults, Direction::Requests) => {}
        () = carry(from_server, to_client, &faults, Direction::Answers) => {}
        _ = cuts.changed() => {}
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    faults: &Faults,
    direction: Direction,
) {
    let (sender, mut queue) = mpsc::channel::<(Instant, Vec<u8>)>(QUEUE);
    let reading = async move {
        let mut piece = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            if faults.swallows(direction) {
                continue;
            }
            let delay = Duration::from_micros(faults.delay_micros.load(Relaxed));
            if sender.send((Instant::now() + delay, piece[..read].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((due, piece)) = queue.recv().await {
            sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}
