//! Invoices from outside: what they say, what they cost, and what they refuse.

use crate::logs::{Ran, TestLog, at, history, opening, quota, run};
use bizrq::{
    domain::{
        event::Event,
        ledger::{Ledger, Options},
        merkle::Hash,
        meter::Window,
    },
    event_log::{AnyLog, EventLog, NewEvent},
};
use serde_json::Value;
use std::{collections::BTreeMap, fs};

const COMMAND: &[&str] =
    &["invoice", "--from", "2026-01-01T00:01:40Z", "--to", "2026-01-01T00:10:00Z"];
/// The same, after the origin.
const PERIOD: (i64, i64) = (100_000, 600_000);

fn invoice(log: &TestLog, more: &[&str]) -> Ran {
    log.run(&[COMMAND, more].concat())
}

fn json(log: &TestLog, more: &[&str]) -> Value {
    let ran = invoice(log, &[more, &["-o", "json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()
}

/// Exact amounts by group and key, as the ledger names keys.
type Totals = BTreeMap<(String, String), i128>;

fn text<'v>(line: &'v Value, name: &str) -> &'v str {
    line[name].as_str().unwrap()
}

fn totals(invoice: &Value) -> Totals {
    let mut totals = Totals::new();
    for line in invoice["lines"].as_array().unwrap() {
        let (key, model) = (text(line, "key"), text(line, "model"));
        let mut keys = vec![key.to_owned()];
        keys.extend((!model.is_empty()).then(|| format!("{key}.{model}")));
        for key in keys {
            let group = text(line, "group").to_owned();
            *totals.entry((group, key)).or_default() +=
                text(line, "exact").parse::<i128>().unwrap();
        }
    }
    totals.retain(|_, exact| *exact != 0);
    totals
}

fn ledger(events: &[Event<'_>]) -> Totals {
    let window = Window { from: Some(at(PERIOD.0)), to: Some(at(PERIOD.1)) };
    let mut ledger = Ledger::new(Options { window, ..Options::default() });
    for (position, event) in (1..).zip(events) {
        ledger.apply(position, Hash::default(), event).unwrap();
    }
    let usage = ledger.usage(at(PERIOD.1)).unwrap();
    let lines = usage.into_iter().map(|line| ((line.group, line.key), line.exact));
    lines.filter(|(_, exact)| *exact != 0).collect()
}

#[test]
fn an_invoice_is_what_the_ledger_says_whatever_its_lines_are_by() {
    for seed in 1..=6 {
        let events = history(seed, 500);
        let log = TestLog::of(&events);
        let said = ledger(&events);
        for more in [&[][..], &["--by", "hour"], &["--by", "day", "--summary"]] {
            assert_eq!(totals(&json(&log, more)), said, "seed {seed} {more:?}");
        }
        let known = json(&log, &["--position", "250"]);
        assert_eq!(totals(&known), ledger(&events[..250]), "seed {seed}");
        assert_eq!(known["position"], 250);
    }
}

#[test]
fn an_invoice_names_position_and_root_and_is_the_same_when_made_again() {
    let log = TestLog::of(&history(7, 300));
    for output in ["json", "csv", "table"] {
        let once = invoice(&log, &["-o", output]);
        assert_eq!(once.code, 0, "{}", once.stderr);
        assert_eq!(invoice(&log, &["-o", output]).stdout, once.stdout);
    }
    let invoice = json(&log, &[]);
    let verified = log.run(&["verify", "-o", "json"]).json();
    assert_eq!(invoice["position"], 300);
    assert_eq!(invoice["root"], verified["root"]);
}

#[test]
fn a_subtree_is_a_group_and_what_is_below_it() {
    let mut events = vec![quota(1, "dept", "", "50", "1"), quota(2, "team-1", "dept", "40", "1")];
    events.extend(history(3, 300));
    let log = TestLog::of(&events);
    let groups = |more: &[&str]| {
        let groups = totals(&json(&log, more)).into_keys().map(|(group, _)| group);
        groups.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(groups(&["--group", "dept", "--subtree"]), ["team-1"]);
    assert_eq!(groups(&["--group", "team-1"]), ["team-1"]);
    assert_eq!(groups(&["--group", "dept"]), Vec::<String>::new());
    let of_one = json(&log, &["--group", "team-1"])["lines"].clone();
    assert_eq!(json(&log, &["--group", "dept", "--subtree"])["lines"], of_one);
}

fn prices(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn costs_are_hours_times_prices_and_lines_end_where_a_price_does() {
    let log = TestLog::of(&history(5, 400));
    let file = prices(
        "currency: EUR\ndigits: 4\nprices:\n\
         - {key: limits.cpu, to: 2026-01-01T00:05:00Z, price: 2, per: 500m}\n\
         - {key: limits.cpu, from: 2026-01-01T00:05:00Z, price: \"0\"}\n\
         - {key: limits.nvidia.com/gpu, price: 1.5}\n\
         - {key: limits.nvidia.com/gpu, model: A30, price: 30}\n",
    );
    let args = ["--prices", file.path().to_str().unwrap()];
    let invoice = json(&log, &args);
    assert_eq!(totals(&invoice), totals(&json(&log, &[])), "prices change no amount");
    let change = at(300_000).to_string();
    let (mut sum, mut seen) = (0_i128, std::collections::BTreeSet::new());
    for line in invoice["lines"].as_array().unwrap() {
        let Some(cost) = line["cost"].as_str() else {
            assert_eq!(text(line, "key"), "requests.cpu", "has no price");
            continue;
        };
        let exact: i128 = text(line, "exact").parse().unwrap();
        // In ten-thousandths of a euro, times 3,600,000,000.
        let (price, expected) = match (text(line, "key"), text(line, "model")) {
            ("limits.cpu", _) if text(line, "from") < change.as_str() => {
                assert!(text(line, "to") <= change.as_str() || line["status"] == "corrected");
                ("2", exact * 2 * 2)
            }
            ("limits.cpu", _) => ("0", 0),
            (_, "A30") => ("30", exact * 30),
            _ => ("1.5", exact * 3 / 2),
        };
        seen.insert(price);
        assert_eq!(text(line, "price"), price);
        let minor: i128 = cost.replace('.', "").parse().unwrap();
        let off = minor * 3_600_000_000 - expected * 10_000;
        assert!(off.abs() * 2 <= 3_600_000_000, "{line}");
        sum += minor;
    }
    assert_eq!(seen.len(), 4, "every price counts somewhere: {seen:?}");
    let printed: i128 = text(&invoice, "cost").replace('.', "").parse().unwrap();
    assert_eq!(printed, sum, "the total is the sum of the lines");
    assert_eq!(invoice["currency"], "EUR");
}

#[test]
fn prices_that_contradict_each_other_or_leave_gaps_are_refused_by_name() {
    let log = TestLog::of(&history(5, 400));
    for (text, says) in [
        (
            "currency: EUR\nprices:\n- {key: limits.cpu, price: 1}\n- {key: limits.cpu, from: 2026-01-01T00:00:00Z, price: 2}\n",
            "two prices of limits.cpu hold from 2026-01-01",
        ),
        ("currency: EUR\nprices:\n- {key: cpus, price: 1}\n", "3: key `cpus` is no key"),
        ("currency: EUR\nprices:\n- {key: cash/limits.cpu, price: 1}\n", "is a budget"),
        ("currency: EUR\nprices:\n- {key: limits.cpu, price: -1}\n", "`-1` is no price"),
        (
            "currency: EUR\nprices:\n- {key: limits.cpu, price: 1, from: yesterday}\n",
            "`yesterday` is no RFC 3339 time",
        ),
        ("currency: EUR\nprices:\n- {key: limits.cpu, price: 1, per: 0}\n", "is for nothing"),
        (
            "currency: EUR\nprices:\n- {key: limits.cpu, price: 1, from: 2026-02-01T00:00:00Z, to: 2026-01-01T00:00:00Z}\n",
            "which is no time",
        ),
        (
            "currency: EUR\nprices:\n- {key: limits.cpu, price: 1, model: a b}\n",
            "model `a b` is none",
        ),
        ("currency: EUR\nprices:\n- {key: limits.cpu, cost: 1}\n", "cost"),
        (
            "currency: EUR\nprices:\n- {key: limits.cpu, to: 2026-01-01T00:05:00Z, price: 1}\n",
            "limits.cpu on no model",
        ),
        (
            "currency: EUR\nprices:\n- {key: limits.nvidia.com/gpu.A30, price: 1}\n",
            "has no price all that time",
        ),
    ] {
        let file = prices(text);
        let ran = invoice(&log, &["--prices", file.path().to_str().unwrap()]);
        assert_eq!(ran.code, 3, "{text}{}", ran.stderr);
        assert!(ran.stderr.contains(says), "{says}: {}", ran.stderr);
    }
}

#[test]
fn a_period_that_is_none_and_a_position_that_is_not_there_are_refused() {
    let log = TestLog::of(&history(5, 100));
    let ran =
        log.run(&["invoice", "--from", "2026-02-01T00:00:00Z", "--to", "2026-02-01T00:00:00Z"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let ran = invoice(&log, &["--position", "101"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("ends at 100"), "{}", ran.stderr);
}

#[test]
fn a_log_that_was_rolled_over_is_billed_as_one_history() {
    let events = history(9, 400);
    let whole = json(&TestLog::of(&events), &[]);
    let (first, second) = events.split_at(150);
    let log = TestLog::of(first);
    let next = log.path().join("next");
    let [dir, next] = [log.path(), &next].map(|path| path.to_str().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        AnyLog::roll(dir, next, opening).await.unwrap();
        let log = AnyLog::open(next).await.unwrap();
        log.append(second.iter().map(|event| NewEvent::new(event).unwrap()).collect())
            .await
            .unwrap();
        log.close().unwrap();
    });
    let both = [dir, next].join(",");
    let args = [&["invoice", "--log", &both], &COMMAND[1..], &["-o", "json"]].concat();
    let ran = run(&args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // Records of corrections stand one further.
    let lines = |invoice: &Value| {
        let mut lines = invoice["lines"].clone();
        let corrections = lines.as_array_mut().unwrap().iter_mut();
        corrections.filter_map(|line| line.get_mut("correction")).for_each(|c| *c = Value::Null);
        lines
    };
    assert_eq!(lines(&ran.json()), lines(&whole));
    assert_eq!(ran.json()["position"], 401, "with the record between them");
    let alone = run(&[&["invoice", "--log", next], &COMMAND[1..]].concat());
    assert_eq!(alone.code, 4, "what has no beginning is not summed up");
}
