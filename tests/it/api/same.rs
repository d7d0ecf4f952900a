//! The same numbers wherever one looks. Everything is compared with the API:
//!
//! * the page, in a real browser: `browser.rs`;
//! * the command line: the tree and the meter that read the log (`../api.rs`), the client that asks (`commands.rs`);
//! * what `kubectl get bizrq` shows: the statuses, as they are written;
//! * what Prometheus is told of groups;
//! * the sums of usage events;
//! * an invoice.

use super::{BEGIN, END, SERVED, get, pages, queries, sums};
use crate::shared::replay;
use bizrq::{
    demo,
    domain::{
        ledger::Record,
        metered::Metered,
        quantity::Quantity,
        time::{HOUR_MS, Timestamp},
    },
    event_log::codec::{Decoded, Decoder, scan_text},
    metrics,
    status::summary,
};
use prometheus::{Registry, TextEncoder};
use serde_json::Value;
use std::{collections::BTreeMap, process::Command};

/// Exact amounts by group and key.
type Sums = BTreeMap<(String, String), i128>;

fn end() -> Timestamp {
    Timestamp::parse(END).unwrap()
}

/// Whether a status says what the API does: a quantity of Kubernetes; of a budget thousandths of an hour, where the API
/// has billionths.
fn is_same(key: &str, shown: &str, told: &str) -> bool {
    let shown = Quantity::parse(shown).unwrap().milli();
    if !key.starts_with("cash/") {
        return shown == Quantity::parse(told).unwrap().milli();
    }
    let (whole, rest) = told.split_once('.').unwrap_or((told, ""));
    let told: i128 = format!("{whole}{rest:0<9}").parse().unwrap();
    (told - shown * 1_000_000).abs() <= 1_000_000
}

#[test]
fn statuses_say_what_the_api_says() {
    let ledger = queries::folded(end());
    let statuses = summary::all(&ledger, end(), &Default::default());
    let mut compared = 0;
    for group in get("/v1/quotas")["groups"].as_array().unwrap() {
        let name = group["group"].as_str().unwrap();
        let Some(status) = statuses.get(name) else { continue };
        for row in group["keys"].as_array().unwrap() {
            let key = row["key"].as_str().unwrap();
            for (field, shown) in
                [("hard", &status.hard), ("used", &status.used), ("selfUsed", &status.self_used)]
            {
                let (told, shown) = (row[field].as_str(), shown.get(key));
                let same = told.zip(shown).is_some_and(|(told, shown)| is_same(key, shown, told));
                assert!(same, "{name} {key} {field}: {shown:?} and {told:?}");
                compared += 1;
            }
            if key.starts_with("cash/") {
                let told = row["consumedHours"].as_str().unwrap();
                assert!(is_same(key, &status.consumed[key], told), "{name} {key}: {told}");
            }
        }
    }
    assert!(compared > 60, "{compared}");
}

/// A number as Prometheus knows it: of the API's text the nearest float.
fn nearest(key: &str, told: &Value) -> f64 {
    let told = told.as_str().unwrap();
    if key.starts_with("cash/") {
        return told.parse().unwrap();
    }
    let milli = Quantity::parse(told).unwrap().milli();
    let sign = if milli < 0 { "-" } else { "" };
    format!("{sign}{}e-3", milli.unsigned_abs()).parse().unwrap()
}

/// What a registry tells, by series.
fn told(registry: &Registry) -> BTreeMap<String, f64> {
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let series = text.lines().filter(|line| !line.starts_with('#'));
    let each = series.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    each.collect()
}

#[test]
fn prometheus_is_told_what_the_api_says() {
    let mut expected = BTreeMap::from([("bizrq_group_rows_left_out".to_owned(), 0.0)]);
    for group in get("/v1/quotas")["groups"].as_array().unwrap() {
        // Of these there is no quota object any more, or never was.
        if ["Removed", "Undeclared"].contains(&group["state"].as_str().unwrap()) {
            continue;
        }
        let name = group["group"].as_str().unwrap();
        for row in group["keys"].as_array().unwrap() {
            let key = row["key"].as_str().unwrap();
            let mut tell = |metric: &str, value| {
                let series = format!("bizrq_group_{metric}{{group=\"{name}\",key=\"{key}\"}}");
                expected.insert(series, value);
            };
            for (field, metric) in
                [("hard", "hard"), ("used", "used"), ("selfUsed", "self_used"), ("left", "left")]
            {
                tell(metric, nearest(key, &row[field]));
            }
            tell("consumed_hours", row["consumedHours"].as_str().unwrap().parse().unwrap());
        }
    }
    assert!(expected.len() > 100, "{expected:?}");
    assert_eq!(told(&SERVED.metrics), expected);
}

#[test]
fn groups_that_are_too_many_for_prometheus_are_left_out_whole_and_counted() {
    let all = told(&SERVED.metrics);
    let hards = |told: &BTreeMap<String, f64>| -> Vec<String> {
        told.keys().filter(|series| series.starts_with("bizrq_group_hard")).cloned().collect()
    };
    for most in [1, 7, 20] {
        let registry = Registry::new();
        metrics::register_groups(&registry, SERVED.projection.clone(), most, demo::end).unwrap();
        let some = told(&registry);
        let (shown, of) = (hards(&some), hards(&all));
        assert!(shown.len() <= most && of.starts_with(&shown), "{most}: {shown:?} of {of:?}");
        let left_out = of.len() - shown.len();
        assert_eq!(some["bizrq_group_rows_left_out"], left_out as f64, "{most}");
        let next = of.get(shown.len()).unwrap().split(',').next().unwrap();
        assert!(!shown.iter().any(|series| series.starts_with(next)), "{next} is cut: {shown:?}");
    }
}

/// What the API says was used in the fortnight.
fn usage() -> Sums {
    sums(&pages(&format!("/v1/usage?from={BEGIN}&to={END}&by=day&"), "lines", 1000))
}

#[test]
fn usage_events_sum_up_to_what_the_api_says() {
    let (mut fold, mut decoder) = (Metered::default(), Decoder::default());
    let mut told = Sums::new();
    let mut tell = |fold: &mut Metered| {
        for piece in fold.pieces() {
            *told.entry((piece.group.to_owned(), piece.key.to_owned())).or_default() += piece.exact;
        }
        fold.told();
    };
    for (position, line) in (1..).zip(queries::lines()) {
        let scanned = scan_text(&line).unwrap();
        let Decoded::Event(event) = decoder.decode(&scanned).unwrap() else { panic!("{line}") };
        fold.take(position, &Record::Event(&event)).unwrap();
        // What runs is told up to the end of each hour, as a serving process does.
        let hour = event.recorded_at.millis().div_euclid(HOUR_MS) * HOUR_MS;
        fold.advance(Timestamp::from_millis(hour).unwrap().min(end())).unwrap();
        tell(&mut fold);
    }
    fold.advance(end()).unwrap();
    tell(&mut fold);
    told.retain(|_, exact| *exact != 0);
    assert_eq!(told, usage());
}

#[test]
fn an_invoice_bills_what_the_api_says() {
    let Some(program) = replay("api::same::an_invoice_bills_what_the_api_says") else { return };
    let mut invoice = Command::new(program);
    invoice.args(["invoice", "--from", BEGIN, "--to", END, "--summary", "-o", "json", "--log"]);
    let output = invoice.arg(SERVED.dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let invoice: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut billed = sums(invoice["lines"].as_array().unwrap());
    billed.retain(|_, exact| *exact != 0);
    // A key's models are a column of an invoice; the API has a key for each beside the generic one.
    let mut usage = usage();
    usage.retain(|row, _| billed.contains_key(row));
    assert!(billed.len() > 10);
    assert_eq!(billed, usage);
}
