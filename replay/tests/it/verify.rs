//! A log that was tampered with is told from one that was not, and the record or block is named.

use crate::logs::{Dice, Ran, TestLog, history, run};
use serde_json::Value;
use std::{fs, io::Write, path::Path, sync::OnceLock};

/// Records of the logs here: two blocks and a bit.
const RECORDS: u64 = 2500;

/// A copy of one honest log.
fn log() -> TestLog {
    static LOG: OnceLock<TestLog> = OnceLock::new();
    LOG.get_or_init(|| TestLog::of(&history(1, RECORDS))).copy()
}

fn verify(log: &TestLog, rest: &[&str]) -> Ran {
    log.run(&[&["verify", "-o", "json"], rest].concat())
}

/// `what from-to` of each finding.
fn findings(ran: &Ran) -> Vec<String> {
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let json = ran.json();
    assert_eq!(json["ok"], false);
    let line = |f: &Value| format!("{} {}-{}", f["what"].as_str().unwrap(), f["from"], f["to"]);
    json["findings"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn an_honest_log_is_what_was_written() {
    let log = log();
    let ran = verify(&log, &[]);
    let json = ran.json();
    assert_eq!((ran.code, &json["ok"]), (0, &Value::Bool(true)), "{}", ran.stdout);
    assert_eq!(json["position"], RECORDS);
    assert_eq!(json["roots"]["compared"], 3);
    let fold = &json["fold"];
    let counted = ["changed", "repeated", "ignored", "dropped"].map(|k| fold[k].as_u64().unwrap());
    let quarantined = fold["quarantined"].as_array().unwrap().len() as u64;
    assert!(quarantined > 0 && counted[0] > 0 && counted[1] > 0);
    assert!(!json["heartbeatGaps"].as_array().unwrap().is_empty());
    let table = log.run(&["verify"]);
    assert!(table.stdout.contains("the log is what was written"), "{}", table.stdout);
    assert!(table.stdout.contains("quarantine") && table.stdout.contains("gap"));
}

#[test]
fn one_altered_byte_of_data_attribute_or_leaf_names_the_record() {
    for (needle, verdict) in [
        (&b"\"data\":{\""[..], "the line was altered"),
        (b"\"source\":\"/", "the line was altered"),
        (b"\"id\":\"0", "the line was altered"),
        (b"\"time\":\"2026-01-0", "the line was altered"),
        (b"\"leaf\":\"", "only the leaf beside it was altered"),
    ] {
        for position in [1, 1024, 1025, 2000, 2500] {
            let log = log();
            log.edit(position, |lines, at| {
                let line = &mut lines[at];
                let found = line.windows(needle.len()).position(|w| w == needle).unwrap();
                let byte = &mut line[found + needle.len()];
                *byte = if *byte == b'1' { b'2' } else { b'1' };
            });
            let ran = verify(&log, &[]);
            assert_eq!(
                findings(&ran),
                [format!("altered {position}-{position}")],
                "{}",
                ran.stdout
            );
            let finding = &ran.json()["findings"][0];
            let block = (position - 1) / 1024 * 1024;
            assert_eq!(finding["block"]["from"], block + 1);
            let why = finding["why"].as_str().unwrap();
            assert!(why.contains(verdict), "{why}");
            let (file, line) =
                (finding["file"].as_str().unwrap(), finding["line"].as_u64().unwrap());
            let first: usize =
                Path::new(file).file_stem().unwrap().to_str().unwrap().parse().unwrap();
            assert_eq!(first + usize::try_from(line).unwrap() - 1, position);
        }
    }
}

#[test]
fn a_removed_record_is_missed() {
    for position in [1, 500, 1024, 2499] {
        let log = log();
        log.edit(position, |lines, at| drop(lines.remove(at)));
        let ran = verify(&log, &[]);
        assert_eq!(findings(&ran), [format!("removed {position}-{position}")], "{}", ran.stdout);
    }
}

#[test]
fn an_inserted_record_is_recognised() {
    let log = log();
    let foreign =
        log.lines()[41].replacen("team", "meat", 1).replacen("\"id\":\"0", "\"id\":\"f", 1);
    log.edit(700, |lines, at| lines.insert(at, foreign.into_bytes()));
    assert_eq!(findings(&verify(&log, &[])), ["inserted 700-700"]);
    let log = self::log();
    log.edit(700, |lines, at| lines.insert(at, lines[at - 5].clone()));
    assert_eq!(findings(&verify(&log, &[])), ["inserted 695-695"], "a copy of record 695");
}

#[test]
fn reordered_records_are_named() {
    let log = log();
    log.edit(1500, |lines, at| lines.swap(at, at + 1));
    assert_eq!(findings(&verify(&log, &[])), ["moved 1500-1500"]);
}

#[test]
fn a_truncated_log_lost_what_was_acknowledged() {
    let log = log();
    let last = log.segments().pop().unwrap();
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(findings(&verify(&log, &[])), ["truncated 2500-2500"], "the last line break");
    let lines = bytes.split_inclusive(|b| *b == b'\n').count();
    let kept: Vec<u8> =
        bytes.split_inclusive(|b| *b == b'\n').take(lines - 7).flatten().copied().collect();
    fs::write(&last, kept).unwrap();
    assert_eq!(findings(&verify(&log, &[])), ["truncated 2494-2500"]);
}

#[test]
fn a_missing_segment_is_named_by_its_records() {
    let log = log();
    let segments = log.segments();
    let first =
        |i: usize| segments[i].file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    fs::remove_file(&segments[2]).unwrap();
    let expected = format!("removed {}-{}", first(2), first(3) - 1);
    assert_eq!(findings(&verify(&log, &[])), [expected]);
    let log = self::log();
    fs::remove_file(&log.segments()[0]).unwrap();
    let expected = format!("removed 1-{}", first(1) - 1);
    assert_eq!(findings(&verify(&log, &[])), [expected]);
}

#[test]
fn a_half_line_at_the_end_is_told_and_no_fault() {
    let log = log();
    let last = log.segments().pop().unwrap();
    let mut file = fs::File::options().append(true).open(last).unwrap();
    file.write_all(b"{\"specversion\":").unwrap();
    let ran = verify(&log, &[]);
    assert_eq!((ran.code, &ran.json()["tornBytes"]), (0, &Value::from(15)), "{}", ran.stdout);
}

#[test]
fn an_altered_file_of_roots_is_told_from_altered_records() {
    let roots = |log: &TestLog| fs::read_to_string(log.path().join("roots")).unwrap();
    let write = |log: &TestLog, text: String| fs::write(log.path().join("roots"), text).unwrap();
    let log = log();
    let text = roots(&log);
    let lines: Vec<&str> = text.lines().collect();
    let altered = |line: &str| {
        let (rest, last) = line.split_at(line.len() - 1);
        format!("{rest}{}", if last == "0" { "1" } else { "0" })
    };
    write(&log, format!("{}\n{}\n{}\n", altered(lines[0]), lines[1], lines[2]));
    assert_eq!(findings(&verify(&log, &[])), ["roots 1024-1024"]);
    write(&log, format!("{}\n{}\n{}\n", lines[0], lines[1], altered(lines[2])));
    let ran = verify(&log, &[]);
    assert_eq!(findings(&ran), ["block 2049-2500"], "nothing behind it vouches for either");
    write(&log, format!("{}\n{}\n", lines[1], lines[2]));
    assert_eq!(findings(&verify(&log, &[])), ["roots 1-1024"]);
    write(&log, format!("nonsense\n{}\n{}\n", lines[1], lines[2]));
    assert_eq!(findings(&verify(&log, &[])), ["roots 0-0"]);
    write(&log, format!("{}\n{}\n{}\n2501 {}\n", lines[0], lines[1], lines[2], "0".repeat(64)));
    assert_eq!(findings(&verify(&log, &[])), ["truncated 2501-2501"]);
}

#[test]
fn records_written_anew_with_their_leaves_betray_their_block() {
    let events = history(1, RECORDS);
    let forged = TestLog::of(
        &events
            .iter()
            .cloned()
            .enumerate()
            .map(|(i, mut event)| {
                if i == 1499 {
                    event.time = event.time.shifted(1);
                }
                event
            })
            .collect::<Vec<_>>(),
    );
    let honest = log();
    fs::copy(honest.path().join("roots"), forged.path().join("roots")).unwrap();
    let ran = verify(&forged, &[]);
    assert_eq!(findings(&ran), ["block 1025-2048"], "{}", ran.stdout);
    // Whoever forges `roots` as well meets the root that somebody kept.
    let root = verify(&honest, &[]).json()["root"].as_str().unwrap().to_owned();
    let forged = TestLog::of(&{
        let mut events = events;
        events[1499].time = events[1499].time.shifted(1);
        events
    });
    assert_eq!(verify(&forged, &[]).code, 0);
    let ran = verify(&forged, &["--root", &root]);
    assert_eq!(findings(&ran), ["root 0-0"]);
    assert_eq!(ran.json()["given"]["root"], root.as_str());
}

#[test]
fn a_root_is_found_where_the_log_had_it() {
    let log = log();
    let now = verify(&log, &[]).json()["root"].as_str().unwrap().to_owned();
    let ran = verify(&log, &["--root", &now]);
    assert_eq!((ran.code, &ran.json()["given"]["position"]), (0, &Value::from(RECORDS)));
    let earlier = TestLog::of(&history(1, 777));
    let then = verify(&earlier, &[]).json()["root"].as_str().unwrap().to_owned();
    let ran = verify(&log, &["--root", &then]);
    assert_eq!((ran.code, &ran.json()["given"]["position"]), (0, &Value::from(777)));
    let ran = verify(&log, &["--root", &"ab".repeat(32)]);
    assert_eq!(findings(&ran), ["root 0-0"]);
    assert_eq!(verify(&log, &["--root", "abc"]).code, 2, "no hash");
}

#[test]
fn any_byte_that_is_altered_anywhere_is_noticed() {
    let honest = TestLog::of(&history(3, 40));
    let lines = honest.lines();
    let mut dice = Dice(11);
    for _ in 0..80 {
        let position = usize::try_from(dice.roll(40)).unwrap() + 1;
        let length = lines[position - 1].len() as u64;
        let at = usize::try_from(dice.roll(length)).unwrap();
        let byte = u8::try_from(dice.roll(256)).unwrap();
        if lines[position - 1].as_bytes()[at] == byte {
            continue;
        }
        let log = honest.copy();
        log.edit(position, |lines, line| lines[line][at] = byte);
        let ran = verify(&log, &[]);
        let told = findings(&ran);
        let first = ran.json()["findings"][0]["from"].as_u64().unwrap();
        assert_eq!(first, position as u64, "byte {at} of record {position} is {byte}: {told:?}");
    }
}

#[test]
fn every_event_that_there_is_can_be_verified_and_a_false_statement_is_told() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/events/v1.jsonl");
    // A log that was raised to a version of tomorrow ends a fold of today.
    let text = fs::read_to_string(path).unwrap().replace(r#"{"version":2}"#, r#"{"version":1}"#);
    let events = text.lines().map(|line| {
        let scanned = bizrq::event_log::codec::scan(line.as_bytes()).unwrap();
        bizrq::event_log::NewEvent::copied(&scanned).unwrap()
    });
    let log = TestLog::with(events.collect());
    let ran = verify(&log, &[]);
    let position = 1 + text.lines().position(|line| line.contains("period.closed")).unwrap();
    // The fixture closes a period by a root that no log of 27 records has.
    assert_eq!(findings(&ran), [format!("claim {position}-{position}")], "{}", ran.stdout);
    assert_eq!(ran.json()["fold"]["position"], text.lines().count());
}

#[test]
fn what_cannot_be_opened_is_no_verdict() {
    let empty = tempfile::TempDir::new().unwrap();
    for place in [empty.path().to_str().unwrap(), "/nonexistent/log", "nats://localhost:4222"] {
        let ran = run(&["verify", "--log", place]);
        assert_eq!(ran.code, 4, "{place}: {}", ran.stderr);
        assert!(ran.stderr.contains(place), "{}", ran.stderr);
    }
    assert_eq!(run(&["verify"]).code, 2);
}
