//! The definition of quota objects on a real server: accepted as `bizrq crd` prints it, and what it lets through.

use super::control_plane::{ControlPlane, eventually, runtime, shared};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{process::Command, sync::Once};

/// A quota object.
pub(crate) fn quota(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "bizrq.io/v1", "kind": "BizGroupResourceQuota", "metadata": {"name": name}, "spec": spec})
}

/// The definition is there and served.
pub(crate) fn install(plane: &ControlPlane) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| install_on(plane));
}

/// The same of a control plane of one's own.
pub(crate) fn install_on(plane: &ControlPlane) {
    let knows_rules = plane.version() >= (1, 25);
    let flags: &[_] = if knows_rules { &[] } else { &["--without-rules"] };
    let mut program = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    let printed = program.arg("crd").args(flags).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    plane.admin().with_input("apply -f -", &printed).succeeds();
    let waiting =
        "wait --for=condition=Established --timeout=60s crd/bizgroupresourcequotas.bizrq.io";
    plane.admin().run(waiting).succeeds();
    eventually("the resource is served", || plane.admin().run("get bizrq").done());
}

fn quotas(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("bizrq.io", "v1", "BizGroupResourceQuota");
    let resource = ApiResource::from_gvk_with_plural(&kind, "bizgroupresourcequotas");
    Api::all_with(client.clone(), &resource)
}

#[test]
fn the_definition_is_structural_and_established() {
    let Some(plane) = shared("the_definition_is_structural_and_established") else { return };
    install(&plane);
    let definition = plane.admin().get("crd bizgroupresourcequotas.bizrq.io");
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let status = |kind: &str| conditions.iter().find(|c| c["type"] == kind).map(|c| &c["status"]);
    assert_eq!(status("NonStructuralSchema"), None, "{conditions:?}");
    assert_eq!(
        (status("Established"), status("NamesAccepted")),
        (Some(&json!("True")), Some(&json!("True")))
    );
}

#[test]
fn amounts_are_numbers_or_texts_and_come_back_as_they_were() {
    let Some(plane) = shared("amounts_are_numbers_or_texts") else { return };
    install(&plane);
    let hard =
        json!({"limits.cpu": 10, "requests.memory": "64Gi", "requests.cpu": "+1.5", "pods": "1e3"});
    plane.admin().apply(&quota("amounts", json!({"hard": hard}))).succeeds();
    let kept = plane.admin().get("bizrq amounts");
    assert_eq!(kept["spec"]["hard"], hard);
}

#[test]
fn what_no_quota_may_say_is_refused_by_the_schema() {
    let Some(plane) = shared("what_no_quota_may_say_is_refused") else { return };
    install(&plane);
    for (spec, reason) in [
        (json!({"hard": {"limits.cpu": -1}}), "spec.hard.limits.cpu"),
        (json!({"hard": {"limits.cpu": "-1"}}), "spec.hard.limits.cpu"),
        (json!({"hard": {"limits.cpu": "1K"}}), "spec.hard.limits.cpu"),
        (json!({"hard": {"limits.cpu": 1.5}}), "spec.hard.limits.cpu"),
        (json!({"hard": {"limits.cpu": ["1"]}}), "spec.hard.limits.cpu"),
        (json!({"parent": "Dept"}), "spec.parent"),
        (json!({"charge": "steady"}), "spec.charge"),
        (json!({"models": "Any"}), "spec.models"),
    ] {
        plane.admin().create(&quota("refused", spec)).fails_with(&[reason]);
    }
    plane
        .admin()
        .create(&json!({"apiVersion": "bizrq.io/v1", "kind": "BizGroupResourceQuota",
        "metadata": {"name": "refused"}}))
        .fails_with(&["spec"]);
}

#[test]
fn status_is_written_apart_from_the_specification_and_shown_in_columns() {
    let Some(plane) = shared("status_is_written_apart") else { return };
    install(&plane);
    plane.admin().apply(&quota("columns", json!({"hard": {"limits.cpu": 10}}))).succeeds();
    let condition = json!({"type": "Ready", "status": "True", "reason": "InForce", "message": "",
        "lastTransitionTime": "2026-11-30T00:00:00Z", "observedGeneration": 1});
    let status = json!({"summary": {"cpu": "4/10", "memory": "", "gpu": "", "cashLeft": "limits.cpu=7"},
        "used": {"limits.cpu": "4"}, "conditions": [condition], "position": 7});
    let object = json!({"apiVersion": "bizrq.io/v1", "kind": "BizGroupResourceQuota",
        "metadata": {"name": "columns"}, "status": status, "spec": {"hard": {"limits.cpu": 99}}});
    runtime().block_on(async {
        let params = PatchParams::apply("bizrq-status").force();
        quotas(&plane.nodes.client)
            .patch_status("columns", &params, &Patch::Apply(object))
            .await
            .unwrap();
    });
    let kept = plane.admin().get("bizrq columns");
    assert_eq!(kept["spec"]["hard"]["limits.cpu"], 10, "a status changes no specification");
    assert_eq!(kept["status"]["used"]["limits.cpu"], "4");
    let shown = plane.admin().run("get bizrq columns").succeeds().out;
    let [heads, line] = [0, 1].map(|n| shown.lines().nth(n).unwrap().to_owned());
    let heads: Vec<_> = heads.split("  ").map(str::trim).filter(|head| !head.is_empty()).collect();
    assert_eq!(heads, ["NAME", "PARENT", "CPU", "MEMORY", "GPU", "CASH LEFT", "READY", "AGE"]);
    let words: Vec<_> = line.split_whitespace().take(4).collect();
    assert_eq!(words, ["columns", "4/10", "limits.cpu=7", "True"], "{line}");
}

/// A server that knows rules in CEL, and says what it thinks of the rest.
#[test]
fn a_newer_server_finds_nothing_wrong_with_the_definition_and_holds_to_its_rules() {
    let test = "a_newer_server_finds_nothing_wrong_with_the_definition";
    let Some(plane) = shared(test) else { return };
    let Some(_server) = plane.definitions(test) else { return };
    let there = plane.kubectl("definitions");
    let printed = Command::new(env!("CARGO_BIN_EXE_bizrq")).arg("crd").output().unwrap();
    let definition: Value =
        serde_saphyr::from_str(&String::from_utf8(printed.stdout).unwrap()).unwrap();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let create = format!("create --raw {definitions} -f -");
    let said = there.with_input(&create, &definition.to_string()).succeeds();
    assert_eq!(said.err, "", "warnings");
    eventually("it is established", || {
        let said = there.run(&format!("get --raw {definitions}/bizgroupresourcequotas.bizrq.io"));
        let found: Value = serde_json::from_str(&said.succeeds().out).unwrap();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        assert!(conditions.iter().all(|c| c["type"] != "NonStructuralSchema"), "{conditions:?}");
        let is = conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True");
        if is { Ok(()) } else { Err(format!("{conditions:?}")) }
    });
    let create = "create --raw /apis/bizrq.io/v1/bizgroupresourcequotas -f -";
    let put = |name: &str, spec: Value| there.with_input(create, &quota(name, spec).to_string());
    eventually("it is served", || put("team-a", json!({"hard": {"limits.cpu": 10}})).done());
    let monthly = json!({"every": "Month", "timeZone": "Europe/Berlin"});
    put("yearly", json!({"cashPeriod": monthly})).succeeds();
    put("child", json!({"parent": "team-a"})).succeeds();
    for (name, spec, reason) in [
        ("a.b", json!({}), "metadata.name: a group's name"),
        (&*"a".repeat(64), json!({}), "metadata.name: a group's name"),
        ("own", json!({"parent": "own"}), "spec.parent: a group is not its own parent"),
        ("x", json!({"parent": "team-a", "cashPeriod": monthly}), "spec.cashPeriod: is for a root"),
        ("x", json!({"hard": {"limits.cpu": "-1"}}), "spec.hard.limits.cpu"),
        ("x", json!({"charge": "steady"}), "spec.charge"),
    ] {
        put(name, spec).fails_with(&[reason]);
    }
}
