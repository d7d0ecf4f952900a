//! A notice is told once, also by the next process and after half a line.

use super::{NAME, Notices};
use crate::{domain::time::ORIGIN, notify::due::Notice};
use std::fs;

fn notice(id: &str) -> Notice {
    Notice {
        id: id.to_owned(),
        kind: "cash.exhausted",
        group: "team".to_owned(),
        key: "cash/limits.cpu".to_owned(),
        threshold: 100,
        generation: 1,
        at: ORIGIN,
        exact: true,
        hard: "8".to_owned(),
        position: 3,
    }
}

#[test]
fn what_was_told_is_not_told_by_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut notices = Notices::open(dir.path()).unwrap();
    assert!(notices.tell(&notice("a")).unwrap());
    assert!(!notices.tell(&notice("a")).unwrap());
    drop(notices);
    let mut notices = Notices::open(dir.path()).unwrap();
    assert!(!notices.tell(&notice("a")).unwrap());
    assert!(notices.tell(&notice("b")).unwrap());
}

#[test]
fn half_a_line_was_not_told_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    Notices::open(dir.path()).unwrap().tell(&notice("a")).unwrap();
    let path = dir.path().join(NAME);
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, [&whole[..], &whole[..cut]].concat()).unwrap();
        let mut notices = Notices::open(dir.path()).unwrap();
        assert!(!notices.tell(&notice("a")).unwrap());
        assert!(notices.tell(&notice("b")).unwrap(), "cut after {cut}");
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    }
}
