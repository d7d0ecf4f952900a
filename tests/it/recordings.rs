//! Recorded watches of two real API servers: usage by group and key equals what an independent program computed,
//! whatever the order of the files. The summation here is the test's own, a few lines over the events.

use bizrq::{
    domain::{
        event::{Data, Event},
        names::Uid,
        quantity::Milli,
        resources::{Models, Resources, usage_keys},
        time::Timestamp,
    },
    observe::{
        owners::{Declared, Object, Owners, Reference, Timeline, Version},
        recording::{Recorder, Recording},
    },
};
use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::PathBuf,
    sync::Arc,
};

const FILES: [&str; 5] = ["pods", "replicasets", "deployments", "jobs", "statefulsets"];

fn dir(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/watch").join(version)
}

/// The texts of a recording, by kind.
fn texts(version: &str) -> BTreeMap<&'static str, Vec<u8>> {
    let text = |file| {
        let path = dir(version).join(format!("{file}.json.gz"));
        let mut text = Vec::new();
        GzDecoder::new(File::open(path).unwrap()).read_to_end(&mut text).unwrap();
        text
    };
    FILES.into_iter().map(|file| (file, text(file))).collect()
}

fn record(texts: &BTreeMap<&str, Vec<u8>>, files: &[&str]) -> Recording {
    let mut recorder = Recorder::new("east");
    for file in files {
        recorder.read(file, &*texts[file]).unwrap();
    }
    recorder.finish()
}

/// Every order of `items`.
fn permutations<T: Copy>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, first) in items.iter().enumerate() {
        let rest: Vec<T> = [&items[..i], &items[i + 1..]].concat();
        for mut order in permutations(&rest) {
            order.insert(0, *first);
            all.push(order);
        }
    }
    all
}

/// A pod that holds something since an instant.
struct Open {
    since: Timestamp,
    group: String,
    models: Models<'static>,
    held: Arc<Resources>,
}

/// milli-units × milliseconds by group and key.
type Usage = BTreeMap<(String, String), Milli>;

fn bill(usage: &mut Usage, pod: &Open, to: Timestamp) {
    let millis = i128::from(to.since(pod.since));
    assert!(millis >= 0, "time runs backwards");
    usage_keys(&pod.held, &pod.models, |key, amount| {
        *usage.entry((pod.group.clone(), key.to_owned())).or_default() += amount * millis;
    });
}

fn usage(events: Vec<Event<'static>>, end: Timestamp) -> Usage {
    let (mut usage, mut open) = (Usage::new(), BTreeMap::<String, Open>::new());
    let owned = |models: &Models<'_>| {
        let text = |t: &Option<bizrq::domain::text::Text<'_>>| t.clone().map(|t| t.into_owned());
        Models { cpu: text(&models.cpu), memory: text(&models.memory), gpu: text(&models.gpu) }
    };
    for event in events {
        let time = event.time;
        match event.data {
            Data::PodStarted(d) => {
                let (group, models, held) = (d.group.to_string(), owned(&d.models), d.held);
                let before =
                    open.insert(d.uid.to_string(), Open { since: time, group, models, held });
                assert!(before.is_none(), "{} starts twice", d.uid);
            }
            Data::PodResized(d) => {
                if let Some(pod) = open.get_mut(&*d.uid) {
                    bill(&mut usage, pod, time);
                    (pod.since, pod.held) = (time, d.held);
                }
            }
            Data::PodMoved(d) => {
                if let Some(pod) = open.get_mut(&*d.uid) {
                    bill(&mut usage, pod, time);
                    (pod.since, pod.group) = (time, d.group.to_string());
                    pod.models = owned(&d.models);
                }
            }
            Data::PodStopped(d) => {
                if let Some(pod) = open.remove(&*d.uid) {
                    bill(&mut usage, &pod, time);
                }
            }
            _ => {}
        }
    }
    open.values().for_each(|pod| bill(&mut usage, pod, end));
    usage.retain(|_, exact| *exact != 0);
    usage
}

/// The end and the usage that the independent program found.
fn expected(version: &str) -> (Timestamp, Usage) {
    let read = |name: &str| fs::read_to_string(dir(version).join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("expected.json")).unwrap();
    let end = Timestamp::parse(read("end.txt").trim()).unwrap();
    let usage = json["usage"].as_array().unwrap().iter().map(|line| {
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        ((text("group"), text("key")), text("exact").parse().unwrap())
    });
    (end, usage.collect())
}

fn meets_the_expectation(version: &str) {
    let (end, expected) = expected(version);
    assert!(expected.len() >= 12);
    let texts = texts(version);
    let mut first = None;
    for order in permutations(&FILES) {
        let recording = record(&texts, &order);
        assert_eq!((recording.quarantined, &*recording.notes), (0, &[][..]), "{order:?}");
        assert!(recording.newest.unwrap() <= end);
        let events = recording.into_events();
        let same = first.get_or_insert_with(|| events.clone());
        assert_eq!(same, &events, "the order {order:?} makes other events");
        assert_eq!(usage(events, end), expected, "{order:?}");
    }
}

#[test]
fn usage_of_the_1_36_recording_is_exact_in_every_order_of_the_files() {
    meets_the_expectation("v1.36");
}

#[test]
fn usage_of_the_1_20_recording_is_exact_in_every_order_of_the_files() {
    meets_the_expectation("v1.20");
}

#[test]
fn reading_a_file_twice_says_nothing_new() {
    let texts = texts("v1.36");
    let once = record(&texts, &FILES).into_events();
    let twice = record(&texts, &[&FILES[..], &["pods", "deployments"]].concat()).into_events();
    assert_eq!(once, twice);
}

#[test]
fn owned_and_borrowed_events_are_the_same_and_have_distinct_names() {
    let recording = record(&texts("v1.36"), &FILES);
    let borrowed: Vec<_> = recording.events().map(|e| (e.id, e.time)).collect();
    let ids: std::collections::BTreeSet<_> = borrowed.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), borrowed.len());
    assert!(borrowed.is_sorted_by_key(|(_, time)| *time));
    let owned: Vec<_> = recording.into_events().iter().map(|e| (e.id, e.time)).collect();
    assert_eq!(owned, borrowed);
}

proptest! {
    /// Real objects with a few bytes changed, dropped or doubled: read or refused, never a panic, and what is refused
    /// names its place.
    #[test]
    fn no_damage_to_a_recording_makes_a_panic(
        damages in prop::collection::vec((0_usize..40_000, any::<u8>(), 0_usize..4), 1..6),
    ) {
        let mut text = texts("v1.36").remove("pods").unwrap();
        text.truncate(40_000);
        for (at, byte, how) in damages {
            let at = at % text.len();
            match how {
                0 => text[at] = byte,
                1 => text.truncate(at.max(1)),
                2 => text.insert(at, byte),
                _ => drop(text.remove(at)),
            }
            if text.is_empty() {
                text.push(byte);
            }
        }
        let mut recorder = Recorder::new("east");
        if let Err(error) = recorder.read("pods", &*text) {
            prop_assert!(error.to_string().starts_with("pods, line "));
        }
        let events = recorder.finish().into_events();
        prop_assert!(events.is_sorted_by_key(|e| e.time));
    }
}

#[test]
fn a_job_of_a_cron_job_is_a_workload_of_its_own_as_in_its_review() {
    let owner = |kind: &str, name: &str| {
        let (kind, name, uid) = (kind.into(), name.into(), name.into());
        Some(Arc::new(Reference { api_version: "batch/v1".into(), kind, name, uid }))
    };
    let version = |group: Option<&str>, owner| {
        let declared = Declared { group: group.map(Into::into), owner, ..Declared::default() };
        Version { version: 1, time: Timestamp::MIN, learned: None, declared: Arc::new(declared) }
    };
    let mut owners = Owners::default();
    for (kind, name, version) in [
        ("CronJob", "nightly", version(Some("of-the-cron-job"), None)),
        ("Job", "nightly-1", version(Some("of-the-job"), owner("CronJob", "nightly"))),
    ] {
        let (kind, namespace, name) = (kind.into(), "n".into(), Arc::from(name));
        let uid = Uid::of(&name);
        owners.see(
            uid,
            || Object { kind, namespace, name, timeline: Timeline::default() },
            version,
        );
    }
    let mut pod = Timeline::default();
    pod.see(version(None, owner("Job", "nightly-1")));
    let assigned = owners.assignment(&pod, "n", "", 1);
    assert_eq!((&*assigned.owner.unwrap().kind, &*assigned.group), ("Job", "of-the-job"));
}
