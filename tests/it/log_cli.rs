//! `bizrq log` as people use it: what is copied is what was there, what was changed is refused, what was begun is
//! finished.

mod archives;
mod copies;
mod rollover;
mod stopped;
mod tail;

use crate::nats::server::scratch;
use bizrq::{
    domain::{
        event::{Data, Event, EventId, LogVersionRaised},
        time::ORIGIN,
    },
    event_log::{
        EventLog, NewEvent,
        conformance::{decision, fact},
        file::{FileLog, Options, segments},
    },
};
use serde_json::Value;
use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};
use tempfile::TempDir;

/// A folder for the logs of one test.
pub(crate) struct Desk(TempDir);

/// What a command said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Desk {
    fn new() -> Self {
        Self(scratch())
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn path(&self, name: &str) -> String {
        self.dir(name).to_str().unwrap().to_owned()
    }

    /// A closed log of `count` events in several segments; every tenth is a decision, and two have the same id.
    fn log(&self, name: &str, count: u64) -> String {
        let log = FileLog::open(&self.dir(name), &Options { segment_bytes: 100_000 }).unwrap();
        for numbers in (1..=count).collect::<Vec<_>>().chunks(500) {
            let event = |n: &u64| {
                if n.is_multiple_of(10) { decision(*n) } else { fact((*n).min(count - 1)) }
            };
            block_on(log.append(numbers.iter().map(event).collect())).unwrap();
        }
        log.close().unwrap();
        self.path(name)
    }

    fn copy(&self, from: &str, to: &str) -> String {
        fs::create_dir(self.dir(to)).unwrap();
        for file in fs::read_dir(self.dir(from)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), self.dir(to).join(file.file_name())).unwrap();
        }
        self.path(to)
    }

    /// Changes the lines of the segment that holds the record at `position`, which is handed over as the place in it.
    fn edit(&self, name: &str, position: u64, edit: impl FnOnce(&mut Vec<String>, usize)) {
        let dir = self.dir(name);
        let first = segments::list(&dir).unwrap().into_iter().rfind(|f| *f <= position).unwrap();
        let path = dir.join(segments::name(first));
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<_> = text.split_inclusive('\n').map(str::to_owned).collect();
        edit(&mut lines, usize::try_from(position - first).unwrap());
        fs::write(path, lines.concat()).unwrap();
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Runs `bizrq` with these arguments.
pub(crate) fn bizrq(args: &[&str]) -> Said {
    said(&Command::new(env!("CARGO_BIN_EXE_bizrq")).args(args).output().unwrap())
}

/// What it said.
pub(crate) fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    Said { code: output.status.code().unwrap(), stdout, stderr }
}

impl Said {
    /// The report of a command that did its work.
    pub(crate) fn report(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }

    /// It was refused with this code and these words.
    pub(crate) fn refused(&self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.contains(words), "{:?} lacks {words:?}", self.stderr);
    }
}

pub(crate) fn info(log: &str) -> Value {
    bizrq(&["log", "info", "--log", log, "-o", "json"]).report()
}

#[test]
fn info_says_where_the_log_ends_and_what_it_holds() {
    let desk = Desk::new();
    let log = desk.log("log", 2500);
    let report = info(&log);
    let numbers = ["base", "position", "lastDecision", "records", "version"].map(|f| &report[f]);
    assert_eq!(numbers.map(|n| n.as_u64().unwrap()), [0, 2500, 2500, 2500, 1]);
    let of_types: u64 =
        report["types"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(of_types, 2500);
    let text = bizrq(&["log", "info", "--log", &log]).stdout;
    assert!(text.contains(report["root"].as_str().unwrap()), "{text}");
    let quick = bizrq(&["log", "info", "--quick", "--log", &log, "-o", "json"]).report();
    assert_eq!((&quick["position"], &quick["lastDecision"]), (&2500.into(), &2500.into()));
    assert!(quick.get("root").is_none() && quick.get("types").is_none());

    bizrq(&["log", "info", "--log", &desk.path("none")]).refused(4, "no such folder");
    desk.edit("log", 777, |lines, at| lines[at] = lines[at].replace("east", "west"));
    bizrq(&["log", "info", "--log", &log]).refused(4, "the leaf is");
}

#[test]
fn a_snapshot_is_begun_with_by_the_next_one() {
    let desk = Desk::new();
    let (log, to) = (desk.log("log", 2500), desk.path("snapshots"));
    let snapshot = |log: &str| {
        let said = bizrq(&["log", "snapshot", "--log", log, "--to", &to]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        said.stdout
    };
    let first = snapshot(&log);
    assert!(first.contains("the first record"), "{first}");
    assert!(first.contains(info(&log)["root"].as_str().unwrap()), "{first}");
    let writer = FileLog::open(&desk.dir("log"), &Options::default()).unwrap();
    block_on(writer.append(vec![fact(2501)])).unwrap();
    writer.close().unwrap();
    let second = snapshot(&log);
    assert!(second.contains("the snapshot of 2500"), "{second}");
    assert!(second.contains(info(&log)["root"].as_str().unwrap()), "{second}");
}

/// A record that raises a log to `version`.
fn raised(version: u32) -> NewEvent {
    let data = Data::LogVersionRaised(LogVersionRaised { version });
    let (source, subject) = ("/operators/ann".into(), "log".into());
    let (id, time, recorded_at) = (EventId(1 << 100), ORIGIN, ORIGIN);
    NewEvent::new(&Event { id, source, subject, time, recorded_at, data }).unwrap()
}

#[test]
fn a_version_that_this_build_does_not_know_is_not_permitted_and_stops_who_reads_it() {
    let desk = Desk::new();
    let log = desk.log("log", 100);
    let upgrade =
        |more: &[&str]| bizrq(&[&["log", "upgrade", "--log", &log, "-o", "json"], more].concat());
    upgrade(&["--to", "2"]).refused(2, "this build reads and writes up to version 1");
    let report = upgrade(&[]).report();
    assert_eq!((&report["version"], &report["position"]), (&1.into(), &100.into()));
    bizrq(&["log", "upgrade", "--log", &desk.path("none")]).refused(4, "no such folder");
    assert!(!desk.dir("none").exists());

    // A newer release raised it.
    let writer = FileLog::open(&desk.dir("log"), &Options::default()).unwrap();
    block_on(writer.append(vec![raised(2), fact(102)])).unwrap();
    writer.close().unwrap();
    assert_eq!(info(&log)["version"], 2);
    upgrade(&[]).refused(4, "version 2 is in force");
    let told = "position 101 raises the log to version 2; this build reads up to version 1";
    bizrq(&["meter", "--log", &log]).refused(4, told);
    bizrq(&["quota", "tree", "--log", &log]).refused(4, told);
    // What was known before can still be asked.
    assert_eq!(bizrq(&["meter", "--log", &log, "--position", "100"]).code, 0);
    // A copy is a copy, whatever it says.
    assert_eq!(bizrq(&["log", "export", "--log", &log, &desk.path("archive")]).code, 0);
}
