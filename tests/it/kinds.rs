//! What objects of declared kinds ask for: by the table that ships, by one that a user writes, and what is said of a bad one.

use bizrq::{
    domain::resources::ResourceList,
    k8s::{
        context::{self, Context},
        demand::{self, Demand},
        kinds::Kinds,
    },
};
use serde::Deserialize;
use serde_json::Value;

const BUILTIN: &str = include_str!("../fixtures/kinds/builtin.yaml");
const RENDER: &str = include_str!("../fixtures/kinds/render.yaml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    what: String,
    object: Value,
    asks: Option<Vec<String>>,
    error: Option<String>,
}

/// What `object` asks for, a line a role, or why that cannot be told.
fn asks(kinds: &Kinds, context: &Context, object: &Value) -> Result<Demand, String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let kind = kinds.find(text("apiVersion"), text("kind")).ok_or("not declared")?;
    let object = context::read(kind, &object.to_string()).map_err(|e| e.to_string())?;
    demand::demand(kind, &object, None, context, true).map_err(|e| e.to_string())
}

fn lines(demand: &Demand) -> Vec<String> {
    let list =
        |list: &ResourceList| list.iter().map(|(r, q)| format!("{r}={q} ")).collect::<String>();
    let lines = demand.roles.iter().map(|role| {
        let (requests, limits) = (list(&role.pod.requests), list(&role.pod.limits));
        let line = format!("{} {}..{} × {requests}/ {limits}", role.name, role.count, role.peak);
        line.trim().to_owned()
    });
    lines.collect()
}

/// A namespace with a Deployment and a PodTemplate.
fn context(kinds: &Kinds) -> Context {
    let mut context = Context::default();
    for (head, template) in [
        (
            r#""apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"web","name":"shop","uid":"d1"}"#,
            7,
        ),
        (
            r#""apiVersion":"v1","kind":"PodTemplate","metadata":{"namespace":"web","name":"parts","uid":"t1"}"#,
            3,
        ),
    ] {
        let template = format!(
            r#"{{"spec":{{"containers":[{{"name":"a","resources":{{"requests":{{"cpu":{template}}}}}}}]}}}}"#
        );
        let object =
            format!(r#"{{{head},"template":{template},"spec":{{"template":{template}}}}}"#);
        context.see(kinds, &object).unwrap();
    }
    context
}

#[test]
fn every_built_in_kind_asks_for_what_its_pods_will() {
    let kinds = Kinds::builtin().unwrap();
    let context = context(&kinds);
    let cases: Vec<Case> = serde_saphyr::from_str(BUILTIN).unwrap();
    let mut wrong = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for Case { what, object, asks: expected, error } in &cases {
        seen.insert(
            object["kind"].as_str().unwrap().to_owned() + object["apiVersion"].as_str().unwrap(),
        );
        let got = asks(&kinds, &context, object).map(|demand| lines(&demand));
        let expected = expected.clone().ok_or_else(|| error.clone().unwrap_or_default());
        if got != expected {
            wrong.push(format!("{what}\n     got {got:?}\n  wanted {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for kind in kinds.iter().filter(|kind| *kind.kind != *"PodTemplate") {
        let named = |version: &str| seen.contains(&format!("{}{version}", kind.kind));
        assert!(
            kind.api_versions.iter().any(|v| named(v)),
            "no case of {} {:?}",
            kind.kind,
            kind.api_versions
        );
    }
}

#[test]
fn a_kind_that_nobody_knew_needs_ten_lines() {
    assert_eq!(RENDER.lines().count(), 10);
    let mut kinds = Kinds::builtin().unwrap();
    let before = kinds.iter().count();
    kinds.declare(RENDER).unwrap();
    assert_eq!(kinds.iter().count(), before + 1);
    let farm = |paused| {
        let template = serde_json::json!({"spec": {"containers": [{"name": "r", "resources": {"limits": {"cpu": 4, "x.io/card": 1}}}]}});
        serde_json::json!({
            "apiVersion": "render.example.com/v1", "kind": "RenderFarm", "metadata": {"name": "film"},
            "spec": {"paused": paused, "pools": [{"name": "night", "machines": 9, "most": 6, "template": template}]},
        })
    };
    let context = Context::default();
    let asked = |paused| lines(&asks(&kinds, &context, &farm(paused)).unwrap());
    assert_eq!(asked(false), ["night 6..6 × cpu=4 x.io/card=1 / cpu=4 x.io/card=1"]);
    assert_eq!(asked(true), ["night 0..0 × cpu=4 x.io/card=1 / cpu=4 x.io/card=1"]);
    let kind = kinds.find("render.example.com/v1", "RenderFarm").unwrap();
    assert!(kind.is_controlled_by("system:serviceaccount:render:farm-controller"));
    assert!(!kind.is_controlled_by("system:serviceaccount:film:farm-controller"));
    assert!(kinds.find_resource("render.example.com/v1", "renderfarms").is_some());
}

#[test]
fn a_table_replaces_what_it_declares_again() {
    let mut kinds = Kinds::builtin().unwrap();
    let count = kinds.iter().count();
    kinds.declare("- {apiVersions: apps/v1, kind: Deployment, resource: deployments, roles: [{template: spec.template, count: 7}]}").unwrap();
    assert_eq!(kinds.iter().count(), count);
    let object = serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {}}}});
    assert_eq!(lines(&asks(&kinds, &Context::default(), &object).unwrap()), ["7..7 × /"]);
}

#[test]
fn a_bad_table_is_told_with_its_line_its_field_and_the_remedy() {
    let kind = "- apiVersions: [x.io/v1]\n  kind: X\n  resource: xs\n";
    for (table, told) in [
        ("- kind: X\n", "line 1: missing field `apiVersions`"),
        ("kind: X\n", "line 1: "),
        (&format!("{kind}  rolls: []\n"), "line 4: unknown field `rolls`"),
        (
            &format!("{kind}  roles: [{{count: 1}}]\n"),
            "line 1: X: roles[0].template: missing; write where",
        ),
        (
            &format!("{kind}  roles: [{{template: spec.template}}]\n"),
            "line 1: X: roles[0].count: missing; write a number",
        ),
        (
            &format!(
                "{kind}  roles: [{{template: spec.template, count: {{path: spec..x, default: 1}}}}]\n"
            ),
            "line 1: X: roles[0].count.path: `spec..x` is no path; write keys with dots",
        ),
        (
            &format!("{kind}  roles: [{{template: spec.template, count: {{path: spec.x}}}}]\n"),
            "line 1: X: roles[0].count.default: missing; write what counts",
        ),
        (
            &format!("{kind}  roles: [{{template: spec.template, count: 10%}}]\n"),
            "line 1: X: roles[0].count.default: `10%` is no amount; write a whole number of 0 or more",
        ),
        (
            &format!("{kind}  roles: [{{template: .template, count: 1}}]\n"),
            "line 1: X: roles[0].`.template` begins at an entry, and there is no `each`",
        ),
        (
            &format!("{kind}  roles: [{{each: spec.x, name: all, template: .t, count: 1}}]\n"),
            "line 1: X: roles[0].name: `all` would name every entry",
        ),
        (
            &format!(
                "{kind}  roles: [{{template: spec.template, count: {{path: spec.template.spec.x, default: 1}}}}]\n"
            ),
            "line 1: X: `spec.template.spec.x` is read in two ways",
        ),
        (
            &format!("{kind}  suspended: [{{path: a}}]\n"),
            "line 1: X: suspended: is no condition; write one of",
        ),
        (
            &format!("{kind}  suspended: [{{name: w, present: true}}]\n"),
            "line 1: X: suspended: is no condition",
        ),
        (
            "- {apiVersions: [], kind: X, resource: xs}\n",
            "line 1: X: apiVersions: name at least one",
        ),
        (
            "- {apiVersions: v1, kind: X, resource: Xs}\n",
            "line 1: X: resource: `Xs` is none; write it as the API does",
        ),
    ] {
        let error = Kinds::default()
            .declare(table)
            .map(|()| String::new())
            .unwrap_or_else(|e| e.to_string());
        assert!(error.starts_with(told), "{table}\n{error}");
    }
    let long = "#".repeat(2 << 20);
    assert!(Kinds::default().declare(&long).unwrap_err().to_string().contains("1048576 bytes"));
}

/// Nodes that take such a pod, of five: two plain ones, one that is dedicated, one that is not ready, one without network.
#[test]
fn a_daemon_set_runs_on_the_nodes_that_its_controller_would_choose() {
    let kinds = Kinds::builtin().unwrap();
    let mut context = Context::default();
    for node in [
        "{metadata: {name: n1, labels: {gpu: A30, cores: '8'}}, spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}}",
        "{metadata: {name: n2, labels: {cores: '16'}}, spec: {taints: [{key: old, effect: PreferNoSchedule}]}}",
        "{metadata: {name: n3, labels: {cores: many}}, spec: {taints: [{key: dedicated, value: ml, effect: NoSchedule}]}}",
        "{metadata: {name: n4}, spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoExecute}, {key: node.kubernetes.io/not-ready, effect: NoSchedule}]}}",
        "{metadata: {name: n5}, spec: {taints: [{key: node.kubernetes.io/network-unavailable, effect: NoSchedule}]}}",
    ] {
        let node: Value = serde_saphyr::from_str(node).unwrap();
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Node","metadata":{},"spec":{}}}"#,
            node["metadata"], node["spec"]
        );
        context.see(&kinds, &text).unwrap();
    }
    let required = |terms: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: {terms}}}}}}}"
        )
    };
    let expression = |rest: &str| required(&format!("[{{matchExpressions: [{{{rest}}}]}}]"));
    let cases = [
        (String::new(), 3),
        ("hostNetwork: true".into(), 4),
        ("nodeName: n2".into(), 1),
        ("nodeName: n3".into(), 0),
        ("nodeSelector: {gpu: A30}".into(), 1),
        ("nodeSelector: {gpu: A30, cores: '16'}".into(), 0),
        ("tolerations: [{key: dedicated, value: ml}]".into(), 4),
        ("tolerations: [{key: dedicated, operator: Equal, value: other}]".into(), 3),
        ("tolerations: [{key: dedicated, operator: Exists, effect: NoExecute}]".into(), 3),
        ("tolerations: [{key: dedicated, operator: Exists}]".into(), 4),
        ("tolerations: [{operator: Exists}]".into(), 5),
        (
            "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}"
                .into(),
            3,
        ),
        (expression("key: gpu, operator: In, values: [A30, V100]"), 1),
        (expression("key: gpu, operator: NotIn, values: [A30]"), 2),
        (expression("key: cores, operator: Exists"), 2),
        (expression("key: cores, operator: DoesNotExist"), 1),
        (expression("key: cores, operator: Gt, values: ['8']"), 1),
        (expression("key: cores, operator: Lt, values: ['16']"), 1),
        (expression("key: cores, operator: Near, values: ['16']"), 0),
        (required("[{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]"), 1),
        (required("[{matchFields: [{key: metadata.uid, operator: Exists}]}]"), 0),
        (required("[{}, {matchExpressions: [{key: gpu, operator: Exists}]}]"), 1),
        (
            required(
                "[{matchExpressions: [{key: gpu, operator: Exists}, {key: cores, operator: DoesNotExist}]}]",
            ),
            0,
        ),
        (required("[{}]"), 0),
        (required("[]"), 0),
    ];
    for (spec, nodes) in cases {
        let comma = if spec.is_empty() { "" } else { ", " };
        let text = format!(
            "{{apiVersion: apps/v1, kind: DaemonSet, spec: {{template: {{spec: {{containers: [{{name: a}}]{comma}{spec}}}}}}}}}"
        );
        let object: Value = serde_saphyr::from_str(&text).unwrap();
        let demand = asks(&kinds, &context, &object).unwrap();
        assert_eq!(demand.roles[0].count, nodes, "{spec}");
    }
}
