//! Real Helms (`tests/servers.sh`) read the chart as our renderer does, with each value that it may be given.

use super::{Chart, documents, read};
use crate::shared::helms;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

/// What may be told, one value or a few that belong together at a time.
fn variants() -> Vec<Vec<(&'static str, Value)>> {
    vec![
        vec![],
        vec![
            ("image.repository", json!("a.example/bizrq")),
            ("image.tag", json!("9.9")),
            ("image.pullPolicy", json!("Always")),
        ],
        vec![("cluster", json!("east")), ("quotaCluster", json!("main")), ("mirrors", json!(true))],
        vec![
            ("nats", json!("nats://nats.nats:4222")),
            ("natsSecret", json!("of-nats")),
            ("replicas", json!(3)),
        ],
        vec![("missingGroup", json!("default:others")), ("withoutLog", json!("admit"))],
        vec![("labels", json!("group=example.com/team,gpu=example.com/card"))],
        vec![("nodeLabels", json!("gpu=nvidia.com/gpu.product"))],
        vec![("storage.size", json!("1Gi")), ("storage.className", json!("fast"))],
        vec![("webhook.enabled", json!(false))],
        vec![("webhook.timeoutSeconds", json!(2)), ("webhook.excluded", json!(["kube-system"]))],
        vec![
            ("webhook.certManager", json!(true)),
            ("webhook.issuerRef.kind", json!("Issuer")),
            ("webhook.issuerRef.name", json!("ours")),
        ],
        vec![("api", json!(false))],
        vec![("apiTls", json!("of-the-api"))],
        vec![("monitoring", json!(true)), ("alertmanager", json!("http://alertmanager:9093"))],
        vec![("groupMetrics", json!(500))],
        vec![("createNamespace", json!(true))],
        vec![
            ("resources.requests.cpu", json!("1")),
            ("resources.requests.memory", json!("1Gi")),
            ("resources.limits.memory", json!("4Gi")),
            ("priorityClassName", json!("ours")),
        ],
        vec![
            ("nodeSelector", json!({"pool": "system"})),
            ("tolerations", json!([{"key": "system", "operator": "Exists"}])),
        ],
    ]
}

/// The file that `--values` names: `a.b` is `b` in `a`.
fn nested(values: &[(&str, Value)]) -> Value {
    let mut all = Value::Object(Map::new());
    for (path, value) in values {
        let place = path.split('.').fold(&mut all, |place, name| &mut place[name]);
        *place = value.clone();
    }
    all
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn sorted(text: &str) -> Vec<Value> {
    let mut all = documents(text);
    all.sort_by_key(|object| format!("{} {}", object["kind"], object["metadata"]["name"]));
    all
}

#[test]
fn every_value_has_a_variant() {
    fn leaves(path: &str, value: &Value, found: &mut BTreeSet<String>) {
        // These are taken whole.
        let whole = ["nodeSelector", "tolerations"].contains(&path);
        match value {
            Value::Object(map) if !whole => {
                for (name, inner) in map {
                    leaves(format!("{path}.{name}").trim_start_matches('.'), inner, found);
                }
            }
            _ => drop(found.insert(path.to_owned())),
        }
    }
    let values: Value = serde_saphyr::from_str(&read("deploy/chart/values.yaml")).unwrap();
    let mut documented = BTreeSet::new();
    leaves("", &values, &mut documented);
    let variants = variants();
    let tried = variants.iter().flatten().map(|(path, _)| (*path).to_owned());
    assert_eq!(tried.collect::<BTreeSet<_>>(), documented);
}

#[test]
fn helm_renders_what_our_renderer_renders_and_finds_nothing_wrong() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart");
    let dir = tempfile::tempdir().unwrap();
    for (name, helm) in helms("helm_renders_what_our_renderer_renders_and_finds_nothing_wrong") {
        for variant in variants() {
            let values = dir.path().join("values.yaml");
            fs::write(&values, nested(&variant).to_string()).unwrap();
            let run = |words: &[&str]| {
                let mut command = Command::new(&helm);
                // Nothing of the user's own.
                command.env_clear().env("HOME", dir.path()).args(words).arg(&chart);
                command
                    .arg("--values")
                    .arg(&values)
                    .args(["--namespace", "bizrq"])
                    .output()
                    .unwrap()
            };
            let said = succeeded(&run(&["lint", "--strict"]));
            assert!(said.contains("0 chart(s) failed") && !said.contains("WARNING"), "{said}");
            for minor in [20, 29, 30, 36] {
                let version = format!("1.{minor}.0");
                let told = run(&["template", "bizrq", "--kube-version", &version]);
                let told = succeeded(&told);
                let ours = variant
                    .iter()
                    .fold(Chart::read(), |chart, (path, value)| chart.with(path, value.clone()));
                let ours = ours.on(minor, "of-nobody", true).render();
                assert!(
                    sorted(&told) == sorted(&ours),
                    "{name} {version} {variant:?}:\n{told}\n--- ours\n{ours}"
                );
            }
        }
    }
}
