//! The public trace: core-hours and card-hours per group and in total, against rational arithmetic on the rows.
//!
//! The calculation here shares nothing with the code: its own split of lines, no quantities, no milliseconds.

use crate::shared;
use bizrq::{
    domain::{
        billing::{Billing, Terms, Told},
        event::{Period, Position},
        history::Unit,
        ledger::{Ledger, Record, Usage},
        pod::Basis,
        time::Timestamp,
    },
    event_log::{
        EventLog, NewEvent, Reader,
        codec::{Decoded, decode, scan},
        file::{FileLog, Options},
        records::Raw,
    },
    import::{Counts, Importer, Map, Rows},
};
use num_bigint::BigInt;
use num_rational::BigRational;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Output},
};

const MAP: &str = include_str!("../fixtures/openb.toml");
const MAP_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/openb.toml");
const DEFAULT: &str = "data/openb_pod_list_default.csv";
const PER_MODEL: &str = "data/openb_pod_list_gpuspec33.csv";
const GPU: &str = "limits.nvidia.com/gpu";

/// Unit-hours by (group, key); what is 0 is not listed.
type Hours = BTreeMap<(String, String), BigRational>;

/// What a list says, by the independent calculation.
#[derive(Default)]
struct Answer {
    hours: Hours,
    ran: u64,
    never_ran: u64,
    ambiguous: BTreeSet<String>,
}

fn whole(text: &str) -> BigRational {
    BigRational::from_integer(text.parse::<BigInt>().unwrap())
}

fn ratio(numerator: i64, denominator: i64) -> BigRational {
    BigRational::new(numerator.into(), denominator.into())
}

/// cpu_milli/1000 × seconds/3600 and so on, row by row.
fn calculate(csv: &str) -> Answer {
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut answer = Answer::default();
    for line in lines {
        let cells: BTreeMap<&str, &str> = head.iter().copied().zip(line.split(',')).collect();
        if cells["scheduled_time"].is_empty() {
            answer.never_ran += 1;
            continue;
        }
        answer.ran += 1;
        let hours =
            (whole(cells["deletion_time"]) - whole(cells["scheduled_time"])) * ratio(1, 3600);
        let cores = whole(cells["cpu_milli"]) * ratio(1, 1000);
        let bytes = whole(cells["memory_mib"]) * ratio(1 << 20, 1);
        let cards = whole(cells["num_gpu"]) * whole(cells["gpu_milli"]) * ratio(1, 1000);
        let mut add = |key: String, amount: &BigRational| {
            let sum = answer.hours.entry((cells["qos"].to_owned(), key)).or_default();
            *sum += amount * &hours;
        };
        add("requests.cpu".into(), &cores);
        add("requests.memory".into(), &bytes);
        add(GPU.into(), &cards);
        let spec = cells["gpu_spec"];
        if spec.contains('|') {
            answer.ambiguous.insert(spec.to_owned());
        } else if !spec.is_empty() {
            add(format!("{GPU}.{spec}"), &cards);
        }
    }
    answer.hours.retain(|_, hours| *hours != BigRational::default());
    answer
}

/// The library's way: rows to events, events to a file log.
async fn import(log: &FileLog, csv: &str) -> Counts {
    let mut importer = Importer::new("openb");
    for (_, line) in records(log).await {
        if let Ok(Decoded::Event(event)) = decode(&scan(&line).unwrap()) {
            importer.learn(&event);
        }
    }
    let mut events = Vec::new();
    for row in Rows::open(csv.as_bytes(), Map::parse(MAP).unwrap()).unwrap() {
        let row = row.unwrap().expect("every row of the trace is fine");
        for event in importer.take(&row, Timestamp::MAX).unwrap() {
            events.push(NewEvent::new(&event).unwrap());
        }
    }
    log.append(events).await.unwrap();
    importer.counts().clone()
}

async fn records(log: &FileLog) -> Vec<(Position, Vec<u8>)> {
    let (mut all, mut reader) = (Vec::new(), log.read(1).unwrap());
    while let Some(records) = reader.next().await.unwrap() {
        all.extend(records.iter().map(|(position, raw)| match raw {
            Raw::Line(line) => (position, line.to_vec()),
            Raw::Parts(_) => panic!("a file log has lines"),
        }));
    }
    all
}

async fn fold(log: &FileLog) -> Ledger {
    let mut ledger = Ledger::default();
    for (position, line) in records(log).await {
        let scanned = scan(&line).unwrap();
        let Decoded::Event(event) = decode(&scanned).unwrap() else { panic!("{position}") };
        ledger.apply(position, scanned.leaf.unwrap(), &event).unwrap();
    }
    assert!(ledger.quarantined().is_empty(), "{:?}", ledger.quarantined());
    ledger
}

fn hours(usage: &[Usage]) -> Hours {
    let hour = BigInt::from(1000_i64 * 3_600_000);
    let lines = usage.iter().filter(|line| line.exact != 0);
    lines
        .map(|line| {
            let hours = BigRational::new(BigInt::from(line.exact), hour.clone());
            ((line.group.clone(), line.key.clone()), hours)
        })
        .collect()
}

/// What the year of the trace is billed, by group, key and model, in lines of days if asked; then added up.
async fn invoiced(log: &FileLog, every: Option<Unit>) -> Hours {
    let instant = |text| Timestamp::parse(text).unwrap();
    let period =
        Period { from: instant("2026-01-01T00:00:00Z"), to: instant("2027-01-01T00:00:00Z") };
    let terms = Terms {
        period,
        basis: Basis::Held,
        every,
        workloads: true,
        group: None,
        quotas: false,
        cuts: Vec::new(),
        resources: Vec::new(),
    };
    let mut billing = Billing::new(terms, Vec::new());
    for (position, line) in records(log).await {
        let scanned = scan(&line).unwrap();
        let Decoded::Event(event) = decode(&scanned).unwrap() else { panic!("{position}") };
        assert_eq!(billing.take(position, &Record::Event(&event)), Ok(Told::More));
    }
    let bill = billing.bill(|_, _, _| None).unwrap();
    let (mut hours, hour) = (Hours::new(), BigInt::from(1000_i64 * 3_600_000));
    for line in bill.lines() {
        let mut keys = vec![line.key.to_owned()];
        keys.extend((!line.model.is_empty()).then(|| format!("{}.{}", line.key, line.model)));
        for key in keys {
            let sum = hours.entry((line.group.to_owned(), key)).or_default();
            *sum += BigRational::new(BigInt::from(line.exact), hour.clone());
        }
    }
    hours
}

/// Σ over groups of one key.
fn total(hours: &Hours, key: &str) -> BigRational {
    hours.iter().filter(|((_, k), _)| k == key).map(|(_, h)| h).sum()
}

async fn compare(test: &str, file: &str) -> Option<(Answer, Counts)> {
    let csv = fs::read_to_string(shared::find(test, file)?).unwrap();
    let answer = calculate(&csv);
    let dir = tempfile::tempdir().unwrap();
    let log = FileLog::open(dir.path(), &Options::default()).unwrap();
    let counts = import(&log, &csv).await;
    assert_eq!((counts.never_ran, counts.started), (answer.never_ran, answer.ran));
    assert_eq!((counts.stopped, counts.running, counts.rejected), (answer.ran, 0, 0));

    let ledger = fold(&log).await;
    let measured = hours(&ledger.usage(Timestamp::MAX).unwrap());
    let keys: BTreeSet<_> = answer.hours.keys().chain(measured.keys()).cloned().collect();
    for key in keys {
        assert_eq!(measured.get(&key), answer.hours.get(&key), "{key:?}");
    }
    for key in ["requests.cpu", GPU] {
        assert!(total(&measured, key) > ratio(1, 1), "{key} is used");
        assert_eq!(total(&measured, key), total(&answer.hours, key), "{key} in total");
    }

    for every in [None, Some(Unit::Day)] {
        assert_eq!(invoiced(&log, every).await, answer.hours, "billed by {every:?}");
    }

    let before = (ledger.position(), ledger.root());
    let again = import(&log, &csv).await;
    assert_eq!((again.started, again.stopped, again.known), (0, 0, answer.ran));
    let tree = log.tree().await.unwrap();
    assert_eq!((tree.position(), tree.root()), before, "importing twice appends nothing");
    Some((answer, counts))
}

#[tokio::test]
async fn hours_of_the_trace_are_exact() {
    let test = "trace::hours_of_the_trace_are_exact";
    let Some((answer, _)) = compare(test, DEFAULT).await else { return };
    assert_eq!(answer.never_ran, 897);
    assert_eq!(answer.ran, 7255);
}

#[tokio::test]
async fn hours_per_model_are_exact_and_a_choice_of_models_is_none() {
    let test = "trace::hours_per_model_are_exact_and_a_choice_of_models_is_none";
    let Some((answer, counts)) = compare(test, PER_MODEL).await else { return };
    assert_eq!(answer.ambiguous.len(), 10);
    let told: BTreeSet<_> = counts.ambiguous_texts.keys().cloned().collect();
    assert_eq!(told, answer.ambiguous);
    assert!(answer.hours.keys().any(|(_, key)| key.starts_with("limits.nvidia.com/gpu.")));
}

fn bizrq(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bizrq")).args(args).output().unwrap()
}

fn import_csv(log: &Path, csv: &Path) -> serde_json::Value {
    let (log, csv) = (log.to_str().unwrap(), csv.to_str().unwrap());
    let map = ["import", "csv", "--map", MAP_FILE, "--cluster", "openb", "--log", log];
    let output = bizrq(&[&map[..], &["-o", "json", csv]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What `bizrq meter` prints of a log: exact amounts, and the printed hours held against them.
fn metered(log: &Path) -> Hours {
    let output = bizrq(&["meter", "--log", log.to_str().unwrap(), "-o", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["quarantined"], 0);
    let half_a_billionth = ratio(1, 2_000_000_000);
    let mut hours = Hours::new();
    for line in report["usage"].as_array().unwrap() {
        let text = |field: &str| line[field].as_str().unwrap();
        let exact = whole(text("exact")) * ratio(1, 1000 * 3_600_000);
        let shown = text("hours").replace('.', "");
        let shown = whole(&shown) * ratio(1, 1_000_000_000);
        let off = shown - &exact;
        assert!(off <= half_a_billionth && -off <= half_a_billionth, "{line}");
        hours.insert((text("group").to_owned(), text("key").to_owned()), exact);
    }
    hours
}

#[test]
fn the_binary_imports_the_trace_once_and_meters_it_exactly() {
    let test = "trace::the_binary_imports_the_trace_once_and_meters_it_exactly";
    for file in [DEFAULT, PER_MODEL] {
        let Some(csv) = shared::find(test, file) else { return };
        let answer = calculate(&fs::read_to_string(&csv).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let first = import_csv(&log, &csv);
        let ran = &answer.ran.into();
        assert_eq!((&first["neverRan"], &first["started"]), (&897.into(), ran));
        assert_eq!(first["appended"], first["position"]);
        assert_eq!(metered(&log), answer.hours, "{file}");
        let second = import_csv(&log, &csv);
        assert_eq!((&second["appended"], &second["known"]), (&0.into(), ran));
        assert_eq!((&second["position"], &second["root"]), (&first["position"], &first["root"]));
    }
}
