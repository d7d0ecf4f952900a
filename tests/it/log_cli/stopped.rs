//! An archive that is stopped while it is made is what it was, and goes on when it is asked for again.

use super::{Desk, archives::append, bizrq};
use crate::terminal::stopped;
use std::{fs, process::Command};

/// The next segment is a pipe that nobody reads: the work waits for ever, until it is told to end.
#[test]
fn an_archive_that_is_stopped_is_whole_and_goes_on() {
    let desk = Desk::new();
    let (log, dir) = (desk.log("log", 3000), desk.path("archive"));
    let archive = || bizrq(&["log", "archive", "--log", &log, &dir, "-o", "json"]);
    assert_eq!(archive().report()["copied"], 3000);
    append(&desk, "log", 4000..4100);
    let before = files(&desk);
    let pipe = desk.dir("archive").join("00000000000000003001.jsonl.zst.new");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());

    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let args = ["log", "archive", "--log", &log, &dir, "-o", "json"];
        let program = env!("CARGO_BIN_EXE_bizrq");
        let (ended, shown) = stopped(program, &args, "archiving", signal);
        assert_eq!(ended, Some(code), "{shown:?}");
        let says = format!("by SIG{signal} while archiving: ");
        assert!(shown.contains("stopped") && shown.contains(&says), "{shown:?}");
        assert!(!shown.contains('{'), "a report of what was not done: {shown:?}");
    }
    fs::remove_file(&pipe).unwrap();
    assert!(files(&desk) == before, "what was there is what it was");
    assert_eq!(archive().report()["copied"], 100);
    let info = |log: &str| bizrq(&["log", "info", "-o", "json", "--log", log]).report();
    assert_eq!(info(&dir)["root"], info(&log)["root"]);
}

/// Names and contents.
fn files(desk: &Desk) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(desk.dir("archive")).unwrap().map(Result::unwrap);
    let entries = entries.filter(|entry| entry.file_name() != "lock");
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    let mut files: Vec<_> = entries.map(read).collect();
    files.sort();
    files
}
