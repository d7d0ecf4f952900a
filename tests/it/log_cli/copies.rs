//! Export and import: the same positions, the same root, or a refusal that names the position.

use super::{Desk, bizrq, block_on, info};
use bizrq::event_log::{
    EventLog,
    conformance::fact,
    file::{FileLog, Options},
};
use std::fs;

fn export(log: &str, archive: &str) -> super::Said {
    bizrq(&["log", "export", "-o", "json", "--log", log, archive])
}

fn import(log: &str, archive: &str) -> super::Said {
    bizrq(&["log", "import", "-o", "json", "--log", log, archive])
}

#[test]
fn an_archive_is_a_log_and_goes_back_with_the_same_positions_and_root() {
    let desk = Desk::new();
    let (log, archive, back) = (desk.log("log", 9000), desk.path("archive"), desk.path("back"));
    let exported = export(&log, &archive).report();
    assert_eq!((&exported["copied"], &exported["position"]), (&9000.into(), &9000.into()));
    let root = &info(&log)["root"];
    assert_eq!((&exported["root"], &info(&archive)["root"]), (root, root));
    let manifest = fs::read_to_string(desk.dir("archive").join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!((&manifest["root"], &manifest["lastDecision"]), (root, &9000.into()));
    assert_eq!(manifest["types"], info(&log)["types"]);
    assert_eq!(manifest["frontier"]["position"], 9000);

    let imported = import(&back, &archive).report();
    assert_eq!((&imported["copied"], &imported["root"]), (&9000.into(), root));
    let again = import(&back, &archive).report();
    assert_eq!((&again["copied"], &again["root"]), (&0.into(), root));
    // Record for record the same bytes.
    let lines =
        |log: &str| bizrq(&["log", "tail", "--from", "1", "-o", "lines", "--log", log]).stdout;
    assert!(lines(&log) == lines(&back), "the copy differs");
}

#[test]
fn an_export_goes_on_where_it_stopped_and_takes_what_came_since() {
    let desk = Desk::new();
    let (log, archive) = (desk.log("log", 5000), desk.path("archive"));
    export(&log, &archive).report();
    let before = fs::read(desk.dir("archive").join("manifest.json")).unwrap();
    assert_eq!(export(&log, &archive).report()["copied"], 0);
    assert_eq!(fs::read(desk.dir("archive").join("manifest.json")).unwrap(), before);

    // An export that was killed: whole records and half of one, and no manifest yet.
    fs::remove_file(desk.dir("archive").join("manifest.json")).unwrap();
    for file in ["roots", "frontier"] {
        fs::remove_file(desk.dir("archive").join(file)).unwrap();
    }
    desk.edit("archive", 3000, |lines, at| {
        lines.truncate(at + 1);
        lines[at].truncate(40);
    });
    assert_eq!(export(&log, &archive).report()["copied"], 2001);

    let writer = FileLog::open(&desk.dir("log"), &Options::default()).unwrap();
    block_on(writer.append((6000..6007).map(fact).collect())).unwrap();
    writer.close().unwrap();
    let grown = export(&log, &archive).report();
    assert_eq!((&grown["copied"], &grown["root"]), (&7.into(), &info(&log)["root"]));
}

/// It would have a claim of its own end in it, and every record behind that would be one too many.
#[test]
fn an_archive_takes_no_records_and_no_log_is_its_own_archive() {
    let desk = Desk::new();
    let (log, archive) = (desk.log("log", 20), desk.path("archive"));
    for place in [log.clone(), format!("{log}/../log")] {
        export(&log, &place).refused(2, "is the log itself; give its archive a folder of its own");
    }
    assert!(!desk.dir("log").join("manifest.json").exists());
    export(&log, &archive).report();
    let before = info(&archive)["position"].clone();
    bizrq(&["log", "upgrade", "--log", &archive])
        .refused(4, "it is an archive, which takes no records");
    bizrq(&["cluster", "rebind", "east", "--log", &archive]).refused(4, "it is an archive");
    assert_eq!(info(&archive)["position"], before);
    assert_eq!(export(&log, &archive).report()["copied"], 0, "the next export goes on");
}

#[test]
fn two_logs_are_never_mixed() {
    let desk = Desk::new();
    let (one, other) = (desk.log("one", 3000), desk.log("other", 2995));
    let writer = FileLog::open(&desk.dir("other"), &Options::default()).unwrap();
    block_on(writer.append((2996..=3001).map(fact).collect())).unwrap();
    writer.close().unwrap();
    let (archive, back) = (desk.path("archive"), desk.path("back"));
    export(&one, &archive).report();
    export(&other, &archive).refused(4, "it is no beginning of that log");
    export(&desk.log("short", 10), &archive).refused(4, "it is no beginning of that log");
    import(&back, &archive).report();
    import(&other, &archive).refused(4, "the first that differs is at position 2995:");
    import(&desk.log("few", 11), &archive).refused(4, "the first that differs is at position 11:");
    for log in [&one, &other, &back] {
        let expected = if *log == other { 3001 } else { 3000 };
        assert_eq!(info(log)["position"], expected, "{log}");
    }
}

#[test]
fn an_interrupted_import_goes_on_after_proving_what_is_there() {
    let desk = Desk::new();
    let (log, archive) = (desk.log("log", 9000), desk.path("archive"));
    export(&log, &archive).report();
    let part = desk.log("part", 9000);
    for file in ["roots", "frontier"] {
        fs::remove_file(desk.dir("part").join(file)).unwrap();
    }
    let last = bizrq::event_log::file::segments::list(&desk.dir("part")).unwrap().pop().unwrap();
    desk.edit("part", last, |lines, _| lines.truncate(1));
    let report = import(&part, &archive).report();
    assert_eq!(report["copied"].as_u64(), Some(9000 - last));
    assert_eq!(report["root"], info(&log)["root"]);
}

#[test]
fn a_damaged_archive_is_refused_with_the_position_and_nothing_gets_in() {
    let desk = Desk::new();
    let log = desk.log("log", 5000);
    export(&log, &desk.path("archive")).report();
    type Edit = fn(&mut Vec<String>, usize);
    let damages: [(&str, Edit, &str); 5] = [
        ("removed", |lines, at| drop(lines.remove(at)), "line"),
        ("altered", |lines, at| lines[at] = lines[at].replace("east", "west"), "the leaf is"),
        ("inserted", |lines, at| lines.insert(at, lines[at].clone()), "the leaf is"),
        ("reordered", |lines, at| lines.swap(at, at + 1), "the leaf is"),
        ("cut", |lines, at| lines.truncate(at), ""),
    ];
    for (name, damage, words) in damages {
        let archive = desk.copy("archive", name);
        desk.edit(name, 2500, damage);
        let said = import(&desk.path("back"), &archive);
        said.refused(4, words);
        let names_it =
            ["line", "position", "records", "missing"].iter().any(|w| said.stderr.contains(w));
        assert!(names_it && said.stderr.contains(char::is_numeric), "{name}: {}", said.stderr);
        assert!(!desk.dir("back").exists(), "{name}: a log was made");
    }
    // Whoever computes leaves and roots anew is met by the manifest.
    desk.copy("archive", "shorter");
    let last = bizrq::event_log::file::segments::list(&desk.dir("shorter")).unwrap().pop().unwrap();
    desk.edit("shorter", last, |lines, _| lines.truncate(1));
    for file in ["roots", "frontier"] {
        fs::remove_file(desk.dir("shorter").join(file)).unwrap();
    }
    let said = import(&desk.path("back"), &desk.path("shorter"));
    said.refused(3, "records are missing at the end");
    let other = desk.log("other", 5001);
    let manifest = desk.dir("archive").join("manifest.json");
    fs::copy(&manifest, desk.dir("other").join("manifest.json")).unwrap();
    import(&desk.path("back"), &other).refused(3, "an export was not finished");
    fs::write(&manifest, "{}").unwrap();
    import(&desk.path("back"), &desk.path("archive")).refused(3, "no manifest of an archive");
    fs::write(&manifest, r#"{"format":2}"#).unwrap();
    import(&desk.path("back"), &desk.path("archive")).refused(3, "use a newer bizrq");
    assert!(!desk.dir("back").exists());
}
