//! Three servers of which any may die, or all: what goes on, what waits, and what must not be taken for the end.

use super::{
    cluster::Cluster,
    server::{PATIENCE, Version},
};
use crate::log_cli::{Said, bizrq};
use async_nats::jetstream;
use bizrq::{
    domain::event::Position,
    event_log::{
        EventLog, ReadError, Reader,
        conformance::fact,
        jetstream::{JetStreamLog, Options},
    },
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{oneshot, watch},
    task::{JoinHandle, spawn_blocking},
    time::{sleep, timeout},
};

fn options(cluster: &Cluster) -> Options {
    Options { replicas: 3, deadline: Duration::from_secs(2), ..Options::new(&cluster.url()) }
}

pub(crate) async fn open(cluster: &Cluster) -> JetStreamLog {
    patiently(async || JetStreamLog::open(options(cluster)).await).await
}

/// Tells one number after another, each until it is acknowledged, and that it was to `seen`; gives each with its place.
async fn write(
    log: JetStreamLog,
    first: u64,
    end: Arc<AtomicBool>,
    seen: watch::Sender<u64>,
) -> Vec<(Position, u64)> {
    let (mut acknowledged, mut n) = (Vec::new(), first);
    while !end.load(SeqCst) {
        let begun = Instant::now();
        let appended = loop {
            match log.append(vec![fact(n)]).await {
                Ok(appended) => break appended,
                // A fact may be told twice.
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
        };
        acknowledged.push((appended.first, n));
        seen.send_modify(|count| *count += 1);
        n += 1;
        // Whoever was dead has to catch up with them, on a machine that compiles.
        sleep(Duration::from_millis(5)).await;
    }
    acknowledged
}

/// Reads from the first record to `to`; gives the ids. Whatever happens to the servers, it has no error to tell.
async fn follow(log: JetStreamLog, mut to: oneshot::Receiver<Position>) -> Vec<String> {
    let (mut reader, mut ids, mut last) = (log.read(1).unwrap(), Vec::new(), Position::MAX);
    while (ids.len() as u64) < last {
        let records = tokio::select! {
            told = &mut to, if last == Position::MAX => {
                last = told.unwrap();
                continue;
            }
            records = timeout(PATIENCE, reader.tail()) => records.unwrap().unwrap(),
        };
        for (position, raw) in records.iter() {
            assert_eq!(position, ids.len() as u64 + 1, "no hole, nothing twice");
            ids.push(raw.scan().unwrap().id.to_string());
        }
    }
    ids
}

/// Two writers and a reader at work.
struct Work {
    end: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Vec<(Position, u64)>>>,
    /// How many each of the writers has told.
    seen: Vec<watch::Receiver<u64>>,
    tell: oneshot::Sender<Position>,
    reader: JoinHandle<Vec<String>>,
}

impl Work {
    async fn begin(cluster: &Cluster) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let (mut writers, mut seen) = (Vec::new(), Vec::new());
        for n in 1..=2 {
            let (sender, receiver) = watch::channel(0);
            let log = open(cluster).await;
            writers.push(tokio::spawn(write(log, n << 32, Arc::clone(&end), sender)));
            seen.push(receiver);
        }
        let (tell, told) = oneshot::channel();
        let reader = tokio::spawn(follow(open(cluster).await, told));
        Self { end, writers, seen, tell, reader }
    }

    /// Waits until each writer has told some more.
    async fn go_on(&mut self) {
        for seen in &mut self.seen {
            let enough = *seen.borrow() + 4;
            let more = timeout(PATIENCE, seen.wait_for(|count| *count >= enough)).await;
            more.expect("a writer stands still").expect("a writer is gone");
        }
    }

    /// Ends it; what was acknowledged was read at the place that was said. Gives the head.
    async fn end(self, log: &JetStreamLog) -> Position {
        self.end.store(true, SeqCst);
        let mut acknowledged = Vec::new();
        for writer in self.writers {
            acknowledged.extend(writer.await.unwrap());
        }
        let head = patiently(async || log.head().await).await.position;
        self.tell.send(head).unwrap();
        let ids = self.reader.await.unwrap();
        for (position, n) in acknowledged {
            assert_eq!(ids[position as usize - 1], format!("{n:032x}"), "position {position}");
        }
        head
    }
}

/// How many records whoever comes now finds; its consumer may be with a member that has yet to catch up.
async fn count(cluster: &Cluster) -> u64 {
    let log = open(cluster).await;
    patiently(async || {
        let (mut reader, mut count) = (log.read(1).unwrap(), 0);
        while let Some(records) = reader.next().await? {
            count += records.len() as u64;
        }
        Ok::<_, ReadError>(count)
    })
    .await
}

/// Asks until the cluster has a leader who answers.
pub(crate) async fn patiently<T, E: std::fmt::Display>(ask: impl AsyncFn() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(told) => return told,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_three_copies_is_rolled_over_once_every_copy_follows() {
    let mut cluster = Cluster::start(Version::New);
    let log = open(&cluster).await;
    let mut work = Work::begin(&cluster).await;
    work.go_on().await;
    cluster.servers[0].kill();
    let url = cluster.url();
    let roll = async || {
        let url = url.clone();
        let roll = move || bizrq(&["log", "roll", "--log", &url, "--to", "BIZRQ-2"]);
        let Said { code, stderr, .. } = spawn_blocking(roll).await.unwrap();
        if code == 0 { Ok(()) } else { Err(stderr) }
    };
    // A member that knows the old stream only would discard the next one when it comes back.
    patiently(async || match roll().await {
        Err(why) if why.contains("could discard the next log") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    work.go_on().await;
    cluster.servers[0].restart();
    cluster.wait();
    patiently(roll).await;
    work.go_on().await;
    let head = work.end(&log).await;
    let told = patiently(async || log.storage().await).await;
    assert_eq!((&*told["stream"], &*told["replicas"]), ("BIZRQ-2", "3"));
    assert_eq!(count(&cluster).await, head);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_starts_again_is_away_and_not_gone() {
    let mut cluster = Cluster::start(Version::New);
    let log = open(&cluster).await;
    let mut work = Work::begin(&cluster).await;
    for _ in 0..3 {
        work.go_on().await;
        cluster.servers.iter_mut().for_each(|server| server.kill());
        cluster.servers.iter_mut().for_each(|server| server.restart());
        // Whoever comes while nobody leads makes no second log.
        let early = JetStreamLog::open(options(&cluster)).await;
        assert!(early.is_ok() || early.is_err_and(|e| !e.to_string().contains("no such")));
        cluster.wait();
        patiently(async || log.head().await).await;
    }
    work.go_on().await;
    let head = work.end(&log).await;
    assert_eq!(count(&cluster).await, head);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_a_cluster_does_not_know_for_a_moment_is_waited_for() {
    let cluster = Cluster::start(Version::New);
    let log = open(&cluster).await;
    patiently(async || log.append((1..=20).map(fact).collect()).await).await;
    let mut reader = log.read(1).unwrap();
    let mut read = 0;
    while read < 20 {
        // As many as have come.
        read += reader.next().await.unwrap().unwrap().len();
    }
    assert_eq!(read, 20);
    let admin = jetstream::new(async_nats::connect(cluster.servers[0].url()).await.unwrap());
    let stream = admin.get_stream("BIZRQ").await.unwrap();
    let config = stream.cached_info().config.clone();
    let mut kept = Vec::new();
    for sequence in 1..=20 {
        kept.push(stream.get_raw_message(sequence).await.unwrap());
    }
    // As it would look to whoever asks a leader that has not read all of its own log.
    admin.delete_stream("BIZRQ").await.unwrap();
    let coming = tokio::spawn(async move { reader.tail().await.map(|records| records.first()) });
    let (head, early) = tokio::join!(patiently(async || log.head().await), async {
        sleep(Duration::from_millis(800)).await;
        admin.create_stream(config).await.unwrap();
        for message in kept {
            let acknowledged =
                admin.publish_with_headers(message.subject, message.headers, message.payload);
            acknowledged.await.unwrap().await.unwrap();
        }
    });
    assert_eq!((head.position, early), (20, ()));
    assert_eq!(patiently(async || log.append(vec![fact(21)]).await).await.first, 21);
    assert_eq!(coming.await.unwrap().unwrap(), 21);

    // One that does not come back is gone in the end.
    admin.delete_stream("BIZRQ").await.unwrap();
    let gone = async || match log.head().await {
        Err(error) if error.to_string().contains("the stream is gone") => Ok(()),
        other => Err(format!("{other:?}")),
    };
    patiently(gone).await;
}
