//! Clusters that join one log at the same moment, each taking its own quota objects for those that count.

use super::{
    facts::{QUOTAS, at},
    played::{cluster, server},
    stand::{Stand, eventually},
};
use crate::through::{Between, Through};
use bizrq::{
    event_log::{AppendError, Appended, EventLog, NewEvent, Reader, memory::MemoryLog},
    observe::{Cluster, Error},
};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::Barrier;

/// The first two appends are written when both were asked for.
struct AtOnce {
    asked: AtomicUsize,
    both: Barrier,
}

impl Between for AtOnce {
    async fn append(
        &self,
        log: &MemoryLog,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        if self.asked.fetch_add(1, Ordering::Relaxed) < 2 {
            self.both.wait().await;
        }
        log.append(events).await
    }
}

/// Who told events whose type begins so, in order.
async fn tellers(log: &MemoryLog, prefix: &str) -> Vec<String> {
    let (mut reader, mut tellers) = (log.read(1).unwrap(), Vec::new());
    while let Some(records) = reader.next().await.unwrap() {
        let scanned = records.iter().map(|(_, raw)| raw.scan().unwrap());
        let of_type = scanned.filter(|s| s.type_name.starts_with(&format!("io.bizrq.{prefix}")));
        tellers.extend(of_type.map(|s| s.source.trim_start_matches("/clusters/").to_owned()));
    }
    tellers
}

/// Neither finds the other when it begins. If both told their quota objects, each would end the other's.
#[tokio::test]
async fn of_two_that_join_an_empty_log_at_once_the_second_tells_nothing() {
    let at_once = AtOnce { asked: AtomicUsize::new(0), both: Barrier::new(2) };
    let log = Arc::new(Through::new(MemoryLog::default(), at_once));
    let begin = |name: &str| {
        let api = server();
        api.put(
            QUOTAS,
            json!({"metadata": {"name": format!("team-{name}"), "uid": format!("uid of {name}"),
                "generation": 1, "creationTimestamp": "2026-11-29T11:00:00Z"},
                "spec": {"hard": {"limits.cpu": "10"}}}),
        );
        let cluster = Cluster { name: name.into(), ..cluster(at("13:00:00")) };
        Stand::new(api.client(), cluster, &log, true)
    };
    let (east, west) = (begin("east"), begin("west"));
    let ended = || east.observing.is_finished() || west.observing.is_finished();
    eventually("one of them is told no", ended).await;
    let bound = tellers(&log.log, "cluster.bound").await;
    let (mut first, second) = if bound[0] == "east" { (east, west) } else { (west, east) };
    let ended = second.observing.await.unwrap().unwrap_err();
    assert!(matches!(&ended, Error::Quotas { elsewhere, .. } if *elsewhere == bound[0]), "{ended}");
    first.until(|progress| progress.facts_synced).await;
    eventually("its quota object", || {
        let ledger = first.projection.ledger();
        ledger.book().is_some_and(|book| book.quota_objects().count() == 1)
    })
    .await;
    assert_eq!(bound.len(), 2, "{bound:?}");
    for name in ["quota", "observer", "node", "pod", "workload"] {
        let tellers = tellers(&log.log, name).await;
        assert!(tellers.iter().all(|teller| *teller == bound[0]), "{name}: {tellers:?}");
    }
    first.close().await;
}
