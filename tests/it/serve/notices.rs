//! Notices of a serving process on a real NATS server, killed around the instant.

use super::process::Site;
use crate::{
    nats::server::{Server, Version},
    webhook::client::PATIENCE,
};
use async_nats::jetstream;
use bizrq::{
    clock,
    domain::{
        event::{Data, Event, EventId},
        time::Timestamp,
    },
    event_log::{
        EventLog, NewEvent,
        jetstream::{JetStreamLog, Options},
    },
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// A hundredth of a core-hour: two cores spend it in 18 seconds.
const CASH: &str = "10m";
const LASTS: i64 = 18_000;

pub(super) async fn append(
    log: &JetStreamLog,
    id: u128,
    at: Timestamp,
    subject: &str,
    data: Data<'_>,
) {
    let id = EventId(id);
    let source = "/clusters/east".into();
    let event = Event { id, source, subject: subject.into(), time: at, recorded_at: at, data };
    log.append(vec![NewEvent::new(&event).unwrap()]).await.unwrap();
}

/// Thresholds that stand in the stream, each once, with how many milliseconds late each came there. What is over the
/// budget is not one of them.
async fn told(server: &Server) -> BTreeMap<i64, (Value, i64)> {
    let client = async_nats::connect(server.url()).await.unwrap();
    let Ok(mut stream) = jetstream::new(client).get_stream("BIZRQ_NOTICES").await else {
        return BTreeMap::new();
    };
    let last = stream.info().await.unwrap().state.last_sequence;
    let mut told = BTreeMap::new();
    for sequence in 1..=last {
        let message = stream.get_raw_message(sequence).await.unwrap();
        let notice: Value = serde_json::from_slice(&message.payload).unwrap();
        let Some(threshold) = notice["threshold"].as_i64() else {
            let kind = notice["kind"].as_str().unwrap();
            assert!(["cash.overdraft", "cash.forecast"].contains(&kind), "{notice}");
            continue;
        };
        let at = Timestamp::parse(notice["at"].as_str().unwrap()).unwrap();
        let late =
            i64::try_from(message.time.unix_timestamp_nanos() / 1_000_000).unwrap() - at.millis();
        assert!(told.insert(threshold, (notice, late)).is_none(), "{threshold} % is told twice");
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_that_ends_while_its_process_is_dead_is_told_once_at_its_instant() {
    let (server, site) = (Server::start(Version::New), Site::new(30));
    let log = JetStreamLog::open(Options::new(&server.url())).await.unwrap();
    let begin = clock::now();
    let quota = format!(
        r#"{{"uid":"u","resourceVersion":"1","generation":1,"spec":{{"hard":{{"cash/limits.cpu":"{CASH}"}}}}}}"#
    );
    let data = Data::QuotaDeclared(serde_json::from_str(&quota).unwrap());
    append(&log, 1, begin, "quotas/team", data).await;
    let pod = r#"{"uid":"p","group":"team","models":{},"node":"n",
        "held":{"requests":{},"limits":{"cpu":"2"}},"basis":"Bound"}"#;
    append(&log, 2, begin, "pods/n/p", Data::PodStarted(serde_json::from_str(pod).unwrap())).await;

    let url = server.url();
    let process = site.start_with(&["--log", &url]).await;
    let begun = Instant::now();
    while told(&server).await.is_empty() {
        assert!(begun.elapsed() < PATIENCE, "half of it is used");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (_, late) = told(&server).await[&50];
    assert!((0..=1_000).contains(&late), "half of it is told {late} ms late");
    process.kill();
    let end = begin.shifted(LASTS);
    while clock::now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Two that start at once, as replicas do; then one again.
    let stores = ["a", "b"].map(|name| site.path(name).display().to_string());
    let [a, b] = [0, 1].map(|n| ["--log", &*url, "--store", &*stores[n]]);
    let (a, b) = tokio::join!(site.start_with(&a), site.start_with(&b));
    while told(&server).await.len() < 4 {
        assert!(begun.elapsed() < 2 * PATIENCE, "all of it is told");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    a.kill();
    b.kill();
    let process = site.start_with(&["--log", &url]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let told = told(&server).await;
    assert_eq!(told.keys().copied().collect::<Vec<_>>(), [50, 80, 90, 100]);
    for (threshold, (notice, _)) in told {
        let at = begin.shifted(LASTS * threshold / 100);
        assert_eq!(notice["at"], at.to_string(), "{threshold} %");
    }
    process.kill();
}
