//! What a review needs to know of its cluster is known already when it comes: no review waits for an API server.

use super::{
    client::request,
    served::{Served, limits},
};
use crate::{
    labels::{ask, deployment, review},
    observe::{
        api::Api,
        played::{cluster, server},
        stand::Stand,
    },
};
use bizrq::{
    domain::time::Timestamp,
    event_log::memory::MemoryLog,
    k8s::kinds::Kinds,
    webhook::{
        Options,
        clusters::{Cluster, Clusters},
    },
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A review in the words of an API server.
fn of(uid: &str, sub: &str, resource: &str, user: &str, new: &Value, old: &Value) -> Vec<u8> {
    let mut asked: Value = serde_json::from_slice(&review(uid, sub, new, old)).unwrap();
    let version = new["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    if sub != "scale" {
        asked["request"]["kind"] = json!({"group": group, "version": version, "kind": new["kind"]});
        asked["request"]["resource"] =
            json!({"group": group, "version": version, "resource": resource});
    }
    asked["request"]["userInfo"]["username"] = user.into();
    asked.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_review_asks_an_api_server_for_anything() {
    let (api, log): (Api, _) = (server(), Arc::new(MemoryLog::default()));
    let created = "2026-11-29T12:00:00Z";
    let meta = |name: &str| json!({"name": name, "uid": name, "creationTimestamp": created});
    let mut namespace = json!({"metadata": meta("ml")});
    namespace["metadata"]["labels"] = json!({"biz.group.resource.quota": "team-a"});
    api.put("/api/v1/namespaces", namespace);
    api.put("/api/v1/nodes", json!({"metadata": meta("n1")}));
    let class = json!({"metadata": meta("vm"), "overhead": {"podFixed": {"cpu": "1"}}});
    api.put("/apis/node.k8s.io/v1/runtimeclasses", class);
    let mut limits_of_pods = json!({"metadata": meta("r"), "spec": {"limits": [
        {"type": "Container", "default": {"memory": "1Gi"}}]}});
    limits_of_pods["metadata"]["namespace"] = "ml".into();
    api.put("/api/v1/limitranges", limits_of_pods);
    let shop = deployment("shop", &json!({}));
    api.put("/apis/apps/v1/deployments", shop.clone());
    let now = Timestamp::parse("2026-11-29T13:00:00Z").unwrap();
    let mut stand = Stand::new(api.client(), cluster(now), &log, false);
    stand.until(|progress| progress.context_synced).await;
    stand.declare(&log, "team-a", "Declared", &json!({"limits.cpu": "9", "pods": "9"})).await;
    let kinds = Arc::new(Kinds::builtin().unwrap());
    let east = Cluster { options: Options::new("east"), context: Arc::clone(&stand.context) };
    let clusters = Clusters::new(kinds, [east], stand.decider.clone(), stand.projection.clone());
    let served = Served::start_with(clusters, limits());

    let none = Value::Null;
    let mut heavy = deployment("web", &json!({}));
    heavy["spec"]["template"]["spec"]["runtimeClassName"] = "vm".into();
    let mut everywhere = deployment("agent", &json!({}));
    everywhere["kind"] = "DaemonSet".into();
    let mut child = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta("shop-1"),
        "spec": shop["spec"]["template"]["spec"]});
    child["metadata"]["namespace"] = "ml".into();
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment",
        "name": "shop", "uid": shop["metadata"]["uid"], "controller": true}]);
    let mut orphan = child.clone();
    orphan["metadata"]["ownerReferences"][0]["uid"] = "nobody's".into();
    let scale = |name: &str, replicas: u32| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name,
            "namespace": "ml", "uid": format!("uid of {name}"), "resourceVersion": "900"},
            "spec": {"replicas": replicas}})
    };
    let deployments = "deployments";
    let asked = || api.world().asked.len();
    let before = asked();
    let cases = [
        ("Recorded", of("1", "", deployments, "alice", &heavy, &none)),
        ("Recorded", of("2", "", "daemonsets", "alice", &everywhere, &none)),
        ("Recorded", of("3", "", "pods", "alice", &child, &none)),
        ("Recorded", of("4", "", "pods", "alice", &orphan, &none)),
        ("Recorded", of("5", "scale", deployments, "alice", &scale("shop", 2), &scale("shop", 1))),
        (
            "QuotaExceeded",
            of("6", "scale", deployments, "alice", &scale("shop", 99), &scale("shop", 1)),
        ),
        // What has not been seen is not looked for either.
        (
            "LogUnavailable",
            of("7", "scale", deployments, "alice", &scale("new", 2), &scale("new", 1)),
        ),
    ];
    for (n, (expected, review)) in cases.into_iter().enumerate() {
        let answer = ask(&served, review).await;
        assert_eq!(answer["auditAnnotations"]["reason"], expected, "{}: {answer}", n + 1);
        assert_eq!(answer["uid"], (n + 1).to_string());
    }
    let quota = json!({"apiVersion": "bizrq.io/v1", "kind": "BizGroupResourceQuota",
        "metadata": {"name": "team-c", "uid": "c"}, "spec": {"hard": {"limits.cpu": "1"}}});
    let body = of("8", "", "bizgroupresourcequotas", "alice", &quota, &none);
    let path = "/validate/quotas/east?timeout=30s";
    let answer = served.http2().await.send(request("POST", path, body.into())).await.unwrap();
    assert!(answer.text.contains("\"allowed\":true"), "{}", answer.text);
    assert_eq!(asked(), before, "{:?}", api.world().asked.split_off(before));
    served.stop().await;
    stand.close().await;
}
