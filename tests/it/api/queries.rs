//! Workloads, pods, refusals, the tree of a while ago, and whether a manifest would fit: each beside something that
//! finds the same in another way.

use super::{Answer, END, SERVED, bizrq, get, get_with, pages, pages_at, sums, tenants, with_body};
use bizrq::{
    domain::{
        book::Exhaustion,
        event::{Data, Event, EventId, PodStarted, StartBasis},
        ledger::Ledger,
        merkle::Hash,
        quantity::Quantity,
        resources::{Models, Resources},
        standing::Tree,
        time::{HOUR_MS, Timestamp},
    },
    event_log::codec::{Decoded, Decoder, scan_text},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    process::{Command, Stdio},
    sync::Arc,
};

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn milli(value: &Value) -> i128 {
    Quantity::parse(value.as_str().unwrap()).unwrap().milli()
}

/// Every record of the log, as it stands there.
pub(super) fn lines() -> Vec<String> {
    let all = bizrq(&["log", "tail", "--from", "1", "-o", "lines"]);
    all.lines().map(str::to_owned).collect()
}

#[test]
fn workloads_are_charged_what_their_groups_use_themselves() {
    let workloads = pages("/v1/workloads?", "workloads", 7);
    assert!(workloads.len() > 3, "{}", workloads.len());
    let whole = get("/v1/workloads");
    assert_eq!(json!(workloads), whole["workloads"]);
    let mut charged: BTreeMap<(String, String), i128> = BTreeMap::new();
    for workload in &workloads {
        assert_eq!(workload["podsApart"], 0, "the demo leaves none at its end: {workload}");
        for group in workload["groups"].as_array().unwrap() {
            for (key, amount) in workload["charge"].as_object().unwrap() {
                *charged.entry((text(group), key.clone())).or_default() += milli(amount);
            }
        }
    }
    let mut compared = 0;
    for group in get("/v1/quotas")["groups"].as_array().unwrap() {
        for row in group["keys"].as_array().unwrap() {
            let key = text(&row["key"]);
            if key.starts_with("cash/") {
                continue;
            }
            let sum = charged.get(&(text(&group["group"]), key)).copied().unwrap_or_default();
            assert_eq!(milli(&row["selfUsed"]), sum, "{} {row}", group["group"]);
            compared += usize::from(sum > 0);
        }
    }
    assert!(compared > 3, "{compared}");
    let of = get("/v1/workloads?group=search")["workloads"].clone();
    let expected: Vec<_> =
        workloads.iter().filter(|w| w["groups"] == json!(["search"])).cloned().collect();
    assert!(!expected.is_empty());
    assert_eq!(of, json!(expected));
}

#[test]
fn pods_hold_together_what_is_metered() {
    let mut segments = Vec::new();
    for uid in &started() {
        let pod = get(&format!("/v1/pods/{uid}"));
        assert_eq!(pod["uid"], **uid);
        for segment in pod["segments"].as_array().unwrap() {
            for (key, exact) in segment["exact"].as_object().unwrap() {
                let hours = segment["hours"][key].as_str().unwrap();
                assert!(hours.parse::<f64>().unwrap() >= 0.0);
                segments.push(json!({"group": segment["group"], "key": key, "exact": exact}));
            }
        }
    }
    let meter: Value = serde_json::from_str(&bizrq(&["meter", "--at", END, "-o", "json"])).unwrap();
    assert_eq!(sums(&segments), sums(meter["usage"].as_array().unwrap()));
}

/// Uids of all pods that ever started.
pub(super) fn started() -> BTreeSet<String> {
    let events = lines().into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let started = events.filter(|event| text(&event["type"]).starts_with("io.bizrq.pod.started."));
    started.map(|event| text(&event["data"]["uid"])).collect()
}

#[test]
fn a_tenant_sees_its_own_workloads_pods_and_refusals() {
    let shown: BTreeSet<String> = tenants::below("products");
    let is_shown = |group: &Value| shown.contains(group.as_str().unwrap());
    let told = tenants::as_tenant("products", "/v1/workloads")["workloads"].clone();
    let mut expected = get("/v1/workloads")["workloads"].clone();
    expected
        .as_array_mut()
        .unwrap()
        .retain(|w| w["groups"].as_array().unwrap().iter().all(is_shown));
    assert!(!expected.as_array().unwrap().is_empty());
    assert_eq!(told, expected);
    let mut seen = [0, 0];
    for line in lines() {
        let event: Value = serde_json::from_str(&line).unwrap();
        if !text(&event["type"]).starts_with("io.bizrq.pod.started.") {
            continue;
        }
        let (uid, group) = (text(&event["data"]["uid"]), &event["data"]["group"]);
        let headers = tenants::bearer("products");
        let answer = get_with(SERVED.tenants, &format!("/v1/pods/{uid}"), &headers);
        let none = get_with(SERVED.tenants, "/v1/pods/no-such-pod", &headers);
        // A pod that moved from or to elsewhere is hidden; that is fewer, never more.
        match answer.status {
            200 => assert!(is_shown(group), "{}", answer.body),
            _ => assert_eq!(
                (answer.status, answer.body.replace(&uid, "no-such-pod")),
                (none.status, none.body)
            ),
        }
        seen[usize::from(answer.status == 200)] += 1;
    }
    assert!(seen[0] > 50 && seen[1] > 10, "{seen:?}");
}

#[test]
fn refusals_are_those_of_the_log_newest_first() {
    let mut expected = Vec::new();
    for (position, line) in (1_u64..).zip(lines()) {
        let event: Value = serde_json::from_str(&line).unwrap();
        if text(&event["type"]).starts_with("io.bizrq.workloads.refused.") {
            for refused in event["data"]["refusals"].as_array().unwrap() {
                let mut refused = refused.clone();
                refused["position"] = json!(position);
                expected.push(refused);
            }
        }
    }
    expected.reverse();
    assert!(expected.len() > 5);
    assert_eq!(pages("/v1/refusals?", "refusals", 2), expected);
    assert_eq!(get("/v1/refusals")["refusals"], json!(expected));
    let group = text(&expected[0]["group"]);
    let of: Vec<_> =
        expected.iter().filter(|refused| refused["group"] == *group).cloned().collect();
    assert_eq!(get(&format!("/v1/refusals?group={group}"))["refusals"], json!(of));
    let headers = tenants::bearer(&group);
    let told = pages_at(SERVED.tenants, &headers, "/v1/refusals?", "refusals", 1);
    assert_eq!(told.len(), of.len());
    let above = tenants::parents()[&group].clone().unwrap();
    for (told, whole) in told.iter().zip(&of) {
        assert_eq!((&told["position"], &told["reason"]), (&whole["position"], &whole["reason"]));
        assert!(!text(&told["message"]).contains(&above), "{told}");
    }
}

/// The ledger of what was published by `at`, folded by hand.
pub(super) fn folded(at: Timestamp) -> Ledger {
    let (mut ledger, mut decoder) = (Ledger::default(), Decoder::default());
    for (position, line) in (1..).zip(lines()) {
        let scanned = scan_text(&line).unwrap();
        let Decoded::Event(event) = decoder.decode(&scanned).unwrap() else { panic!("{line}") };
        if event.recorded_at > at {
            break;
        }
        ledger.apply(position, Hash::default(), &event).unwrap();
    }
    ledger
}

#[test]
fn the_state_of_a_while_ago_is_what_was_published_by_then() {
    assert_eq!(get(&format!("/v1/state?at={END}"))["groups"], get("/v1/quotas")["groups"]);
    // Forwards, backwards, the same again, and before anything was said.
    for at in [
        "2026-11-09T12:34:56.789Z",
        "2026-11-05T00:00:00Z",
        "2026-11-05T00:00:00Z",
        "2026-11-12T06:00:00Z",
        "2026-11-12T06:00:00.001Z",
        "2020-01-01T00:00:00Z",
    ] {
        let instant = Timestamp::parse(at).unwrap();
        let ledger = folded(instant);
        let tree = serde_json::to_value(Tree::of(&ledger, instant, false).unwrap()).unwrap();
        let told = get(&format!("/v1/state?at={at}"));
        assert_eq!(
            (&told["groups"], &told["position"]),
            (&tree["groups"], &tree["position"]),
            "{at}"
        );
    }
    let at = "2026-11-09T00:00:00Z";
    let whole = get(&format!("/v1/state?at={at}"))["groups"].clone();
    assert_eq!(json!(pages(&format!("/v1/state?at={at}&"), "groups", 3)), whole);
    let mut own = whole.as_array().unwrap().clone();
    own.retain(|group| tenants::below("language").contains(group["group"].as_str().unwrap()));
    (own[0]["parent"], own[0]["depth"]) = (Value::Null, json!(0));
    assert_eq!(tenants::as_tenant("language", &format!("/v1/state?at={at}"))["groups"], json!(own));
}

#[test]
fn what_makes_no_sense_is_told_here_too() {
    for (path, status, words) in [
        ("/v1/state", 400, "at"),
        ("/v1/state?at=now", 400, "no instant"),
        ("/v1/state?at=2099-01-01T00:00:00Z", 400, "lies ahead"),
        ("/v1/state?at=2026-11-09T00:00:00Z&page=6e6f", 404, "not there"),
        ("/v1/workloads?limit=1001", 400, "from 1 to 1000"),
        ("/v1/workloads?page=00", 200, ""),
        ("/v1/workloads?page=zz", 400, "no token"),
        ("/v1/workloads?group=nobody", 404, "nobody"),
        ("/v1/refusals?limit=0", 400, "from 1 to 1000"),
        ("/v1/refusals?page=7a7a", 400, "no token"),
        ("/v1/refusals?group=nobody", 404, "nobody"),
        ("/v1/refusals?at=then", 400, "no instant"),
        ("/v1/pods?group=nobody", 404, "nobody"),
        ("/v1/pods?at=2099-01-01T00:00:00Z", 400, "lies ahead"),
        ("/v1/pods?at=then", 400, "no instant"),
        ("/v1/pods?page=7a7a", 400, "no token"),
        ("/v1/pods?page=7a0000", 400, "no token"),
        ("/v1/pods?scope=all", 400, "scope"),
        ("/v1/burndown?group=language", 400, "key"),
        ("/v1/burndown?group=language&key=limits.cpu", 400, "no budget"),
        ("/v1/burndown?group=search&key=cash/limits.nvidia.com/gpu", 400, "no budget"),
        ("/v1/burndown?group=nobody&key=cash/limits.nvidia.com/gpu", 404, "nobody"),
        (
            "/v1/burndown?group=acme&key=cash/limits.nvidia.com/gpu&to=2099-01-01T00:00:00Z",
            400,
            "lies ahead",
        ),
        (
            "/v1/burndown?group=acme&key=cash/limits.nvidia.com/gpu&from=2026-11-17T00:00:00Z",
            400,
            "lies behind",
        ),
        (
            "/v1/burndown?group=acme&key=cash/limits.nvidia.com/gpu&by=hour&from=2025-01-01T00:00:00Z",
            400,
            "366",
        ),
        ("/v1/pods/nobody", 404, "nobody"),
        ("/v1/pods/nobody?cluster=x", 404, "nobody"),
    ] {
        let answer = get_with(SERVED.address, path, "");
        let problem: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer.status, status, "{path}: {problem}");
        assert!(status == 200 || problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
}

pub(super) fn deployment(group: &str, replicas: u64) -> Value {
    workload("Deployment", group, replicas)
}

/// One whose updates surge, or one whose updates do not.
pub(super) fn workload(kind: &str, group: &str, replicas: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": "probe", "labels": {"biz.group.resource.quota": group}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [
            {"name": "main", "resources": {
                "requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"},
            }},
        ]}}},
    })
}

pub(super) fn fits(manifest: &str) -> Answer {
    with_body(SERVED.address, "POST", "/v1/fits", "", manifest)
}

fn fitted(manifest: &Value) -> Value {
    let answer = fits(&manifest.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn a_manifest_is_told_what_a_review_would_be_told() {
    let log = SERVED.dir.path().to_str().unwrap();
    for (group, replicas) in
        [("shop", 1), ("shop", 40), ("search", 3), ("nobody", 1), ("vision", 9)]
    {
        let manifest = deployment(group, replicas);
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command.args(["review", "--log", log, "--at", END, "--cluster", "east", "-o", "json", "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(manifest.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let review: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (review, told) = (&review["response"], fitted(&manifest));
        assert_eq!(told["fits"], review["allowed"], "{group} {replicas}: {told} {review}");
        assert_eq!(told["message"], review["status"]["message"], "{told}");
        assert_eq!(told["reason"], review["status"]["details"]["causes"][0]["reason"], "{told}");
    }
}

#[test]
fn as_many_replicas_fit_as_it_says_and_not_one_more() {
    let told = fitted(&workload("StatefulSet", "shop", 1000));
    let fit = told["replicas"]["fit"].as_u64().unwrap();
    assert!((1..1000).contains(&fit) && told["replicas"]["asked"] == 1000, "{told}");
    assert_eq!(fitted(&workload("StatefulSet", "shop", fit))["fits"], true);
    assert_eq!(fitted(&workload("StatefulSet", "shop", fit + 1))["fits"], false);
    assert_eq!(told["asks"]["limits.cpu"], "2k");
    let position = get("/v1/quotas")["position"].clone();
    assert_eq!(told["position"], position, "nothing is recorded");
    let yaml = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: probe\n  labels: \
                {biz.group.resource.quota: shop}\nspec: {replicas: 1, template: {spec: {containers: []}}}\n";
    assert_eq!(fits(yaml).status, 200);
}

#[test]
fn a_budget_ends_when_it_says_if_the_manifest_runs() {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "probe", "labels": {"biz.group.resource.quota": "vision"}},
        "spec": {"template": {"spec": {"containers": [
            {"name": "main", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "3"}}},
        ]}}},
    });
    let told = fitted(&job);
    let cash = told["cash"].as_array().unwrap();
    assert_eq!(cash.len(), 1, "{told}");
    assert_eq!(
        (&cash[0]["group"], &cash[0]["key"]),
        (&json!("vision"), &json!("limits.nvidia.com/gpu"))
    );
    // The same pod, really started at that instant.
    let at = Timestamp::parse(END).unwrap();
    let mut ledger = folded(at);
    let resources = |list: &str| serde_json::from_str::<Resources>(list).unwrap();
    let held = resources(
        r#"{"requests":{"cpu":"1","nvidia.com/gpu":"3"},"limits":{"cpu":"1","nvidia.com/gpu":"3"}}"#,
    );
    let data = PodStarted {
        uid: "probe".into(),
        owner: None,
        group: "vision".into(),
        models: Models::default(),
        node: "".into(),
        held: Arc::new(held),
        reserved: None,
        basis: StartBasis::Bound,
    };
    let event = Event {
        id: EventId(7),
        source: "/clusters/east".into(),
        subject: "pods/default/probe".into(),
        time: at,
        recorded_at: at,
        data: Data::PodStarted(data),
    };
    ledger.apply(ledger.position() + 1, Hash::default(), &event).unwrap();
    let names = ledger.names();
    let (group, key) =
        (names.known_group("vision").unwrap(), names.known_key("limits.nvidia.com/gpu").unwrap());
    let end = ledger.book().unwrap().exhaustion(group, key, ledger.meter(), at).unwrap();
    assert!(matches!(end, Exhaustion::At(end) if end.since(at) > HOUR_MS), "{end:?}");
    assert_eq!(cash[0]["exhaustedAt"], end.to_string());
}

#[test]
fn what_is_no_manifest_is_told_so_and_a_tenant_asks_for_its_own() {
    for (body, status, words) in [
        ("", 422, "no object"),
        ("[]", 422, "no object"),
        ("{", 422, "manifest"),
        ("a: &a [*a, *a]", 422, "manifest"),
        (r#"{"apiVersion": "v1", "kind": "Secret"}"#, 422, "Secret"),
        (r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": 7}"#, 422, ""),
    ] {
        let answer = fits(body);
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        assert!(answer.body.contains(words), "{body}: {}", answer.body);
    }
    let cluster = with_body(SERVED.address, "POST", "/v1/fits?cluster=nowhere", "", "{}");
    assert!(cluster.status == 422 && cluster.body.contains("east"), "{}", cluster.body);
    let large = fits(&format!("{{\"a\": \"{}\"}}", "x".repeat(300 << 10)));
    assert_eq!(large.status, 413, "{}", large.body);
    let ask = |group: &str| {
        let manifest = workload("StatefulSet", group, 1000).to_string();
        with_body(SERVED.tenants, "POST", "/v1/fits", &tenants::bearer("shop"), &manifest)
    };
    let own: Value = serde_json::from_str(&ask("shop").body).unwrap();
    assert_eq!(own["fits"], false);
    assert!(own["replicas"]["fit"].is_u64(), "{own}");
    assert_eq!(own["replicas"], fitted(&workload("StatefulSet", "shop", 1000))["replicas"]);
    let (hidden, none) = (ask("search"), ask("nobody"));
    assert_eq!((hidden.status, none.status), (404, 404), "{}", hidden.body);
    assert_eq!(hidden.body.replace("search", "nobody"), none.body);
}
