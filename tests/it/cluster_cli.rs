//! `bizrq cluster` on a log in a folder.

use bizrq::{
    domain::{
        event::{
            ClusterBound, Data, Event, EventId, ObjectRef, ObserverSynced, PodStarted, Role,
            StartBasis, WorkloadObserved,
        },
        ledger::Ledger,
        quantity::Quantity,
        resources::{Models, Resources},
        time::ORIGIN,
    },
    event_log::{EventLog, NewEvent, Reader, codec::Decoder, file::FileLog},
    projection::fold::Read,
};
use std::{
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

fn event(n: i64, data: Data<'_>) -> NewEvent {
    let (time, id) = (ORIGIN.shifted(n), EventId(n.unsigned_abs().into()));
    let (source, subject) = ("/clusters/east".into(), "clusters/east".into());
    NewEvent::new(&Event { id, source, subject, time, recorded_at: time, data }).unwrap()
}

async fn append(log: &Path, events: Vec<NewEvent>) {
    let log = FileLog::open(log, &Default::default()).unwrap();
    log.append(events).await.unwrap();
    log.close().unwrap();
}

async fn folded(log: &Path) -> Ledger {
    let log = FileLog::open_read(log).unwrap();
    let (mut ledger, mut decoder) = (Ledger::default(), Decoder::default());
    let mut reader = log.read(1).unwrap();
    while let Some(records) = reader.next().await.unwrap() {
        for (position, raw) in records.iter() {
            let scanned = raw.scan().unwrap();
            let read = Read::of(decoder.decode(&scanned));
            ledger.fold(position, &read.record()).unwrap();
        }
    }
    ledger
}

/// The uid that `east` is bound to, and whether anything is known of how far it was read.
async fn known(log: &Path) -> (Option<String>, bool) {
    let east = folded(log).await.cluster("east");
    (east.bound.map(|uid| uid.to_string()), !east.versions.is_empty())
}

#[tokio::test]
async fn a_name_that_was_let_go_is_bound_to_what_is_found_next_also_if_it_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let bound =
        |n, uid: &'static str| event(n, Data::ClusterBound(ClusterBound { uid: uid.into() }));
    let versions = [("pods".into(), "812004".into())].into();
    let synced = ObserverSynced { resource_versions: versions, since: ORIGIN };
    append(&log, vec![bound(1, "one"), event(2, Data::ObserverSynced(synced))]).await;
    assert_eq!(known(&log).await, (Some("one".into()), true));

    let mut rebind = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    let said = rebind.args(["cluster", "rebind", "east", "--log"]).arg(&log).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(known(&log).await, (None, false));

    // An API server that was restored has the uid that it had.
    append(&log, vec![bound(3, "one")]).await;
    assert_eq!(known(&log).await, (Some("one".into()), false));
}

#[test]
fn a_log_that_is_not_there_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut rebind = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    let said = rebind.args(["cluster", "rebind", "east", "--log"]).arg(&log).output().unwrap();
    assert_eq!(said.status.code(), Some(4), "{said:?}");
    assert!(!log.exists());
}

/// A pod of one core since `begin` and its workload, and a heartbeat at 5 s.
fn running(begin: i64) -> Vec<NewEvent> {
    let mut resources = Resources::default();
    resources.limits.set("cpu", Quantity::from_milli(1000, Default::default()));
    let held = Arc::new(resources);
    let workload = ObjectRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: Some("ns".into()),
        name: "web".into(),
        uid: "w".into(),
    };
    let role = Role {
        name: "".into(),
        count: 1,
        peak: 1,
        models: Models::default(),
        pod: Arc::clone(&held),
    };
    let observed = WorkloadObserved {
        workload: workload.clone(),
        resource_version: "1".into(),
        generation: 1,
        group: "team".into(),
        roles: vec![role],
    };
    let started = PodStarted {
        uid: "p".into(),
        owner: Some(workload),
        group: "team".into(),
        models: Models::default(),
        node: "n".into(),
        held,
        reserved: None,
        basis: StartBasis::Bound,
    };
    let synced = ObserverSynced { resource_versions: [].into(), since: ORIGIN };
    vec![
        event(1, Data::ClusterBound(ClusterBound { uid: "one".into() })),
        event(900, Data::WorkloadObserved(observed)),
        event(begin, Data::PodStarted(started)),
        event(5_000, Data::ObserverSynced(synced)),
    ]
}

fn bizrq(arguments: &[&str], log: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    command.args(arguments).arg("--log").arg(log).output().unwrap()
}

#[tokio::test]
async fn what_ran_in_a_cluster_that_is_retired_ended_with_it_and_is_charged_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    append(&log, running(1_000)).await;
    let retire = |name: &str, at: i64| {
        bizrq(&["cluster", "retire", name, "--at", &ORIGIN.shifted(at).to_string()], &log)
    };
    for (name, at, why) in [
        ("west", 9_000, "knows no cluster of this name"),
        ("east", 4_999, "it ended then or later"),
        ("east", 200 * 365 * 24 * 3_600_000, "still to come"),
    ] {
        let said = retire(name, at);
        let words = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.code() == Some(2) && words.contains(why), "{words}");
    }
    let said = retire("east", 9_000);
    let words = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(words.contains("pods that still ran: 1, workloads: 1"), "{said:?}");

    let report = bizrq(&["meter", "-o", "json"], &log).stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let lines = report["usage"].as_array().unwrap();
    let line = lines.iter().find(|line| line["key"] == "limits.cpu").unwrap();
    // Eight seconds, of which nobody knows about the last four.
    assert_eq!((&line["exact"], &line["running"]), (&"8000000".into(), &"0".into()), "{line}");
    assert_eq!(line["provisional"], true);
    assert_eq!(line["uncertainHours"], "0.001111111");
    let ledger = folded(&log).await;
    let cluster = ledger.names().known_cluster_of("east").unwrap();
    let book = ledger.book().unwrap();
    assert_eq!((book.observed(cluster).count(), book.reservations().count()), (0, 0));

    let said = retire("east", 9_000);
    assert!(String::from_utf8_lossy(&said.stderr).contains("already"), "{said:?}");
}

#[tokio::test]
async fn a_cluster_did_not_end_before_a_pod_that_began_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    // Behind the last heartbeat.
    append(&log, running(7_000)).await;
    let retire = |at: i64| {
        bizrq(&["cluster", "retire", "east", "--at", &ORIGIN.shifted(at).to_string()], &log)
    };
    let said = retire(6_999);
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.code() == Some(2) && words.contains("it ended then or later"), "{words}");
    assert!(retire(7_000).status.success());
    assert!(folded(&log).await.quarantined().is_empty());
}
