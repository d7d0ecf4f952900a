//! A second process: this test binary again, told by the environment what to do.
//!
//! It says what happened in lines `ack FIRST N…` (acknowledged at FIRST: the events N…) and `said …`.

use super::{block_on, open};
use bizrq::event_log::{
    EventLog, Reader,
    conformance::{decision, fact},
    file::FileLog,
};
use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

const TASK: &str = "BIZRQ_TEST_TASK";
const DIR: &str = "BIZRQ_TEST_DIR";
const BASE: &str = "BIZRQ_TEST_BASE";

/// The command of a child that does `task` on the log in `dir`, numbering its events from `base`.
pub(super) fn command(task: &str, dir: &Path, base: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "file_log::child::the_child", "--ignored", "--nocapture", "-q"]);
    command.env(TASK, task).env(DIR, dir).env(BASE, base.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null());
    command
}

/// As somebody who owns nothing: root may write everywhere, so it becomes somebody else.
pub(super) fn as_nobody(command: &mut Command, root: bool) {
    if root {
        command.uid(65_534).gid(65_534);
    }
}

#[test]
#[ignore = "the child process of the other tests, started by them"]
fn the_child() {
    let dir = std::env::var(DIR).unwrap();
    let base = std::env::var(BASE).unwrap().parse().unwrap();
    match std::env::var(TASK).unwrap().as_str() {
        "append" => append_for_ever(Path::new(&dir), base),
        "append until refused" => append_until_refused(Path::new(&dir), base),
        "open and read" => open_and_read(Path::new(&dir)),
        "hold" => hold(Path::new(&dir)),
        task => panic!("no such task: {task}"),
    }
}

fn say(line: &str) {
    // One write of less than a pipe's atomic size: never half a line.
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Four tasks append batches of one to three, facts and decisions, as fast as they are acknowledged.
fn append_for_ever(dir: &Path, base: u64) {
    let log = Arc::new(open(dir).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..4)
            .map(|task| {
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    for n in (0..).map(|n| base + task * 100_000 + n * 3) {
                        let numbers: Vec<_> = (n..=n + n % 3).collect();
                        let event =
                            |n: &u64| if n.is_multiple_of(7) { decision(*n) } else { fact(*n) };
                        let at = log.append(numbers.iter().map(event).collect()).await.unwrap();
                        let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
                        say(&format!("ack {} {}", at.first, numbers.join(" ")));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// One task appends until an append fails, and says how that one and the next fail.
fn append_until_refused(dir: &Path, base: u64) {
    let log = open(dir).unwrap();
    let mut n = base;
    let error = loop {
        n += 1;
        match block_on(log.append(vec![fact(n)])) {
            Ok(at) => say(&format!("ack {} {n}", at.first)),
            Err(error) => break error,
        }
    };
    say(&format!("said {error:?}"));
    say(&format!("said {:?}", block_on(log.append(vec![fact(n + 1)])).unwrap_err()));
    say(&format!("said {:?}", block_on(log.decide(0, decision(n + 2))).unwrap_err()));
    say(&format!("said {:?}", log.close().unwrap_err()));
}

fn open_and_read(dir: &Path) {
    say(&format!("said {}", open(dir).unwrap_err()));
    let log = FileLog::open_read(dir).unwrap();
    let records = block_on(async { log.read(1).unwrap().next().await }).unwrap().unwrap();
    say(&format!("said first {} of {}", records.first(), block_on(log.head()).unwrap().position));
}

fn hold(dir: &Path) {
    let _log = open(dir).unwrap();
    say("said held");
    std::thread::sleep(std::time::Duration::from_secs(60));
}
