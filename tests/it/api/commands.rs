//! The commands that ask a server say what it says: as tables, JSON, YAML and CSV, with a token, and as a plugin of kubectl.

use super::{SERVED, get, pages, queries, tenants};
use serde_json::{Value, json};
use std::{
    io::Write,
    net::SocketAddr,
    process::{Command, Output, Stdio},
};

fn ask(address: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    for name in ["BIZRQ_SERVER", "BIZRQ_TOKEN", "BIZRQ_GROUP"] {
        command.env_remove(name);
    }
    command.args(arguments).args(["--server", &format!("http://{address}/")]);
    command
}

fn out(arguments: &[&str]) -> String {
    told(&ask(SERVED.address, arguments).output().unwrap())
}

fn told(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&out(&[arguments, &["-o", "json"]].concat())).unwrap()
}

#[test]
fn json_and_yaml_are_the_answer_of_the_api_with_all_its_pages() {
    let (tree, quotas) = (json(&["tree"]), get("/v1/quotas"));
    assert_eq!((&tree["groups"], &tree["position"]), (&quotas["groups"], &quotas["position"]));
    let then = json(&["tree", "--at", "2026-11-09T00:00:00Z"]);
    assert_eq!(then["groups"], get("/v1/state?at=2026-11-09T00:00:00Z")["groups"]);
    let below = json(&["tree", "research"]);
    let names = below["groups"].as_array().unwrap().iter().map(|group| group["group"].as_str());
    assert!(names.eq(["research", "language", "sweeps", "vision"].map(Some)), "{below}");
    let usage = ["usage", "--from", "2026-11-02T00:00:00Z", "--by", "hour", "--key", "limits.cpu"];
    let lines = pages("/v1/usage?from=2026-11-02T00:00:00Z&by=hour&key=limits.cpu&", "lines", 1000);
    assert!(lines.len() > 1000, "more than a page: {}", lines.len());
    assert_eq!(json(&usage)["lines"], Value::from(lines.clone()));
    let yaml = out(&[&usage[..], &["-o", "yaml"]].concat());
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), json(&usage));
    let csv = out(&[&usage[..], &["-o", "csv"]].concat());
    assert_eq!(csv.lines().count(), lines.len() + 1);
    assert!(csv.starts_with("group,key,from,to,hours,unit,exact\n"), "{csv}");
}

#[test]
fn tables_are_for_people_and_have_no_colours_in_a_pipe() {
    for (arguments, words) in [
        (&["tree"][..], &["  research", "cash/limits.nvidia.com/gpu", "consumedHours"][..]),
        (&["usage", "--group", "search"], &["search", "limits.cpu", "core"]),
        (&["top", "--most", "3"], &["percent", "language"]),
        (&["events", "--last", "3", "--most", "3"], &["2026-11-1"]),
    ] {
        let table = out(arguments);
        assert!(!table.contains('\u{1b}'), "{table}");
        for word in words {
            assert!(table.contains(word), "{arguments:?}: {word} in\n{table}");
        }
    }
    // A heading and three limits, the fullest first.
    let top = json(&["top", "--most", "3"]);
    let limits = top["limits"].as_array().unwrap();
    assert_eq!((limits.len(), out(&["top", "--most", "3"]).lines().count()), (3, 4));
    let percents = limits.iter().map(|l| l["percent"].as_str().unwrap().parse::<i64>().unwrap());
    assert!(percents.is_sorted_by(|a, b| a >= b));
    // language spent 4,000 of 3,000 card-hours.
    assert_eq!((&limits[0]["group"], &limits[0]["percent"]), (&"language".into(), &"133".into()));
}

#[test]
fn a_pod_is_explained_and_events_are_the_lines_of_the_log() {
    let lines = super::bizrq(&["log", "tail", "--from", "1", "-o", "lines"]);
    let first: Vec<_> = lines.lines().take(40).collect();
    let told = out(&["events", "--from", "1", "--most", "40", "-o", "json"]);
    assert_eq!(told.lines().collect::<Vec<_>>(), first);
    let started = lines.lines().find(|line| line.contains("pod.started")).unwrap();
    let started: Value = serde_json::from_str(started).unwrap();
    let uid = started["data"]["uid"].as_str().unwrap();
    assert_eq!(json(&["explain", uid])["segments"], get(&format!("/v1/pods/{uid}"))["segments"]);
    assert!(out(&["explain", uid]).contains("limits.cpu"));
    let wrong = ask(SERVED.address, &["explain", "../quotas"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

/// Whether so many replicas would fit, and what is said of it.
fn fits(replicas: u64, more: &[&str]) -> (Option<i32>, String) {
    let mut command = ask(SERVED.address, &[&["fits", "-"], more].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let manifest = queries::workload("StatefulSet", "shop", replicas).to_string();
    child.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn what_does_not_fit_is_the_answer_no() {
    let (code, told) = fits(1, &[]);
    assert!(code == Some(0) && told.contains("yes"), "{told}");
    let (code, told) = fits(1000, &[]);
    assert!(code == Some(1) && told.contains("QuotaExceeded"), "{told}");
    assert!(told.contains("of 1000 would fit"), "{told}");
}

#[test]
fn however_many_are_asked_for_it_is_said_how_many_would_fit() {
    let told = |replicas: u64| {
        let (code, told) = fits(replicas, &["-o", "json"]);
        assert_eq!(code, Some(1), "{told}");
        serde_json::from_str::<Value>(&told).unwrap()
    };
    let fit = told(1000)["replicas"]["fit"].as_u64().unwrap();
    assert!(fit > 0);
    // The largest are more than any limit can say; nobody waits for the answer either way.
    for replicas in [u64::from(u32::MAX), 1 << 62, (1 << 63) - 1] {
        let told = told(replicas);
        assert_eq!(told["replicas"], json!({"fit": fit, "asked": replicas}), "{told}");
        let words = format!("; {fit} of {replicas} replicas would fit");
        assert!(told["message"].as_str().unwrap().ends_with(&words), "{told}");
    }
}

#[test]
fn a_token_comes_from_the_environment_and_without_one_that_is_said() {
    let without = ask(SERVED.tenants, &["tree"]).output().unwrap();
    assert_eq!(without.status.code(), Some(3));
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(said.contains("BIZRQ_TOKEN"), "{said}");
    let mut with = ask(SERVED.tenants, &["tree", "-o", "json"]);
    let own = told(&with.env("BIZRQ_TOKEN", tenants::token("language")).output().unwrap());
    let own: Value = serde_json::from_str(&own).unwrap();
    assert_eq!(own["groups"], tenants::as_tenant("language", "/v1/quotas")["groups"]);
    let mut narrowed = ask(SERVED.tenants, &["tree", "-o", "json", "--as-group", "language"]);
    let narrowed = told(&narrowed.env("BIZRQ_TOKEN", tenants::token("*")).output().unwrap());
    assert_eq!(serde_json::from_str::<Value>(&narrowed).unwrap()["groups"], own["groups"]);
}

#[test]
fn a_token_goes_without_encryption_to_this_host_alone_unless_one_says_so() {
    // An address of no host in particular, by which this one is reached.
    let far = format!("http://0.0.0.0:{}", SERVED.tenants.port());
    let ask = |more: &[&str]| {
        let mut tree = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        tree.args(["tree", "--server", &far]).args(more);
        tree.env("BIZRQ_TOKEN", tenants::token("language")).output().unwrap()
    };
    let refused = ask(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(3) && said.contains("--plain-token"), "{said}");
    assert!(told(&ask(&["--plain-token"])).contains("language"));
}

#[test]
fn a_server_that_is_not_there_or_says_no_is_told_with_its_words() {
    for server in ["http://127.0.0.1:1", "http://nobody.invalid"] {
        let mut nowhere = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        let output = nowhere.args(["tree", "--server", server]).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let begin = format!("error: {server}/v1/quotas: nobody answers there (");
        assert!(said.starts_with(&begin) && said.contains("--server or BIZRQ_SERVER"), "{said}");
    }
    let mut no_url = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    let output = no_url.args(["tree", "--server", "bizrq"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = ask(SERVED.address, &["usage", "--group", "nobody"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nobody"), "{output:?}");
}

#[test]
fn under_its_other_name_it_is_a_plugin_of_kubectl() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("kubectl-bizrq");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bizrq"), &plugin).unwrap();
    let help = told(&Command::new(&plugin).args(["tree", "--help"]).output().unwrap());
    assert!(help.contains("Usage: kubectl bizrq tree"), "{help}");
    let mut tree = Command::new(&plugin);
    tree.args(["tree", "-o", "json", "--server", &format!("http://{}", SERVED.address)]);
    assert_eq!(told(&tree.output().unwrap()), out(&["tree", "-o", "json"]));
}
