//! What an observer tells of pods, workloads, nodes and quotas, when all goes well and when it does not.

use super::{
    api::Api,
    played::{cluster, server},
    stand::{Stand, eventually},
};
use crate::through::{Between, Through};
use bizrq::{
    domain::time::Timestamp,
    event_log::{
        AppendError, Appended, EventLog, NewEvent, Reader,
        codec::{Decoded, decode},
        memory::MemoryLog,
    },
    observe::{Cluster, Error},
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;

pub(super) const PODS: &str = "/api/v1/pods";
pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
pub(super) const QUOTAS: &str = "/apis/bizrq.io/v1/bizgroupresourcequotas";

pub(super) fn at(time: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-29T{time}Z")).unwrap()
}

fn uid(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// A pod of one core of `team-a` that was bound at noon; its last write was at `written`.
fn pod(n: u32, phase: &str, written: &str) -> Value {
    let time = |t: &str| format!("2026-11-29T{t}Z");
    json!({"metadata": {"name": format!("p{n}"), "namespace": "ml", "uid": uid(n),
            "creationTimestamp": time("11:59:59"), "labels": {"biz.group.resource.quota": "team-a"},
            "managedFields": [{"manager": "kubelet", "subresource": "status", "time": time(written)}]},
        "spec": {"nodeName": "n1", "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "True",
            "lastTransitionTime": time("12:00:00")}]}})
}

fn node(ready: &str, since: &str, gpu: Option<&str>) -> Value {
    json!({"metadata": {"name": "n1", "uid": "node 1", "creationTimestamp": "2026-11-29T10:00:00Z",
            "labels": {"model": gpu}},
        "status": {"conditions": [{"type": "Ready", "status": ready,
            "lastTransitionTime": format!("2026-11-29T{since}Z")}]}})
}

/// Core-milliseconds of `team-a` until `until`.
fn spent(stand: &Stand, until: &str) -> i128 {
    let key = ("team-a".to_owned(), "requests.cpu".to_owned());
    stand.usage(at(until)).get(&key).copied().unwrap_or(0) / 1000
}

const MINUTE: i128 = 60_000;

/// Type and data of every record of `log` whose type begins with `prefix`.
pub(crate) async fn told(log: &MemoryLog, prefix: &str) -> Vec<String> {
    let mut reader = log.read(1).unwrap();
    let mut told = Vec::new();
    while let Some(records) = reader.next().await.unwrap() {
        for (_, raw) in records.iter() {
            let scanned = raw.scan().unwrap();
            assert!(matches!(decode(&scanned), Ok(Decoded::Event(_))), "{}", scanned.data);
            let name = scanned.type_name.trim_start_matches("io.bizrq.");
            if name.starts_with(prefix) {
                told.push(format!("{name} {} {}", scanned.time, scanned.data));
            }
        }
    }
    told
}

async fn begin(api: &Api, log: &Arc<MemoryLog>) -> Stand {
    let mut stand = Stand::new(api.client(), cluster(at("13:00:00")), log, true);
    stand.until(|progress| progress.facts_synced).await;
    stand
}

#[tokio::test]
async fn what_ended_unseen_is_closed_at_its_last_proof_of_life_and_marked() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(NODES, node("True", "11:00:00", None));
    api.put(PODS, pod(1, "Running", "12:05:00"));
    api.put(PODS, pod(2, "Running", "12:05:00"));
    let stand = begin(&api, &log).await;
    eventually("both run", || spent(&stand, "12:10:00") == 20 * MINUTE).await;
    stand.close().await;
    api.delete(PODS, &uid(1));

    let stand = begin(&api, &log).await;
    eventually("one is closed", || {
        stand.usage(at("13:00:00")).len() == 1 && {
            let lines = stand.projection.ledger().usage(at("12:30:00")).unwrap();
            lines[0].running == 1000 && lines[0].provisional
        }
    })
    .await;
    let stopped = told(&log, "pod.stopped").await;
    assert_eq!(stopped.len(), 1, "{stopped:?}");
    assert!(stopped[0].contains("\"basis\":\"Absent\""), "{stopped:?}");
    assert_eq!(stand.counted("bizrq_observe_unwitnessed_ends_total"), 1);
    let before = spent(&stand, "12:30:00");

    // An API server that shows it again takes the stop back.
    api.put(PODS, pod(1, "Running", "12:45:00"));
    eventually("it lives", || spent(&stand, "12:30:00") > before).await;
    eventually("all of it", || spent(&stand, "12:30:00") == 60 * MINUTE).await;
    assert_eq!(told(&log, "pod.stop_withdrawn").await.len(), 1);
    stand.close().await;
}

/// Nothing else may have changed for long: what counts is when it was listed.
#[tokio::test]
async fn what_ended_unseen_ended_before_the_list_that_does_not_show_it() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(NODES, node("True", "11:00:00", None));
    api.put(PODS, pod(1, "Running", "12:05:00"));
    let stand = begin(&api, &log).await;
    eventually("it runs", || spent(&stand, "12:10:00") == 10 * MINUTE).await;
    // What was seen so far is vouched for.
    while told(&log, "observer.synced").await.is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    stand.close().await;
    api.delete(PODS, &uid(1));
    api.world().date = Some("Sun, 29 Nov 2026 12:58:59 GMT".into());
    let stand = begin(&api, &log).await;
    eventually("it is closed", || told_stops(&stand) == 1).await;
    let stopped = told(&log, "pod.stopped").await;
    for bound in
        ["\"earliest\":\"2026-11-29T12:05:00.000Z\"", "\"latest\":\"2026-11-29T12:59:00.000Z\""]
    {
        assert!(stopped[0].contains(bound), "{stopped:?}");
    }
    let lines = stand.projection.ledger().usage(at("13:00:00")).unwrap();
    assert_eq!(lines[0].uncertain, 54 * MINUTE * 1000);
    stand.close().await;
}

/// A list shows what is there; what came and went before it is the watch's to tell.
#[tokio::test]
async fn what_came_and_went_before_a_list_is_told_when_the_watch_gets_to_it() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(NODES, node("True", "11:00:00", None));
    api.put(PODS, pod(1, "Running", "12:05:00"));
    // The sweeper asks for a list where a watch is behind.
    api.world().restless = true;
    let mut stand = Stand::new(api.client(), cluster(at("13:00:00")), &log, true);
    eventually("pods are watched", || api.is_watched(PODS)).await;
    api.hold(PODS);
    api.put(PODS, pod(2, "Running", "12:10:00"));
    api.put(PODS, pod(2, "Succeeded", "12:30:00"));
    api.delete(PODS, &uid(2));
    api.put(PODS, pod(1, "Succeeded", "12:40:00"));
    api.delete(PODS, &uid(1));
    stand.until(|progress| progress.facts_synced).await;
    let before = api.lists(PODS);
    eventually("all pods are listed again", || api.lists(PODS) > before).await;
    eventually("the list shows none", || told_stops(&stand) > 0).await;
    api.release(PODS);
    eventually("both are billed to their ends", || {
        let lines = stand.projection.ledger().usage(at("13:00:00")).unwrap();
        lines[0].exact == 70 * MINUTE * 1000 && !lines[0].provisional && lines[0].uncertain == 0
    })
    .await;
    stand.close().await;
}

/// How many pods the ledger holds for ended.
fn told_stops(stand: &Stand) -> usize {
    stand.projection.ledger().meter().pods().filter(|pod| pod.ended().is_some()).count()
}

#[tokio::test]
async fn a_relist_closes_what_vanished_while_the_watch_was_broken() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(NODES, node("True", "11:00:00", None));
    api.put(PODS, pod(1, "Running", "12:05:00"));
    let stand = begin(&api, &log).await;
    eventually("it runs", || spent(&stand, "12:10:00") == 10 * MINUTE).await;
    api.refuse(PODS, 503);
    api.cut();
    api.delete(PODS, &uid(1));
    api.put(PODS, pod(2, "Running", "12:20:00"));
    api.compact();
    api.refuse(PODS, 0);
    // Billed to 12:05, uncertain until what the list shows of 12:20.
    eventually("closed", || spent(&stand, "12:10:00") == 15 * MINUTE).await;
    let lines = stand.projection.ledger().usage(at("12:30:00")).unwrap();
    assert_eq!(lines[0].uncertain, 15 * MINUTE * 1000);
    stand.close().await;
}

#[tokio::test]
async fn a_pod_that_was_collected_from_a_lost_node_ended_when_the_node_was_lost() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(NODES, node("True", "11:00:00", None));
    api.put(PODS, pod(1, "Running", "12:05:00"));
    let stand = begin(&api, &log).await;
    api.put(NODES, node("Unknown", "12:10:00", None));
    eventually("told", || stand.counted("bizrq_observe_events_total") >= 6).await;
    api.delete(PODS, &uid(1));
    eventually("closed", || spent(&stand, "12:30:00") == 10 * MINUTE).await;
    let stopped = told(&log, "pod.stopped").await;
    assert!(stopped[0].contains("\"basis\":\"NodeLost\""), "{stopped:?}");
    assert!(stopped[0].contains("\"earliest\":\"2026-11-29T12:09:10.000Z\""), "{stopped:?}");
    stand.close().await;
}

#[tokio::test]
async fn the_model_of_the_node_is_metered_whatever_the_pod_declares() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(NODES, node("True", "11:00:00", Some("A4")));
    let mut declared = pod(1, "Running", "12:05:00");
    declared["metadata"]["labels"]["biz.group.resource.quota/cpu-type"] = "A5".into();
    api.put(PODS, declared);
    let cluster =
        Cluster { node_models: [Some("model".into()), None, None], ..cluster(at("13:00:00")) };
    let stand = Stand::new(api.client(), cluster, &log, true);
    let key = |key: &str| ("team-a".to_owned(), key.to_owned());
    eventually("by model", || {
        let usage = stand.usage(at("12:10:00"));
        usage.contains_key(&key("requests.cpu.A4")) && !usage.contains_key(&key("requests.cpu.A5"))
    })
    .await;
    stand.close().await;
}

/// Rule 18 of the model (`ctx_order`): the watch of workloads is behind that of pods.
#[tokio::test]
async fn a_pod_that_is_seen_before_its_workload_moved_is_metered_where_the_workload_is() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(NODES, node("True", "11:00:00", None));
    let workload = |group: &str, written: &str| {
        json!({"metadata": {"name": "d", "namespace": "ml", "uid": uid(9),
                "creationTimestamp": "2026-11-29T11:00:00Z", "labels": {"biz.group.resource.quota": group},
                "managedFields": [{"manager": "kubectl", "time": format!("2026-11-29T{written}Z")}]},
            "spec": {"replicas": 1, "template": {"spec": {"containers": []}}}})
    };
    api.put(DEPLOYMENTS, workload("team-r", "11:00:00"));
    let stand = begin(&api, &log).await;
    api.hold(DEPLOYMENTS);
    api.put(DEPLOYMENTS, workload("team-a", "11:30:00"));
    let mut child = pod(1, "Running", "12:05:00");
    child["metadata"]["labels"] = json!({});
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment",
        "name": "d", "uid": uid(9), "controller": true}]);
    api.put(PODS, child);
    eventually("the pod is told", || !stand.usage(at("12:10:00")).is_empty()).await;
    api.release(DEPLOYMENTS);
    eventually("all of it is team-a's, from the start", || {
        stand.usage(at("12:10:00")).len() == 1 && spent(&stand, "12:10:00") == 10 * MINUTE
    })
    .await;
    stand.close().await;
}

#[tokio::test]
async fn a_virtual_node_holds_nothing() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    let mut elsewhere = node("True", "11:00:00", None);
    elsewhere["metadata"]["labels"] = json!({"type": "virtual-kubelet"});
    api.put(NODES, elsewhere);
    api.put(PODS, pod(1, "Running", "12:05:00"));
    let stand = begin(&api, &log).await;
    eventually("created", || stand.projection.ledger().meter().remembered() == 1).await;
    assert_eq!(told(&log, "pod.created").await.len(), 1);
    assert_eq!(told(&log, "pod.started").await, Vec::<String>::new());
    stand.close().await;
}

#[tokio::test]
async fn who_does_not_lead_tells_nothing_and_who_leads_again_makes_up_for_it() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(NODES, node("True", "11:00:00", None));
    let mut stand = begin(&api, &log).await;
    stand.leads.send_replace(false);
    stand.until(|progress| !progress.leading).await;
    let before = log.head().await.unwrap().position;
    api.put(PODS, pod(1, "Running", "12:05:00"));
    api.put(DEPLOYMENTS, json!({"metadata": {"name": "d", "namespace": "ml", "uid": uid(9),
        "creationTimestamp": "2026-11-29T12:00:00Z"}, "spec": {"replicas": 1, "template": {"spec": {"containers": []}}}}));
    eventually("its reviews know it", || {
        stand.context.read().unwrap().named("apps/v1", "Deployment", "ml", "d").is_some()
    })
    .await;
    assert_eq!(log.head().await.unwrap().position, before);
    stand.leads.send_replace(true);
    stand.until(|progress| progress.facts_synced).await;
    eventually("told", || spent(&stand, "12:10:00") == 10 * MINUTE).await;
    assert_eq!(
        told(&log, "workload.observed").await.len(),
        2,
        "the deployment, and the pod of its own"
    );
    stand.close().await;
}

#[tokio::test]
async fn quotas_are_told_as_they_are_and_as_they_go() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    let quota = |name: &str, cpu: &str| {
        json!({"metadata": {"name": name, "uid": format!("uid of {name}"), "generation": 1,
            "creationTimestamp": "2026-11-29T11:00:00Z"}, "spec": {"hard": {"limits.cpu": cpu}}})
    };
    api.put(QUOTAS, quota("team-a", "10"));
    api.put(QUOTAS, quota("team-b", "10"));
    let stand = begin(&api, &log).await;
    let limit = |name: &str| {
        let ledger = stand.projection.ledger();
        let group = ledger.names().known_group(name)?;
        let key = ledger.names().known_key("limits.cpu")?;
        ledger.book()?.line(group, key).limit
    };
    eventually("declared", || (limit("team-a"), limit("team-b")) == (Some(10_000), Some(10_000)))
        .await;
    api.put(QUOTAS, quota("team-a", "12"));
    eventually("changed", || limit("team-a") == Some(12_000)).await;
    api.delete(QUOTAS, "uid of team-a");
    eventually("removed", || limit("team-a").is_none()).await;
    stand.close().await;
    api.delete(QUOTAS, "uid of team-b");
    let stand = begin(&api, &log).await;
    eventually("removed while nobody watched", || {
        stand.projection.ledger().book().unwrap().quota_objects().count() == 0
    })
    .await;
    stand.close().await;
}

#[tokio::test]
async fn another_cluster_under_the_same_name_is_told_nothing() {
    let log = Arc::new(MemoryLog::default());
    begin(&server(), &log).await.close().await;
    let other = Api::default();
    other.put(
        "/api/v1/namespaces",
        json!({"metadata": {"name": "kube-system", "uid": "of another",
        "creationTimestamp": "2026-11-29T10:00:00Z"}}),
    );
    other.put(PODS, pod(1, "Running", "12:05:00"));
    let before = log.head().await.unwrap().position;
    let stand = Stand::new(other.client(), cluster(at("13:00:00")), &log, true);
    let ended = stand.observing.await.unwrap().unwrap_err();
    assert!(
        matches!(&ended, Error::Rebound { bound, found, .. } if bound == "of east" && found == "of another")
    );
    assert!(ended.to_string().contains("bizrq cluster rebind east"));
    assert_eq!(log.head().await.unwrap().position, before);
}

/// A second cluster joins with the usual settings: were its quota objects, none, told as those that count, all of the
/// first would be gone.
#[tokio::test]
async fn quota_objects_of_two_clusters_do_not_take_turns() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(
        QUOTAS,
        json!({"metadata": {"name": "team-a", "uid": "uid of team-a", "generation": 1,
        "creationTimestamp": "2026-11-29T11:00:00Z"}, "spec": {"hard": {"limits.cpu": "10"}}}),
    );
    let first = begin(&api, &log).await;
    eventually("a heartbeat that tells of quota objects", || {
        let versions = first.projection.ledger().cluster("east").versions;
        versions.contains_key("bizgroupresourcequotas.bizrq.io")
    })
    .await;
    first.close().await;
    let before = log.head().await.unwrap().position;
    let second = Cluster { name: "west".into(), ..cluster(at("13:00:00")) };
    let other = server();
    let stand = Stand::new(other.client(), second.clone(), &log, true);
    let ended = stand.observing.await.unwrap().unwrap_err();
    assert!(matches!(&ended, Error::Quotas { elsewhere, .. } if elsewhere == "east"), "{ended}");
    assert!(ended.to_string().contains("--quota-cluster east"));
    assert_eq!(log.head().await.unwrap().position, before, "nothing was told");

    // With its own not counted it is observed, and if an operator means it, the others go.
    let goes_on = async |second: Cluster, quotas: usize| {
        let mut stand = Stand::new(other.client(), second, &log, true);
        stand.until(|progress| progress.facts_synced).await;
        eventually("that many quota objects", || {
            stand.projection.ledger().book().unwrap().quota_objects().count() == quotas
        })
        .await;
        stand.close().await;
    };
    goes_on(Cluster { quotas: false, ..second.clone() }, 1).await;
    goes_on(Cluster { quotas_named: true, ..second }, 0).await;
}

#[tokio::test]
async fn an_api_server_that_is_older_than_the_log_is_told_nothing() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put_at(PODS, pod(1, "Running", "12:05:00"), 812_004);
    let stand = begin(&api, &log).await;
    eventually("a heartbeat", || {
        stand.projection.ledger().cluster("east").versions.get("pods") == Some(&812_004)
    })
    .await;
    stand.close().await;
    let restored = server();
    restored.put(PODS, pod(2, "Running", "12:05:00"));
    let before = log.head().await.unwrap().position;
    let stand = Stand::new(restored.client(), cluster(at("13:00:00")), &log, true);
    let ended = stand.observing.await.unwrap().unwrap_err();
    let Error::Older { version, known, .. } = &ended else { panic!("{ended}") };
    assert!(version < known && ended.to_string().contains("bizrq cluster rebind east"));
    assert_eq!(log.head().await.unwrap().position, before);
}

#[tokio::test]
async fn a_log_that_is_away_loses_nothing() {
    let (api, away) = (server(), Arc::new(Away::default()));
    api.put(NODES, node("True", "11:00:00", None));
    let mut stand = Stand::new(api.client(), cluster(at("13:00:00")), &away, true);
    stand.until(|progress| progress.facts_synced).await;
    away.away.store(true, Ordering::Relaxed);
    api.put(PODS, pod(1, "Running", "12:05:00"));
    api.put(PODS, pod(1, "Succeeded", "12:07:00"));
    eventually("it was tried", || away.tried.load(Ordering::Relaxed)).await;
    away.away.store(false, Ordering::Relaxed);
    eventually("told", || spent(&stand, "12:30:00") == 7 * MINUTE).await;
    stand.close().await;
}

/// A log that does not answer, or answers late.
type Away = Through<Out>;

#[derive(Default)]
struct Out {
    away: AtomicBool,
    tried: AtomicBool,
}

impl Between for Out {
    async fn append(
        &self,
        log: &MemoryLog,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        if self.away.load(Ordering::Relaxed) {
            // Of every second append nothing is there, of the others nobody is told that it is.
            if self.tried.fetch_not(Ordering::Relaxed) {
                log.append(events).await?;
            }
            return Err(AppendError::Unclear { why: "away".into() });
        }
        log.append(events).await
    }
}
