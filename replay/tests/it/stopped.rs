//! Long work shows how far it is, and ends when it is told to. The log goes on in a pipe that nobody writes to, so
//! the work is never done.

use crate::{
    logs::{TestLog, history},
    terminal::stopped,
};
use std::{fs, io::Write, process::Command};

/// A copy of `log` whose second segment is a pipe.
fn endless(log: &TestLog) -> TestLog {
    let copy = log.copy();
    let segments = copy.segments();
    assert!(segments.len() > 1, "one segment is no beginning of a longer log");
    segments[1..].iter().for_each(|segment| fs::remove_file(segment).unwrap());
    assert!(Command::new("mkfifo").arg(&segments[1]).status().unwrap().success());
    copy
}

#[test]
fn long_work_shows_how_far_it_is_and_ends_when_it_is_told_to() {
    let log = TestLog::of(&history(1, 2000));
    let period = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-02-01T00:00:00Z"];
    let invoice = log.run(&[&["invoice", "-o", "json"], &period[..]].concat());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(invoice.stdout.as_bytes()).unwrap();
    let file = file.path().to_str().unwrap();
    let endless = endless(&log);
    let place = endless.path().to_str().unwrap();
    let root = "0".repeat(64);
    let explain = ["--group", "team-0", "--key", "limits.cpu"];
    for (command, more, label, signal, code) in [
        ("verify", &[][..], "verifying", "INT", 130),
        ("verify", &["-o", "json"], "verifying", "TERM", 143),
        ("state", &["--at", "2026-01-02T00:00:00Z"], "replaying", "INT", 130),
        ("explain", &explain, "looking for pods", "INT", 130),
        ("diff", &["1", "1999"], "comparing", "TERM", 143),
        ("invoice", &period, "billing", "INT", 130),
        ("consistency", &[&root], "comparing roots", "INT", 130),
        ("prove", &["--invoice", file, "--line", "1"], "billing", "TERM", 143),
    ] {
        let args = [&[command, "--log", place], more].concat();
        let program = env!("CARGO_BIN_EXE_bizrq-replay");
        let (ended, shown) = stopped(program, &args, label, signal);
        assert_eq!(ended, Some(code), "{command}: {shown:?}");
        let says = format!("by SIG{signal} while {label}: ");
        assert!(shown.contains("stopped") && shown.contains(&says), "{command}: {shown:?}");
        assert!(!shown.contains('{'), "{command} printed half a result: {shown:?}");
    }
}
