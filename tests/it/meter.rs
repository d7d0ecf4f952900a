//! `bizrq meter` as a user runs it: the binary, on recordings, event lines and logs.

use crate::{
    labels::{CHOSEN, relabelled},
    shared,
};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const BIZRQ: &str = env!("CARGO_BIN_EXE_bizrq");

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn run(args: &[&str]) -> Output {
    Command::new(BIZRQ).args(args).stdin(Stdio::null()).output().unwrap()
}

fn json(output: &Output) -> Value {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exact usage by group and key.
fn usage(report: &Value) -> BTreeMap<(String, String), i128> {
    let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    let lines = report["usage"].as_array().unwrap().iter();
    let mut sums = BTreeMap::new();
    for line in lines {
        let exact: i128 = text(line, "exact").parse().unwrap();
        *sums.entry((text(line, "group"), text(line, "key"))).or_insert(0) += exact;
    }
    sums
}

struct Recorded {
    files: Vec<String>,
    end: String,
    expected: BTreeMap<(String, String), i128>,
}

fn recorded(version: &str) -> Recorded {
    let dir = fixtures().join("watch").join(version);
    let entries = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path());
    let mut files: Vec<_> = entries.filter(|p| p.extension().is_some_and(|e| e == "gz")).collect();
    files.sort();
    assert_eq!(files.len(), 5, "{}", dir.display());
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    Recorded {
        files: files.iter().map(|p| p.display().to_string()).collect(),
        end: read("end.txt").trim().to_owned(),
        expected: usage(&serde_json::from_str(&read("expected.json")).unwrap()),
    }
}

#[test]
fn recordings_of_both_servers_are_exact_whatever_the_order_of_the_files() {
    for version in ["v1.36", "v1.20"] {
        let Recorded { mut files, end, expected } = recorded(version);
        for _ in 0..2 {
            let mut args = vec!["meter", "--at", &end, "-o", "json"];
            args.extend(files.iter().map(String::as_str));
            let report = json(&run(&args));
            assert_eq!(usage(&report), expected, "{version}");
            assert_eq!((&report["position"], &report["root"]), (&Value::Null, &Value::Null));
            assert_eq!(report["quarantined"], 0);
            files.reverse();
        }
    }
}

#[test]
fn a_recording_is_metered_by_the_labels_that_were_chosen_and_by_no_other() {
    let Recorded { files, end, expected } = recorded("v1.36");
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = files
        .iter()
        .map(|file| {
            let mut text = String::new();
            GzDecoder::new(File::open(file).unwrap()).read_to_string(&mut text).unwrap();
            let path = folder.path().join(Path::new(file).file_stem().unwrap());
            std::fs::write(&path, relabelled(&text)).unwrap();
            path.display().to_string()
        })
        .collect();
    let metered = |labels: &[&str]| {
        let mut args = vec!["meter", "--at", &end, "-o", "json"];
        args.extend(labels);
        args.extend(files.iter().map(String::as_str));
        usage(&json(&run(&args)))
    };
    assert_eq!(metered(&["--label", CHOSEN]), expected);
    assert!(metered(&[]).keys().all(|(group, _)| group.is_empty()), "nobody is named");
    let twice = run(&["meter", "--label", "group=a,group=b", "x.json"]);
    assert_eq!(twice.status.code(), Some(2));
    let said = String::from_utf8_lossy(&twice.stderr);
    assert!(said.contains("label `group=b`: group is given twice"), "{said}");
}

#[test]
fn finer_lines_add_up_to_the_groups() {
    let Recorded { files, end, expected } = recorded("v1.36");
    for by in ["group,key,workload", "pod,namespace,group", "cluster,group,workload,pod"] {
        let mut args = vec!["meter", "--at", &end, "-o", "json", "--by", by];
        args.extend(files.iter().map(String::as_str));
        let report = json(&run(&args));
        assert_eq!(usage(&report), expected, "{by}");
        assert!(report["usage"].as_array().unwrap().len() >= expected.len());
    }
}

#[test]
fn a_window_cuts_and_two_that_meet_add_up() {
    let Recorded { files, end, expected } = recorded("v1.36");
    let middle = "2026-11-29T17:13:20.500Z";
    let metered = |bounds: &[&str]| {
        let mut args = vec!["meter", "-o", "json"];
        args.extend(bounds);
        args.extend(files.iter().map(String::as_str));
        usage(&json(&run(&args)))
    };
    let mut sum = metered(&["--to", middle]);
    for (line, exact) in metered(&["--from", middle, "--to", &end]) {
        *sum.entry(line).or_insert(0) += exact;
    }
    assert_eq!(sum, expected);
}

#[test]
fn a_budget_runs_out_at_the_millisecond_at_which_usage_reaches_it() {
    let Recorded { files, .. } = recorded("v1.36");
    let dir = tempfile::tempdir().unwrap();
    let quotas = dir.path().join("quotas.yaml");
    // 10 milli-core-hours: 36 core-seconds.
    std::fs::write(
        &quotas,
        "apiVersion: bizrq.io/v1\nkind: BizGroupResourceQuota\nmetadata: {name: team-b}\n\
         spec: {hard: {cash/limits.cpu: 10m, limits.cpu: 8}}\n",
    )
    .unwrap();
    let quotas = quotas.display().to_string();
    let metered = |more: &[&str]| {
        let mut args = vec!["meter", "-o", "json"];
        args.extend(more);
        args.extend(files.iter().map(String::as_str));
        json(&run(&args))
    };
    let report = metered(&["--quotas", &quotas]);
    let budget = &report["budgets"][0];
    assert_eq!((&budget["group"], &budget["key"]), (&"team-b".into(), &"limits.cpu".into()));
    let at = bizrq::domain::time::Timestamp::parse(budget["exhausted"].as_str().unwrap()).unwrap();
    let shown =
        run(&[vec!["meter", "--quotas", &quotas], files.iter().map(String::as_str).collect()]
            .concat());
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("cash  carried") && shown.contains("used"), "{shown}");
    let used = |at: bizrq::domain::time::Timestamp| {
        let report = metered(&["--at", &at.to_string()]);
        usage(&report)[&("team-b".to_owned(), "limits.cpu".to_owned())]
    };
    let limit = 10 * 3_600_000;
    assert!(used(at) >= limit, "{at}");
    assert!(used(at.shifted(-1)) < limit, "{at}");
}

#[test]
fn event_lines_meter_as_their_log_does_however_they_arrive() {
    let test = "meter::event_lines_meter_as_their_log_does_however_they_arrive";
    let Some(data) = shared::find(test, "data/openb_pod_list_default.csv") else { return };
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log").display().to_string();
    let map = fixtures().join("openb.toml").display().to_string();
    let data = data.display().to_string();
    let import = ["import", "csv", "--map", &map, "--cluster", "openb", "--log", &log, &data];
    assert!(run(&import).status.success());
    let from_log = json(&run(&["meter", "--log", &log, "-o", "json"]));
    assert!(from_log["position"].as_u64().unwrap() > 10_000);
    assert_eq!(from_log["root"].as_str().unwrap().len(), 64);
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(&log).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "jsonl") {
            lines.extend(std::fs::read(path).unwrap());
        }
    }
    for bytes in [lines.clone(), zstd::encode_all(lines.as_slice(), 1).unwrap()] {
        let mut child = Command::new(BIZRQ)
            .args(["meter", "-", "-o", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let report = json(&child.wait_with_output().unwrap());
        assert_eq!(usage(&report), usage(&from_log));
        assert_eq!(report["position"], Value::Null);
    }
}

#[test]
fn what_cannot_be_done_is_said_with_the_contracts_exit_code() {
    let recording = recorded("v1.36").files[0].clone();
    let late = ["--at", "2026-12-02T00:00:00Z", "--to", "2026-12-01T00:00:00Z"];
    for (args, code, words) in [
        (vec!["meter"], 2, "FILE"),
        (vec!["meter"], 2, "--log <LOG>"),
        (
            vec!["meter", "--from", "2030-01-01T00:00:00Z", &recording],
            2,
            "lies after 2026-11-29T17:1",
        ),
        (vec!["meter", &recording, "--log", "x"], 2, "--log"),
        ([vec!["meter", &*recording], late.to_vec()].concat(), 2, "--at must not lie after --to"),
        (vec!["meter", "--at", "yesterday", &recording], 2, "RFC 3339"),
        (vec!["meter", "/nowhere/pods.json"], 3, "/nowhere/pods.json"),
        (vec!["meter", "--log", "/nowhere"], 4, "/nowhere"),
    ] {
        let output = run(&args);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {complaint}");
        assert!(complaint.contains(words), "{args:?}: {complaint}");
    }
}

#[test]
fn lines_that_are_no_events_are_counted_and_the_first_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("events.jsonl");
    let event = r#"{"specversion":"1.0","id":"0","type":"com.example","source":"/","subject":"","time":"2026-11-29T16:00:00.000Z","recordedat":"2026-11-29T16:00:00.000Z","data":{}}"#;
    // More than could be kept with its reason in 256 MiB if each took 100 bytes, and empty lines, which are no fault.
    let mut text = format!("{event}\n\n \n");
    text.push_str(&"?\n".repeat(3_000_000));
    text.push_str(&"\n".repeat(1000));
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let limited = format!(
        "ulimit -v 400000; exec '{BIZRQ}' meter --at 2026-11-30T00:00:00Z -o json '{file}'"
    );
    let output = Command::new("sh").args(["-c", &limited]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(json(&output)["quarantined"], 3_000_000);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(complaint.lines().count(), 10, "{complaint}");
    assert!(complaint.contains(&format!("{file}:4: no event: ")), "{complaint}");
}

#[test]
fn objects_that_a_recording_cannot_give_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pods.json");
    let pod = |uid: &str, cpu: &str| {
        format!(
            r#"{{"type":"ADDED","object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"uid":"{uid}","name":"p","namespace":"ns","resourceVersion":"7","creationTimestamp":"2026-11-29T16:00:00Z"}},"spec":{{"nodeName":"n","containers":[{{"name":"c","resources":{{"limits":{{"cpu":"{cpu}"}}}}}}]}}}}}}"#
        )
    };
    let pods = [pod("", "1"), pod("u1", "-5"), pod("u2", "2")];
    std::fs::write(&file, pods.join("\n")).unwrap();
    let at = ["meter", "--at", "2026-11-29T17:00:00Z", "-o", "json"];
    let output = run(&[&at[..], &[file.to_str().unwrap()]].concat());
    let report = json(&output);
    assert_eq!(report["quarantined"], 2, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(usage(&report)[&(String::new(), "limits.cpu".to_owned())], 2000 * 3_600_000);
}
