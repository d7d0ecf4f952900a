//! The same numbers wherever one looks: the API's, the tree of the command line, what `kubectl get bizrq` shows, the sums of
//! usage events, and an invoice. (The page's are the API's: `browser.rs`.)

use super::{BEGIN, END, SERVED, get, pages, queries, sums};
use crate::shared::replay;
use bizrq::{
    domain::{
        ledger::Record,
        metered::Metered,
        quantity::Quantity,
        time::{HOUR_MS, Timestamp},
    },
    event_log::codec::{Decoded, Decoder, scan_text},
    status::summary,
};
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
