//! `bizrq log tail`: which records, in which form, and how it ends.

use super::{Desk, bizrq, block_on};
use bizrq::event_log::{
    EventLog,
    conformance::fact,
    file::{FileLog, Options},
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

fn tail(log: &str, more: &[&str]) -> super::Said {
    bizrq(&[&["log", "tail", "--log", log], more].concat())
}

/// The positions that `-o json` shows.
fn positions(log: &str, more: &[&str]) -> Vec<u64> {
    let said = tail(log, &[&["-o", "json"], more].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let position = |line: &str| {
        let shown: Value = serde_json::from_str(line).unwrap();
        assert_eq!(shown["event"]["specversion"], "1.0");
        shown["position"].as_u64().unwrap()
    };
    said.stdout.lines().map(position).collect()
}

#[test]
fn the_last_records_or_those_from_a_position_are_shown() {
    let desk = Desk::new();
    let log = desk.log("log", 100);
    assert_eq!(positions(&log, &[]), (81..=100).collect::<Vec<_>>());
    assert_eq!(positions(&log, &["--last", "3"]), [98, 99, 100]);
    assert_eq!(positions(&log, &["--from", "99"]), [99, 100]);
    assert!(positions(&log, &["--from", "101"]).is_empty());
    assert!(positions(&log, &["--last", "0"]).is_empty());
    let decisions = bizrq::domain::event::Kind::ALL.iter().filter(|kind| kind.is_decision());
    let decisions: Vec<_> = decisions.map(|kind| kind.name()).collect();
    let of_type = ["--last", "2", "--type", &decisions.join(",")];
    assert_eq!(positions(&log, &of_type), [90, 100]);
    tail(&log, &["--type", "pod.begun"]).refused(2, "no event type; the types are pod.created");
    let table = tail(&log, &["--last", "1"]).stdout;
    assert!(table.trim_start().starts_with("100  20"), "{table}");
    let lines = tail(&log, &["--from", "1", "-o", "lines"]).stdout;
    let segment = desk.dir("log").join(bizrq::event_log::file::segments::name(1));
    assert!(lines.starts_with(&std::fs::read_to_string(segment).unwrap()));
}

#[test]
fn a_group_is_followed_to_the_ends_of_its_pods() {
    let desk = Desk::new();
    let log = desk.path("demo");
    assert_eq!(bizrq(&["demo", "--log", &log]).code, 0);
    let group = ["--from", "1", "--group", "vision"];
    let starts = positions(&log, &[&group[..], &["--type", "pod.started"]].concat());
    let stops = positions(&log, &[&group[..], &["--type", "pod.stopped"]].concat());
    assert!(starts.len() > 10 && stops.len() > 10, "{} {}", starts.len(), stops.len());
    let text = tail(&log, &[&group[..], &["-o", "lines", "--type", "pod.started"]].concat()).stdout;
    assert!(text.lines().all(|line| line.contains(r#""group":"vision""#)));
    let quotas = positions(&log, &[&group[..], &["--type", "quota"]].concat());
    assert!(!quotas.is_empty());
    assert!(positions(&log, &["--from", "1", "--group", "nobody"]).is_empty());
}

#[test]
fn following_shows_what_comes_and_ends_with_the_pipe_or_ctrl_c_without_noise() {
    let desk = Desk::new();
    let log = desk.log("log", 100);
    let writer = FileLog::open(&desk.dir("log"), &Options::default()).unwrap();
    for interrupt in [true, false] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bizrq"))
            .args(["log", "tail", "--log", &log, "--follow", "--last", "1", "-o", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut shown = BufReader::new(child.stdout.take().unwrap()).lines();
        let last = block_on(writer.head()).unwrap().position;
        assert!(shown.next().unwrap().unwrap().contains(&format!("\"position\":{last},")));
        block_on(writer.append(vec![fact(last + 1)])).unwrap();
        assert!(shown.next().unwrap().unwrap().contains(&format!("\"position\":{},", last + 1)));
        if interrupt {
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        } else {
            drop(shown);
            // The first write after the reader has gone tells it.
            block_on(writer.append(vec![fact(last + 2)])).unwrap();
        }
        let ended = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), stderr.as_str()), (Some(0), ""));
    }
}
