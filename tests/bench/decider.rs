//! How many decisions a second, and how long one takes: `cargo bench --bench decider`.
//!
//! Every review creates a workload of its own in one of 100 groups below 10 departments; each is recorded. `256
//! callers` ask again as soon as they are answered; `500/s` asks every two milliseconds, whatever is answered. `far`
//! is 20 ms each way from a busy server, and its 99th of a hundred must be answered within 100 ms. Figures are medians of
//! five runs.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout, dead_code)]

#[path = "../it/nats/proxy.rs"]
mod proxy;
#[path = "../it/decider/replica.rs"]
mod replica;
#[path = "../it/nats/server.rs"]
mod server;

use bizrq::{
    decider::{Options, nats::Nats},
    event_log::{
        EventLog, file,
        jetstream::{self, JetStreamLog},
        memory::MemoryLog,
    },
};
use proxy::Proxy;
use replica::{Replica, create, declared, options};
use server::{Server, Setup, Version};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

const RUNS: usize = 5;
const RUN: Duration = Duration::from_secs(2);
const CALLERS: usize = 256;

static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// One decision; how long it took.
async fn ask(replica: &Replica) -> Duration {
    let n = REQUESTS.fetch_add(1, Ordering::Relaxed);
    let ask = create(
        &format!("0df2b1c4-0000-4000-8000-{n:012x}"),
        &format!("3e9c0000-0000-4000-8000-{n:012x}"),
        &format!("team-{}", n % 100),
        2,
    );
    let begun = Instant::now();
    let answer = replica.ask(ask).await;
    assert!(answer.is_allowed(), "{answer:?}");
    begun.elapsed()
}

async fn company(log: &impl EventLog) {
    let mut quotas = vec![declared("company", "", 1_000_000_000)];
    quotas.extend((0..10).map(|d| declared(&format!("dept-{d}"), "company", 90_000_000)));
    let team = |t: u64| declared(&format!("team-{t}"), &format!("dept-{}", t % 10), 8_000_000);
    quotas.extend((0..100).map(team));
    log.append(quotas).await.unwrap();
}

/// Callers of every replica ask as fast as they are answered.
async fn busy(replicas: &[Arc<Replica>], callers: usize) -> f64 {
    let end = Arc::new(AtomicBool::new(false));
    let caller = |n: usize| {
        let (replica, end) = (Arc::clone(&replicas[n % replicas.len()]), Arc::clone(&end));
        tokio::spawn(async move {
            let mut decisions = 0_u64;
            while !end.load(Ordering::Relaxed) {
                ask(&replica).await;
                decisions += 1;
            }
            decisions
        })
    };
    let begun = Instant::now();
    let callers: Vec<_> = (0..callers).map(caller).collect();
    sleep(RUN).await;
    end.store(true, Ordering::Relaxed);
    let mut decisions = 0;
    for caller in callers {
        decisions += caller.await.unwrap();
    }
    decisions as f64 / begun.elapsed().as_secs_f64()
}

/// Asks at a steady pace; the 99th of a hundred, in milliseconds.
async fn steady(replica: &Arc<Replica>, every: Duration) -> f64 {
    let mut tick = interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (begun, mut asked) = (Instant::now(), Vec::new());
    while begun.elapsed() < RUN {
        tick.tick().await;
        let replica = Arc::clone(replica);
        asked.push(tokio::spawn(async move { ask(&replica).await }));
    }
    let mut took = Vec::new();
    for asked in asked {
        took.push(asked.await.unwrap().as_secs_f64() * 1000.0);
    }
    took.sort_by(f64::total_cmp);
    took[took.len() * 99 / 100]
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

async fn report(name: &str, replicas: Vec<Replica>) {
    let replicas: Vec<_> = replicas.into_iter().map(Arc::new).collect();
    ask(&replicas[0]).await;
    let (mut rates, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        rates.push(busy(&replicas, CALLERS).await);
        waits.push(steady(&replicas[0], Duration::from_millis(2)).await);
    }
    println!("{name:<28} {:>7.0}/s   p99 {:>6.2} ms at 500/s", median(rates), median(waits));
}

async fn on_nats(name: &str, url: &str) -> Replica {
    let log = JetStreamLog::open(jetstream::Options::new(url)).await.unwrap();
    let transport = Nats::new(&log);
    Replica::with(Arc::new(log), transport, Options { replica: name.into(), ..options() })
}

async fn nats(version: Version, sync_always: bool) -> Server {
    let server = Setup { sync_always, ..Setup::new(version) }.start();
    company(&JetStreamLog::open(jetstream::Options::new(&server.url())).await.unwrap()).await;
    server
}

#[tokio::main]
async fn main() {
    let log = Arc::new(MemoryLog::default());
    company(&*log).await;
    report("memory", vec![Replica::start(log, options())]).await;
    let folder = tempfile::tempdir().unwrap();
    let log = file::FileLog::open(folder.path(), &file::Options::default()).unwrap();
    company(&log).await;
    report("file", vec![Replica::start(Arc::new(log), options())]).await;
    for (name, version, sync) in [
        ("NATS 2.15", Version::New, false),
        ("NATS 2.15, sync always", Version::New, true),
        ("NATS 2.9", Version::Old, false),
    ] {
        let server = nats(version, sync).await;
        report(name, vec![on_nats("one", &server.url()).await]).await;
        let server = nats(version, sync).await;
        let url = server.url();
        let three = [on_nats("a", &url).await, on_nats("b", &url).await, on_nats("c", &url).await];
        report(&format!("{name}, three replicas"), three.into()).await;
    }
    far().await;
}

/// Two near replicas are busy, a third is 20 ms away.
async fn far() {
    let server = nats(Version::New, true).await;
    let near: Vec<_> =
        [on_nats("a", &server.url()).await, on_nats("b", &server.url()).await].map(Arc::new).into();
    let proxy = Proxy::start(server.port()).await;
    proxy.delay(Duration::from_millis(20));
    let far = Arc::new(on_nats("far", &proxy.url()).await);
    ask(&near[0]).await;
    let (mut rates, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (rate, wait) = tokio::join!(busy(&near, 64), steady(&far, Duration::from_millis(10)));
        rates.push(rate);
        waits.push(wait);
    }
    let wait = median(waits);
    println!(
        "{:<28} {:>7.0}/s   p99 {wait:>6.2} ms of the far one at 100/s",
        "two near, one 20 ms away",
        median(rates),
    );
    assert!(wait <= 100.0, "the far one's callers wait for {wait} ms");
}
