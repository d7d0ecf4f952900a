//! Archives whose files were damaged, and places that are no one history: `verify` names the records that it is about.

use crate::{
    archives::{archived, packed},
    logs::{Dice, Ran, TestLog, history, opening, run},
};
use bizrq::{
    domain::event::{Event, Position},
    event_log::{
        AnyLog,
        archive::MANIFEST_FILE,
        file::{
            roots::ROOTS_FILE,
            segments::{Bytes, packed_name},
        },
    },
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use tempfile::TempDir;

/// Records of the archives here: two blocks and a bit, in three segments.
const RECORDS: usize = 2500;
/// First and last record of each segment.
const SEGMENTS: [(Position, Position); 3] = [(1, 900), (901, 1800), (1801, 2500)];

fn events() -> &'static [Event<'static>] {
    static EVENTS: OnceLock<Vec<Event<'static>>> = OnceLock::new();
    EVENTS.get_or_init(|| history(1, RECORDS as u64))
}

/// A copy of one honest archive.
fn archive() -> TempDir {
    static ARCHIVE: OnceLock<TempDir> = OnceLock::new();
    let honest = ARCHIVE.get_or_init(|| packed(events(), &[900, 1800]));
    let dir = TempDir::new().unwrap();
    for file in fs::read_dir(honest.path()).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    dir
}

fn segment(dir: &TempDir, first: Position) -> PathBuf {
    dir.path().join(packed_name(first))
}

fn verify(place: &str) -> Ran {
    run(&["verify", "-o", "json", "--log", place])
}

fn of(dir: &TempDir) -> Ran {
    verify(dir.path().to_str().unwrap())
}

/// What each finding is, and its records.
fn findings(ran: &Ran) -> Vec<(String, Position, Position)> {
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let json = ran.json();
    let found = json["findings"].as_array().unwrap().iter();
    let number = |f: &Value, name: &str| f[name].as_u64().unwrap();
    found
        .map(|f| (f["what"].as_str().unwrap().to_owned(), number(f, "from"), number(f, "to")))
        .collect()
}

/// One finding: what it is and its records.
fn finding(ran: &Ran) -> String {
    let found = findings(ran);
    let [(what, from, to)] = found.as_slice() else { panic!("one finding: {found:?}") };
    format!("{what} {from}-{to}")
}

/// The lines of a segment, if it can be unpacked.
fn unpacked(dir: &Path, first: Position) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    Bytes::open(dir, first).unwrap().read_to_end(&mut bytes).ok().map(|_| bytes)
}

/// Fails unless the damage is named by records of the segment, and by its file.
fn names_segment(ran: &Ran, (first, last): (Position, Position), what: &str) {
    let found = findings(ran);
    let within = |(_, from, to): &(String, Position, Position)| first <= *from && *to <= last;
    assert!(!found.is_empty() && found.iter().all(within), "{what}: {found:?}");
}

#[test]
fn an_honest_archive_is_what_was_written_with_its_manifest_and_without() {
    let dir = archive();
    assert_eq!(of(&dir).code, 0, "{}", of(&dir).stdout);
    fs::remove_file(dir.path().join(MANIFEST_FILE)).unwrap();
    assert_eq!(of(&dir).code, 0, "{}", of(&dir).stdout);
}

#[test]
fn a_compressed_segment_that_is_cut_off_names_its_first_record_that_is_gone() {
    let mut partly = 0;
    for range in SEGMENTS {
        let length = fs::metadata(segment(&archive(), range.0)).unwrap().len();
        for keep in [0, 1, 4, 6, 20, length / 3, length / 2, length - 5, length - 4, length - 1] {
            let dir = archive();
            let file = fs::File::options().write(true).open(segment(&dir, range.0)).unwrap();
            file.set_len(keep).unwrap();
            let ran = of(&dir);
            let what = format!("{keep} of {length} bytes of {range:?}");
            names_segment(&ran, range, &what);
            let found = findings(&ran);
            assert_eq!(found.last().unwrap().2, range.1, "{what}: to the end: {found:?}");
            partly += usize::from(found[0].1 > range.0);
        }
    }
    assert!(partly > 0, "what can be unpacked before the damage counts as whole");
}

#[test]
fn a_flipped_bit_anywhere_in_a_compressed_segment_is_named_unless_it_changes_no_line() {
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    let mut dice = Dice(7);
    for range in SEGMENTS {
        let honest = fs::read(segment(&archive(), range.0)).unwrap();
        let lines = unpacked(archive().path(), range.0).unwrap();
        let length = honest.len() as u64;
        // Magic number and header, the first block, anywhere, the checksum.
        let random: Vec<u64> = (0..12).map(|_| dice.roll(length)).collect();
        for at in (0..8).chain(random).chain(length - 4..length) {
            let mut bytes = honest.clone();
            bytes[usize::try_from(at).unwrap()] ^= 1 << dice.roll(8);
            let dir = archive();
            fs::write(segment(&dir, range.0), &bytes).unwrap();
            let ran = of(&dir);
            let what = format!("byte {at} of {length} of {range:?}");
            if unpacked(dir.path(), range.0).is_some_and(|found| found == lines) {
                assert_eq!(ran.code, 0, "{what}: every line is there: {}", ran.stdout);
                *met.entry("of no effect").or_default() += 1;
                continue;
            }
            names_segment(&ran, range, &what);
            for (kind, ..) in findings(&ran) {
                let kind = ["unreadable", "altered", "removed"].iter().find(|k| **k == kind);
                *met.entry(kind.copied().unwrap_or("another")).or_default() += 1;
            }
        }
    }
    assert!(met["unreadable"] > 40, "{met:?}");
}

#[test]
fn a_compressed_segment_that_is_missing_is_named_by_its_records() {
    for (first, last) in SEGMENTS {
        let dir = archive();
        fs::remove_file(segment(&dir, first)).unwrap();
        let what = if last == RECORDS as u64 { "truncated" } else { "removed" };
        assert_eq!(finding(&of(&dir)), format!("{what} {first}-{last}"));
    }
    // Without the roots the manifest still says where the archive ended.
    let dir = archive();
    fs::remove_file(segment(&dir, 1801)).unwrap();
    fs::remove_file(dir.path().join(ROOTS_FILE)).unwrap();
    assert_eq!(finding(&of(&dir)), "manifest 1801-2500");
}

#[test]
fn a_manifest_that_does_not_say_what_the_records_are_is_told() {
    let other = "ab".repeat(32);
    let edits: [(&str, Value, &str); 8] = [
        ("position", 2400.into(), "manifest 2401-2500"),
        ("position", 2600.into(), "manifest 2501-2600"),
        ("root", other.clone().into(), "manifest 2500-2500"),
        ("base", 3.into(), "manifest 2500-2500"),
        ("lastDecision", 17.into(), "manifest 2500-2500"),
        ("version", 3.into(), "manifest 2500-2500"),
        ("types", serde_json::json!({ "io.bizrq.pod.started.v1": 1 }), "manifest 2500-2500"),
        ("root", "abc".into(), "manifest 0-0"),
    ];
    for (field, value, expected) in edits {
        let dir = archive();
        let path = dir.path().join(MANIFEST_FILE);
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_ne!(manifest[field], value);
        manifest[field] = value;
        fs::write(&path, manifest.to_string()).unwrap();
        let ran = of(&dir);
        assert_eq!(finding(&ran), expected, "{field}: {}", ran.stdout);
        let file = ran.json()["findings"][0]["file"].as_str().unwrap().to_owned();
        assert!(file.ends_with(MANIFEST_FILE), "{file}");
    }
    let dir = archive();
    fs::write(dir.path().join(MANIFEST_FILE), "{").unwrap();
    assert_eq!(finding(&of(&dir)), "manifest 0-0");
    fs::write(dir.path().join(MANIFEST_FILE), r#"{"format": 99}"#).unwrap();
    assert_eq!(of(&dir).code, 4, "of a newer build: no verdict");
}

/// `events` with the one at `position` told otherwise.
fn altered(position: usize) -> TestLog {
    let mut events = events().to_vec();
    events[position - 1].time = events[position - 1].time.shifted(1);
    TestLog::of(&events)
}

#[test]
fn an_archive_and_a_log_that_differ_name_the_first_record_that_does() {
    let (part, whole) = (archived(&events()[..1800]), archived(events()));
    let part = part.path().to_str().unwrap();
    let both = |log: &TestLog| format!("{part},{}", log.path().to_str().unwrap());
    assert_eq!(verify(&both(&TestLog::of(events()))).code, 0);
    for position in [1, 700, 1024, 1025, 1799, 1800] {
        let ran = verify(&both(&altered(position)));
        assert_eq!(finding(&ran), format!("places {position}-{position}"), "{}", ran.stdout);
        let why = ran.json()["findings"][0]["why"].as_str().unwrap().to_owned();
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(verify(&both(&altered(1801))).code, 0, "only the log holds it");
    for records in [1, 1023, 1024, 1799] {
        let ran = verify(&both(&TestLog::of(&events()[..records])));
        let first = records + 1;
        assert_eq!(finding(&ran), format!("places {first}-{first}"), "{}", ran.stdout);
    }
    // Each for itself is told, too: the file says which.
    let log = TestLog::of(events());
    log.edit(2000, |lines, at| {
        let found = lines[at].windows(5).position(|w| w == b"ns/p-").unwrap();
        lines[at][found] = b'm';
    });
    assert_eq!(finding(&verify(&both(&log))), "altered 2000-2000");
    fs::remove_file(segment(&whole, 1)).unwrap();
    let none = format!("{},{}", whole.path().display(), TestLog::of(events()).path().display());
    assert_eq!(verify(&none).code, 4, "the first is no log any more");
}

#[test]
fn places_between_which_records_are_missing_name_them() {
    let log = TestLog::of(&events()[..150]);
    let next = log.path().join("next");
    let [dir, next] = [log.path(), &next].map(|path| path.to_str().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(AnyLog::roll(dir, next, opening)).unwrap();
    assert_eq!(verify(&format!("{dir},{next}")).code, 0);
    let short = archived(&events()[..100]);
    let ran = verify(&format!("{},{next}", short.path().display()));
    assert_eq!(finding(&ran), "removed 101-150", "{}", ran.stdout);
    // As long, but another.
    let mut other = events()[..150].to_vec();
    other[70].time = other[70].time.shifted(1);
    let other = archived(&other);
    let ran = verify(&format!("{},{next}", other.path().display()));
    assert_eq!(finding(&ran), "places 150-150", "{}", ran.stdout);
}
