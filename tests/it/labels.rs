//! Other labels than the usual ones name groups and models: reviews, observers and recordings go by those that were
//! chosen, and by no other.
//!
//! The tables of reviews and the recordings are tried under other labels where they are tried under the usual ones.

use crate::{
    observe::{
        api::Api,
        facts::told,
        played::{cluster, server},
        stand::{Stand, eventually},
    },
    webhook::served::{Served, limits},
};
use bizrq::{
    decider::Missing,
    domain::{
        label_keys::{Label, LabelKeys},
        time::Timestamp,
    },
    event_log::memory::MemoryLog,
    k8s::kinds::Kinds,
    webhook::{
        Options,
        clusters::{Cluster, Clusters},
    },
};
use serde_json::{Value, json};
use std::sync::Arc;

/// As `bizrq serve --label` takes them.
pub(crate) const CHOSEN: &str =
    "group=example.com/team,cpu=example.com/cpu,memory=memory-kind,gpu=example.com/card";

/// A text in which the labels that were chosen stand for the usual ones.
pub(crate) fn relabelled(text: &str) -> String {
    let chosen = chosen();
    let pairs = LabelKeys::USUAL.labels().into_iter().zip(chosen.labels());
    // The key of groups begins all others.
    pairs.rev().fold(text.to_owned(), |text, (usual, key)| text.replace(&usual.key, &key.key))
}

fn chosen() -> LabelKeys {
    let labels: Vec<Label> = CHOSEN.split(',').map(|label| label.parse().unwrap()).collect();
    LabelKeys::with(&labels).unwrap()
}

const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
const PODS: &str = "/api/v1/pods";
const NOON: &str = "2026-11-29T12:00:00Z";

/// A Deployment of one pod with a card, in a namespace of `team-b`.
pub(crate) fn deployment(name: &str, metadata: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "ml", "uid": format!("uid of {name}"),
            "resourceVersion": "800", "creationTimestamp": NOON},
        "spec": {"replicas": 1, "strategy": {"type": "Recreate"}, "template": {"spec": {"containers":
            [{"name": "a", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}}]}}},
    });
    for (field, value) in metadata.as_object().unwrap() {
        object["metadata"][field] = value.clone();
    }
    object
}

/// A pod that runs since noon.
fn pod(name: &str, labels: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "ml", "uid": format!("uid of {name}"),
            "creationTimestamp": NOON, "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True",
            "lastTransitionTime": NOON}]}})
}

/// What `alice` asks about Deployments.
pub(crate) fn review(uid: &str, sub: &str, new: &Value, old: &Value) -> Vec<u8> {
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    let kind = match sub {
        "scale" => json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
        _ => json!({"group": "apps", "version": "v1", "kind": "Deployment"}),
    };
    let request = json!({"uid": uid, "kind": kind, "subResource": sub, "operation": operation,
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "name": new["metadata"]["name"], "namespace": "ml", "userInfo": {"username": "alice"},
        "object": new, "oldObject": old});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
        .into_bytes()
}

/// What the API server is told, by the decider and the context of `stand`.
pub(crate) async fn ask(served: &Served, review: Vec<u8>) -> Value {
    let answer = served.http2().await.review(review).await.unwrap();
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
    serde_json::from_str::<Value>(&answer.text).unwrap()["response"].clone()
}

fn reason(answer: &Value) -> &str {
    answer["auditAnnotations"]["reason"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_observed_and_reviewed_by_the_labels_that_were_chosen_and_by_no_other() {
    let (api, log): (Api, _) = (server(), Arc::new(MemoryLog::default()));
    let namespace = json!({"metadata": {"name": "ml", "uid": "ml", "creationTimestamp": NOON,
        "labels": {"example.com/team": "team-b", "biz.group.resource.quota": "nobody"}}});
    api.put("/api/v1/namespaces", namespace);
    let labelled = json!({"annotations": {"example.com/team": "team-a"},
        "labels": {"example.com/card": "A30", "biz.group.resource.quota": "nobody"}});
    api.put(DEPLOYMENTS, deployment("shop", &labelled));
    api.put(PODS, pod("own", &json!({"example.com/team": "team-a", "example.com/card": "A30"})));
    api.put(PODS, pod("bare", &json!({"biz.group.resource.quota/gpu-type": "A30"})));
    let now = Timestamp::parse("2026-11-29T13:00:00Z").unwrap();
    let mut stand = Stand::with_labels(api.client(), cluster(now), &log, true, Arc::new(chosen()));
    stand.until(|progress| progress.facts_synced).await;
    let hard = json!({"limits.nvidia.com/gpu": "8", "limits.nvidia.com/gpu.A30": "4"});
    stand.declare(&log, "team-a", "Declared", &hard).await;
    stand.declare(&log, "team-b2", "Required", &hard).await;

    // What is observed.
    eventually("both pods are metered", || stand.usage(now).len() >= 3).await;
    let usage = stand.usage(now);
    let metered: Vec<_> = usage.keys().map(|(group, key)| format!("{group} {key}")).collect();
    assert_eq!(
        metered,
        [
            "team-a limits.nvidia.com/gpu",
            "team-a limits.nvidia.com/gpu.A30",
            "team-b limits.nvidia.com/gpu"
        ]
    );
    let workloads = told(&log, "workload.observed").await;
    let shop = workloads.iter().find(|line| line.contains("\"kind\":\"Deployment\"")).unwrap();
    assert!(shop.contains(r#""group":"team-a""#) && shop.contains(r#"{"gpu":"A30"}"#), "{shop}");

    // What is reviewed.
    let kinds = Arc::new(Kinds::builtin().unwrap());
    let options = Options { missing: Missing::Refuse, ..Options::new("east") };
    let east = Cluster { options, context: Arc::clone(&stand.context) };
    let clusters = Clusters::new(kinds, [east], stand.decider.clone(), stand.projection.clone());
    let served = Served::start_with(clusters, limits());
    let old = deployment("web", &labelled);
    let answer = ask(&served, review("1", "", &old, &Value::Null)).await;
    assert_eq!(
        (reason(&answer), &answer["auditAnnotations"]["group"]),
        ("Recorded", &json!("team-a"))
    );
    let admitted = told(&log, "workloads.admitted").await;
    assert!(admitted[0].contains(r#"{"gpu":"A30"}"#), "{admitted:?}");

    let mut unseen = old.clone();
    unseen["metadata"]["labels"]["biz.group.resource.quota"] = "somebody".into();
    assert_eq!(reason(&ask(&served, review("2", "", &unseen, &old)).await), "NothingGrows");
    let mut moved = old.clone();
    moved["metadata"]["annotations"]["example.com/team"] = "team-b2".into();
    let answer = ask(&served, review("3", "", &moved, &old)).await;
    assert_eq!(
        (reason(&answer), &answer["auditAnnotations"]["group"]),
        ("Recorded", &json!("team-b2"))
    );
    let mut other_card = old.clone();
    other_card["metadata"]["labels"]["example.com/card"] = "V100".into();
    assert_eq!(reason(&ask(&served, review("4", "", &other_card, &old)).await), "Recorded");

    // A scale is judged with the object that a watch knows, and its annotations.
    let scale = |count: u32| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "shop", "namespace": "ml", "uid": "uid of shop", "resourceVersion": "900"},
            "spec": {"replicas": count}})
    };
    let answer = ask(&served, review("5", "scale", &scale(9), &scale(1))).await;
    assert_eq!(reason(&answer), "QuotaExceeded");
    assert_eq!(answer["auditAnnotations"]["group"], "team-a");

    // Words name the labels that were chosen.
    let mut elsewhere = deployment("x", &json!({"labels": {"biz.group.resource.quota": "team-a"}}));
    elsewhere["metadata"]["namespace"] = "nowhere".into();
    let mut nowhere: Value =
        serde_json::from_slice(&review("6", "", &elsewhere, &Value::Null)).unwrap();
    nowhere["request"]["namespace"] = "nowhere".into();
    let answer = ask(&served, nowhere.to_string().into_bytes()).await;
    assert_eq!(
        answer["status"]["message"],
        "Deployment `x` names no group; label it with example.com/team: GROUP"
    );
    let strict = deployment("y", &json!({"labels": {"example.com/team": "team-b2"}}));
    let answer = ask(&served, review("7", "", &strict, &Value::Null)).await;
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(message.ends_with("label it with example.com/card: MODEL"), "{message}");
    served.stop().await;
    stand.close().await;
}
