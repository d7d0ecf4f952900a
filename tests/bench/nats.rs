//! The log on a real server of the newest version: the bare client's ordered read, our reader, our reader with the
//! ledger's fold, and the projection onto disk; appends one by one on a condition, and many at once. Figures, not gates: `cargo bench --bench nats`.
// A bench fails by panicking and tells by printing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
// The harness serves the tests, which use more of it.
#![allow(dead_code)]

#[path = "../it/nats/server.rs"]
mod server;

use async_nats::jetstream::{self, consumer};
use bizrq::{
    demo,
    domain::{event::Position, ledger::Ledger},
    event_log::{
        EventLog, OpenError, Reader,
        bulk::{self, Source},
        conformance::{decision, fact},
        jetstream::{JetStreamLog, Options},
    },
    projection::{Runner, SledStore, fold::Read, runner},
};
use futures_util::StreamExt;
use server::{Server, Setup, Version};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Alternating runs of each reading, of which the median is told.
const RUNS: usize = 5;
/// Pods of the demo whose log is read; two records each, and a few.
const PODS: u64 = 100_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let pods = std::env::var("PODS").ok().and_then(|n| n.parse().ok()).unwrap_or(PODS);
    runtime.block_on(appends());
    let (server, records) = runtime.block_on(played(pods));
    readings(&runtime, &server, records);
}

/// A server with the demo's log.
async fn played(pods: u64) -> (Server, u64) {
    let server = Server::start(Version::New);
    let log = JetStreamLog::open(Options::new(&server.url())).await.unwrap();
    demo::play(&log, demo::Options { seed: 1, pods }, |_| {}).await.unwrap();
    let records = log.head().await.unwrap().position;
    (server, records)
}

fn readings(runtime: &tokio::runtime::Runtime, server: &Server, records: u64) {
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..RUNS {
        let timed = |work: &mut dyn FnMut()| {
            let begun = Instant::now();
            work();
            begun.elapsed()
        };
        times[0].push(timed(&mut || runtime.block_on(bare(server, records))));
        times[1].push(timed(&mut || runtime.block_on(ours(server, records))));
        times[2].push(timed(&mut || folded(server, records)));
        times[3].push(timed(&mut || runtime.block_on(projected(server, records))));
    }
    let rates = times.map(|mut times| {
        times.sort();
        records as f64 / times[RUNS / 2].as_secs_f64()
    });
    let names = [
        "bare client, ordered",
        "our reader",
        "our reader and the ledger's fold",
        "the projection, with sled",
    ];
    for (name, rate) in names.iter().zip(rates) {
        println!("{name:36} {rate:9.0} records/s  {:.2} of the bare client", rate / rates[0]);
    }
}

async fn bare(server: &Server, records: u64) {
    let client = async_nats::connect(server.url()).await.unwrap();
    let config = consumer::push::OrderedConfig {
        deliver_subject: client.new_inbox(),
        ..consumer::push::OrderedConfig::default()
    };
    let stream = jetstream::new(client).get_stream("BIZRQ").await.unwrap();
    let mut messages = stream.create_consumer(config).await.unwrap().messages().await.unwrap();
    for _ in 0..records {
        messages.next().await.unwrap().unwrap();
    }
}

async fn ours(server: &Server, records: u64) {
    let log = JetStreamLog::open_read(Options::new(&server.url())).await.unwrap();
    let (mut reader, mut read) = (log.read(1).unwrap(), 0);
    while read < records {
        read += reader.tail().await.unwrap().len() as u64;
    }
}

fn folded(server: &Server, records: u64) {
    let mut ledger = Ledger::default();
    let place = server.url();
    let source = Source::log(&place, Position::MAX).unwrap();
    bulk::read(source, |batch| {
        for (position, decoded) in batch.events() {
            ledger.fold(position, &Read::of(decoded).record()).unwrap();
        }
        Ok::<_, OpenError>(())
    })
    .unwrap();
    assert_eq!(ledger.position(), records);
}

/// Every record is folded and its rows are committed.
async fn projected(server: &Server, records: u64) {
    let folder = tempfile::tempdir().unwrap();
    let log = JetStreamLog::open_read(Options::new(&server.url())).await.unwrap();
    let store = SledStore::open(folder.path()).unwrap();
    let (runner, mut seen) = Runner::new(store, runner::Options::default());
    let (end, ended) = oneshot::channel::<()>();
    let run = tokio::spawn(async move { runner.run(&log, ended).await.map(drop) });
    seen.wait_for(records).await.unwrap();
    drop(end);
    run.await.unwrap().unwrap();
    assert_eq!(seen.status().committed, records);
}

async fn appends() {
    for sync_always in [false, true] {
        let setup = Setup { sync_always, ..Setup::new(Version::New) };
        let server = setup.start();
        let log = JetStreamLog::open(Options::new(&server.url())).await.unwrap();
        let (mut last, mut times) = (0, Vec::new());
        for n in 1..=2000 {
            let begun = Instant::now();
            last = log.decide(last, decision(n)).await.unwrap().last;
            times.push(begun.elapsed());
        }
        times.sort();
        println!(
            "conditional append, sync always {sync_always:5}: median {:?}, p99 {:?}",
            times[1000], times[1980]
        );
        let events: Vec<_> = (1_000_000..1_100_000).map(fact).collect();
        let begun = Instant::now();
        log.append(events).await.unwrap();
        println!("pipelined append: {:.0} records/s", 1e5 / begun.elapsed().as_secs_f64());
    }
}
