//! Bulk reading against reading one by one: the same records, and the same faults at the same places.

use super::{Batch, OpenError, Source, Summary, read};
use crate::domain::event::Position;
use crate::event_log::{
    EventLog, NewEvent,
    codec::{Decoded, decode, scan},
    conformance,
    file::{FileLog, Options},
};
use std::{
    io::{Cursor, Read},
    path::Path,
};

const LINES: &str = include_str!("../../../tests/fixtures/events/v1.jsonl");

/// Line number, and the event's id or the error.
type Seen = (u64, Result<String, String>);

fn read_text(text: &[u8]) -> (Result<Summary, OpenError>, Vec<Seen>) {
    let mut seen = Vec::new();
    let input = Box::new(Cursor::new(text.to_vec()));
    let summary = read(Source::Lines { name: Path::new("x.jsonl"), input }, |batch: &Batch| {
        seen.extend(batch.iter().map(|(line, scanned)| {
            let id = scanned.and_then(|scanned| {
                decode(&scanned).map(|d| match d {
                    Decoded::Event(event) => event.id.to_string(),
                    other => format!("{other:?}"),
                })
            });
            (line, id.map_err(|error| error.to_string()))
        }));
        Ok::<_, OpenError>(())
    });
    (summary, seen)
}

#[test]
fn loose_lines_are_numbered_and_decoded_in_any_spelling() {
    let expected: Vec<_> = (1..)
        .zip(LINES.lines())
        .map(|(n, line)| (n, Ok(scan(line.as_bytes()).unwrap().id.to_string())))
        .collect();
    let (summary, seen) = read_text(LINES.as_bytes());
    assert_eq!(seen, expected);
    let summary = summary.unwrap();
    assert_eq!((summary.lines, summary.bytes), (27, LINES.len() as u64));
    // Without the last line break, and with spaces, which send lines the general way.
    assert_eq!(read_text(LINES.trim_end().as_bytes()).1, expected);
    assert_eq!(
        read_text(LINES.replace("{\"specversion", " {\"specversion").as_bytes()).1,
        expected
    );
}

#[test]
fn what_the_reading_thread_outlined_is_what_decoding_says() {
    let input = Box::new(Cursor::new(LINES.as_bytes().to_vec()));
    let each = |batch: &Batch| {
        for ((_, decoded), (_, scanned)) in batch.events().zip(batch.iter()) {
            assert_eq!(decoded.unwrap(), decode(&scanned.unwrap()).unwrap());
        }
        Ok::<_, OpenError>(())
    };
    let summary = read(Source::Lines { name: Path::new("x.jsonl"), input }, each).unwrap();
    assert_eq!(summary.lines, 27);
}

#[test]
fn a_bad_line_among_good_ones_is_named_and_the_others_are_kept() {
    for (bad, says) in
        [(&b"\xff\xfe"[..], "not UTF-8"), (b"{}", "missing field"), (b"", "is empty")]
    {
        let lines: Vec<_> = LINES.lines().map(str::as_bytes).collect();
        let text = [lines[0], bad, lines[1]].join(&b'\n');
        let (summary, seen) = read_text(&text);
        assert_eq!(summary.unwrap().lines, 3);
        assert!(seen[0].1.is_ok() && seen[2].1.is_ok());
        let error = seen[1].1.clone().unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_line_without_end_is_refused_in_bounded_memory() {
    let endless = std::io::repeat(b'0').take(10 << 30);
    let source = Source::Lines { name: Path::new("zeros"), input: Box::new(endless) };
    let error = read(source, |_| Ok::<_, OpenError>(())).unwrap_err().to_string();
    assert!(
        error.contains("zeros, line 1: the line has") && error.contains("event file?"),
        "{error}"
    );
}

fn log(dir: &Path, events: u64) {
    let options = Options { segment_bytes: 100_000 };
    let log = FileLog::open(dir, &options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for batch in (1..=events).collect::<Vec<_>>().chunks(500) {
        let events: Vec<NewEvent> = batch.iter().map(|n| conformance::fact(*n)).collect();
        runtime.block_on(log.append(events)).unwrap();
    }
}

fn read_log(dir: &Path, limit: Position) -> Result<(Summary, Position), OpenError> {
    let mut last = 0;
    read(Source::Log { dir, limit }, |batch: &Batch| {
        for (position, scanned) in batch.iter() {
            assert_eq!(position, last + 1);
            let id = u64::from_str_radix(&scanned.unwrap().id, 16).unwrap();
            assert_eq!(id, position);
            last = position;
        }
        Ok::<_, OpenError>(())
    })
    .map(|summary| (summary, last))
}

#[test]
fn a_log_is_proved_while_it_is_read_and_can_be_read_to_a_position() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path(), 5000);
    let (summary, last) = read_log(dir.path(), Position::MAX).unwrap();
    assert_eq!((last, summary.lines), (5000, 5000));
    let roots = crate::event_log::file::roots::Roots::read(dir.path()).unwrap();
    assert_eq!(summary.tree.map(|tree| tree.root()), roots.get(5000));
    for limit in [1, 1024, 1025, 4999] {
        let (summary, last) = read_log(dir.path(), limit).unwrap();
        assert_eq!((last, summary.lines, summary.torn_bytes), (limit, limit, 0));
        assert_eq!(summary.tree.map(|tree| tree.position()), Some(limit));
    }
}

#[test]
fn a_consumer_that_fails_ends_the_reading() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path(), 3000);
    let source = Source::Log { dir: dir.path(), limit: Position::MAX };
    let stop = || OpenError::Unsupported { location: "enough".to_owned() };
    let error = read(source, |_| Err::<(), _>(stop())).unwrap_err();
    assert!(matches!(error, OpenError::Unsupported { .. }));
}
