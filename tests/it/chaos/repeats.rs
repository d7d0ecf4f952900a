//! What is told again changes nothing: a second later, while the server still knows the ids; after it has forgotten
//! them; 30 and 36 days of heartbeats later.

use super::{folded, new_events, pod, server};
use crate::{
    decider::replica::{Replica, create, declared, options, propose},
    nats::server::{Server, Version},
    oracle::{
        fold::{Fold, Lines},
        history::{Scale, synced},
        world::END,
    },
};
use bizrq::{
    domain::event::Event,
    event_log::{
        Appended, EventLog,
        conformance::decision,
        jetstream::{JetStreamLog, Options},
    },
};
use std::{sync::Arc, time::Duration};

/// A server that remembers ids for 120 s is told again a second later. One that remembers them for a tenth of a second
/// stands for 121 s: nothing but the end of that memory tells them apart.
const WINDOWS: [Duration; 2] = [Duration::from_secs(120), Duration::from_millis(100)];
/// Until it is told again.
const LATER: Duration = Duration::from_secs(1);
const DAY: i64 = 24 * 3_600_000;

async fn open(server: &Server, duplicate_window: Duration) -> Arc<JetStreamLog> {
    let options = Options { duplicate_window, ..Options::new(&server.url()) };
    Arc::new(JetStreamLog::open(options).await.unwrap())
}

fn lives() -> Vec<Event<'static>> {
    (0..12).flat_map(pod).collect()
}

/// A heartbeat at the end of each of these days: nothing was missed since the last.
fn beats(days: std::ops::RangeInclusive<i64>) -> Vec<Event<'static>> {
    let beat = |day: i64| synced(Scale::MILLIS, "/clusters/east", day * DAY, (day - 1) * DAY);
    days.map(beat).collect()
}

/// What is used now, and how many records there are.
async fn used(log: &JetStreamLog) -> (Lines, u64) {
    let (ledger, ids) = folded(log).await;
    assert_eq!(ledger.quarantined(), []);
    (Fold::from(ledger).lines(Scale::MILLIS.millis(END)), ids.len() as u64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_that_are_told_again_count_once() {
    tokio::join!(facts(Version::New), facts(Version::Old));
}

async fn facts(version: Version) {
    for window in WINDOWS {
        let server = server(version);
        let log = open(&server, window).await;
        let tell = async |events: &[Event<'static>]| log.append(new_events(events)).await.unwrap();
        let all = lives().len() as u64;
        let first = tell(&lives()).await;
        let (once, _) = used(&log).await;
        assert!(!once.is_empty());
        tokio::time::sleep(LATER).await;
        let again = tell(&lives()).await;
        if window == WINDOWS[0] {
            assert_eq!(again, first, "{version:?}: answered with what is there");
            assert_eq!(used(&log).await, (once, all));
            continue;
        }
        assert_eq!(again, Appended { first: all + 1, last: all * 2 }, "{version:?}");
        assert_eq!(used(&log).await, (once.clone(), all * 2));
        for (days, records) in [(1..=30, all * 3 + 30), (31..=36, all * 4 + 36)] {
            tell(&beats(days)).await;
            tokio::time::sleep(LATER).await;
            assert_eq!(tell(&lives()).await.last, records);
            assert_eq!(used(&log).await, (once.clone(), records), "{version:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_that_are_told_again_stand_once() {
    tokio::join!(decisions(Version::New), decisions(Version::Old));
}

async fn decisions(version: Version) {
    for window in WINDOWS {
        let server = server(version);
        let log = open(&server, window).await;
        let once = log.decide(0, decision(1)).await.unwrap();
        log.append(vec![declared("dept", "", 20), declared("team", "dept", 10)]).await.unwrap();
        let replica = Replica::start(Arc::clone(&log), options());
        let asks = || [create("r1", "w1", "team", 4), propose("r2", "team", "dept", 15)];
        let mut first = Vec::new();
        for ask in asks() {
            first.push(replica.ask(ask).await);
        }
        assert!(first.iter().all(|answer| answer.is_allowed()), "{first:?}");
        tokio::time::sleep(LATER).await;
        assert_eq!(log.decide(0, decision(1)).await.unwrap(), once, "{version:?}");
        // Of this replica, and of one that knows nothing but the log.
        let other = Replica::start(Arc::clone(&log), options());
        for (ask, answer) in asks().into_iter().zip(&first) {
            assert_eq!(&replica.ask(ask.clone()).await, answer, "{version:?}");
            assert_eq!(&other.ask(ask).await, answer, "{version:?}");
        }
        assert_eq!(log.head().await.unwrap().position, 5, "{version:?}");
        replica.stop().await;
        other.stop().await;
    }
}
