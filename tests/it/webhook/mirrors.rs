//! Mirrors of quota objects: what they say is what was declared, and reviews let through nothing else.

use super::answering::{answering, declared};
use bizrq::{
    domain::quota::{TypedPeriod, TypedSpec},
    event_log::{EventLog, memory::MemoryLog},
    k8s::mirror,
    projection::Projection,
    webhook::{
        Options,
        clusters::{Cluster, Clusters},
        server::{About, Reviews},
    },
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// A root and a team, with everything that can be said.
fn specs() -> [(&'static str, TypedSpec<'static>); 2] {
    let period = TypedPeriod {
        every: "Quarter",
        time_zone: "asia/kolkata",
        anchor: "2026-02-01",
        carry_over: "Both",
        max: "50%",
    };
    let root = TypedSpec {
        hard: vec![
            ("limits.cpu", "1500.5"),
            ("requests.memory", "1.5Gi"),
            ("cash/limits.cpu", "100.001"),
            ("cash/requests.memory", "3Ti"),
            ("pods", "1e3"),
            ("limits.nvidia.com/gpu.A100", "0"),
        ],
        models: "Required",
        cash_period: Some(period),
        ..TypedSpec::default()
    };
    let team = TypedSpec {
        parent: "dept",
        hard: vec![("limits.cpu", "3"), ("requests.memory", "1023")],
        charge: "Peak",
        notify_cash: Some(&[50, 7]),
        notify_consumed: Some(&[]),
        ..TypedSpec::default()
    };
    [("dept", root), ("team", team)]
}

/// Reviews of `west`, where the quota objects of `main` count, and are mirrored or not.
async fn reviews(mirrored: bool) -> (Clusters, Projection) {
    let log = Arc::new(MemoryLog::default());
    let specs = specs();
    let events = specs.iter().map(|(name, spec)| declared("main", name, spec));
    log.append(events.collect()).await.unwrap();
    let quotas_elsewhere = Some("main".to_owned());
    let options = Options { quotas_elsewhere, mirrored, ..Options::new("west") };
    answering(log, Cluster { options, context: Arc::default() }).await
}

/// A mirror with everything that the ledger says of `name`.
fn mirror_of(projection: &Projection, name: &str) -> Value {
    let spec = mirror::spec(&projection.ledger(), name).unwrap();
    json!({"apiVersion": "bizrq.io/v1", "kind": "BizGroupResourceQuota", "spec": spec,
        "metadata": {"name": name, "uid": "m", "labels": {mirror::MIRROR_OF: "main"}}})
}

fn without_label(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["labels"] = json!({});
    object
}

fn with_cpu(object: &Value, amount: &str) -> Value {
    let mut object = object.clone();
    object["spec"]["hard"]["limits.cpu"] = amount.into();
    object
}

#[tokio::test]
async fn a_mirror_says_exactly_what_was_declared() {
    let (_, projection) = reviews(true).await;
    let mirrors = mirror::specs(&projection.ledger());
    assert_eq!(mirrors.keys().collect::<Vec<_>>(), ["dept", "team"]);
    for (name, spec) in specs() {
        assert_eq!(mirrors[name].typed().accept(name), spec.accept(name), "{name}");
        assert!(mirror::same(name, &mirrors[name], &mirrors[name].clone()));
    }
    assert!(!mirror::same("dept", &mirrors["dept"], &mirrors["team"]));
}

#[tokio::test]
async fn a_mirror_changes_to_what_is_declared_and_to_nothing_else() {
    let (clusters, projection) = reviews(true).await;
    let (is, other) =
        (mirror_of(&projection, "dept"), with_cpu(&mirror_of(&projection, "dept"), "7"));
    let mut gone = is.clone();
    gone["metadata"]["name"] = "gone".into();
    let none = Value::Null;
    let mut annotated = other.clone();
    annotated["metadata"]["annotations"] = json!({"note": "x"});
    // What is done to what, and whether it may be.
    let cases = [
        ("CREATE", &is, &none, true),
        ("CREATE", &with_cpu(&is, "1500500m"), &none, true),
        ("CREATE", &other, &none, false),
        ("CREATE", &gone, &none, false),
        ("UPDATE", &is, &other, true),
        ("UPDATE", &other, &is, false),
        ("UPDATE", &annotated, &other, true),
        ("UPDATE", &without_label(&is), &is, false),
        ("UPDATE", &without_label(&other), &is, false),
        ("UPDATE", &is, &without_label(&other), true),
        ("UPDATE", &other, &without_label(&other), false),
        ("DELETE", &none, &is, false),
        ("DELETE", &none, &gone, true),
        // Somebody's own, which counts for nothing.
        ("CREATE", &without_label(&other), &none, true),
        ("DELETE", &none, &without_label(&is), true),
    ];
    let (careless, _) = reviews(false).await;
    for (n, (operation, object, old, may)) in cases.into_iter().enumerate() {
        let name = [object, old].into_iter().find_map(|o| o["metadata"]["name"].as_str()).unwrap();
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": format!("r{n}"), "operation": operation, "name": name,
            "kind": {"group": "bizrq.io", "version": "v1", "kind": "BizGroupResourceQuota"},
            "resource": {"group": "bizrq.io", "version": "v1", "resource": "bizgroupresourcequotas"},
            "userInfo": {"username": "system:serviceaccount:bizrq:bizrq"},
            "object": object, "oldObject": old}});
        let ask = async |clusters: &Clusters| -> Value {
            let deadline = Instant::now() + Duration::from_secs(60);
            let body = review.to_string().into_bytes().into();
            let answered = clusters.review(About::Quotas, "west", body, deadline).await.unwrap();
            serde_json::from_slice(&answered.json).unwrap()
        };
        let said = ask(&clusters).await["response"].take();
        assert_eq!(said["allowed"], may, "{n} {operation}: {said}");
        if !may {
            let message = said["status"]["message"].as_str().unwrap();
            assert!(
                message.contains("is a mirror of the quota object in cluster `main`"),
                "{message}"
            );
        }
        // Where nobody keeps mirrors nobody holds anything to them.
        assert_eq!(ask(&careless).await["response"]["allowed"], true, "{n}");
    }
}
