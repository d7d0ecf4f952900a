//! `bizrq log archive`: compressed segments are a log like any other. Alone, or before the log that goes on, they say
//! what that log says.

use super::{Desk, bizrq, block_on, info};
use bizrq::event_log::{
    EventLog,
    conformance::fact,
    file::{FileLog, Options, segments},
};
use serde_json::Value;
use std::{fs, path::PathBuf};

fn archive(log: &str, dir: &str, more: &[&str]) -> super::Said {
    bizrq(&[&["log", "archive", "-o", "json", "--log", log], more, &[dir]].concat())
}

fn import(log: &str, dir: &str) -> super::Said {
    bizrq(&["log", "import", "-o", "json", "--log", log, dir])
}

fn lines(log: &str) -> String {
    bizrq(&["log", "tail", "--from", "1", "-o", "lines", "--log", log]).stdout
}

fn names(desk: &Desk, dir: &str) -> Vec<String> {
    let entries = fs::read_dir(desk.dir(dir)).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

pub(super) fn append(desk: &Desk, log: &str, events: std::ops::Range<u64>) {
    let writer = FileLog::open(&desk.dir(log), &Options::default()).unwrap();
    block_on(writer.append(events.map(fact).collect())).unwrap();
    writer.close().unwrap();
}

/// Bytes of all segments of a log or archive.
fn segment_bytes(desk: &Desk, name: &str) -> u64 {
    let files = fs::read_dir(desk.dir(name)).unwrap().map(Result::unwrap);
    let segments = files.filter(|file| file.file_name().to_string_lossy().contains(".jsonl"));
    segments.map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
fn an_archive_is_small_grows_with_its_log_and_goes_back_with_the_same_positions_and_root() {
    let desk = Desk::new();
    let (log, dir) = (desk.log("log", 5000), desk.path("archive"));
    assert_eq!(archive(&log, &dir, &[]).report()["copied"], 5000);
    let beside = ["frontier", "lock", "manifest.json", "roots"].map(str::to_owned);
    let with = |firsts: &[u64]| {
        let names = firsts.iter().map(|first| segments::packed_name(*first));
        names.chain(beside.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&desk, "archive"), with(&[1]));
    let manifest = || fs::read(desk.dir("archive").join("manifest.json")).unwrap();
    let before = manifest();
    assert_eq!(archive(&log, &dir, &[]).report()["copied"], 0);
    assert_eq!(manifest(), before);

    append(&desk, "log", 6000..6007);
    // One that was killed: a segment is begun, what belongs beside the others is not there.
    for file in ["roots", "frontier", "manifest.json"] {
        fs::remove_file(desk.dir("archive").join(file)).unwrap();
    }
    fs::write(desk.dir("archive").join("00000000000000005001.jsonl.zst.new"), "half").unwrap();
    assert_eq!(archive(&log, &dir, &[]).report()["copied"], 7);
    assert_eq!(names(&desk, "archive"), with(&[1, 5001]));
    let (of_log, of_archive) = (info(&log), info(&dir));
    for field in ["root", "position", "lastDecision", "types", "version"] {
        assert_eq!(of_archive[field], of_log[field], "{field}");
    }
    let [packed, plain] = ["archive", "log"].map(|name| segment_bytes(&desk, name));
    assert!(packed * 3 < plain, "{packed} of {plain} bytes");
    assert!(lines(&dir) == lines(&log));
    let quick = bizrq(&["log", "info", "--quick", "-o", "json", "--log", &dir]).report();
    assert_eq!(quick["position"], 5007);

    let back = desk.path("back");
    let restored = import(&back, &dir).report();
    assert_eq!((&restored["copied"], &restored["root"]), (&5007.into(), &of_log["root"]));
    assert!(lines(&back) == lines(&log));
    append(&desk, "back", 7000..7001);
}

#[test]
fn until_an_instant_archive_and_log_are_one_history() {
    let desk = Desk::new();
    let (log, dir, next) = (desk.path("demo"), desk.path("archive"), desk.path("next"));
    assert_eq!(bizrq(&["demo", "--log", &log]).code, 0);
    let until = "2026-11-09T00:00:00Z";
    let copied = archive(&log, &dir, &["--until", until]).report();
    // The first record of that instant or later, looked for line by line.
    let shown = bizrq(&["log", "tail", "--from", "1", "-o", "json", "--log", &log]).stdout;
    let first = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let first = first
        .into_iter()
        .find(|shown| shown["event"]["recordedat"].as_str().unwrap() >= "2026-11-09T00:00:00.000Z");
    let last = first.unwrap()["position"].as_u64().unwrap() - 1;
    assert_eq!((&copied["position"], &copied["copied"]), (&last.into(), &last.into()));

    let meter = |log: &str| {
        bizrq(&["meter", "--log", log, "--at", "2026-11-16T00:00:00Z", "-o", "json"]).report()
    };
    let same = |log: &str, of: &Value| {
        let (found, log) = (meter(log), log);
        assert_eq!((&found["usage"], &found["root"]), (&of["usage"], &of["root"]), "{log}");
    };
    let whole = meter(&log);
    same(&format!("{dir},{log}"), &whole);
    assert!(meter(&dir)["usage"] != whole["usage"], "an archive alone is what it holds");
    let at = ["--position", &last.to_string(), "--at", until, "-o", "json"];
    let then = |log: &str| bizrq(&[&["meter", "--log", log], &at[..]].concat()).report();
    assert_eq!(then(&dir)["usage"], then(&log)["usage"]);

    // It goes on, first to the end, then through a roll-over; what was archived can go.
    assert_eq!(archive(&log, &dir, &[]).report()["root"], whole["root"]);
    same(&dir, &whole);
    let roll = ["log", "roll", "-o", "json", "--as", "ann", "--log", &log, "--to", &next];
    bizrq(&roll).report();
    let both = meter(&format!("{log},{next}"));
    fs::remove_dir_all(desk.dir("demo")).unwrap();
    same(&format!("{dir},{next}"), &both);
    assert_eq!(archive(&next, &dir, &[]).report()["copied"], 1);
    same(&dir, &both);
    same(&format!("{dir},{next}"), &both);
}

#[test]
fn what_is_another_log_or_none_is_left_alone() {
    let desk = Desk::new();
    let (log, other, dir) = (desk.log("log", 3000), desk.log("other", 2500), desk.path("archive"));
    archive(&log, &dir, &["--until", "2025-01-01T00:00:00Z"]).refused(2, "nothing to archive");
    archive(&desk.log("empty", 0), &dir, &[]).refused(2, "the log has no records");
    archive(&log, &dir, &[]).report();
    archive(&other, &dir, &[]).refused(4, "it is no beginning of that log");
    bizrq(&["log", "export", "--log", &log, &dir]).refused(4, "an archive, which takes no records");
    bizrq(&["log", "roll", "--log", &dir, "--to", &desk.path("next")])
        .refused(4, "an archive, which takes no records");
    bizrq(&["log", "export", "--log", &log, &desk.path("plain")]);
    archive(&log, &desk.path("plain"), &[]).refused(4, "is not compressed");
    fs::create_dir(desk.dir("photos")).unwrap();
    fs::write(desk.dir("photos").join("cat.jpg"), "").unwrap();
    archive(&log, &desk.path("photos"), &[]).refused(4, "it holds cat.jpg");
    archive(&log, &dir, &["--until", "yesterday"]).refused(2, "yesterday");
    // A log that is shorter than its archive, and one that differs from it.
    for (live, why) in [(&other, "other records"), (&desk.log("few", 10), "or fewer")] {
        bizrq(&["meter", "--log", &format!("{dir},{live}")]).refused(4, why);
    }
    assert_eq!(info(&dir)["root"], info(&log)["root"]);
}

/// The one compressed segment of an archive.
fn segment(desk: &Desk, name: &str) -> PathBuf {
    desk.dir(name).join(segments::packed_name(1))
}

#[test]
fn whatever_is_changed_in_a_compressed_segment_is_named_and_nothing_gets_in() {
    let desk = Desk::new();
    let log = desk.log("log", 3000);
    archive(&log, &desk.path("archive"), &[]).report();
    type Edit = fn(&mut Vec<String>, usize);
    let damages: [(&str, Edit); 4] = [
        ("removed", |lines, at| drop(lines.remove(at))),
        ("altered", |lines, at| lines[at] = lines[at].replace("east", "west")),
        ("inserted", |lines, at| lines.insert(at, lines[at - 1].clone())),
        ("reordered", |lines, at| lines.swap(at, at + 1)),
    ];
    let text = |name: &str| {
        let bytes = fs::read(segment(&desk, name)).unwrap();
        String::from_utf8(zstd::decode_all(&bytes[..]).unwrap()).unwrap()
    };
    for (name, damage) in damages {
        for position in [1_usize, 1024, 1025, 2998] {
            // A first record has none before it to be repeated.
            let position = if name == "inserted" { position.max(2) } else { position };
            let name = format!("{name}-{position}");
            let dir = desk.copy("archive", &name);
            let mut lines: Vec<_> = text(&name).split_inclusive('\n').map(str::to_owned).collect();
            damage(&mut lines, position - 1);
            fs::write(
                segment(&desk, &name),
                zstd::encode_all(lines.concat().as_bytes(), 1).unwrap(),
            )
            .unwrap();
            let place = format!(".jsonl.zst:{position}");
            let said = import(&desk.path("back"), &dir);
            assert_eq!(said.code, 4, "{name}: {}", said.stderr);
            let named = said.stderr.contains(&format!("position {position}"))
                || said.stderr.contains(&place)
                || said.stderr.contains(&format!("line {position}"));
            assert!(named, "{name}: {}", said.stderr);
            assert!(!desk.dir("back").exists(), "{name}");
        }
    }
    let bytes = fs::read(segment(&desk, "archive")).unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 4;
    for (name, bytes) in [("flipped", &flipped[..]), ("cut", &bytes[..bytes.len() / 2])] {
        let dir = desk.copy("archive", name);
        fs::write(segment(&desk, name), bytes).unwrap();
        let said = import(&desk.path("back"), &dir);
        said.refused(4, "position");
        assert!(!desk.dir("back").exists(), "{name}: {}", said.stderr);
    }
    // A whole segment that is gone.
    append(&desk, "log", 4000..4100);
    archive(&log, &desk.path("archive"), &[]).report();
    fs::remove_file(desk.dir("archive").join(segments::packed_name(3001))).unwrap();
    import(&desk.path("back"), &desk.path("archive")).refused(4, "3100");
    assert!(!desk.dir("back").exists());
}
