//! Usage events on real servers: told once whoever tells and whoever dies, with the ledger's sums.

use super::server::{Server, Version};
use crate::{
    histories::worlds,
    oracle::{
        fold::{Fold, by},
        walk::Basis,
        world::World,
    },
};
use async_nats::jetstream;
use bizrq::{
    clock,
    domain::event::{Data, Event},
    event_log::{
        AnyLog, EventLog, NewEvent,
        codec::message::token,
        jetstream::{JetStreamLog, Options},
    },
    projection::{MemoryStore, Runner, Snapshots, runner},
    usage::{Error, Teller, event::UsageMetered, metrics::Metrics},
};
use prometheus::Registry;
use rand::RngExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

async fn log(server: &Server) -> Arc<AnyLog> {
    let log = JetStreamLog::open(Options::new(&server.url())).await.unwrap();
    Arc::new(AnyLog::JetStream(log))
}

fn teller(log: &Arc<AnyLog>) -> Teller {
    let metrics = Metrics::new(&Registry::new()).unwrap();
    Teller::new(Arc::clone(log), None, metrics, clock::now)
}

/// One that may begin with a snapshot, and from which position it read on.
fn teller_from(log: &Arc<AnyLog>, snapshots: &Snapshots) -> (Teller, impl Fn() -> f64 + use<>) {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let began = move || {
        let families = registry.gather();
        let began = families.iter().find(|family| family.name() == "bizrq_usage_began_position");
        began.unwrap().get_metric()[0].get_gauge().get_value()
    };
    (Teller::new(Arc::clone(log), Some(snapshots.clone()), metrics, clock::now), began)
}

/// Adds what the log comes to now.
async fn take_snapshot(log: &AnyLog, snapshots: &Snapshots) {
    let (runner, mut projection) = Runner::new(MemoryStore::default(), runner::Options::default());
    let folded = async move { projection.caught_up().await.unwrap() };
    let store = runner.run(log, folded).await.unwrap().unwrap();
    snapshots.copy(&store).unwrap().expect("it holds something");
}

async fn append(log: &AnyLog, events: &[Event<'static>]) {
    let events = events.iter().map(|event| NewEvent::new(event).unwrap()).collect();
    log.append(events).await.unwrap();
}

/// Every event of the stream, in order, with its subject.
async fn told(server: &Server) -> Vec<(String, UsageMetered)> {
    let client = async_nats::connect(server.url()).await.unwrap();
    let Ok(mut stream) = jetstream::new(client).get_stream("BIZRQ_USAGE").await else {
        return Vec::new();
    };
    let mut told = Vec::new();
    for sequence in 1..=stream.info().await.unwrap().state.last_sequence {
        let message = stream.get_raw_message(sequence).await.unwrap();
        let content = message.headers.get("Content-Type").unwrap().as_str();
        assert!(content.starts_with("application/cloudevents+json"));
        let event = serde_json::from_slice(&message.payload).unwrap();
        told.push((message.subject.to_string(), event));
    }
    told
}

/// What stands in the stream, and what the ledger says of `events` up to `until`, which is the last mark's.
fn compare(world: &World, events: &[Event<'static>], told: &[(String, UsageMetered)]) {
    let mut ids = BTreeSet::new();
    let mut sums = BTreeMap::<(String, String), i128>::new();
    let (mut mark, mut since) = Default::default();
    for (subject, event) in told {
        assert!(ids.insert(&event.id), "told twice: {event:?}");
        assert_eq!(*subject, format!("bizrq.usage.v1.{}", token(&event.data.group)));
        if event.mark() != mark {
            assert!(event.since().position >= mark.position, "{event:?} after {mark:?}");
            (mark, since) = (event.mark(), event.since());
        }
        assert_eq!(event.since(), since, "a batch has one mark before it");
        let row = (event.data.group.clone(), event.data.key.clone());
        *sums.entry(row).or_default() += event.data.exact;
    }
    sums.retain(|_, exact| *exact != 0);
    let lines = Fold::of(by(Basis::Held), events).lines(mark.until.millis());
    let lines = lines.into_iter().map(|(row, said)| (row, said.exact));
    let lines: BTreeMap<_, _> = lines.filter(|(_, exact)| *exact != 0).collect();
    assert_eq!(sums, lines, "world {} until {}", world.seed, mark.until);
}

/// A world in which group and pod names are no tokens of NATS.
fn world(law: u64) -> (World, Vec<Event<'static>>) {
    let world = worlds(law, 1).next().unwrap();
    let mut events = world.events.clone();
    for event in &mut events {
        let group = match &mut event.data {
            Data::PodStarted(data) => &mut data.group,
            Data::PodMoved(data) => &mut data.group,
            _ => continue,
        };
        if !group.is_empty() {
            *group = format!("{group}. *>").into();
        }
    }
    (world, events)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_is_told_once_whoever_tells_and_whoever_dies() {
    for (law, version) in (61..).zip(Version::ALL) {
        let server = Server::start(version);
        let log = log(&server).await;
        let (world, events) = world(law);
        let mut dice = world.dice();
        let dir = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::new(dir.path(), 100);
        let mut rest = &events[..];
        let begun = Instant::now();
        // Two tell at once, and each is killed after a moment; so the log grows over a few seconds.
        while !rest.is_empty() || begun.elapsed() < Duration::from_secs(6) {
            let tellers: Vec<_> = [(); 2]
                .iter()
                .map(|()| {
                    let (teller, _) = teller_from(&log, &snapshots);
                    let telling = async move {
                        while teller.tell().await.is_err() {
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    };
                    tokio::spawn(telling)
                })
                .collect();
            let (now, later) = rest.split_at(rest.len().min(dice.random_range(1..60)));
            append(&log, now).await;
            rest = later;
            tokio::time::sleep(Duration::from_millis(dice.random_range(200..1_500))).await;
            tellers.iter().for_each(tokio::task::JoinHandle::abort);
            take_snapshot(&log, &snapshots).await;
        }
        let (teller_from_rows, began) = teller_from(&log, &snapshots);
        let last = tokio::time::timeout(Duration::from_secs(4), teller_from_rows.tell()).await;
        assert!(last.is_err(), "it goes on telling: {last:?}");
        assert!(began() > 0.0, "the log is not read from its first record again");
        let told = told(&server).await;
        assert!(told.iter().any(|(subject, _)| subject.ends_with("%2E%20%2A%3E")));
        compare(&world, &events, &told);
        // Nothing is left to tell.
        let again = tokio::time::timeout(Duration::from_secs(3), teller(&log).tell()).await;
        assert!(again.is_err(), "{again:?}");
        assert_eq!(self::told(&server).await.len(), told.len());
    }
}

#[tokio::test]
async fn what_was_told_of_another_log_is_not_gone_on_with() {
    let server = Server::start(Version::New);
    let (_, events) = world(63);
    let first = log(&server).await;
    append(&first, &events).await;
    let told = tokio::time::timeout(Duration::from_secs(3), teller(&first).tell()).await;
    assert!(told.is_err(), "{told:?}");
    let client = async_nats::connect(server.url()).await.unwrap();
    jetstream::new(client).delete_stream("BIZRQ").await.unwrap();
    let other = log(&server).await;
    let mut others = events;
    for event in &mut others {
        match &mut event.data {
            Data::PodStarted(data) => data.group = "other".into(),
            Data::PodMoved(data) => data.group = "another".into(),
            _ => {}
        }
    }
    // One that is shorter, and one that is as long.
    let (half, rest) = others.split_at(others.len() / 2);
    for more in [half, rest] {
        append(&other, more).await;
        let refused = teller(&other).tell().await.unwrap_err();
        assert!(matches!(&refused, Error::OtherLog { .. }), "{refused}");
        assert!(refused.to_string().contains("BIZRQ_USAGE"), "{refused}");
    }
}
