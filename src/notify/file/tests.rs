//! A notice is told once, also by the next process and after half a line.

use super::{NAME, Notices};
use crate::{
    domain::time::ORIGIN,
    notify::notice::{Notice, Scope, Topic, What},
};
use std::fs;

fn notice(number: u64) -> Notice {
    let topic = Topic { scope: Scope::of(&["uid", "cash/limits.cpu"]), what: What::Cash(100) };
    Notice {
        id: topic.id(number),
        topic,
        number,
        kind: "cash.exhausted".to_owned(),
        stands: true,
        group: "team".to_owned(),
        key: "cash/limits.cpu".to_owned(),
        uid: Some("uid".to_owned()),
        threshold: Some(100),
        generation: Some(1),
        at: ORIGIN,
        exact: true,
        forecast: None,
        hard: "8".to_owned(),
        of: "28800000000".to_owned(),
        message: "team spent 100 % of its own 8 of cash/limits.cpu".to_owned(),
        position: 3,
    }
}

#[test]
fn the_next_process_knows_what_was_told() {
    let dir = tempfile::tempdir().unwrap();
    let (mut notices, told) = Notices::open(dir.path()).unwrap();
    assert_eq!(told.standing().count(), 0);
    notices.tell(&notice(1)).unwrap();
    notices.tell(&notice(2)).unwrap();
    drop(notices);
    let (_, told) = Notices::open(dir.path()).unwrap();
    let standing: Vec<_> = told.standing().map(|(_, notice)| notice.clone()).collect();
    assert_eq!(standing, [notice(2)]);
}

#[test]
fn half_a_line_was_not_told_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    Notices::open(dir.path()).unwrap().0.tell(&notice(1)).unwrap();
    let path = dir.path().join(NAME);
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, [&whole[..], &whole[..cut]].concat()).unwrap();
        let (mut notices, told) = Notices::open(dir.path()).unwrap();
        assert_eq!(told.standing().map(|(_, n)| n.number).collect::<Vec<_>>(), [1]);
        notices.tell(&notice(2)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2, "cut after {cut}");
    }
}

#[test]
fn a_line_that_is_no_notice_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(NAME), "{}\n").unwrap();
    let error = Notices::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("notices.jsonl: line 1 is no notice"), "{error}");
}
