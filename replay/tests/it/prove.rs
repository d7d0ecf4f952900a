//! A line of an invoice is proved by its records; a forged, altered or re-summed line has no proof that checks. A log
//! that only grew is told from one that was changed, and what changed between two positions is traced to records.

use crate::logs::{Ran, TestLog, at, history, run};
use bizrq::{
    domain::{
        event::{Data, Event, EventId, PeriodClosed},
        merkle::{Frontier, Hash, LeafHasher},
    },
    event_log::NewEvent,
};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// A log, its invoice, and a place for files.
struct Case {
    log: TestLog,
    invoice: Value,
    desk: TempDir,
}

impl Case {
    fn of(log: TestLog, more: &[&str]) -> Self {
        let period = ["invoice", "--from", "2026-01-01T00:01:40Z", "--to", "2026-01-01T00:10:00Z"];
        let ran = log.run(&[&period[..], more, &["-o", "json"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        Self { invoice: ran.json(), log, desk: TempDir::new().unwrap() }
    }

    fn lines(&self) -> usize {
        self.invoice["lines"].as_array().unwrap().len()
    }

    fn write(&self, name: &str, value: &Value) -> PathBuf {
        let path = self.desk.path().join(name);
        fs::write(&path, value.to_string()).unwrap();
        path
    }

    fn prove(&self, line: usize) -> Ran {
        let invoice = self.write("invoice.json", &self.invoice);
        let line = line.to_string();
        self.log.run(&["prove", "--invoice", invoice.to_str().unwrap(), "--line", &line])
    }

    fn proof(&self, line: usize) -> Value {
        let ran = self.prove(line);
        assert_eq!(ran.code, 0, "line {line}: {}{}", self.invoice["lines"][line - 1], ran.stderr);
        ran.json()
    }

    /// Checks a proof against an invoice: the code and what was said.
    fn check(&self, invoice: &Value, proof: &Value) -> (i32, String) {
        let (invoice, proof) = (self.write("i.json", invoice), self.write("p.json", proof));
        let [invoice, proof] = [&invoice, &proof].map(|path| path.to_str().unwrap());
        let ran = run(&["check-proof", "--invoice", invoice, "--proof", proof]);
        (ran.code, ran.stdout + &ran.stderr)
    }
}

/// Every line of the first history and every fifth of the others: a proof reads the log five times.
fn some(seed: u64, lines: usize) -> impl Iterator<Item = usize> {
    (1..=lines).step_by(if seed == 1 { 1 } else { 5 })
}

/// `events` with a closing of the first 300 s as known at `place`, and more of the history behind it.
fn closed(mut events: Vec<Event<'static>>, place: usize) -> Vec<Event<'static>> {
    let (mut tree, mut hasher) = (Frontier::default(), LeafHasher::default());
    for (position, event) in (1..).zip(&events[..place]) {
        let mut line = Vec::new();
        tree.append(NewEvent::new(event).unwrap().write_line(position, &mut hasher, &mut line));
    }
    let (from, to, position) = (at(0), at(300_000), place as u64);
    let root = tree.root().to_string().into();
    let closing = Event {
        id: EventId(1 << 100),
        source: "/operators/ann".into(),
        subject: "periods/first".into(),
        time: at(0),
        recorded_at: at(0),
        data: Data::PeriodClosed(PeriodClosed { from, to, position, root }),
    };
    events.insert(place, closing);
    events
}

#[test]
fn every_line_is_proved_by_its_records_without_the_log() {
    for (seed, more) in [(1, &[][..]), (2, &["--summary"]), (3, &["--by", "hour"])] {
        let case = Case::of(TestLog::of(&history(seed, 400)), more);
        for line in some(seed, case.lines()) {
            let (code, said) = case.check(&case.invoice, &case.proof(line));
            assert_eq!(code, 0, "line {line}: {said}");
            assert!(said.contains("That no record is missing is proved by bizrq-replay verify"));
        }
    }
}

#[test]
fn lines_of_closed_periods_and_corrections_are_proved_too() {
    let mut statuses = std::collections::BTreeSet::new();
    for seed in 1..=3 {
        let case = Case::of(TestLog::of(&closed(history(seed, 500), 250)), &[]);
        for line in some(seed, case.lines()) {
            statuses.insert(case.invoice["lines"][line - 1]["status"].to_string());
            let (code, said) = case.check(&case.invoice, &case.proof(line));
            assert_eq!(code, 0, "line {line}: {said}");
        }
    }
    assert!(statuses.contains("\"corrected\""), "{statuses:?}");
}

#[test]
fn a_forged_altered_or_summed_up_line_is_not_proved() {
    let case = Case::of(TestLog::of(&history(4, 400)), &[]);
    let line = (1..=case.lines()).max_by_key(|n| {
        let proof = case.proof(*n);
        proof["records"].as_array().unwrap().len()
    });
    let line = line.unwrap();
    let proof = case.proof(line);
    let at = |value: &mut Value, path: &str, to: Value| *value.pointer_mut(path).unwrap() = to;
    let of_line = |field: &str| format!("/lines/{}/{field}", line - 1);

    // The invoice was altered.
    let other_root = json!(Hash::default().to_string());
    for (path, to, says) in [
        (of_line("exact"), json!("1"), "its records sum to"),
        (of_line("hours"), json!("9.000000000"), "these are"),
        (of_line("group"), json!("team-9"), "sum to nothing"),
        (of_line("key"), json!("limits.memory"), "sum to nothing"),
        (of_line("cluster"), json!("other"), "sum to nothing"),
        (of_line("namespace"), json!("other"), "sum to nothing"),
        (of_line("to"), json!("2026-01-01T00:01:40.001Z"), "its records sum to"),
        (of_line("status"), json!("nothing"), "by its records it is not nothing"),
        ("/root".to_owned(), other_root, "is not in the log with root"),
        ("/position".to_owned(), json!(399), "its last record is 400"),
    ] {
        let mut invoice = case.invoice.clone();
        at(&mut invoice, &path, to);
        let (code, said) = case.check(&invoice, &proof);
        if let Some(field) = path.strip_prefix(&of_line("")) {
            let says = format!("the proof was made of a line whose {field} is");
            assert!(code == 1 && said.contains(&says), "{path}: {code} {said}");
        }
        // Whoever forges the line in the proof, too, has still the records against him.
        let mut forged = proof.clone();
        forged["line"] = invoice["lines"][line - 1].clone();
        let (code, said) = case.check(&invoice, &forged);
        assert!(code == 1 && said.contains(says), "{path}: {code} {said}");
        fs::write(case.desk.path().join("invoice.json"), invoice.to_string()).unwrap();
        let path = case.desk.path().join("invoice.json");
        let number = line.to_string();
        let args = ["prove", "--invoice", path.to_str().unwrap(), "--line", &number];
        assert_ne!(case.log.run(&args).code, 0, "no proof is made of it");
    }

    // The proof was.
    let records = proof["records"].as_array().unwrap();
    for number in 0..records.len() {
        let says = |proof: &Value| {
            let (code, said) = case.check(&case.invoice, proof);
            assert_eq!(code, 1, "record {number}: {said}");
            said
        };
        let mut changed = proof.clone();
        let text = records[number]["record"].as_str().unwrap();
        let forged =
            text.replacen("team-", "steam-", 1).replacen("\"time\":\"2026", "\"time\":\"2025", 1);
        at(&mut changed, &format!("/records/{number}/record"), json!(forged));
        assert!(says(&changed).contains("is not in the log"));
        let mut moved = proof.clone();
        let position = records[number]["position"].as_u64().unwrap();
        at(&mut moved, &format!("/records/{number}/position"), json!(position + 1));
        says(&moved);
        let mut twice = proof.clone();
        twice["records"].as_array_mut().unwrap().insert(number, records[number].clone());
        assert!(says(&twice).contains("does not come after"));
        let mut cut = proof.clone();
        cut["records"][number]["path"].as_array_mut().unwrap().pop();
        assert!(says(&cut).contains("is not in the log"));
    }
    let mut none = proof.clone();
    none["records"] = json!([]);
    assert!(case.check(&case.invoice, &none).1.contains("sum to nothing"));
    // Another position that has the same root, with whichever record as the last.
    let mut shorter = case.invoice.clone();
    at(&mut shorter, "/position", json!(399));
    for record in records.iter().chain([&proof["last"]]) {
        let mut last = proof.clone();
        last["last"] = record.clone();
        at(&mut last, "/last/position", json!(399));
        assert_eq!(case.check(&shorter, &last).0, 1);
    }
}

/// The same with each of its fields altered, one at a time, by name.
fn altered(line: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (name, value) in line.as_object().unwrap() {
        let others = match value {
            Value::Object(_) => altered(value)
                .into_iter()
                .map(|(field, inner)| (format!("{name}.{field}"), inner))
                .collect(),
            Value::String(text) if text.ends_with('Z') => {
                let (other, digit) = (text.trim_end_matches('Z'), text.as_bytes()[text.len() - 2]);
                let digit = if digit == b'9' { '8' } else { char::from(digit + 1) };
                let (before, _) = other.split_at(other.len() - 1);
                vec![(name.clone(), json!(format!("{before}{digit}Z")))]
            }
            Value::String(text) if text.ends_with(|c: char| c.is_ascii_digit()) => {
                vec![(name.clone(), json!(format!("{text}1")))]
            }
            Value::String(text) => vec![(name.clone(), json!(format!("{text}x")))],
            Value::Number(number) => vec![(name.clone(), json!(number.as_u64().unwrap() + 1))],
            _ => vec![(name.clone(), json!([1]))],
        };
        for (field, other) in others {
            let mut whole = line.clone();
            whole[name] = other;
            all.push((field, whole));
        }
    }
    all
}

#[test]
fn no_field_of_a_line_can_be_altered_even_if_the_proof_is_altered_like_it() {
    let desk = TempDir::new().unwrap();
    let prices = desk.path().join("prices.yaml");
    let text = "currency: EUR\ndigits: 9\nprices:\n- {key: limits.cpu, price: 3}\n\
                - {key: limits.nvidia.com/gpu, price: 70}\n- {key: requests.cpu, price: 1}\n";
    fs::write(&prices, text).unwrap();
    let prices = ["--prices", prices.to_str().unwrap()];
    let mut fields = std::collections::BTreeSet::new();
    let events = closed(history(2, 500), 250);
    for more in [&prices[..], &[&prices[..], &["--summary"]].concat()] {
        let case = Case::of(TestLog::of(&events), more);
        let lines = case.invoice["lines"].as_array().unwrap();
        // One that somebody corrected, one that was learned late, and one of neither.
        let kinds: [fn(&Value) -> bool; 3] = [
            |line| line["correction"]["by"] == "ann",
            |line| line["correction"]["by"] == "",
            |line| line.get("correction").is_none() && line["model"] != "",
        ];
        for is_one in kinds {
            let place = lines.iter().position(is_one).expect("a line of each kind");
            let proof = case.proof(place + 1);
            assert_eq!(case.check(&case.invoice, &proof).0, 0);
            for (field, line) in altered(&lines[place]) {
                let mut invoice = case.invoice.clone();
                invoice["lines"][place] = line.clone();
                let (code, said) = case.check(&invoice, &proof);
                assert_ne!(code, 0, "{field} of {}: {said}", lines[place]);
                // Which number it has is nothing that records say; and of a time in which they sum to the same the
                // line says the truth, too. What somebody corrected has its time from its record.
                let of_time = ["from", "to"].contains(&field.as_str());
                if field == "line" || (of_time && lines[place]["correction"]["by"] != "ann") {
                    continue;
                }
                let mut forged = proof.clone();
                forged["line"] = line;
                let (code, said) = case.check(&invoice, &forged);
                assert_ne!(code, 0, "{field} of {}, in both: {said}", lines[place]);
                fields.insert(field);
            }
        }
    }
    let all = "cluster correction.by correction.positions correction.why cost exact from group hours key model \
               namespace per price status to unit workload";
    assert_eq!(fields.into_iter().collect::<Vec<_>>().join(" "), all);
}

#[test]
fn what_nobody_named_and_what_is_not_over_are_told() {
    let log = TestLog::of(&history(7, 100));
    let told = |args: &[&str], says: &str| {
        let ran = log.run(args);
        assert!(
            ran.code == 0 && ran.stderr.contains(says),
            "{args:?}: {} {}",
            ran.code,
            ran.stderr
        );
    };
    told(&["explain", "--group", "nosuch", "--key", "limits.cpu"], "into a group `nosuch`");
    let from = ["invoice", "--from", "2026-01-01T00:00:00Z", "--to"];
    told(&[&from[..], &["2150-01-01T00:00:00Z"]].concat(), "2150-01-01T00:00:00.000Z is not over");
    let over = log.run(&[&from[..], &["2026-01-02T00:00:00Z"]].concat());
    assert!(!over.stderr.contains("is not over"), "{}", over.stderr);
}

#[test]
fn an_invoice_of_another_log_is_not_proved_by_this_one() {
    let case = Case::of(TestLog::of(&history(4, 400)), &[]);
    let other = Case { log: TestLog::of(&history(5, 400)), ..case };
    let ran = other.prove(1);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("the invoice is of a log with root"), "{}", ran.stderr);
    assert_eq!(other.prove(10_000).code, 2);
}

#[test]
fn a_log_that_only_grew_proves_it_for_every_root_that_it_had() {
    let log = TestLog::of(&history(6, 300));
    for position in [1, 2, 63, 64, 65, 255, 299, 300] {
        let state = log.run(&["state", "--position", &position.to_string(), "-o", "json"]).json();
        let root = state["root"].as_str().unwrap();
        let ran = log.run(&["consistency", root, "-o", "json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(ran.json()["old"]["position"], position);
        assert_eq!(ran.json()["new"]["position"], 300);
    }
    let never = log.run(&["consistency", &Hash::default().to_string()]);
    assert_eq!(never.code, 1, "{}", never.stdout);
    assert!(never.stdout.contains("never had root"));
}

#[test]
fn a_difference_is_what_ran_on_and_what_records_changed() {
    let events: Vec<_> = (1_i64..)
        .zip(history(8, 300))
        .map(|(n, event)| Event { recorded_at: at(n * 10_000), ..event })
        .collect();
    let log = TestLog::of(&events);
    let number = |value: &Value| value.as_str().unwrap().parse::<i128>().unwrap();
    let usage = |position: u64| {
        let state = log.run(&["state", "--position", &position.to_string(), "-o", "json"]).json();
        let lines = state["usage"].as_array().unwrap().iter();
        let row = |l: &Value| (l["group"].to_string(), l["key"].to_string());
        lines.map(|l| (row(l), number(&l["exact"]))).collect::<std::collections::BTreeMap<_, _>>()
    };
    let diff = log.run(&["diff", "100", "200", "-o", "json"]).json();
    let (before, after) = (usage(100), usage(200));
    let mut by_records = 0;
    for line in diff["usage"].as_array().unwrap() {
        let row = (line["group"].to_string(), line["key"].to_string());
        let of = |field: &str| number(&line[field]);
        assert_eq!(of("beforeExact"), before.get(&row).copied().unwrap_or(0));
        let sum = of("beforeExact") + of("ranOnExact") + of("byRecordsExact");
        assert_eq!(sum, after[&row]);
        if of("byRecordsExact") != 0 {
            by_records += 1;
            let records = line["records"].as_array().unwrap();
            assert!(!records.is_empty(), "{line}");
            assert!(records.iter().all(|p| (101..=200).contains(&p.as_u64().unwrap())), "{line}");
        }
    }
    assert!(by_records > 0, "{diff}");
    let same = log.run(&["diff", "200", "200"]);
    assert!(same.stdout.contains("Nothing is different."), "{}", same.stdout);
    let by_time = log.run(&["diff", &at(1_000_000).to_string(), "200", "-o", "json"]).json();
    assert_eq!(by_time, diff, "the 100th was published then");
    assert_eq!(log.run(&["diff", "200", "100"]).code, 2);
    assert_eq!(log.run(&["diff", "200", "301"]).code, 2);
}
