//! Who has a token sees what it shows, by every route, and cannot tell what is hidden from what is not there.

use super::{SERVED, get, get_with, heard_at, pages_at, serve};
use bizrq::{
    api::{Access, Source, access::Tokens},
    demo,
    event_log::AnyLog,
    projection::{MemoryStore, Runner, runner},
};
use kube::Client;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// The token of each group is `token of GROUP`; `token of *` shows everything.
pub(super) fn tokens(dir: &Path, source: &Source) -> Arc<Tokens> {
    let ledger = source.projection.ledger();
    let names = ledger.names().groups().map(|group| ledger.names().group_name(group));
    let entry = |group: &str| {
        let hash = Sha256::digest(token(group));
        format!("- name: {group}\n  sha256: {hash:x}\n  groups: ['{group}']\n")
    };
    let text: String = names.filter(|name| !name.is_empty()).chain(["*"]).map(entry).collect();
    let path = dir.join("tokens.yaml");
    fs::write(&path, text.replace("name: *", "name: all")).unwrap();
    Arc::new(Tokens::open(&path).unwrap())
}

pub(super) fn token(group: &str) -> String {
    format!("token of {group}")
}

pub(super) fn bearer(group: &str) -> String {
    format!("authorization: Bearer {}\r\n", token(group))
}

pub(super) fn as_tenant(group: &str, path: &str) -> Value {
    let answer = get_with(SERVED.tenants, path, &bearer(group));
    assert_eq!(answer.status, 200, "{group} {path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// Every group, with its parent, from who sees all of them.
pub(super) fn parents() -> BTreeMap<String, Option<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let tree = get("/v1/quotas");
    let groups = tree["groups"].as_array().unwrap().iter();
    groups.map(|group| (text(&group["group"]).unwrap(), text(&group["parent"]))).collect()
}

/// A group and everything below it.
pub(super) fn below(top: &str) -> BTreeSet<String> {
    let parents = parents();
    let is_below = |group: &&String| {
        let mut at = Some((*group).clone());
        while let Some(name) = at {
            if name == top {
                return true;
            }
            at = parents.get(&name).cloned().flatten();
        }
        false
    };
    parents.keys().filter(is_below).cloned().collect()
}

fn tops() -> Vec<String> {
    let all: Vec<_> = parents().into_keys().filter(|name| !name.is_empty()).collect();
    assert!(all.len() > 8, "{all:?}");
    all
}

#[test]
fn the_tree_is_the_own_subtree_and_stands_on_its_own() {
    let tree = get("/v1/quotas");
    for top in tops() {
        let shown = below(&top);
        let mut expected: Vec<Value> = tree["groups"].as_array().unwrap().clone();
        expected.retain(|group| shown.contains(group["group"].as_str().unwrap()));
        let depth = expected[0]["depth"].as_u64().unwrap();
        for group in &mut expected {
            group["depth"] = json!(group["depth"].as_u64().unwrap() - depth);
        }
        expected[0]["parent"] = Value::Null;
        assert_eq!(as_tenant(&top, "/v1/quotas")["groups"], json!(expected), "{top}");
        let paged = pages_at(SERVED.tenants, &bearer(&top), "/v1/quotas?", "groups", 2);
        assert_eq!(paged, expected, "{top}");
        for group in &expected {
            let name = group["group"].as_str().unwrap();
            let one = as_tenant(&top, &format!("/v1/quotas/{name}"));
            assert_eq!((&one["keys"], &one["parent"]), (&group["keys"], &group["parent"]));
            for around in ["above", "children"] {
                let around = one[around].as_array().unwrap().iter();
                assert!(around.map(|name| name.as_str().unwrap()).all(|g| shown.contains(g)));
            }
        }
    }
}

#[test]
fn who_sees_everything_sees_what_an_open_api_shows() {
    for path in ["/v1/quotas", "/v1/usage?by=day", "/v1/quotas/language"] {
        assert_eq!(as_tenant("*", path), get(path), "{path}");
    }
}

#[test]
fn usage_is_that_of_the_own_subtree() {
    for scope in ["own", "subtree"] {
        let path = format!("/v1/usage?scope={scope}&by=day&from=2026-11-02T00:00:00Z&limit=10000");
        let whole = get(&path);
        for top in tops() {
            let shown = below(&top);
            let mut expected: Vec<Value> = whole["lines"].as_array().unwrap().clone();
            expected.retain(|line| shown.contains(line["group"].as_str().unwrap()));
            assert_eq!(as_tenant(&top, &path)["lines"], json!(expected), "{top} {scope}");
        }
    }
}

/// Every way to name a group.
fn ways(group: &str) -> Vec<(String, String)> {
    let page = group.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let plain = |path: String| (path, String::new());
    vec![
        plain(format!("/v1/quotas/{group}")),
        plain(format!("/v1/quotas?page={page}")),
        plain(format!("/v1/usage?group={group}")),
        plain(format!("/v1/usage?group={group}&scope=subtree&by=month")),
        plain(format!("/v1/pods?group={group}&scope=subtree")),
        plain(format!("/v1/refusals?group={group}&scope=subtree")),
        plain(format!("/v1/burndown?group={group}&key=cash/limits.nvidia.com/gpu")),
        ("/v1/quotas".to_owned(), format!("bizrq-group: {group}\r\n")),
        ("/v1/usage".to_owned(), format!("bizrq-group: {group}\r\n")),
    ]
}

#[test]
fn a_hidden_group_is_answered_as_one_that_is_not_there() {
    let all = tops();
    for top in ["language", "search", "research"] {
        let shown = below(top);
        let hidden = all.iter().filter(|group| !shown.contains(*group));
        for hidden in hidden {
            for ((path, header), (none, no_header)) in ways(hidden).into_iter().zip(ways("nobody"))
            {
                let told = |path: &str, header: &str| {
                    let answer = get_with(SERVED.tenants, path, &(bearer(top) + header));
                    (answer.status, answer.body)
                };
                let (status, body) = told(&path, &header);
                let (expected, words) = told(&none, &no_header);
                assert!(status == 404 || status == 403, "{top} {path} {header}: {body}");
                assert_eq!(status, expected, "{top} {path}");
                assert_eq!(body.replace(hidden.as_str(), "nobody"), words, "{top} {path}");
            }
        }
    }
}

#[test]
fn a_group_in_the_header_narrows_what_is_seen_and_never_widens_it() {
    let narrowed = |token: &str, group: &str, path: &str| {
        let headers = format!("{}bizrq-group: {group}\r\n", bearer(token));
        let answer = get_with(SERVED.tenants, path, &headers);
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap())
    };
    for path in ["/v1/quotas", "/v1/usage?by=day"] {
        let (status, told) = narrowed("*", "language", path);
        assert_eq!((status, told), (200, as_tenant("language", path)));
    }
    assert_eq!(narrowed("language", "research", "/v1/quotas").0, 403);
}

#[test]
fn no_answer_to_a_tenant_names_a_group_that_is_hidden() {
    let all = tops();
    for top in ["language", "search", "vision"] {
        let shown = below(top);
        let hidden: BTreeSet<_> = all.iter().filter(|group| !shown.contains(*group)).collect();
        let mut answers = vec![
            as_tenant(top, "/v1/quotas"),
            as_tenant(top, "/v1/pods?at=2026-11-09T12:00:00Z"),
            as_tenant(top, "/v1/usage?by=day&scope=subtree"),
            as_tenant(top, &format!("/v1/quotas/{top}")),
        ];
        let expected = expected_events(&shown);
        let told = heard_at(SERVED.tenants, "?from=1", &bearer(top), expected.len());
        answers.extend(told.iter().map(|(_, text)| serde_json::from_str(text).unwrap()));
        let mut texts = Vec::new();
        answers.iter().for_each(|answer| strings(answer, &mut texts));
        let named = |text: &&String| {
            text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                .any(|word| hidden.iter().any(|group| *group == word))
        };
        let named: Vec<_> = texts.iter().filter(named).collect();
        assert!(named.is_empty(), "{top}: {named:?}");
    }
}

/// Every text in it.
fn strings(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|value| strings(value, texts)),
        Value::Object(all) => all.values().for_each(|value| strings(value, texts)),
        _ => {}
    }
}

/// The ids and types of the events that these groups should see, read off the log by hand.
fn expected_events(shown: &BTreeSet<String>) -> Vec<(u64, String)> {
    let text = super::bizrq(&["log", "tail", "--from", "1", "-o", "lines"]);
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut pods: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in &events {
        let data = &event["data"];
        if name(&event["type"]).contains(".pod.") && data["group"].is_string() {
            pods.entry(name(&data["uid"])).or_default().insert(name(&data["group"]));
        }
    }
    let is_shown = |event: &Value| {
        let (data, kind, subject) = (&event["data"], name(&event["type"]), name(&event["subject"]));
        let any = |list: &str| {
            data[list].as_array().unwrap().iter().any(|one| shown.contains(&name(&one["group"])))
        };
        match kind.trim_start_matches("io.bizrq.").trim_end_matches(".v1") {
            "pod.created" | "pod.started" | "pod.moved" | "workload.observed" => {
                shown.contains(&name(&data["group"]))
            }
            kind if kind.starts_with("pod.") => pods[&name(&data["uid"])].is_subset(shown),
            "workloads.admitted" => any("admissions"),
            "workloads.refused" => any("refusals"),
            "quota.declared" | "quota.proposed" | "quota.removed" => {
                shown.contains(subject.trim_start_matches("quotas/"))
            }
            "usage.adjusted" => shown.contains(subject.trim_start_matches("accounts/")),
            _ => false,
        }
    };
    let all = (1_u64..).zip(&events).filter(|(_, event)| is_shown(event));
    all.map(|(position, event)| (position, name(&event["type"]))).collect()
}

#[test]
fn events_are_those_of_the_own_subtree_and_go_on_where_one_left_off() {
    for top in ["language", "research"] {
        let shown = below(top);
        let expected = expected_events(&shown);
        assert!(expected.len() > 50, "{top}: {}", expected.len());
        let half = expected.len() / 2;
        let first = heard_at(SERVED.tenants, "?from=1", &bearer(top), half);
        let last = format!("{}last-event-id: {}\r\n", bearer(top), first.last().unwrap().0);
        let rest = heard_at(SERVED.tenants, "", &last, expected.len() - half);
        let told = [first, rest].concat();
        let mut kinds = BTreeSet::new();
        for ((position, text), (at, kind)) in told.iter().zip(&expected) {
            let event: Value = serde_json::from_str(text).unwrap();
            assert_eq!((position, event["type"].as_str()), (at, Some(kind.as_str())));
            assert!(event["leaf"].is_null(), "{text}");
            for list in ["admissions", "refusals"] {
                for one in event["data"][list].as_array().into_iter().flatten() {
                    assert!(shown.contains(one["group"].as_str().unwrap()), "{text}");
                }
            }
            kinds.insert(kind.clone());
        }
        assert!(kinds.len() > 6, "{top}: {kinds:?}");
    }
}

#[test]
fn without_a_token_there_is_the_page_and_nothing_else() {
    let basic = "authorization: Basic bGFuZ3VhZ2U6\r\n";
    let unknown = bearer("nobody");
    let with_space = format!("authorization: Bearer {} x\r\n", token("language"));
    let burndown = "/v1/burndown?group=language&key=cash/limits.nvidia.com/gpu";
    for path in [
        "/v1/quotas",
        "/v1/quotas/language",
        "/v1/usage",
        "/v1/pods",
        burndown,
        "/v1/events?last=1",
    ] {
        let in_query = format!(
            "{path}{}token=token%20of%20language",
            if path.contains('?') { "&" } else { "?" }
        );
        for (path, headers) in
            [(path, ""), (path, basic), (path, &unknown), (path, &with_space), (&*in_query, "")]
        {
            let answer = get_with(SERVED.tenants, path, headers);
            assert_eq!(answer.status, 401, "{path} {headers}: {}", answer.body);
            assert!(answer.head.to_lowercase().contains("www-authenticate: bearer"), "{path}");
            assert!(answer.body.contains("Authorization"), "{path}: {}", answer.body);
        }
    }
    assert_eq!(get_with(SERVED.tenants, "/", "").status, 200);
}

#[test]
fn with_tokens_it_answers_to_any_name() {
    let headers = format!("host: bizrq.example\r\n{}", bearer("language"));
    assert_eq!(get_with(SERVED.tenants, "/v1/quotas", &headers).status, 200);
}

#[tokio::test]
async fn with_tokens_it_listens_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens");
    fs::write(&path, "").unwrap();
    let access = Access::default().with_tokens(Arc::new(Tokens::open(&path).unwrap()));
    bizrq::api::bind("0.0.0.0:0".parse().unwrap(), &access).await.unwrap();
}

#[test]
fn a_file_that_changes_is_read_again_and_one_that_is_broken_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens");
    let entry = |token: &str| {
        format!("- {{name: one, sha256: {:x}, groups: [language]}}\n", Sha256::digest(token))
    };
    fs::write(&path, entry("a")).unwrap();
    let tokens = Tokens::open(&path).unwrap();
    assert!(!tokens.look().unwrap());
    fs::write(&path, entry("b") + &entry("c")).unwrap();
    assert!(tokens.look().unwrap() && !tokens.look().unwrap());
    fs::write(&path, "- {name: one").unwrap();
    assert!(tokens.look().unwrap_err().to_string().contains("line 1"));
    fs::remove_file(&path).unwrap();
    assert!(tokens.look().is_err() && Tokens::open(&path).is_err());
}

/// An API server that knows `admin`, who may get every quota object, and `ada`, who may get that of `language`.
fn api_server(asked: &Arc<AtomicUsize>, away: &Arc<AtomicBool>) -> Client {
    let (asked, away) = (Arc::clone(asked), Arc::clone(away));
    let service = tower::service_fn(move |request: hyper::Request<kube::client::Body>| {
        asked.fetch_add(1, Ordering::SeqCst);
        let away = away.load(Ordering::SeqCst);
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect_bytes().await.unwrap();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            review["status"] = match &*path {
                "/apis/authentication.k8s.io/v1/tokenreviews" => {
                    let user = review["spec"]["token"].as_str().unwrap().strip_prefix("t-");
                    json!({"authenticated": user.is_some(), "user": {"username": user}})
                }
                "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                    let (spec, on) = (&review["spec"], &review["spec"]["resourceAttributes"]);
                    assert_eq!((&on["verb"], &on["group"]), (&json!("get"), &json!("bizrq.io")));
                    assert_eq!(on["resource"], "bizgroupresourcequotas");
                    let language = spec["user"] == "ada" && on["name"] == "language";
                    json!({"allowed": spec["user"] == "admin" || language})
                }
                other => panic!("{other}"),
            };
            let status = if away { 500 } else { 201 };
            let body = axum::body::Body::from(review.to_string());
            Ok::<_, std::convert::Infallible>(
                hyper::Response::builder().status(status).body(body).unwrap(),
            )
        }
    });
    Client::new(service, "default")
}

#[test]
fn a_cluster_says_whose_a_token_is_and_what_they_may_see() {
    let (asked, away) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let client_asked = Arc::clone(&asked);
    let log = SERVED.dir.path().to_str().unwrap();
    let (address, _runtime) = {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let address = runtime.block_on(async {
            let log = Arc::new(AnyLog::open_read(log).await.unwrap());
            let options = runner::Options::default();
            let (runner, mut projection) = Runner::new(MemoryStore::default(), options);
            let folded = Arc::clone(&log);
            tokio::spawn(async move { runner.run(&*folded, std::future::pending::<()>()).await });
            projection.caught_up().await.unwrap();
            let access = Access::default().with_cluster(api_server(&client_asked, &away));
            serve(Source { log, projection, now: demo::end, access, judge: None, metrics: None })
                .await
        });
        (address, runtime)
    };
    let ask = |path: &str, token: &str, group: &str| {
        let group =
            if group.is_empty() { String::new() } else { format!("bizrq-group: {group}\r\n") };
        let headers = format!("authorization: Bearer {token}\r\n{group}");
        let answer = get_with(address, path, &headers);
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap())
    };
    assert_eq!(ask("/v1/quotas", "t-admin", ""), (200, get("/v1/quotas")));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(ask("/v1/usage", "t-admin", "").0, 200);
    assert_eq!(asked.load(Ordering::SeqCst), 2, "an answer holds for a while");
    for path in ["/v1/quotas", "/v1/usage?by=day"] {
        assert_eq!(ask(path, "t-ada", "language"), (200, as_tenant("language", path)));
    }
    let (status, told) = ask("/v1/quotas", "t-ada", "");
    assert_eq!(status, 403);
    assert!(told["detail"].as_str().unwrap().contains("Bizrq-Group"), "{told}");
    let (status, hidden) = ask("/v1/quotas", "t-ada", "search");
    let (_, none) = ask("/v1/quotas", "t-ada", "nobody");
    assert_eq!(status, 403);
    assert_eq!(hidden.to_string().replace("search", "nobody"), none.to_string());
    assert_eq!(ask("/v1/quotas/search", "t-ada", "language").0, 404);
    assert_eq!(ask("/v1/quotas", "made up", "language").0, 401);
    away.store(true, Ordering::SeqCst);
    let (status, told) = ask("/v1/quotas", "t-bob", "language");
    assert_eq!(status, 503);
    assert!(told["detail"].as_str().unwrap().contains("API server"), "{told}");
    assert_eq!(ask("/v1/quotas", "t-admin", "").0, 200, "what is known still holds");
}
