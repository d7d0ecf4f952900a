//! What the log says of an instant: by all that is known now, or as it was known then.

use crate::logs::{TestLog, at, history, quota};
use bizrq::domain::{
    event::{Data, Event, EventId},
    ledger::Ledger,
    merkle::Hash,
};
use serde_json::Value;

/// Every usage line as `group key exact running provisional`.
fn lines(json: &Value) -> Vec<String> {
    let usage = json["usage"].as_array().unwrap();
    let text = |line: &Value| {
        ["group", "key", "exact", "provisional"]
            .map(|k| line[k].to_string().replace('"', ""))
            .join(" ")
    };
    usage.iter().map(text).collect()
}

fn expected(events: &[Event<'_>], to: i64) -> (Vec<String>, String) {
    let mut ledger = Ledger::default();
    for (position, event) in (1..).zip(events) {
        ledger.apply(position, Hash::default(), event).unwrap();
    }
    let usage = ledger.usage(at(to)).unwrap();
    let text = |u: &bizrq::domain::ledger::Usage| {
        format!("{} {} {} {}", u.group, u.key, u.exact, u.provisional)
    };
    (usage.iter().map(text).collect(), ledger.position().to_string())
}

#[test]
fn an_instant_is_counted_by_what_is_known_now() {
    for seed in 1..=4 {
        let events = history(seed, 400);
        let log = TestLog::of(&events);
        for to in [0, 123_456, 500_000, 1_500_000] {
            let ran = log.run(&["state", "--at", &at(to).to_string(), "-o", "json"]);
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            let (usage, position) = expected(&events, to);
            assert_eq!(lines(&ran.json()), usage, "seed {seed}, to {to}");
            assert_eq!(ran.json()["position"].to_string(), position);
        }
    }
}

#[test]
fn a_position_is_counted_by_what_was_known_then() {
    // Published a second apart, whatever happened when.
    let events: Vec<_> = (1_i64..)
        .zip(history(9, 300))
        .map(|(n, event)| Event { recorded_at: at(n * 10_000), ..event })
        .collect();
    let log = TestLog::of(&events);
    let ran = log.run(&["state", "--position", "150", "-o", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.json()["to"], at(1_500_000).to_string(), "up to when the record was published");
    assert_eq!(lines(&ran.json()), expected(&events[..150], 1_500_000).0);
    let same = log.run(&["state", "--as-known-at", &at(1_509_999).to_string(), "-o", "json"]);
    assert_eq!((same.code, &same.json()["position"]), (0, &Value::from(150)));
    assert_eq!(lines(&same.json()), expected(&events[..150], 1_509_999).0);
    let both =
        log.run(&["state", "--position", "150", "--at", &at(300_000).to_string(), "-o", "json"]);
    assert_eq!(lines(&both.json()), expected(&events[..150], 300_000).0);
    assert_eq!(log.run(&["state", "--position", "301"]).code, 2, "the log ends before");
    assert_eq!(log.run(&["state"]).code, 2, "of which instant?");
    let root = log.run(&["state", "--position", "150", "-o", "json"]).json()["root"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(log.run(&["verify", "--root", &root]).code, 0, "the root of then is proved now");
}

#[test]
fn limits_and_budgets_are_shown_with_what_is_left() {
    let mut events =
        vec![quota(1, "dept", "", "100", "50"), quota(2, "team-0", "dept", "10", "20")];
    let mut start = history(1, 400)
        .into_iter()
        .find(|event| matches!(&event.data, Data::PodStarted(data) if &*data.group == "team-0"));
    let mut event = start.take().unwrap();
    if let Data::PodStarted(data) = &mut event.data {
        data.held = crate::logs::cores(2000);
    }
    (event.id, event.time, event.recorded_at) = (EventId(99), at(0), at(0));
    events.push(event);
    let log = TestLog::of(&events);
    let ran = log.run(&["state", "--at", &at(3 * 3_600_000).to_string(), "-o", "json"]);
    let json = ran.json();
    let find = |list: &str, group: &str| {
        let found = json[list]
            .as_array()
            .unwrap()
            .iter()
            .find(|l| l["group"] == group && l["key"] == "limits.cpu");
        found.unwrap_or_else(|| panic!("{list} {group}: {}", ran.stdout)).clone()
    };
    let team = find("quotas", "team-0");
    assert_eq!(
        [&team["hard"], &team["used"], &team["left"], &team["parent"]],
        ["10", "2", "8", "dept"]
    );
    let dept = find("quotas", "dept");
    assert_eq!([&dept["used"], &dept["left"]], ["10", "90"], "a parent counts what it gave");
    let cash = find("cash", "team-0");
    assert_eq!(
        [&cash["hardHours"], &cash["usedHours"], &cash["leftHours"]],
        ["20.000000000", "6.000000000", "14.000000000"]
    );
    assert_eq!(cash["exhausted"], at(10 * 3_600_000).to_string());
    assert_eq!(find("cash", "dept")["leftHours"], "30.000000000");
    let table = log.run(&["state", "--at", &at(3 * 3_600_000).to_string()]);
    assert!(
        table.stdout.contains("allowed") && table.stdout.contains("budgets"),
        "{}",
        table.stdout
    );
}

#[test]
fn at_position_0_nothing_is_counted_and_no_instant_is_named() {
    let log = TestLog::of(&history(9, 30));
    let ran = log.run(&["state", "--position", "0"]);
    assert_eq!(
        (ran.code, &*ran.stdout),
        (0, "no record is counted: nothing was used, nothing is allowed\n")
    );
    let json = log.run(&["state", "--position", "0", "-o", "json"]).json();
    assert_eq!((&json["to"], &json["position"]), (&Value::Null, &0.into()));
    let said = log.run(&["state", "--position", "0", "--at", &at(5).to_string()]);
    assert!(said.code == 0 && said.stdout.contains("position 0"), "{}", said.stdout);
}
