//! `bizrq log roll`: positions and tree run on, the old log takes nothing more, and what was begun is finished.

use super::{Desk, bizrq, block_on, info};
use bizrq::event_log::{
    EventLog, OpenError,
    conformance::fact,
    file::{FileLog, Options},
};
use std::fs;

fn roll(log: &str, next: &str) -> super::Said {
    bizrq(&["log", "roll", "-o", "json", "--as", "ann", "--log", log, "--to", next])
}

#[test]
fn the_next_log_continues_positions_and_tree() {
    let desk = Desk::new();
    let (log, next) = (desk.log("log", 1500), desk.path("next"));
    let root = info(&log)["root"].clone();
    let report = roll(&log, &next).report();
    assert_eq!((&report["base"], &report["root"]), (&1500.into(), &root));
    let writer = FileLog::open(&desk.dir("next"), &Options::default()).unwrap();
    assert_eq!(block_on(writer.append(vec![fact(1502)])).unwrap().first, 1502);
    writer.close().unwrap();
    let after = info(&next);
    assert_eq!((&after["base"], &after["position"]), (&1500.into(), &1502.into()));
    assert_eq!((&after["records"], &after["lastDecision"]), (&2.into(), &1501.into()));
    assert_eq!(info(&log)["root"], root, "the old log stays as it was");
    let refused = FileLog::open(&desk.dir("log"), &Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Sealed { position: 1500, .. }), "{refused}");
    assert!(refused.to_string().contains("append to /"), "{refused}");
}

#[test]
fn a_roll_that_was_interrupted_is_finished_and_one_that_was_done_stays() {
    let desk = Desk::new();
    let (log, next) = (desk.log("log", 1500), desk.path("next"));
    roll(&log, &next).report();
    let done = info(&next);
    roll(&log, &next).report();
    assert_eq!(info(&next)["root"], done["root"], "done twice is done once");

    // Killed between the two steps: the seal is there, the next log is not, or half of its first record.
    fs::remove_dir_all(desk.dir("next")).unwrap();
    fs::create_dir(desk.dir("next")).unwrap();
    fs::write(desk.dir("next").join("beginning"), "{\"specversion\":\"1.0\",\"id").unwrap();
    roll(&log, &next).report();
    assert_eq!((&info(&next)["base"], &info(&next)["position"]), (&1500.into(), &1501.into()));

    roll(&log, &desk.path("elsewhere")).refused(4, "was rolled over at position 1500");
    assert!(!desk.dir("elsewhere").exists());
}

#[test]
fn a_continued_log_is_summed_up_with_what_came_before_and_never_without() {
    let desk = Desk::new();
    let (log, next, archive) = (desk.path("demo"), desk.path("next"), desk.path("archive"));
    assert_eq!(bizrq(&["demo", "--log", &log]).code, 0);
    let meter = |log: &str, more: &[&str]| {
        let at = ["--at", "2026-11-16T00:00:00Z", "-o", "json"];
        bizrq(&[&["meter", "--log", log], &at[..], more].concat())
    };
    let before = meter(&log, &[]).report();
    let end = before["position"].to_string();
    bizrq(&["log", "export", "--log", &log, &archive]);
    roll(&log, &next).report();
    let remedy = format!("before it, with a comma between: --log EARLIER,{next}");
    meter(&next, &[]).refused(4, &remedy);
    bizrq(&["quota", "tree", "--log", &next]).refused(4, &remedy);
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/readme/");
    let import = |log: &str| {
        let (map, runs) = (format!("{fixtures}runs.toml"), format!("{fixtures}runs.csv"));
        let args = ["import", "csv", "--map", &map, "--cluster", "lab", "--log", log];
        bizrq(&[&args[..], &["-o", "json", &runs]].concat())
    };
    import(&next).refused(4, &remedy);

    for earlier in [&log, &archive] {
        let both = format!("{earlier},{next}");
        let after = meter(&both, &["--position", &end]).report();
        assert_eq!(after["usage"], before["usage"], "{both}");
        assert_eq!(after["root"], before["root"], "{both}");
        assert_eq!(meter(&both, &[]).report()["usage"], before["usage"]);
        assert_eq!(bizrq(&["quota", "tree", "--log", &both]).code, 0);
        assert_eq!(info(&both)["base"], 0);
    }
    let both = format!("{log},{next}");
    let imported = import(&both).report();
    assert_eq!(imported["position"], info(&next)["position"], "they went into the last one");
    assert_eq!(import(&both).report()["appended"], 0);
    assert!(meter(&both, &[]).report()["usage"] != before["usage"]);
    // What does not follow is not put together.
    meter(&format!("{},{next}", desk.log("other", 50)), &[])
        .refused(4, "is another; name the logs");
    meter(&format!("{next},{log}"), &[])
        .refused(4, &format!("continues a log that ends at position {end}"));
}

#[test]
fn nothing_ends_where_the_next_cannot_begin() {
    let desk = Desk::new();
    let (log, other) = (desk.log("log", 100), desk.log("other", 100));
    roll(&log, &other).refused(4, "it is a log already");
    fs::create_dir(desk.dir("photos")).unwrap();
    fs::write(desk.dir("photos").join("cat.jpg"), "").unwrap();
    roll(&log, &desk.path("photos")).refused(4, "it holds cat.jpg");
    roll(&desk.path("none"), &desk.path("next")).refused(4, "no such folder");
    let writer = FileLog::open(&desk.dir("log"), &Options::default()).unwrap();
    roll(&log, &desk.path("next")).refused(4, "is held by another writer");
    block_on(writer.append(vec![fact(101)])).unwrap();
    assert!(!desk.dir("none").exists());
}

#[test]
fn an_archive_takes_the_logs_one_after_another_and_a_continued_one_can_stand_alone() {
    let desk = Desk::new();
    let (log, next, archive) = (desk.log("log", 1500), desk.path("next"), desk.path("archive"));
    let export = |log: &str, dir: &str| bizrq(&["log", "export", "-o", "json", "--log", log, dir]);
    let import = |log: &str, dir: &str| bizrq(&["log", "import", "-o", "json", "--log", log, dir]);
    export(&log, &archive).report();
    roll(&log, &next).report();
    let root = info(&next)["root"].clone();
    let whole = export(&next, &archive).report();
    assert_eq!((&whole["base"], &whole["position"]), (&0.into(), &1501.into()));
    assert_eq!(whole["root"], root, "one history");
    export(&next, &desk.log("short", 100)).refused(4, "it is no beginning of that log");

    let part = export(&next, &desk.path("part")).report();
    assert_eq!((&part["base"], &part["copied"], &part["root"]), (&1500.into(), &1.into(), &root));
    let back = import(&desk.path("back"), &desk.path("part")).report();
    assert_eq!((&back["position"], &back["root"]), (&1501.into(), &root));
    assert_eq!(import(&desk.path("back"), &desk.path("part")).report()["copied"], 0);
    import(&desk.log("few", 10), &desk.path("part"))
        .refused(4, "the records 11 to 1500 are missing between them");
}
