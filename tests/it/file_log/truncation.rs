//! A file that ends anywhere: what a kill in the middle of a write leaves, and what a lost tail looks like.

use super::{append, closed_log, copy_as_killed, end, head, open, prove, scratch, segments};
use bizrq::event_log::{EventLog, OpenError, Reader, conformance::fact};
use std::{fs, io::Write, path::Path};

#[test]
fn a_log_survives_truncation_at_every_byte_of_its_last_three_records() {
    let dirs = scratch();
    let killed = dirs.path().join("killed");
    let log = open(&dirs.path().join("whole")).unwrap();
    append(&log, (1..=8).map(fact).collect());
    copy_as_killed(log.dir(), &killed);
    let path = segments(&killed).pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let ends: Vec<_> =
        (1..).zip(&whole).filter(|(_, b)| **b == b'\n').map(|(end, _)| end).collect();
    for cut in ends[4]..=whole.len() {
        let dir = dirs.path().join(cut.to_string());
        copy_as_killed(&killed, &dir);
        fs::write(dir.join(path.file_name().unwrap()), &whole[..cut]).unwrap();
        let records = ends.iter().filter(|end| **end <= cut).count() as u64;
        survives(&dir, records, cut - ends[records as usize - 1]);
        fs::remove_dir_all(&dir).unwrap();
    }
}

/// The log in `dir` has `records` whole records and half a line of `torn` bytes.
fn survives(dir: &Path, records: u64, torn: usize) {
    let (summary, numbers) = prove(dir).unwrap();
    assert_eq!(numbers, (1..=records).collect::<Vec<_>>(), "a reader ignores half a line");
    assert_eq!(summary.torn_bytes, torn);
    let log = open(dir).unwrap();
    assert_eq!(
        log.torn().map(|t| (t.position, t.bytes)),
        (torn > 0).then_some((records + 1, torn))
    );
    assert_eq!(head(&log).position, records);
    assert_eq!(append(&log, vec![fact(records + 1)]).first, records + 1);
    log.close().unwrap();
    let (summary, numbers) = prove(dir).unwrap();
    assert_eq!((numbers.len() as u64, summary.torn_bytes), (records + 1, 0));
}

#[test]
fn acknowledged_records_that_are_gone_are_missed_until_a_person_accepts_the_loss() {
    let dir = scratch();
    let before = closed_log(dir.path(), 1500);
    let last = segments(dir.path()).pop().unwrap();
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() - 1]).unwrap();
    for error in [open(dir.path()).unwrap_err(), prove(dir.path()).unwrap_err()] {
        assert!(matches!(error, OpenError::Truncated { recorded: 1500, found: 1499, .. }));
        assert!(error.to_string().contains("restore the last segment"), "{error}");
    }
    fs::remove_file(dir.path().join("roots")).unwrap();
    let log = open(dir.path()).unwrap();
    assert_eq!(head(&log).position, 1499);
    append(&log, vec![bizrq::event_log::conformance::decision(1500)]);
    assert_eq!(end(&log), before, "the same record again is the same log again");
}

#[test]
fn a_reader_waits_for_the_second_half_of_a_line() {
    let dirs = scratch();
    let killed = dirs.path().join("killed");
    let log = open(&dirs.path().join("whole")).unwrap();
    append(&log, vec![fact(1), fact(2)]);
    copy_as_killed(log.dir(), &killed);
    let path = segments(&killed).pop().unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 40]).unwrap();
    super::block_on(async {
        let reading = bizrq::event_log::file::FileLog::open_read(&killed).unwrap();
        let mut reader = reading.read(1).unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap().len(), 1);
        assert!(reader.next().await.unwrap().is_none());
        let mut file = fs::File::options().append(true).open(&path).unwrap();
        file.write_all(&whole[whole.len() - 40..]).unwrap();
        let second = reader.tail().await.unwrap();
        assert_eq!((second.first(), second.len()), (2, 1));
    });
}
