//! `bizrq cluster` on a log in a folder.

use bizrq::{
    domain::{
        event::{ClusterBound, Data, Event, EventId, ObserverSynced},
        ledger::Ledger,
        time::ORIGIN,
    },
    event_log::{EventLog, NewEvent, Reader, codec::Decoder, file::FileLog},
    projection::fold::Read,
};
use std::{path::Path, process::Command};

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

/// The uid that `east` is bound to, and whether anything is known of how far it was read.
async fn known(log: &Path) -> (Option<String>, bool) {
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
    let east = ledger.cluster("east");
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
