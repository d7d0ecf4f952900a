//! The recordings of two real API servers, played by a server: an observer that watches it tells the very usage that
//! an independent program computed.

use super::{
    api::Api,
    stand::{Stand, eventually},
};
use bizrq::{
    domain::time::Timestamp,
    event_log::{EventLog, Reader, memory::MemoryLog},
    observe::Cluster,
};
use flate2::read::GzDecoder;
use serde_json::{Deserializer, Value, json};
use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

const PATHS: [(&str, &str); 5] = [
    ("pods", "/api/v1/pods"),
    ("replicasets", "/apis/apps/v1/replicasets"),
    ("deployments", "/apis/apps/v1/deployments"),
    ("statefulsets", "/apis/apps/v1/statefulsets"),
    ("jobs", "/apis/batch/v1/jobs"),
];

/// Version, path, whether it is a deletion, object.
type Step = (u64, &'static str, bool, Value);

fn dir(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/watch").join(version)
}

/// Everything that was recorded, in the order in which it happened.
fn steps(version: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for (file, path) in PATHS {
        let text = fs::File::open(dir(version).join(format!("{file}.json.gz"))).unwrap();
        for event in Deserializer::from_reader(GzDecoder::new(text)).into_iter::<Value>() {
            let mut event = event.unwrap();
            let object = event["object"].take();
            let at = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            steps.push((at, path, event["type"] == "DELETED", object));
        }
    }
    steps.sort_by_key(|(version, ..)| *version);
    steps
}

fn play(api: &Api, steps: &[Step]) {
    for (version, path, deleted, object) in steps {
        match deleted {
            true => api.delete_at(path, object.clone(), *version),
            false => api.put_at(path, object.clone(), *version),
        }
    }
}

fn expected(version: &str) -> (Timestamp, BTreeMap<(String, String), i128>) {
    let read = |name: &str| fs::read_to_string(dir(version).join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("expected.json")).unwrap();
    let end = Timestamp::parse(read("end.txt").trim()).unwrap();
    let usage = json["usage"].as_array().unwrap().iter().map(|line| {
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        ((text("group"), text("key")), text("exact").parse().unwrap())
    });
    (end, usage.collect())
}

pub(crate) fn server() -> Api {
    let api = Api::default();
    let created = "2026-11-29T10:00:00Z";
    let meta = json!({"name": "kube-system", "uid": "of east", "creationTimestamp": created});
    api.put_at("/api/v1/namespaces", json!({"metadata": meta}), 1);
    // A heartbeat proves that what is shown lives at its time: it must not lie behind what the recordings show.
    api.world().date = Some("Thu, 01 Jan 1970 00:00:00 GMT".into());
    api
}

pub(crate) fn cluster(now: Timestamp) -> Cluster {
    let notice = Arc::new(|line: &str| eprintln!("notice: {line}"));
    Cluster { name: "east".into(), now: Arc::new(move || now), notice, ..Cluster::default() }
}

/// Waits until the first comparison is over; the next one is five minutes away. On a busy machine it would ask in the
/// middle of the recording for everything anew, and what came and went meanwhile would be lost.
async fn compared(log: &MemoryLog, heartbeats: usize) {
    let began = Instant::now();
    while count(log, "observer.synced").await < heartbeats {
        assert!(began.elapsed() < Duration::from_secs(60), "no heartbeat");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Records of a type.
async fn count(log: &MemoryLog, name: &str) -> usize {
    let (name, mut reader, mut found) = (format!("io.bizrq.{name}.v1"), log.read(1).unwrap(), 0);
    while let Some(records) = reader.next().await.unwrap() {
        let types = records.iter().map(|(_, raw)| raw.scan().unwrap().type_name.to_string());
        found += types.filter(|of| *of == name).count();
    }
    found
}

/// Nobody is heard while everything happens; then everything is told at once.
fn play_unheard(api: &Api, steps: &[Step]) {
    PATHS.iter().for_each(|(_, path)| api.refuse(path, 503));
    api.cut();
    play(api, steps);
    PATHS.iter().for_each(|(_, path)| api.refuse(path, 0));
}

#[tokio::test]
async fn a_watch_that_stands_tells_the_usage_of_1_36() {
    let (end, usage) = expected("v1.36");
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    let mut stand = Stand::new(api.client(), cluster(end), &log, true);
    stand.until(|progress| progress.facts_synced).await;
    eventually("all are watched", || PATHS.iter().all(|(_, path)| api.is_watched(path))).await;
    compared(&log, 1).await;
    play(&api, &steps("v1.36"));
    stand.settles("the usage is that of the recording", end, &usage).await;
    assert!(stand.projection.ledger().quarantined().is_empty());
    stand.close().await;
}

/// Watches that are behind, and lists in the middle: what a list does not show any more its watch tells all the same.
#[tokio::test]
async fn a_list_in_the_middle_of_everything_changes_nothing() {
    let (end, usage) = expected("v1.36");
    let mut steps = steps("v1.36");
    // Between any two there is room for what others write.
    steps.iter_mut().for_each(|(version, ..)| *version *= 1000);
    let parts = (1..8).map(|eighths| steps.split_at(steps.len() * eighths / 8));
    let runs = parts.map(async |(before, after)| {
        let (api, log) = (server(), Arc::new(MemoryLog::default()));
        api.world().restless = true;
        let mut stand = Stand::new(api.client(), cluster(end), &log, true);
        eventually("all are watched", || PATHS.iter().all(|(_, path)| api.is_watched(path))).await;
        PATHS.iter().for_each(|(_, path)| api.hold(path));
        play(&api, before);
        stand.until(|progress| progress.facts_synced).await;
        compared(&log, 1).await;
        assert!(api.lists(PATHS[0].1) > 1, "pods were listed again");
        PATHS.iter().for_each(|(_, path)| api.release(path));
        play(&api, after);
        stand.settles(&format!("listed after {}", before.len()), end, &usage).await;
        assert!(stand.projection.ledger().quarantined().is_empty());
        stand.close().await;
    });
    futures_util::future::join_all(runs).await;
}

#[tokio::test]
async fn what_a_broken_watch_makes_up_for_is_the_usage_of_both() {
    for version in ["v1.36", "v1.20"] {
        let (end, usage) = expected(version);
        let (api, log) = (server(), Arc::new(MemoryLog::default()));
        let mut stand = Stand::new(api.client(), cluster(end), &log, true);
        stand.until(|progress| progress.facts_synced).await;
        eventually("all are watched", || PATHS.iter().all(|(_, path)| api.is_watched(path))).await;
        compared(&log, 1).await;
        play_unheard(&api, &steps(version));
        stand.settles(version, end, &usage).await;
        assert!(stand.projection.ledger().quarantined().is_empty());
        stand.close().await;
    }
}

#[tokio::test]
async fn two_observers_at_once_and_one_after_the_other_change_nothing() {
    let (end, usage) = expected("v1.36");
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    let mut one = Stand::new(api.client(), cluster(end), &log, true);
    one.until(|progress| progress.facts_synced).await;
    compared(&log, 1).await;
    // Heartbeats that say the same are one.
    let meta = json!({"name": "default", "uid": "d", "creationTimestamp": "2026-11-29T10:00:00Z"});
    api.put_at("/api/v1/namespaces", json!({"metadata": meta}), 2);
    let mut other = Stand::new(api.client(), cluster(end.shifted(5_000)), &log, true);
    other.until(|progress| progress.facts_synced).await;
    compared(&log, 2).await;
    let steps = steps("v1.36");
    let (first, second) = steps.split_at(steps.len() / 2);
    play(&api, first);
    one.close().await;
    play(&api, second);
    other.settles("the other goes on", end, &usage).await;
    let mut third = Stand::new(api.client(), cluster(end), &log, true);
    third.until(|progress| progress.facts_synced).await;
    third.settles("a third has nothing to add", end, &usage).await;
    assert!(third.projection.ledger().quarantined().is_empty());
    other.close().await;
    third.close().await;
}
