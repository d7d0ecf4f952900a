//! Reviews as tables: given quotas and what is there, when this is reviewed, then exactly this is said, asked for and used.
//!
//! Each case runs through the program itself, `bizrq review --explain`. `BIZRQ_BLESS=1` writes what is said into the
//! tables, for a person to read.

use crate::labels::{CHOSEN, relabelled};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{fmt::Write as _, fs, path::PathBuf, process::Command};

/// A table: quotas that all its cases share.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    quotas: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    what: String,
    #[serde(default)]
    given: Vec<Value>,
    when: Vec<Value>,
    then: String,
}

/// A review in a few words; what is left out is what an API server would send.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Short {
    review: String,
    #[serde(default)]
    of: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old: Value,
}

/// `UPDATE`, `UPDATE scale`, `CREATE pods/binding` …: the operation, and the subresource if there is one.
fn expand(number: usize, value: &Value) -> Value {
    if value["review"].is_null() {
        return value.clone();
    }
    let Short { review, of, user, dry_run, object, old } =
        serde_json::from_value(value.clone()).unwrap();
    let (operation, sub) = review.split_once(' ').unwrap_or((&review, ""));
    let named = if object.is_object() { &object } else { &old };
    let text = |field: &str| named[field].as_str().unwrap_or_default();
    let (group, version) =
        text("apiVersion").split_once('/').unwrap_or_else(|| ("", text("apiVersion")));
    let plural = format!("{}s", text("kind").to_lowercase());
    // A scale is matched by the resource of its parent.
    let of = if of.is_empty() { format!("{} {plural}", text("apiVersion")) } else { of };
    let (of_version, resource) = of.split_once(' ').unwrap();
    let (of_group, of_version) = of_version.split_once('/').unwrap_or(("", of_version));
    let user = if user.is_empty() { "alice" } else { &user };
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": format!("review-{number}"),
            "kind": {"group": group, "version": version, "kind": text("kind")},
            "resource": {"group": of_group, "version": of_version, "resource": resource},
            "subResource": sub,
            "name": named["metadata"]["name"],
            "namespace": named["metadata"]["namespace"],
            "operation": operation,
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": object,
            "oldObject": old,
            "dryRun": dry_run,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

/// What the program says of the case: of what is given only refusals. `labels` are those that were chosen, if others
/// than the usual ones.
fn said(table: &Table, case: &Case, labels: Option<&str>) -> String {
    said_of(table, case, labels, |review| review)
}

/// The same, of reviews that somebody rewrote.
fn said_of(
    table: &Table,
    case: &Case,
    labels: Option<&str>,
    rewritten: fn(Value) -> Value,
) -> String {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, values: &[Value]| {
        let texts = values.iter().map(ToString::to_string);
        let texts: Vec<_> = match labels {
            None => texts.collect(),
            Some(_) => texts.map(|text| relabelled(&text)).collect(),
        };
        let path = folder.path().join(name);
        fs::write(&path, texts.join("\n")).unwrap();
        path
    };
    let documents: Vec<_> = case.given.iter().chain(&case.when).collect();
    let documents: Vec<_> =
        documents.into_iter().enumerate().map(|(n, v)| rewritten(expand(n, v))).collect();
    let quotas = table.quotas.as_array().unwrap().iter().map(quota).collect::<Vec<_>>();
    let quotas = write("quotas.yaml", &[json!({"kind": "List", "items": quotas})]);
    let file = write("reviews", &documents);
    let output = Command::new(env!("CARGO_BIN_EXE_bizrq"))
        .args([
            "review",
            "--explain",
            "--at",
            "2026-11-29T12:00:00Z",
            "--cluster",
            "east",
            "--quotas",
        ])
        .args([quotas, file])
        .args(labels.into_iter().flat_map(|labels| ["--label", labels]))
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let place = folder.path().join("reviews").display().to_string();
    let mut said = String::new();
    let mut given = case.given.len();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let head = line.strip_prefix(&place).map(|rest| rest.split_once(": ").unwrap());
        if let Some((number, _)) = head {
            let number = number.strip_prefix(", document ").map_or(1, |n| n.parse().unwrap());
            given = if number > case.given.len() { 0 } else { number };
        }
        let line = head.map_or(line, |(_, rest)| rest);
        if given == 0 {
            writeln!(said, "{line}").unwrap();
        } else {
            assert!(!line.ends_with("refused"), "{}: {line}", case.what);
        }
    }
    said + &String::from_utf8(output.stderr).unwrap().replace(&place, "reviews")
}

/// `{name, parent, hard, …}` as an object.
fn quota(short: &Value) -> Value {
    let mut spec = short.clone();
    let name = spec.as_object_mut().unwrap().remove("name").unwrap();
    json!({"apiVersion": "bizrq.io/v1", "kind": "BizGroupResourceQuota", "metadata": {"name": name}, "spec": spec})
}

/// A table, where it is, and its text.
fn read(name: &str) -> (Table, PathBuf, String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reviews").join(name);
    let text = fs::read_to_string(&path).unwrap();
    (serde_saphyr::from_str(&text).unwrap(), path, text)
}

fn check(name: &str) {
    let (table, path, text) = read(name);
    let mut wrong = String::new();
    let mut blessed = text.clone();
    for case in &table.cases {
        let said = said(&table, case, None);
        if said.trim_end() == case.then.trim_end() {
            continue;
        }
        writeln!(wrong, "{}\n--- said\n{said}--- wanted\n{}", case.what, case.then).unwrap();
        let head = format!("- what: {}\n", case.what);
        let from = blessed.find(&head).unwrap();
        let then = from + blessed[from..].find("\n  then:").unwrap() + 1;
        let end = blessed[then..].find("\n- what:").map_or(blessed.len(), |end| then + end + 1);
        let indented: String = said.lines().map(|line| format!("    {line}\n")).collect();
        blessed.replace_range(then..end, &format!("  then: |\n{indented}"));
    }
    if std::env::var_os("BIZRQ_BLESS").is_some() {
        fs::write(&path, blessed).unwrap();
    } else {
        assert!(wrong.is_empty(), "{wrong}");
    }
}

#[test]
fn workloads_are_answered_in_the_words_of_the_tables() {
    check("workloads.yaml");
}

#[test]
fn children_scales_and_pods_are_answered_in_the_words_of_the_tables() {
    check("children.yaml");
}

#[test]
fn quota_objects_are_answered_in_the_words_of_the_tables() {
    check("quotas.yaml");
}

#[test]
fn the_same_is_answered_where_other_labels_were_chosen() {
    for name in ["workloads.yaml", "children.yaml"] {
        let (table, ..) = read(name);
        for case in &table.cases {
            let said = said(&table, case, Some(CHOSEN));
            assert_eq!(said.trim_end(), relabelled(case.then.trim_end()), "{}", case.what);
        }
    }
}

/// Members of JSON have no order: who sorts them asks the same.
#[test]
fn the_same_is_answered_in_whatever_order_a_review_is_written() {
    fn reordered(value: Value, order: fn(&mut Vec<(String, Value)>)) -> Value {
        match value {
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, of)| (name, reordered(of, order)));
                let mut members: Vec<_> = members.collect();
                order(&mut members);
                Value::Object(members.into_iter().collect())
            }
            other => other,
        }
    }
    // Where in its text something is wrong follows from the order.
    fn placeless(said: &str) -> Vec<&str> {
        said.trim_end().lines().map(|line| line.split(" at line ").next().unwrap()).collect()
    }
    let sorted = |review| reordered(review, |members| members.sort_by(|a, b| a.0.cmp(&b.0)));
    let backwards = |review| reordered(review, |members| members.reverse());
    let example = sorted(json!({"subResource": "scale", "object": {}})).to_string();
    assert_eq!(example, r#"{"object":{},"subResource":"scale"}"#, "the order is kept");
    for name in ["workloads.yaml", "children.yaml", "quotas.yaml"] {
        let (table, ..) = read(name);
        for case in &table.cases {
            for order in [sorted, backwards] {
                let said = said_of(&table, case, None, order);
                assert_eq!(placeless(&said), placeless(&case.then), "{}", case.what);
            }
        }
    }
}

/// The program's answers as an API server would get them, of a log whose newest word on each matter counts.
#[test]
fn json_is_what_an_api_server_would_be_told_and_a_log_says_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (log, quotas, file) = (path("log"), path("quotas.yaml"), path("review.json"));
    let group = json!({"name": "team-a", "parent": "", "hard": {"limits.cpu": "4"}});
    fs::write(&quotas, quota(&group).to_string()).unwrap();
    let run =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_bizrq")).args(args).output().unwrap();
    assert!(run(&["quota", "apply", "--log", &log, &quotas]).status.success());
    let short = |replicas: u32| {
        json!({"review": "CREATE", "object": {"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "shop", "namespace": "web", "uid": "u1",
                "labels": {"biz.group.resource.quota": "team-a"}},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [
                {"name": "a", "resources": {"limits": {"cpu": "1"}}}]}}}}})
    };
    for (replicas, exit) in [(2, 0), (9, 1)] {
        fs::write(&file, expand(7, &short(replicas)).to_string()).unwrap();
        let output = run(&["review", "--log", &log, "-o", "json", &file]);
        assert_eq!(output.status.code(), Some(exit), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&said["kind"], &said["apiVersion"]),
            (&json!("AdmissionReview"), &json!("admission.k8s.io/v1"))
        );
        let response = &said["response"];
        assert_eq!(
            (&response["uid"], &response["allowed"]),
            (&json!("review-7"), &json!(exit == 0))
        );
        assert_eq!(response["auditAnnotations"]["group"], "team-a");
        let message = response["status"]["message"].as_str().unwrap_or_default();
        assert_eq!(message.starts_with("exceeded quota: team-a"), exit == 1, "{said}");
    }
    // Nothing of this was written down.
    let info = run(&["log", "info", "--log", &log]);
    assert!(!String::from_utf8_lossy(&info.stdout).contains("workloads.admitted"), "{info:?}");
}
