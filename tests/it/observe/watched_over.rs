//! What an operator is to look at: pods that nobody is asked about, and nodes whose clocks are wrong.

use super::{
    api::Api,
    facts::{NODES, PODS, at, told},
    played::{cluster, server},
    stand::{Stand, eventually},
};
use bizrq::event_log::memory::MemoryLog;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

const NAMESPACES: &str = "/api/v1/namespaces";
const UNCOVERED: &str = "bizrq_observe_uncovered_pods";
const SKEWED: &str = "bizrq_observe_skewed_nodes";

async fn begin(api: &Api, log: &Arc<MemoryLog>) -> Stand {
    let mut stand = Stand::new(api.client(), cluster(at("13:00:00")), log, true);
    stand.until(|progress| progress.facts_synced).await;
    stand
}

fn namespace(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid of {name}"), "labels": labels,
        "creationTimestamp": "2026-11-29T10:00:00Z"}})
}

/// A pod that runs in namespace `ml`, of `team-a` unless another group is named.
fn pod(n: u32, owner: Option<(&str, &str)>, group: &str, phase: &str) -> Value {
    let owners = owner.map(|(version, kind)| {
        json!([{"apiVersion": version, "kind": kind, "name": "o", "uid": format!("o{n}"), "controller": true}])
    });
    json!({"metadata": {"name": format!("p{n}"), "namespace": "ml", "uid": format!("p{n}"),
            "creationTimestamp": "2026-11-29T11:59:59Z", "ownerReferences": owners,
            "labels": {"biz.group.resource.quota": group}},
        "spec": {"nodeName": "n1", "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "True",
            "lastTransitionTime": "2026-11-29T12:00:00Z"}]}})
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_charged_and_that_nobody_is_asked_about_are_counted() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(NAMESPACES, namespace("ml", json!({})));
    let cases = [
        (None, "team-a"),
        (Some(("example.com/v1", "Thing")), "team-a"),
        // Who made these was asked about, or they count under nobody's quota.
        (Some(("apps/v1", "ReplicaSet")), "team-a"),
        (Some(("batch/v1", "Job")), "team-a"),
        (None, ""),
    ];
    for (n, (owner, group)) in (0..).zip(cases) {
        api.put(PODS, pod(n, owner, group, "Running"));
    }
    let mut stand = begin(&api, &log).await;
    eventually("two are not covered", || stand.shown(UNCOVERED) == 2).await;
    api.put(NAMESPACES, namespace("ml", json!({"bizrq.io/managed": "true"})));
    eventually("they are asked about", || stand.shown(UNCOVERED) == 0).await;
    api.put(NAMESPACES, namespace("ml", json!({})));
    eventually("and no more", || stand.shown(UNCOVERED) == 2).await;
    api.put(NAMESPACES, namespace("ml", json!({"bizrq.io/excluded": ""})));
    eventually("an operator excluded them", || stand.shown(UNCOVERED) == 0).await;
    api.put(NAMESPACES, namespace("ml", json!({})));
    eventually("and includes them again", || stand.shown(UNCOVERED) == 2).await;
    api.put(PODS, pod(0, None, "team-a", "Succeeded"));
    eventually("one is over", || stand.shown(UNCOVERED) == 1).await;
    api.delete(PODS, "p1");
    eventually("the other is gone", || stand.shown(UNCOVERED) == 0).await;
    api.put(PODS, pod(7, None, "team-a", "Running"));
    eventually("a new one", || stand.shown(UNCOVERED) == 1).await;
    stand.leads.send_replace(false);
    stand.until(|progress| !progress.leading).await;
    assert_eq!(stand.shown(UNCOVERED), 0, "who does not lead looks at no pods");
    stand.close().await;
}

/// A node whose kubelet says `said`, in a write that was taken at `taken`.
fn node(said: &str, taken: &str) -> Value {
    let time = |t: &str| format!("2026-11-29T{t}Z");
    json!({"metadata": {"name": "n1", "uid": "node 1", "creationTimestamp": time("10:00:00"),
            "managedFields": [{"manager": "kubelet", "subresource": "status", "time": time(taken)}]},
        "status": {"conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": time("11:00:00"), "lastHeartbeatTime": time(said)}]}})
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_off_is_told_when_that_changes_and_its_node_is_counted() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.put(NODES, node("12:00:00", "12:00:01"));
    let stand = begin(&api, &log).await;
    // said, taken, whether it is told, nodes that are off
    let steps = [
        ("12:05:02", "12:05:00", false, 0),
        ("12:10:03", "12:10:00", true, 1),
        // Within two seconds of what was told.
        ("12:15:05", "12:15:00", false, 1),
        ("12:19:50", "12:20:00", true, 1),
        ("12:25:00", "12:25:00", true, 0),
        ("12:30:01", "12:30:00", false, 0),
    ];
    let mut expected = 0;
    for (said, taken, is_told, skewed) in steps {
        api.put(NODES, node(said, taken));
        // Time passes only when there is nothing left to do.
        sleep(Duration::from_secs(1)).await;
        assert_eq!(stand.shown(SKEWED), skewed, "{said}");
        expected += usize::from(is_told);
        let nodes = told(&log, "node.observed").await;
        assert_eq!(nodes.len(), 1 + expected, "{said}: {nodes:?}");
        let clock = format!(
            r#""clock":{{"node":"2026-11-29T{said}.000Z","api":"2026-11-29T{taken}.000Z"}}"#
        );
        assert_eq!(nodes.last().unwrap().contains(&clock), is_told, "{nodes:?}");
    }
    api.put(NODES, node("12:40:00", "12:41:00"));
    eventually("off", || stand.shown(SKEWED) == 1).await;
    api.delete(NODES, "node 1");
    eventually("gone", || stand.shown(SKEWED) == 0).await;
    stand.close().await;
}
