//! A compressed archive, alone or before the log that it was taken from, says what the log says: the same bill, the
//! same state, the same root.

use crate::logs::{Ran, TestLog, at, history, run};
use bizrq::{
    domain::event::Event,
    event_log::{
        NewEvent,
        archive::{Manifest, Packer},
        codec::scan,
        survey::Survey,
    },
};
use tempfile::TempDir;

const PERIOD: &[&str] = &["--from", "2026-01-01T00:01:40Z", "--to", "2026-01-01T00:10:00Z"];

/// An archive of these records, which begin a log, in one segment.
pub(crate) fn archived(events: &[Event<'_>]) -> TempDir {
    packed(events, &[])
}

/// The same in several segments, which end behind the first so many records; with its manifest.
pub(crate) fn packed(events: &[Event<'_>], ends: &[usize]) -> TempDir {
    let dir = TempDir::new().unwrap();
    let (mut survey, mut trees, mut hasher) = (Survey::default(), Vec::new(), Default::default());
    let mut packer = Packer::open(dir.path()).unwrap();
    for (position, event) in (1..).zip(events) {
        let (event, mut line) = (NewEvent::new(event).unwrap(), Vec::new());
        event.write_line(position, &mut hasher, &mut line);
        survey.take(position, &scan(line.trim_ascii_end()).unwrap()).unwrap();
        packer.push(&event, &survey.tree, survey.last_decision).unwrap();
        trees.push((survey.tree.clone(), survey.last_decision));
        if ends.contains(&trees.len()) {
            packer.finish().unwrap();
            packer = Packer::open(dir.path()).unwrap();
            trees.iter().for_each(|(tree, last_decision)| packer.note(tree, *last_decision));
        }
    }
    assert_eq!(packer.finish().unwrap(), survey.tree);
    Manifest::new("a log", &survey, at(0)).write(dir.path()).unwrap();
    dir
}

fn asked(log: &str, command: &str, more: &[&str]) -> Ran {
    let ran = run(&[&[command, "--log", log], more].concat());
    assert_eq!(ran.code, 0, "{command} of {log}: {}", ran.stderr);
    ran
}

#[test]
fn archive_and_log_give_the_bill_and_the_state_of_the_log_alone() {
    for seed in 1..=3 {
        let events = history(seed, 300);
        let log = TestLog::of(&events);
        let live = log.path().to_str().unwrap().to_owned();
        let (part, whole) = (archived(&events[..120]), archived(&events));
        let [part, whole] = [&part, &whole].map(|dir| dir.path().to_str().unwrap());
        let with_log = format!("{part},{live}");
        let questions: [(&str, &[&str]); 5] = [
            ("invoice", &[]),
            ("invoice", &["--summary"]),
            ("invoice", &["--by", "hour"]),
            ("invoice", &["--position", "119"]),
            ("state", &["--position", "200"]),
        ];
        for (command, more) in questions {
            let period = if command == "invoice" { PERIOD } else { &[] };
            let more = [period, more, &["-o", "json"]].concat();
            let mut expected = asked(&live, command, &more).json();
            for place in [whole, &with_log] {
                let mut found = asked(place, command, &more).json();
                // What was asked is part of some answers.
                for answer in [&mut expected, &mut found] {
                    answer.as_object_mut().unwrap().remove("log");
                }
                assert_eq!(found, expected, "seed {seed}: {command} {more:?} of {place}");
            }
        }
        let root = |place: &str| asked(place, "verify", &["-o", "json"]).json()["root"].clone();
        assert_eq!(root(whole), root(&live), "seed {seed}");
        assert_eq!(root(&with_log), root(&live), "seed {seed}");
    }
}
