//! Usage events of a serving process on a real NATS server, which is killed and started again.

use super::{notices::append, process::Site};
use crate::nats::server::{Server, Version};
use async_nats::jetstream;
use bizrq::{
    clock,
    domain::{
        event::Data,
        time::{HOUR_MS, Timestamp},
    },
    event_log::jetstream::{JetStreamLog, Options},
    usage::event::UsageMetered,
};
use std::collections::BTreeSet;

async fn start(log: &JetStreamLog, id: u128, uid: &str, at: Timestamp) {
    let text = format!(
        r#"{{"uid":"{uid}","group":"team","models":{{}},"node":"n",
            "held":{{"requests":{{}},"limits":{{"cpu":"2"}}}},"basis":"Bound"}}"#
    );
    let data = Data::PodStarted(serde_json::from_str(&text).unwrap());
    append(log, id, at, &format!("pods/n/{uid}"), data).await;
}

async fn stop(log: &JetStreamLog, id: u128, uid: &str, at: Timestamp) {
    let text = format!(
        r#"{{"uid":"{uid}","earliest":"{at}","latest":"{at}","basis":"TerminalStatus","phase":"Succeeded",
            "reason":""}}"#
    );
    let data = Data::PodStopped(serde_json::from_str(&text).unwrap());
    append(log, id, at, &format!("pods/n/{uid}"), data).await;
}

/// The sum of what the stream tells, each event once.
async fn told(server: &Server) -> i128 {
    let client = async_nats::connect(server.url()).await.unwrap();
    let mut stream = jetstream::new(client).get_stream("BIZRQ_USAGE").await.unwrap();
    let (mut ids, mut sum) = (BTreeSet::new(), 0);
    for sequence in 1..=stream.info().await.unwrap().state.last_sequence {
        let message = stream.get_raw_message(sequence).await.unwrap();
        let event: UsageMetered = serde_json::from_slice(&message.payload).unwrap();
        assert!(ids.insert(event.id), "told twice");
        assert_eq!((&*event.data.group, &*event.data.key), ("team", "limits.cpu"));
        sum += event.data.exact;
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_serves_tells_usage_and_who_comes_after_it_takes_back_what_was_too_much() {
    let (server, site) = (Server::start(Version::Old), Site::new(30));
    let log = JetStreamLog::open(Options::new(&server.url())).await.unwrap();
    let begin = clock::now().shifted(-3 * HOUR_MS);
    start(&log, 1, "a", begin).await;
    start(&log, 2, "b", begin).await;
    let ended = begin.shifted(1_000);
    stop(&log, 3, "b", ended).await;

    let url = server.url();
    let process = site.start_with(&["--log", &url]).await;
    // What ended, and what runs up to the last hour.
    process.wait_for_metric("bizrq_usage_events_total", 2);
    assert_eq!(process.metric("bizrq_usage_waiting"), "0");
    process.kill();
    assert!(told(&server).await > 2_000 * i128::from(HOUR_MS + 1_000));
    let ended = begin.shifted(HOUR_MS / 2);
    stop(&log, 4, "a", ended).await;
    let process = site.start_with(&["--log", &url]).await;
    process.wait_for_metric("bizrq_usage_events_total", 1);
    assert_eq!(told(&server).await, 2_000 * i128::from(HOUR_MS / 2 + 1_000));
    process.end();
}
