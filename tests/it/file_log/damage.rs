//! Folders that are not what they should be: lies, holes, strangers. Errors name the file and the remedy.

use super::{End, append, block_on, closed_log, end, head, open, prove, scratch, segments};
use bizrq::{
    domain::{
        event::{Data, Event, EventId, LogOpened},
        merkle::LeafHasher,
        time::ORIGIN,
    },
    event_log::{NewEvent, OpenError, ReadError, codec::scan, conformance::fact, file::FileLog},
};
use std::{fs, path::Path};

fn change(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} is not in {}", path.display());
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// Line of `roots` at `position`.
fn root_line(dir: &Path, position: u64) -> String {
    let text = fs::read_to_string(dir.join("roots")).unwrap();
    text.lines().find(|line| line.starts_with(&format!("{position} "))).unwrap().to_owned()
}

#[test]
fn a_root_that_lies_is_named() {
    for position in [1024, 2048, 2500] {
        let dir = scratch();
        closed_log(dir.path(), 2500);
        let line = root_line(dir.path(), position);
        let root = line.split_once(' ').unwrap().1;
        let other = if root.starts_with('0') { '1' } else { '0' };
        change(&dir.path().join("roots"), root, &format!("{other}{}", &root[1..]));
        let differs = |error: OpenError| match error {
            OpenError::RootDiffers { position: at, computed, .. } => {
                assert_eq!((at, computed.to_string().as_str()), (position, root));
            }
            error => panic!("{error}"),
        };
        differs(prove(dir.path()).unwrap_err());
        // A writer believes no stored tree whose root does not stand in `roots`, and reads everything.
        if position == 2500 {
            differs(open(dir.path()).unwrap_err());
        }
    }
}

#[test]
fn roots_that_are_no_roots_are_named_by_line() {
    for (from, to) in
        [("2048 ", "1000 "), ("2048 ", "2o48 "), ("2048 ", "2048"), ("2048 ", "1024 ")]
    {
        let dir = scratch();
        closed_log(dir.path(), 2500);
        change(&dir.path().join("roots"), from, to);
        let error = open(dir.path()).unwrap_err();
        assert!(matches!(error, OpenError::Roots { line: 2, .. }), "{error}");
        assert!(error.to_string().contains("roots, line 2"), "{error}");
    }
}

#[test]
fn what_follows_from_the_segments_is_made_anew() {
    let dir = scratch();
    let before = closed_log(dir.path(), 2500);
    let roots = fs::read_to_string(dir.path().join("roots")).unwrap();
    let frontier = fs::read(dir.path().join("frontier")).unwrap();
    let another = scratch();
    closed_log(another.path(), 2499);
    let lies = fs::read(another.path().join("frontier")).unwrap();
    for lie in [&b"{}"[..], b"", &lies, &frontier[..frontier.len() / 2]] {
        fs::write(dir.path().join("frontier"), lie).unwrap();
        assert_eq!(end(&open(dir.path()).unwrap()), before);
        assert_eq!(fs::read(dir.path().join("frontier")).unwrap(), frontier);
    }
    for file in ["roots", "frontier"] {
        fs::remove_file(dir.path().join(file)).unwrap();
        assert_eq!(end(&FileLog::open_read(dir.path()).unwrap()), before);
        assert_eq!(end(&open(dir.path()).unwrap()), before);
        assert_eq!(fs::read_to_string(dir.path().join("roots")).unwrap(), roots);
    }
    let torn = format!("{roots}2500 abc");
    fs::write(dir.path().join("roots"), torn).unwrap();
    open(dir.path()).unwrap().close().unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("roots")).unwrap(), roots);
}

#[test]
fn a_changed_record_is_named_by_file_and_line() {
    let dir = scratch();
    closed_log(dir.path(), 2500);
    for (segment, n) in
        [(0, 3), (segments(dir.path()).len() / 2, 0), (segments(dir.path()).len() - 1, 1)]
    {
        let path = segments(dir.path())[segment].clone();
        let text = fs::read_to_string(&path).unwrap();
        let line = text.lines().nth(n).unwrap();
        let forged = line.replace("/clusters/east", "/clusters/west");
        fs::write(&path, text.replace(line, &forged)).unwrap();
        let error = prove(dir.path()).unwrap_err().to_string();
        let place = format!("{}, line {}", path.display(), n + 1);
        assert!(error.starts_with(&place) && error.contains("was changed or moved"), "{error}");
        fs::write(&path, text).unwrap();
    }
    prove(dir.path()).unwrap();
}

#[test]
fn a_segment_that_is_missing_is_named_by_its_positions() {
    let dir = scratch();
    closed_log(dir.path(), 2500);
    let all = segments(dir.path());
    let first = |path: &Path| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let (middle, after) = (first(&all[2]), first(&all[3]));
    fs::rename(&all[2], dir.path().join("aside")).unwrap();
    match prove(dir.path()).unwrap_err() {
        OpenError::Read(ReadError::Missing { from, to, .. }) => {
            assert_eq!((from, to), (middle, after - 1));
        }
        error => panic!("{error}"),
    }
    fs::rename(dir.path().join("aside"), &all[2]).unwrap();
    prove(dir.path()).unwrap();

    fs::rename(&all[0], dir.path().join("aside")).unwrap();
    let error = prove(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::NoBase { .. }), "{error}");
    fs::rename(dir.path().join("aside"), &all[0]).unwrap();

    let last = all.last().unwrap();
    fs::rename(last, dir.path().join("aside")).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Truncated { recorded: 2500, .. }), "{error}");
    fs::rename(dir.path().join("aside"), last).unwrap();

    fs::write(dir.path().join(format!("{:020}.jsonl", middle + 1)), "").unwrap();
    let error = prove(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Read(ReadError::Overlap { .. })), "{error}");
}

/// What a roll-over leaves: the first record says which tree it continues.
fn continued_log(dir: &Path, base: &End, root: String) {
    let opened = LogOpened {
        base: base.head.position,
        root: root.into(),
        frontier: base.tree.hashes().iter().map(|hash| hash.to_string().into()).collect(),
        previous: "before".into(),
    };
    let event = Event {
        id: EventId(1001),
        source: "/operators/ann".into(),
        subject: "log".into(),
        time: ORIGIN,
        recorded_at: ORIGIN,
        data: Data::LogOpened(opened),
    };
    let (first, mut line) = (base.head.position + 1, Vec::new());
    NewEvent::new(&event).unwrap().write_line(first, &mut LeafHasher::default(), &mut line);
    fs::write(dir.join(format!("{first:020}.jsonl")), line).unwrap();
}

#[test]
fn a_continued_log_goes_on_with_positions_and_tree_of_the_log_before() {
    let (before, after) = (scratch(), scratch());
    let base = closed_log(before.path(), 1000);
    continued_log(after.path(), &base, base.tree.root().to_string());
    for n in 1002..=1003 {
        let log = open(after.path()).unwrap();
        assert_eq!(head(&log).last_decision, 1001);
        assert_eq!(append(&log, vec![fact(n)]).first, n);
    }
    let (summary, numbers) = prove(after.path()).unwrap();
    assert_eq!(numbers, [1001, 1002, 1003]);
    let tree = summary.tree.unwrap();
    assert_eq!(tree.position(), 1003);
    // The tree holds the first thousand leaves, too.
    let mut whole = base.tree.clone();
    let text = fs::read_to_string(&segments(after.path())[0]).unwrap();
    for line in text.lines() {
        whole.append(scan(line.as_bytes()).unwrap().leaf.unwrap());
    }
    assert_eq!(tree, whole);

    let lying = scratch();
    continued_log(lying.path(), &base, "0".repeat(64));
    let error = open(lying.path()).unwrap_err();
    assert!(matches!(error, OpenError::NoBase { first: 1001, .. }), "{error}");
}

#[test]
fn half_a_line_where_more_follows_is_no_end_of_a_log() {
    let dir = scratch();
    closed_log(dir.path(), 500);
    let path = segments(dir.path())[1].clone();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let error = prove(dir.path()).unwrap_err().to_string();
    assert!(error.contains("the line ends early, and another segment follows"), "{error}");
}

#[test]
fn a_folder_that_is_no_log_is_left_alone() {
    let dirs = scratch();
    let photos = dirs.path().join("photos");
    fs::create_dir(&photos).unwrap();
    fs::write(photos.join("cat.jpg"), "cat").unwrap();
    let error = open(&photos).unwrap_err().to_string();
    assert!(error.contains("is no event log: it holds cat.jpg and no segment"), "{error}");
    assert_eq!(fs::read_dir(&photos).unwrap().count(), 1, "nothing is put into it");

    let file = photos.join("cat.jpg");
    let error = open(&file).unwrap_err().to_string();
    assert!(error.contains("it is a file; a log is a folder"), "{error}");
    for (dir, says) in [
        (&photos, "it has no segment"),
        (&dirs.path().join("gone"), "no such folder"),
        (&file, "it is a file"),
    ] {
        let error = FileLog::open_read(dir).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(prove(dir).unwrap_err().to_string().contains(says));
    }
    assert!(!dirs.path().join("gone").exists(), "a reader makes no folder");
    let other = block_on(bizrq::event_log::AnyLog::open("http://localhost"));
    let error = other.unwrap_err().to_string();
    assert!(error.contains("write nats://host:port"), "{error}");
}

#[test]
fn a_missing_or_empty_folder_becomes_a_log() {
    let dirs = scratch();
    for dir in [dirs.path().join("a/b/c"), dirs.path().to_owned()] {
        if dir == dirs.path() {
            fs::remove_dir_all(dir.join("a")).unwrap();
        }
        let log = open(&dir).unwrap();
        assert_eq!(append(&log, vec![fact(1)]).first, 1);
    }
}
