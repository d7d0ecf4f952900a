//! A number is the sum of its segments, and each segment names the records that made it.

use crate::logs::{LENGTH, TestLog, at, history};
use bizrq::{
    domain::{
        event::{Data, PodStarted, StartBasis},
        event::{Event, EventId, PodStopped, StopBasis},
        ledger::{Ledger, Options},
        merkle::Hash,
        meter::Window,
        time::Timestamp,
    },
    event_log::NewEvent,
};
use serde_json::Value;

/// The ledger's own number for the interval.
fn usage(events: &[Event<'_>], group: &str, key: &str, from: Option<i64>, to: i64) -> i128 {
    let window = Window { from: from.map(at), to: Some(at(to)) };
    let options = Options { window, history: false, quotas: false, ..Options::default() };
    let mut ledger = Ledger::new(options);
    for (position, event) in (1..).zip(events) {
        ledger.apply(position, Hash::default(), event).unwrap();
    }
    let lines = ledger.usage(at(to)).unwrap();
    lines.iter().find(|l| l.group == group && l.key == key).map_or(0, |l| l.exact)
}

fn exact(value: &Value) -> i128 {
    value["exact"].as_str().unwrap().parse().unwrap()
}

#[test]
fn segments_add_up_to_the_usage_of_random_histories() {
    let (mut segments, mut corrections) = (0, 0);
    for seed in 1..=12 {
        let events = history(seed, 300);
        let log = TestLog::of(&events);
        let key = ["limits.cpu", "requests.cpu", "limits.nvidia.com/gpu.A30"][seed as usize % 3];
        let group = format!("team-{}", seed % 3);
        let (from, to) = ([None, Some(200_000), Some(LENGTH / 2)][seed as usize % 3], LENGTH - 7);
        let to_text = at(to).to_string();
        let mut args =
            vec!["explain", "--group", &group, "--key", key, "--to", &to_text, "-o", "json"];
        let from_text = from.map(|from| at(from).to_string());
        args.extend(from_text.iter().flat_map(|from| ["--from", from]));
        let ran = log.run(&args);
        assert_eq!(ran.code, 0, "seed {seed}: {}{}", ran.stdout, ran.stderr);
        let json = ran.json();
        let (lines, adjusted) =
            (json["segments"].as_array().unwrap(), json["adjustments"].as_array().unwrap());
        let sum: i128 = lines.iter().chain(adjusted).map(exact).sum();
        assert_eq!(sum, usage(&events, &group, key, from, to), "seed {seed}");
        assert_eq!(exact(&json), sum);
        for line in lines {
            let held: Vec<_> = line["positions"].as_array().unwrap().iter().collect();
            assert!(!held.is_empty());
            for position in held {
                let event = &events[position.as_u64().unwrap() as usize - 1];
                let pod = format!("pods/{}", line["pod"].as_str().unwrap());
                assert_eq!(
                    (&*event.subject, &*event.source),
                    (&*pod, line["source"].as_str().unwrap())
                );
            }
        }
        segments += lines.len();
        corrections += adjusted.len();
    }
    assert!(segments > 100 && corrections > 10, "{segments} {corrections}");
}

#[test]
fn the_records_of_a_segment_alone_make_it() {
    let explain = |events: &[Event<'static>]| {
        let to = at(LENGTH).to_string();
        let args =
            ["explain", "--group", "team-1", "--key", "limits.cpu", "--to", &to, "-o", "json"];
        TestLog::of(events).run(&args).json()["segments"].as_array().unwrap().clone()
    };
    // Whether it is provisional is said by the pod's end, wherever that is.
    let segment = |line: &Value| {
        ["pod", "source", "from", "to", "amount"].map(|k| line[k].to_string()).join(" ")
    };
    let (mut segments, mut of_several) = (0, 0);
    for seed in 20..25 {
        let events = history(seed, 300);
        for line in explain(&events).iter().take(6) {
            let positions = line["positions"].as_array().unwrap().iter();
            let positions: Vec<_> = positions.map(|p| p.as_u64().unwrap() as usize).collect();
            let alone: Vec<_> = positions.iter().map(|n| events[n - 1].clone()).collect();
            let made: Vec<String> = explain(&alone).iter().map(segment).collect();
            assert!(made.contains(&segment(line)), "{line}: {positions:?} make {made:?}");
            segments += 1;
            of_several += usize::from(positions.len() > 2);
        }
    }
    assert!(segments > 20 && of_several > 5, "{segments} {of_several}");
}

fn start(uid: &'static str, time: i64, group: &'static str) -> Event<'static> {
    let data = PodStarted {
        uid: uid.into(),
        owner: None,
        group: group.into(),
        models: Default::default(),
        node: "n".into(),
        held: crate::logs::cores(1000),
        reserved: None,
        basis: StartBasis::Bound,
    };
    event(uid, time, Data::PodStarted(data))
}

fn stop(uid: &'static str, time: i64) -> Event<'static> {
    let (earliest, latest, ran) = (at(time), at(time), None);
    let (phase, reason) = Default::default();
    let basis = StopBasis::TerminalStatus;
    let uid_text = uid.into();
    event(
        uid,
        time,
        Data::PodStopped(PodStopped { uid: uid_text, earliest, latest, basis, phase, reason, ran }),
    )
}

fn event(uid: &str, time: i64, data: Data<'static>) -> Event<'static> {
    let id = EventId(u128::try_from(time).unwrap() << 8 | u128::from(uid.as_bytes()[0]));
    Event {
        id,
        source: "/clusters/east".into(),
        subject: format!("pods/ns/{uid}").into(),
        time: at(time),
        recorded_at: at(time),
        data,
    }
}

fn beat(time: i64) -> Event<'static> {
    let since = at((time - 3_600_000).max(0));
    let data = Data::ObserverSynced(bizrq::domain::event::ObserverSynced {
        resource_versions: Default::default(),
        since,
    });
    Event { subject: "observers/east".into(), ..event("o", time, data) }
}

#[test]
fn what_the_ledger_has_forgotten_is_still_explained() {
    let hour = 3_600_000;
    let mut events = vec![start("a", 0, "team-a"), stop("a", hour), start("b", hour, "team-a")];
    events.extend((1..=36 * 24).map(|h| beat(h * hour)));
    // Behind the horizon: a repetition is dropped, and what is new counts.
    events.push(start("a", 0, "team-a"));
    let log = TestLog::of(&events);
    let to = at(40 * 24 * hour);
    let ran = log.run(&[
        "explain",
        "--group",
        "team-a",
        "--key",
        "cpu",
        "--to",
        &to.to_string(),
        "-o",
        "json",
    ]);
    let json = ran.json();
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(json["key"], "requests.cpu", "a key may be typed as people do");
    let lines = json["segments"].as_array().unwrap();
    let positions: Vec<_> = lines.iter().map(|l| l["positions"].to_string()).collect();
    assert_eq!(positions, ["[1,2]", "[3]"]);
    assert_eq!(exact(&json), i128::from(hour) * 1000 + i128::from(40 * 24 * hour - hour) * 1000);
    assert_eq!(json["segments"][1]["to"], Value::Null);
}

#[test]
fn a_table_shows_pod_records_and_total() {
    let events = [start("a", 0, "team-a"), stop("a", 3_600_000), start("b", 0, "team-b")];
    let log = TestLog::of(&events);
    let ran = log.run(&["explain", "--group", "team-a", "--key", "limits.cpu"]);
    assert_eq!(ran.code, 0);
    let line = "2026-01-01T00:00:00.000Z  2026-01-01T01:00:00.000Z  east ns/a       1  1.000000000  3600000000  1,2";
    assert!(ran.stdout.contains(line), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("total 1.000000000 core-hours, exact 3600000000"),
        "{}",
        ran.stdout
    );
    assert_eq!(log.run(&["explain", "--group", "a", "--key", "cash/cpu"]).code, 2);
    let backwards = ["--from", "2027-01-01T00:00:00Z", "--to", "2026-01-01T00:00:00Z"];
    assert_eq!(
        log.run(&[&["explain", "--group", "a", "--key", "cpu"], &backwards[..]].concat()).code,
        2
    );
}

#[test]
fn a_newer_version_is_not_explained_away() {
    let line = br#"{"specversion":"1.0","id":"00000000000000000000000000000007","type":"io.bizrq.pod.started.v2","source":"/clusters/east","subject":"x","time":"2026-11-29T16:00:00.000Z","recordedat":"2026-11-29T16:00:00.000Z","data":{}}"#;
    let newer = NewEvent::copied(&bizrq::event_log::codec::scan(line).unwrap()).unwrap();
    let log = TestLog::with(vec![NewEvent::new(&start("a", 0, "team-a")).unwrap(), newer]);
    let state = ["state", "--at", "2027-01-01T00:00:00Z"];
    for args in [&["explain", "--group", "team-a", "--key", "cpu"][..], &["verify"], &state] {
        let ran = log.run(args);
        assert_eq!(ran.code, 4, "{args:?}");
        assert!(ran.stderr.contains("position 2 is `pod.started` version 2"), "{}", ran.stderr);
    }
    let before = log.run(&["state", "--position", "1", "-o", "json"]);
    assert_eq!(before.code, 0, "{}", before.stderr);
    let _: Timestamp = serde_json::from_value(before.json()["to"].clone()).unwrap();
}
