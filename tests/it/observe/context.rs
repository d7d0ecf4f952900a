//! What reviews need to know of their cluster, kept on a replica that does not lead.

use super::{
    api::Api,
    stand::{Stand, eventually},
};
use bizrq::{event_log::memory::MemoryLog, observe::Cluster};
use serde_json::{Value, json};
use std::sync::Arc;

const NAMESPACES: &str = "/api/v1/namespaces";
const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";

fn namespace(name: &str, group: Option<&str>) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid of {name}"),
        "creationTimestamp": "2026-11-29T16:00:00Z", "labels": {"biz.group.resource.quota": group}}})
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "web", "uid": name,
        "creationTimestamp": "2026-11-29T16:00:00Z"}, "spec": {"replicas": 1}})
}

fn stand(api: &Api) -> Stand {
    let cluster = Cluster { name: "east".into(), ..Cluster::default() };
    Stand::new(api.client(), cluster, &Arc::new(MemoryLog::default()), false)
}

fn group(stand: &Stand, name: &str) -> Option<String> {
    stand.context.read().unwrap().namespace_group(name).map(str::to_owned)
}

fn knows(stand: &Stand, name: &str) -> bool {
    stand.context.read().unwrap().named("apps/v1", "Deployment", "web", name).is_some()
}

#[tokio::test]
async fn what_was_there_is_known_and_what_changes_is_followed() {
    let api = Api::default();
    api.world().page = Some(2);
    for n in 0..7 {
        api.put(NAMESPACES, namespace(&format!("ns-{n}"), Some("team-a")));
    }
    let mut stand = stand(&api);
    stand.until(|progress| progress.context_synced).await;
    assert!((0..7).all(|n| group(&stand, &format!("ns-{n}")).as_deref() == Some("team-a")));
    api.put(NAMESPACES, namespace("ns-3", Some("team-b")));
    eventually("moved", || group(&stand, "ns-3").as_deref() == Some("team-b")).await;
    api.put(DEPLOYMENTS, deployment("shop"));
    eventually("known", || knows(&stand, "shop")).await;
    api.delete(DEPLOYMENTS, "shop");
    eventually("gone", || !knows(&stand, "shop")).await;
    stand.close().await;
}

#[tokio::test]
async fn what_happened_while_a_watch_was_broken_is_made_up_for() {
    let api = Api::default();
    api.put(DEPLOYMENTS, deployment("old"));
    let mut stand = stand(&api);
    stand.until(|progress| progress.context_synced).await;
    api.cut();
    api.put(DEPLOYMENTS, deployment("new"));
    eventually("new by a watch from the last version", || knows(&stand, "new")).await;

    // A watch whose version is no longer kept: only a list shows what vanished.
    api.delete(DEPLOYMENTS, "old");
    api.compact();
    api.cut();
    api.put(DEPLOYMENTS, deployment("newest"));
    eventually("newest by a list", || knows(&stand, "newest")).await;
    eventually("old is gone", || !knows(&stand, "old")).await;
    assert!(knows(&stand, "new"));
    stand.close().await;
}

#[tokio::test]
async fn a_kind_that_does_not_work_keeps_no_other_waiting() {
    let api = Api::default();
    api.drop_kind("/apis/ray.io/v1/rayjobs");
    api.refuse("/apis/batch/v1/jobs", 403);
    api.put(DEPLOYMENTS, deployment("shop"));
    let mut stand = stand(&api);
    eventually("the others are told", || knows(&stand, "shop")).await;
    stand.until(|progress| progress.failing.contains_key("jobs.batch")).await;
    stand.until(|progress| progress.context_synced).await;
    assert!(!stand.progress.borrow().failing.contains_key("rayjobs"), "not served is no failure");
    api.refuse("/apis/batch/v1/jobs", 0);
    stand.until(|progress| progress.failing.is_empty()).await;
    stand.close().await;
}
