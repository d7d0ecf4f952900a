//! Effective resources of pods against the answers of Kubernetes' own code, 1.36 and 1.20.

use bizrq::{
    domain::{
        pod_resources,
        resources::{ResourceList, Resources},
    },
    k8s::{convert, pod::Pod},
};
use serde_json::Value;
use std::collections::BTreeMap;

const PODS: &str = include_str!("../fixtures/golden/pods.json");
const ANSWERS_136: &str = include_str!("../fixtures/golden/out136.txt");
const ANSWERS_120: &str = include_str!("../fixtures/golden/out120.txt");

/// Long after every deletion in the past, long before every one in the future.
const NOW: &str = "2026-11-29T00:00:00.000Z";

/// Row name and text of every pod: `answers["p01"]["spec"]`.
type Answers = BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>;

fn answers(text: &'static str) -> Answers {
    let mut answers = Answers::new();
    let mut pod = "";
    for line in text.lines() {
        match line.strip_prefix("   ") {
            None => pod = line.split(" | ").next().unwrap(),
            Some(row) => {
                let (name, answer) = row.split_once(':').unwrap();
                answers.entry(pod).or_default().insert(name.trim(), answer.trim());
            }
        }
    }
    answers
}

/// Every golden pod, with its id.
fn pods() -> Vec<(String, Value)> {
    let pods: Vec<Value> = serde_json::from_str(PODS).unwrap();
    assert_eq!(pods.len(), 44);
    pods.into_iter().map(|p| (p["id"].as_str().unwrap().to_owned(), p["pod"].clone())).collect()
}

fn read(pod: &Value) -> (Pod, pod_resources::Pod) {
    let pod: Pod = serde_json::from_str(&pod.to_string()).unwrap();
    let resources = convert::pod_resources(&pod).unwrap();
    (pod, resources)
}

fn list(name: &str, list: &ResourceList) -> String {
    let entries: Vec<_> = list.iter().map(|(n, q)| format!("{n}={q}")).collect();
    format!("{name}{{{}}}", entries.join(" "))
}

fn row(resources: &Resources) -> String {
    format!("{} {}", list("R", &resources.requests), list("L", &resources.limits))
}

/// What the native ResourceQuota counts of a pod that reserves `resources` (facts 2.4).
fn native_quota(pod: &Pod, resources: &Resources) -> String {
    let mut counted = BTreeMap::from([("count/pods".to_owned(), "1".to_owned())]);
    let grace_over = pod.metadata.deletion_timestamp.is_some_and(|t| {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        t.0.shifted(grace * 1000).to_string().as_str() < NOW
    });
    if !pod.is_terminal() && !grace_over {
        counted.insert("pods".into(), "1".into());
        for (name, quantity) in resources.requests.iter() {
            counted.insert(format!("requests.{name}"), quantity.to_string());
            if !name.contains('/') {
                counted.insert(name.to_owned(), quantity.to_string());
            }
        }
        for (name, quantity) in resources.limits.iter() {
            if matches!(name, "cpu" | "memory" | "ephemeral-storage") {
                counted.insert(format!("limits.{name}"), quantity.to_string());
            }
        }
    }
    let counted: Vec<_> = counted.iter().map(|(n, q)| format!("{n}={q}")).collect();
    format!("{{{}}} <nil>", counted.join(" "))
}

#[test]
fn every_golden_pod_asks_for_reserves_and_counts_what_kubernetes_1_36_says() {
    let answers = answers(ANSWERS_136);
    for (id, pod) in pods() {
        let answer = &answers[&*id];
        let (pod, resources) = read(&pod);
        assert_eq!(row(&resources.spec().unwrap()), answer["spec"], "spec of {id}");
        let reserved = resources.reserved().unwrap();
        assert_eq!(row(&reserved), answer["status"], "status of {id}");
        assert_eq!(native_quota(&pod, &reserved), answer["quota"], "quota of {id}");
    }
}

/// The row `undef` is the formula without defaulting. The rounding of each entry to thousandths stays: it is the door
/// of every resource list here, so for p28 and p29 the row of Kubernetes (`100u`, `200u`) is rounded per entry.
#[test]
fn every_golden_pod_before_defaulting_asks_for_what_kubernetes_1_36_says() {
    let answers = answers(ANSWERS_136);
    for (id, pod) in pods() {
        let (pod, mut undefaulted) = read(&pod);
        let lists = |r: &bizrq::k8s::pod::ResourceRequirements| {
            let list = |a: &bizrq::k8s::pod::Amounts| {
                a.0.iter().map(|(n, q)| (&**n, q.clone().unwrap().rounded_up())).collect()
            };
            Resources { requests: list(&r.requests), limits: list(&r.limits) }
        };
        let named = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        for (container, written) in undefaulted.containers.iter_mut().zip(named) {
            container.demand.asked = lists(&written.resources);
        }
        undefaulted.pod_level.asked = lists(&pod.spec.resources);
        let expected = match &*id {
            "p28" => "R{cpu=1m memory=500m} L{}",
            "p29" => "R{cpu=2m} L{}",
            id => answers[id]["undef"],
        };
        assert_eq!(row(&undefaulted.spec().unwrap()), expected, "undef of {id}");
    }
}

/// Drops from a pod what a 1.20 API server does not know and therefore does not store.
fn as_stored_by_1_20(pod: &mut Value) {
    let drop = |value: Option<&mut Value>, fields: &[&str]| {
        if let Some(object) = value.and_then(Value::as_object_mut) {
            fields.iter().for_each(|f| {
                object.remove(*f);
            });
        }
    };
    drop(pod.get_mut("spec"), &["resources"]);
    drop(pod.get_mut("status"), &["resources", "allocatedResources"]);
    for (place, fields) in [
        ("/spec/initContainers", &["restartPolicy"][..]),
        ("/spec/containers", &["restartPolicy"]),
        ("/status/containerStatuses", &["resources", "allocatedResources"]),
        ("/status/initContainerStatuses", &["resources", "allocatedResources"]),
    ] {
        if let Some(list) = pod.pointer_mut(place).and_then(Value::as_array_mut) {
            list.iter_mut().for_each(|entry| drop(Some(entry), fields));
        }
    }
}

#[test]
fn every_golden_pod_without_the_newer_fields_is_what_kubernetes_1_20_says() {
    let answers = answers(ANSWERS_120);
    for (id, mut pod) in pods() {
        as_stored_by_1_20(&mut pod);
        let (read_pod, mut resources) = read(&pod);
        let answer = &answers[&*id];
        let reserved = resources.reserved().unwrap();
        assert_eq!(row(&reserved), answer["sched"], "sched of {id}");
        assert_eq!(resources.held().unwrap(), reserved, "nothing is resized in 1.20: {id}");
        // The native quota of 1.20 ignores overhead.
        resources.overhead = ResourceList::default();
        let counted = resources.reserved().unwrap();
        assert_eq!(native_quota(&read_pod, &counted), answer["quota"], "quota of {id}");
    }
}
