//! The load: kept connections of HTTP/1.1 over TLS, one review on its way on each, written and read with as little work as
//! can be, since what the load costs the server cannot have.

use super::stand::Stand;
use rustls::pki_types::ServerName;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep_until},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

pub(super) struct Load {
    address: std::net::SocketAddr,
    connector: TlsConnector,
    number: Arc<AtomicU64>,
}

/// How long reviews took.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    p50: Duration,
    p99: Duration,
    most: Duration,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |d: Duration| d.as_secs_f64() * 1000.0;
        write!(
            f,
            "p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms",
            ms(self.p50),
            ms(self.p99),
            ms(self.most)
        )
    }
}

impl Spread {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |hundredths: usize| times[(times.len() * hundredths / 100).min(times.len() - 1)];
        Self { p50: at(50), p99: at(99), most: at(100) }
    }

    pub(super) fn median(spreads: &[Self]) -> Self {
        let median = |of: fn(&Self) -> Duration| {
            let mut all: Vec<_> = spreads.iter().map(of).collect();
            all.sort_unstable();
            all[all.len() / 2]
        };
        Self { p50: median(|s| s.p50), p99: median(|s| s.p99), most: median(|s| s.most) }
    }
}

impl Load {
    pub(super) fn new(stand: &Stand, run: u64) -> Self {
        let connector = TlsConnector::from(Arc::new(stand.client()));
        Self { address: stand.address, connector, number: Arc::new(AtomicU64::new(run << 40)) }
    }

    /// As much as the server takes; reviews per second.
    pub(super) async fn full(&self, connections: usize, during: Duration) -> u64 {
        let end = Instant::now() + during;
        let mut tasks = Vec::new();
        for _ in 0..connections {
            let (mut connection, number) = (self.connect().await, Arc::clone(&self.number));
            tasks.push(tokio::spawn(async move {
                let mut done = 0;
                while Instant::now() < end {
                    connection.review(number.fetch_add(1, Ordering::Relaxed)).await;
                    done += 1;
                }
                done
            }));
        }
        let mut done: u64 = 0;
        for task in tasks {
            done += task.await.unwrap();
        }
        done * 1000 / u64::try_from(during.as_millis()).unwrap()
    }

    /// So many a second, each at its own instant, whether those before are answered or not; how long they took from then on.
    pub(super) async fn paced(&self, connections: usize, rate: u32, during: Duration) -> Spread {
        let begin = Instant::now() + Duration::from_millis(100);
        let every = Duration::from_secs(1) / rate;
        let total = u32::try_from(during.as_millis()).unwrap() * rate / 1000;
        let step = u32::try_from(connections).unwrap();
        let mut tasks = Vec::new();
        for first in 0..step {
            let (mut connection, number) = (self.connect().await, Arc::clone(&self.number));
            tasks.push(tokio::spawn(async move {
                let mut times = Vec::new();
                for turn in (first..total).step_by(usize::try_from(step).unwrap()) {
                    let due = begin + every * turn;
                    sleep_until(due).await;
                    // tokio's timer has milliseconds, which are not the server's.
                    let sent = Instant::now();
                    connection.review(number.fetch_add(1, Ordering::Relaxed)).await;
                    times.push(sent.elapsed());
                }
                times
            }));
        }
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await.unwrap());
        }
        Spread::of(times)
    }

    async fn connect(&self) -> Connection {
        let tcp = TcpStream::connect(self.address).await.unwrap();
        tcp.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let tls = self.connector.connect(name, tcp).await.unwrap();
        Connection { tls, request: Vec::new(), answer: vec![0; 64 << 10] }
    }
}

struct Connection {
    tls: TlsStream<TcpStream>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    /// Sends the review of this number and reads the answer, which must be a yes to it.
    async fn review(&mut self, number: u64) {
        let body = body(number);
        self.request.clear();
        let head = format!(
            "POST /validate/workloads/east?timeout=10s HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.request.extend_from_slice(head.as_bytes());
        self.request.extend_from_slice(body.as_bytes());
        self.tls.write_all(&self.request).await.unwrap();
        self.tls.flush().await.unwrap();
        let mut read = 0;
        loop {
            let more = self.tls.read(&mut self.answer[read..]).await.unwrap();
            assert!(more > 0, "the server ended the connection");
            read += more;
            let Ok(text) = std::str::from_utf8(&self.answer[..read]) else { continue };
            let Some((head, said)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if said.len() < length.expect("a length").parse::<usize>().unwrap() {
                continue;
            }
            assert!(head.starts_with("HTTP/1.1 200"), "{text}");
            let uid = format!("\"uid\":\"{:08x}-0000-4000-8000-", number >> 32);
            assert!(said.contains(&uid) && said.contains("\"allowed\":true"), "{text}");
            return;
        }
    }
}

/// A typical Deployment, as an API server sends it.
fn body(number: u64) -> String {
    let (high, low) = (number >> 32, number & 0xffff_ffff);
    let uid = |kind: u32| format!("{high:08x}-0000-4000-8000-{kind:04x}{low:08x}");
    include_str!("deployment.json")
        .replace("REVIEW-UID", &uid(1))
        .replace("OBJECT-UID", &uid(2))
        .replace("NAME", &format!("web-{number:x}"))
}
