//! What OpenAPI says of the API is what it does: generated from the types, every route in it, every answer as described;
//! and schemathesis, which is not ours, finds nothing.

use super::{END, SERVED, bizrq, get, queries, tenants};
use ::bizrq::api::openapi;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

#[test]
fn the_committed_document_is_what_the_types_say() {
    let path = root().join("schemas/api/openapi.json");
    if std::env::var_os("BIZRQ_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, openapi::text()).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == openapi::text(), "{} is stale; run `make schemas`", path.display());
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let source = fs::read_to_string(root().join("src/api.rs")).unwrap();
    let routes = source.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let routes: BTreeSet<_> = routes.filter(|route| route.starts_with("/v1/")).collect();
    let document = openapi::document();
    let described: BTreeSet<_> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(routes, described);
    assert!(routes.len() >= 9);
}

/// What is wrong with `answer` by what is said of a route.
fn wrong(route: &str, method: &str, answer: &Value) -> Vec<String> {
    let document = openapi::document();
    let response = &document["paths"][route][method]["responses"]["200"];
    let mut schema = response["content"]["application/json"]["schema"].clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(!validator.is_valid(&json!({"at": 7})), "{route}");
    validator.iter_errors(answer).map(|error| error.to_string()).collect()
}

#[test]
fn answers_are_as_described() {
    let tailed = bizrq(&["log", "tail", "--from", "1", "-o", "lines"]);
    let started = tailed.lines().find(|line| line.contains("pod.started")).unwrap();
    let started: Value = serde_json::from_str(started).unwrap();
    let pod = format!("/v1/pods/{}", started["data"]["uid"].as_str().unwrap());
    let state = format!("/v1/state?at={END}");
    for (path, route) in [
        ("/v1/quotas", "/v1/quotas"),
        ("/v1/quotas/language", "/v1/quotas/{name}"),
        ("/v1/usage?by=day&from=2026-11-02T00:00:00Z", "/v1/usage"),
        ("/v1/workloads?limit=3", "/v1/workloads"),
        ("/v1/refusals", "/v1/refusals"),
        ("/v1/pods?at=2026-11-09T12:00:00Z", "/v1/pods"),
        ("/v1/burndown?group=language&key=cash/limits.nvidia.com/gpu", "/v1/burndown"),
        (&pod, "/v1/pods/{uid}"),
        (&state, "/v1/state"),
    ] {
        assert_eq!(wrong(route, "get", &get(path)), [""; 0], "{path}");
    }
    for replicas in [1, 1000] {
        let told = queries::fits(&queries::deployment("shop", replicas).to_string());
        let told: Value = serde_json::from_str(&told.body).unwrap();
        assert_eq!(wrong("/v1/fits", "post", &told), [""; 0], "{told}");
    }
}

/// Streams end when nobody listens any more, which schemathesis never does: they have tests of their own.
const NOT_EXERCISED: &str = "/v1/events";
/// A token or a group's name may be well-formed and mean nothing here.
const NOT_CHECKED: &str = "positive_data_acceptance";

#[test]
fn schemathesis_finds_nothing() {
    let tool = root().join("target/servers/schemathesis/bin/schemathesis");
    if !tool.exists() {
        return crate::shared::skip(
            "schemathesis_finds_nothing",
            "no schemathesis; run `sh tests/servers.sh`",
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let document = dir.path().join("openapi.json");
    fs::write(&document, openapi::text()).unwrap();
    let mut command = Command::new(tool);
    command.arg("run").arg(&document).current_dir(dir.path());
    command.args(["--url", &format!("http://{}", SERVED.tenants)]);
    command.args(["--header", &format!("Authorization: Bearer {}", tenants::token("*"))]);
    command.args(["--exclude-path", NOT_EXERCISED, "--checks", "all"]);
    command.args(["--exclude-checks", NOT_CHECKED, "--phases", "examples,coverage,fuzzing"]);
    command.args(["--max-examples", "15", "--seed", "7", "--workers", "1", "--no-color"]);
    let done = command.output().unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{told}{}", String::from_utf8_lossy(&done.stderr));
    let paths = openapi::document()["paths"].as_object().unwrap().len();
    assert!(told.contains(&format!("Tested: {}\n", paths - 1)), "{told}");
}
