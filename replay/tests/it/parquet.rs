//! Parquet files, read back by DuckDB (`tests/parquet.sh` fetches it): types, every cell, and sums that nobody rounded.

use crate::logs::{TestLog, at, history};
use bizrq::domain::event::{Data, Event, EventId, Period, UsageAdjusted};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// Types by name; then every row, each cell as text; then the sum of `exact`.
const READ: &str = r#"
import duckdb, json, sys
of = f"FROM read_parquet('{sys.argv[1]}')"
db = duckdb.connect()
db.execute("SET TimeZone = 'UTC'")
types = {row[0]: row[1] for row in db.execute(f"DESCRIBE SELECT * {of}").fetchall()}
rows = db.execute(f"SELECT COLUMNS(*)::VARCHAR {of}").fetchall()
rows.sort(key=lambda row: int(row[0]))
total = db.execute(f"SELECT sum(exact)::VARCHAR {of}").fetchone()[0]
print(json.dumps({"types": types, "names": list(types), "rows": rows, "sum": total}))
"#;

fn python() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/parquet/bin/python");
    assert!(path.exists(), "{} is missing: run tests/parquet.sh", path.display());
    path
}

/// The file of an invoice of this log, as DuckDB reads it.
fn read(log: &TestLog, more: &[&str]) -> Value {
    let desk = TempDir::new().unwrap();
    let path = desk.path().join("invoice.parquet");
    let bytes = [invoice(log, more), invoice(log, more)];
    assert!(bytes[0] == bytes[1], "made twice");
    fs::write(&path, &bytes[0]).unwrap();
    let read = Command::new(python()).args(["-c", READ]).arg(&path).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    serde_json::from_slice(&read.stdout).unwrap()
}

fn invoice(log: &TestLog, more: &[&str]) -> Vec<u8> {
    let period = ["invoice", "--from", "2026-01-01T00:01:40Z", "--to", "2026-01-01T00:10:00Z"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq-replay"));
    command.args(period).args(more).args(["-o", "parquet", "--log"]).arg(log.path());
    let made = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(made.status.success());
    made.stdout
}

/// A cell as DuckDB writes it: nothing for what is null.
fn cell<'r>(read: &'r Value, row: usize, name: &str) -> &'r str {
    let names = read["names"].as_array().unwrap();
    let column = names.iter().position(|n| n == name).unwrap();
    read["rows"][row][column].as_str().unwrap_or_default()
}

#[test]
fn another_reader_finds_the_decimals_and_every_line_of_the_invoice() {
    let log = TestLog::of(&history(5, 500));
    let desk = TempDir::new().unwrap();
    let prices = desk.path().join("prices.yaml");
    let text = "currency: EUR\ndigits: 4\nprices:\n\
                - {key: limits.cpu, price: \"0.123456789\", per: 500m}\n\
                - {key: limits.nvidia.com/gpu, price: 70}\n";
    fs::write(&prices, text).unwrap();
    let args = ["--prices", prices.to_str().unwrap()];
    let read = read(&log, &args);
    for (column, holds) in [
        ("line", "BIGINT"),
        ("group", "VARCHAR"),
        ("from", "TIMESTAMP WITH TIME ZONE"),
        ("hours", "DECIMAL(38,9)"),
        ("exact", "DECIMAL(38,0)"),
        ("position", "BIGINT"),
        ("price", "DECIMAL(38,9)"),
        ("per", "DECIMAL(38,3)"),
        ("cost", "DECIMAL(38,4)"),
    ] {
        assert_eq!(read["types"][column], holds, "{column}");
    }
    let period = ["invoice", "--from", "2026-01-01T00:01:40Z", "--to", "2026-01-01T00:10:00Z"];
    let json = log.run(&[&period[..], &args, &["-o", "json"]].concat()).json();
    let lines = json["lines"].as_array().unwrap();
    assert_eq!(read["rows"].as_array().unwrap().len(), lines.len());
    let (mut sum, mut seen) = (0_i128, [0; 3]);
    for (row, line) in lines.iter().enumerate() {
        let said = |name: &str| line[name].as_str().unwrap_or_default();
        let of = |name: &str| cell(&read, row, name);
        for name in [
            "group",
            "key",
            "model",
            "cluster",
            "namespace",
            "workload",
            "unit",
            "hours",
            "exact",
            "status",
            "cost",
        ] {
            assert_eq!(of(name), said(name), "line {}: {name}", row + 1);
        }
        for name in ["from", "to"] {
            let instant = of(name).replace(' ', "T").replace("+00", "");
            let instant = if instant.contains('.') { instant } else { format!("{instant}.000") };
            assert_eq!(format!("{instant:0<23}Z"), said(name), "line {}: {name}", row + 1);
        }
        assert_eq!(of("position"), json["position"].to_string());
        assert_eq!(of("root"), json["root"].as_str().unwrap());
        let priced = !said("cost").is_empty();
        assert_eq!(of("currency"), if priced { "EUR" } else { "" });
        if said("key") == "limits.cpu" {
            assert_eq!((of("price"), of("per")), ("0.123456789", "0.500"));
        }
        let corrected = !of("correction").is_empty();
        assert_eq!(corrected, !line["correction"].is_null());
        sum += said("exact").parse::<i128>().unwrap();
        seen[0] += usize::from(priced);
        seen[1] += usize::from(corrected);
        seen[2] += usize::from(of("exact").starts_with('-'));
    }
    assert!(seen.iter().all(|n| *n > 0), "prices, corrections and negative amounts: {seen:?}");
    assert_eq!(read["sum"], sum.to_string(), "the reader's own sum");
}

#[test]
fn an_invoice_of_nothing_is_a_file_without_rows() {
    let log = TestLog::of(&history(5, 100));
    let read = read(&log, &["--group", "nobody"]);
    assert_eq!(read["rows"].as_array().unwrap().len(), 0);
    assert_eq!(read["types"]["exact"], "DECIMAL(38,0)");
}

#[test]
fn the_largest_correction_that_is_taken_is_written_whole() {
    let (at, most) = (at(200_000), -(1_i128 << 112));
    let data = UsageAdjusted {
        key: "limits.cpu".into(),
        exact: most,
        period: Period { from: at, to: at.shifted(1) },
        why: "a test".into(),
        by: "ann".into(),
    };
    let event = Event {
        id: EventId(1),
        source: "/operators/ann".into(),
        subject: "accounts/team-1".into(),
        time: at,
        recorded_at: at,
        data: Data::UsageAdjusted(data),
    };
    let read = read(&TestLog::of(&[event]), &[]);
    assert_eq!(cell(&read, 0, "exact"), most.to_string());
}
