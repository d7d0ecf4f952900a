//! More than one process at one folder, and disks that say no.

use super::{append, block_on, child, closed_log, head, open, prove};
use bizrq::event_log::{EventLog, OpenError, Reader, conformance::fact, file::FileLog};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

/// What a child said, in order: `ack`s and `said`s.
fn lines(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter(|l| l.starts_with("ack ") || l.starts_with("said "))
        .map(Into::into)
        .collect()
}

#[test]
fn a_second_writer_is_kept_out_until_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    append(&first, vec![fact(1)]);
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    let says = format!("lock is held by another writer (process {})", std::process::id());
    assert!(error.to_string().contains(&says), "{error}");
    drop(first);

    let mut other = child::command("hold", dir.path(), 0).spawn().unwrap();
    let mut said = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "said held"));
    let error = open(dir.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", other.id())), "{error}");
    let reading = FileLog::open_read(dir.path()).unwrap();
    assert_eq!(head(&reading).position, 1, "readers need no lock");
    assert!(block_on(reading.append(vec![fact(2)])).is_err(), "a reader does not write");
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(append(&open(dir.path()).unwrap(), vec![fact(2)]).first, 2);
}

#[test]
fn a_reader_in_another_process_follows_a_writer_over_segments() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let mut writer = child::command("append", dir.path(), 0).spawn().unwrap();
    let seen = block_on(async {
        let log = FileLog::open_read(dir.path()).unwrap();
        let (mut reader, mut seen) = (log.read(1).unwrap(), 0);
        while seen < 1000 {
            let records = reader.tail().await.unwrap();
            assert_eq!(records.first(), seen + 1);
            seen = records.next_position() - 1;
        }
        seen
    });
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(super::segments(dir.path()).len() > 5);
    assert!(prove(dir.path()).unwrap().0.lines >= seen);
}

#[test]
fn a_disk_that_is_full_ends_the_acknowledgements_and_loses_none() {
    let dir = tempfile::tempdir().unwrap();
    drop(FileLog::open(dir.path(), &super::SMALL).unwrap());
    let inner = child::command("append until refused", dir.path(), 0);
    // No file above 8 KiB or so, and the signal for it ignored: writes fail as on a full disk.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""]);
    limited.arg(inner.get_program()).args(inner.get_args());
    limited.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let lines = lines(&mut limited);
    let said: Vec<_> = lines.iter().filter_map(|l| l.strip_prefix("said ")).collect();
    let expected = ["Unclear", "Closed", "Closed", "Closed"];
    assert_eq!(said.len(), expected.len(), "{lines:?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(expected) && said.contains("File too large"), "{said}");
    }
    let acks: Vec<_> = lines.iter().filter_map(|l| l.strip_prefix("ack ")).collect();
    assert!(acks.len() > 5, "{lines:?}");
    let log = open(dir.path()).unwrap();
    assert!(log.torn().is_some(), "the record that did not fit is half there");
    assert_eq!(head(&log).position, acks.len() as u64);
    append(&log, vec![fact(99)]);
    drop(log);
    assert_eq!(prove(dir.path()).unwrap().1.len(), acks.len() + 1);
}

#[test]
fn a_segment_that_cannot_be_made_ends_the_acknowledgements() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    append(&log, (1..=10).map(fact).collect());
    // Somebody has taken the names of all segments to come.
    let taken = |n| dir.path().join(bizrq::event_log::file::segments::name(n));
    (20..200).for_each(|n| fs::write(taken(n), "").unwrap());
    let mut last = 10;
    let error = loop {
        match block_on(log.append(vec![fact(last + 1)])) {
            Ok(at) => last = at.last,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("read the log before deciding again"), "{error}");
    let closed = block_on(log.append(vec![fact(0)])).unwrap_err();
    assert!(closed.to_string().contains("takes no more appends (File exists"), "{closed}");
    assert!(log.close().is_err());
    (20..200).filter(|n| *n != last + 1).for_each(|n| fs::remove_file(taken(n)).unwrap());
    assert_eq!(prove(dir.path()).unwrap().1, (1..=last).collect::<Vec<_>>());
}

/// Names, sizes and times of the files in a folder.
fn state(dir: &Path) -> BTreeMap<String, (u64, i64, i64)> {
    let entry = |e: fs::DirEntry| {
        let meta = e.metadata().unwrap();
        let name = e.file_name().into_string().unwrap();
        (name, (meta.len(), meta.mtime(), meta.mtime_nsec()))
    };
    fs::read_dir(dir).unwrap().map(|e| entry(e.unwrap())).collect()
}

#[test]
fn a_folder_that_may_only_be_read_can_be_read_and_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    closed_log(dir.path(), 300);
    let before = state(dir.path());
    for file in fs::read_dir(dir.path()).unwrap() {
        let file = file.unwrap().path();
        fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let root = fs::metadata(dir.path()).unwrap().uid() == 0;
    let mut command = child::command("open and read", dir.path(), 0);
    child::as_nobody(&mut command, root);
    let said = lines(&mut command);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("lock: Permission denied"), "{said:?}");
    assert_eq!(said[1], "said first 1 of 300");
    assert_eq!(state(dir.path()), before);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
}
