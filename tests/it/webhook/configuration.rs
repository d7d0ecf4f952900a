//! The webhook configurations: what they ask about follows from the table of kinds, and none can lock a cluster up.

use serde_json::Value;
use std::{collections::BTreeSet, process::Command};

/// Both configurations, as `bizrq webhook-config` prints them.
fn printed(arguments: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    let output = command.arg("webhook-config").args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let documents = text.split("---\n").filter(|document| !document.is_empty());
    documents.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn webhooks(configurations: &[Value]) -> Vec<Value> {
    let all = configurations.iter().flat_map(|c| c["webhooks"].as_array().unwrap().clone());
    all.collect()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// `apps/v1 deployments/scale` for all that a webhook asks about.
fn asked(webhook: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for rule in webhook["rules"].as_array().unwrap() {
        for (group, version) in texts(&rule["apiGroups"]).iter().zip(texts(&rule["apiVersions"])) {
            for resource in texts(&rule["resources"]) {
                all.insert(format!("{group}/{version} {resource}"));
            }
        }
    }
    all
}

#[test]
fn no_configuration_can_lock_a_cluster_up() {
    for arguments in [&["--cluster", "east"][..], &["--cluster", "w", "--url", "https://b:1"]] {
        let configurations = printed(arguments);
        let names: Vec<_> = configurations.iter().map(|c| c["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["bizrq-workloads", "bizrq-quotas"]);
        for webhook in webhooks(&configurations) {
            let name = webhook["name"].as_str().unwrap();
            assert!(webhook["timeoutSeconds"].as_u64().unwrap() <= 5, "{name}");
            assert_eq!(webhook["sideEffects"], "NoneOnDryRun", "{name}");
            assert_eq!(webhook["matchPolicy"], "Equivalent", "{name}");
            assert_eq!(webhook["failurePolicy"], "Fail", "{name}");
            for rule in webhook["rules"].as_array().unwrap() {
                let all = ["apiGroups", "apiVersions", "operations", "resources"];
                let wide =
                    all.iter().any(|part| texts(&rule[part]).iter().any(|t| t.contains('*')));
                assert!(!wide, "{name}: {rule}");
                let touches =
                    ["DELETE", "CONNECT"].iter().any(|o| texts(&rule["operations"]).contains(o));
                assert!(!touches || name == "quotas.bizrq.io", "deleting always works: {rule}");
                let alive = [
                    "leases",
                    "events",
                    "nodes",
                    "endpoints",
                    "pods/status",
                    "pods/binding",
                    "pods/eviction",
                ];
                assert!(
                    !texts(&rule["resources"]).iter().any(|r| alive.contains(r)),
                    "{name}: {rule}"
                );
            }
            if name != "quotas.bizrq.io" {
                let selector = webhook["namespaceSelector"].to_string();
                for outside in ["bizrq.io/excluded", "kube-system", "\"bizrq\""] {
                    assert!(selector.contains(outside), "{name}: {selector}");
                }
            }
        }
    }
}

#[test]
fn every_kind_of_the_table_is_asked_about_with_its_scale_and_pods_only_where_they_are_managed() {
    let all = webhooks(&printed(&["--cluster", "east"]));
    let workloads = asked(&all[0]);
    for resource in [
        "apps/v1 deployments",
        "apps/v1 deployments/scale",
        "apps/v1 statefulsets/scale",
        "apps/v1 daemonsets",
        "batch/v1 jobs",
        "batch/v1 cronjobs",
        "batch/v1beta1 cronjobs",
        "/v1 replicationcontrollers/scale",
        "argoproj.io/v1alpha1 rollouts/scale",
        "ray.io/v1 rayclusters",
    ] {
        assert!(workloads.contains(resource), "{resource} in {workloads:#?}");
    }
    for resource in ["/v1 pods", "/v1 podtemplates", "apps/v1 daemonsets/scale"] {
        assert!(!workloads.contains(resource), "{resource}");
    }
    assert_eq!(asked(&all[1]), ["/v1 pods", "/v1 pods/resize"].map(str::to_owned).into());
    assert!(all[1]["namespaceSelector"].to_string().contains("bizrq.io/managed"));
    assert_eq!(all[2]["rules"][0]["operations"], serde_json::json!(["CREATE", "UPDATE", "DELETE"]));
}

#[test]
fn a_kind_that_is_declared_is_asked_about() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("kinds.yaml");
    let kind = "- {apiVersions: [x.io/v1], kind: Train, resource: trains, scale: spec.cars,\n   \
                roles: [{template: spec.template, count: {path: spec.cars, default: 1}}]}\n";
    std::fs::write(&table, kind).unwrap();
    let all = webhooks(&printed(&["--cluster", "east", "--kinds", table.to_str().unwrap()]));
    let workloads = asked(&all[0]);
    assert!(workloads.contains("x.io/v1 trains") && workloads.contains("x.io/v1 trains/scale"));
}

#[test]
fn a_cluster_asks_under_its_name_by_service_or_by_url() {
    let paths = |arguments: &[&str], of: fn(&Value) -> Value| {
        webhooks(&printed(arguments)).iter().map(|w| of(&w["clientConfig"])).collect::<Vec<_>>()
    };
    let expected =
        ["/validate/workloads/east", "/validate/workloads/east", "/validate/quotas/east"];
    assert_eq!(paths(&["--cluster", "east"], |c| c["service"]["path"].clone()), expected);
    let url = ["--cluster", "w", "--url", "https://bizrq.example.com:8443/"];
    let expected = ["workloads", "workloads", "quotas"]
        .map(|about| format!("https://bizrq.example.com:8443/validate/{about}/w"));
    assert_eq!(paths(&url, |c| c["url"].clone()), expected);
}

#[test]
fn what_no_api_server_can_call_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    command.args(["webhook-config", "--cluster", "e", "--url", "http://b"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("https://"));
}
