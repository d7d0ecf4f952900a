//! `bizrq adjust` and `bizrq close` as people use them: a correction is one more record, a closed period stays closed.

use crate::log_cli::{Said, bizrq};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// A log of one import: 4 cards A30 for 24 hours on the 3rd of November 2026 and others.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(TempDir::new().unwrap());
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/readme");
        let [map, rows] = ["runs.toml", "runs.csv"].map(|name| fixtures.join(name));
        let [map, rows] = [&map, &rows].map(|path| path.to_str().unwrap());
        let import =
            ["import", "csv", "--map", map, "--cluster", "lab", "--log", &desk.log(), rows];
        assert_eq!(bizrq(&import).code, 0);
        desk
    }

    fn log(&self) -> String {
        self.0.path().join("log").to_str().unwrap().to_owned()
    }

    fn adjust(&self, more: &[&str]) -> Said {
        let log = self.log();
        let period = ["--from", "2026-11-03T00:00:00Z", "--to", "2026-11-04T00:00:00Z"];
        let base = ["adjust", "--log", &log, "--as", "ann", "--group", "vision"];
        bizrq(&[&base[..], &period, more].concat())
    }

    fn close(&self, period: &str) -> Said {
        bizrq(&["close", "--log", &self.log(), "--as", "ann", period])
    }

    /// Hours of vision under a key.
    fn hours(&self, key: &str) -> String {
        let log = self.log();
        let report =
            bizrq(&["meter", "--log", &log, "--at", "2026-11-05T00:00:00Z", "-o", "json"]).report();
        let usage = report["usage"].as_array().unwrap();
        let line = usage.iter().find(|line| line["group"] == "vision" && line["key"] == key);
        line.map_or_else(String::new, |line| line["hours"].as_str().unwrap().to_owned())
    }

    fn position(&self) -> Value {
        crate::log_cli::info(&self.log())["position"].clone()
    }
}

#[test]
fn a_correction_counts_under_its_model_and_its_key_and_only_once() {
    let desk = Desk::new();
    let key = "limits.nvidia.com/gpu.A30";
    let (model, generic) = (desk.hours(key), desk.hours("limits.nvidia.com/gpu"));
    assert_eq!(model, "84.000000000", "as the README says");
    let correction = ["--key", key, "--hours=-12.5", "--why", "node n7 was faulty"];
    let said = desk.adjust(&correction);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("vision limits.nvidia.com/gpu.A30: -12.500000000 card-hours"));
    assert_eq!(desk.hours(key), "71.500000000");
    let less = |hours: &str| hours.split('.').next().unwrap().parse::<i64>().unwrap();
    assert_eq!(less(&desk.hours("limits.nvidia.com/gpu")), less(&generic) - 13);
    let position = desk.position();
    let again = desk.adjust(&correction);
    assert!(again.stdout.contains("nothing was appended"), "{}", again.stdout);
    assert_eq!((desk.position(), desk.hours(key)), (position, "71.500000000".to_owned()));
}

#[test]
fn corrections_that_say_nothing_or_nobody_are_refused() {
    let desk = Desk::new();
    let before = desk.position();
    for (more, says) in [
        (["--key", "limits.cpu", "--hours=0", "--why", "x"], "corrects nothing"),
        (["--key", "limits.cpu", "--hours=1", "--why", " "], "must say why"),
        (["--key", "limits.cpu", "--hours=0.000000001", "--why", "x"], "give --exact"),
        (["--key", "pods", "--hours=1", "--why", "x"], "has no hours"),
        (["--key", "cpus", "--hours=1", "--why", "x"], "is no key"),
        (["--key", "cpu", "--exact=1x", "--why", "x"], "invalid"),
        // As a record it would be quarantined, for ever.
        (["--key", "cpu", "--exact=5192296858534827628530496329220097", "--why", "x"], "2^112"),
    ] {
        desk.adjust(&more).refused(2, says);
    }
    assert_eq!(desk.position(), before, "nothing was appended");
    let (log, from, to) = (desk.log(), "2026-11-03T00:00:00Z", "2026-11-04T00:00:00Z");
    let of = |group: &str, log: &str| {
        let base = ["adjust", "--log", log, "--group", group, "--key", "cpu", "--exact", "1"];
        bizrq(&[&base[..], &["--from", from, "--to", to, "--why", "x"]].concat())
    };
    of("vsion", &log).refused(2, "no record names it");
    of("vision", &desk.0.path().join("none").display().to_string()).refused(4, "no such folder");
    assert!(!desk.0.path().join("none").exists(), "no log is made for a correction");
}

#[test]
fn periods_are_closed_one_after_another_once_they_are_over() {
    let desk = Desk::new();
    let before = crate::log_cli::info(&desk.log());
    let said = desk.close("2025-10");
    assert_eq!(said.code, 0, "{}", said.stderr);
    let root = before["root"].as_str().unwrap();
    assert!(said.stdout.contains(root), "as known before it: {}", said.stdout);
    let again = desk.close("2025-10");
    assert!(again.code == 0 && again.stdout.contains("nothing was appended"), "{}", again.stdout);
    desk.close("2025-12").refused(2, "the last closed period ends at 2025-11-01");
    desk.close("2025-10-31").refused(2, "the last closed period ends at 2025-11-01");
    assert_eq!(desk.close("2025-11").code, 0);
    desk.close("2150-01").refused(2, "not over yet");
    desk.close("yesterday").refused(2, "is no period");
    let verified = bizrq(&["log", "info", "--log", &desk.log(), "-o", "json"]).report();
    assert_eq!(verified["types"]["io.bizrq.period.closed.v1"], 2);
}
