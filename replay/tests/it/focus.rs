//! FOCUS data sets, judged by the rules of the specification, version 1.3, read a second time: which columns must be
//! there, what may be null, which formats and values are allowed, and that quantities times prices are costs.

use crate::logs::{TestLog, history};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Column, and whether it may be null: the mandatory ones, and conditional ones that apply to who publishes prices,
/// measures usage, and has accounts below accounts.
const RULES: &[(&str, bool)] = &[
    ("BilledCost", false),
    ("BillingAccountId", false),
    ("BillingAccountName", true),
    ("BillingCurrency", false),
    ("BillingPeriodEnd", false),
    ("BillingPeriodStart", false),
    ("ChargeCategory", false),
    ("ChargeClass", true),
    ("ChargeDescription", true),
    ("ChargeFrequency", false),
    ("ChargePeriodEnd", false),
    ("ChargePeriodStart", false),
    ("ConsumedQuantity", true),
    ("ConsumedUnit", true),
    ("ContractedCost", false),
    ("ContractedUnitPrice", true),
    ("EffectiveCost", false),
    ("HostProviderName", false),
    ("InvoiceId", true),
    ("InvoiceIssuerName", false),
    ("ListCost", false),
    ("ListUnitPrice", true),
    ("PricingCategory", true),
    ("PricingQuantity", true),
    ("PricingUnit", true),
    ("ProviderName", false),
    ("PublisherName", false),
    ("ResourceId", true),
    ("ResourceName", true),
    ("ResourceType", true),
    ("ServiceCategory", false),
    ("ServiceName", false),
    ("ServiceProviderName", false),
    ("ServiceSubcategory", false),
    ("SkuId", true),
    ("SkuMeter", true),
    ("SkuPriceId", true),
    ("SubAccountId", true),
    ("SubAccountName", true),
    ("Tags", true),
];

const NUMBERS: &[&str] = &[
    "BilledCost",
    "ConsumedQuantity",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "ListCost",
    "ListUnitPrice",
    "PricingQuantity",
];

type Row = BTreeMap<String, String>;

fn data_set(text: &str) -> (Vec<String>, Vec<Row>) {
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let head: Vec<String> = csv.headers().unwrap().iter().map(str::to_owned).collect();
    let named = |row: csv::StringRecord| {
        head.iter().cloned().zip(row.iter().map(str::to_owned)).collect::<Row>()
    };
    let rows = csv.records().map(|row| named(row.unwrap())).collect();
    (head, rows)
}

/// Billionths squared: products of two numbers of nine digits are exact.
fn number(text: &str) -> i128 {
    let negative = text.starts_with('-');
    let plain = text.trim_start_matches('-');
    let (whole, part) = plain.split_once('.').unwrap_or((plain, ""));
    assert!(part.len() <= 18, "{text}");
    let digits = format!("{whole}{part:0<18}");
    assert!(digits.bytes().all(|b| b.is_ascii_digit()) && !whole.is_empty(), "{text} is no number");
    let number: i128 = digits.parse().unwrap();
    if negative { -number } else { number }
}

fn is_instant(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00Z"
}

fn judge(row: &Row) {
    let of = |column: &str| row[column].as_str();
    for (column, nullable) in RULES {
        assert!(*nullable || !of(column).is_empty(), "{column} is null: {row:?}");
    }
    for column in NUMBERS.iter().filter(|column| !of(column).is_empty()) {
        number(of(column));
    }
    for column in ["BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"]
    {
        assert!(is_instant(of(column)), "{column}: {}", of(column));
    }
    assert_eq!(of("BillingCurrency"), "EUR");
    // Replaced in 1.3, and of the same meaning.
    assert_eq!(of("ServiceProviderName"), of("ProviderName"));
    assert!(["Usage", "Adjustment"].contains(&of("ChargeCategory")));
    assert!(["", "Correction"].contains(&of("ChargeClass")));
    assert!(["Usage-Based", "One-Time"].contains(&of("ChargeFrequency")));
    assert!(["Standard", ""].contains(&of("PricingCategory")));
    let service = (of("ServiceCategory"), of("ServiceSubcategory"));
    assert_eq!(service, ("Compute", "Containers"));
    let usage = of("ChargeCategory") == "Usage";
    for column in [
        "ConsumedQuantity",
        "ConsumedUnit",
        "ContractedUnitPrice",
        "ListUnitPrice",
        "PricingCategory",
        "PricingQuantity",
        "PricingUnit",
    ] {
        assert_eq!(!of(column).is_empty(), usage, "{column}: {row:?}");
    }
    assert!(!of("SkuId").is_empty() && !of("SkuPriceId").is_empty());
    if usage {
        let unit = of("PricingUnit");
        assert!(unit.ends_with("-Hours"), "{unit}");
        for (unit_price, cost) in
            [("ContractedUnitPrice", "ContractedCost"), ("ListUnitPrice", "ListCost")]
        {
            let billionth = 1_000_000_000;
            let product =
                (number(of("PricingQuantity")) / billionth) * (number(of(unit_price)) / billionth);
            assert_eq!(product, number(of(cost)), "{row:?}");
            assert!(number(of(unit_price)) >= 0);
        }
    } else {
        assert_eq!(of("ContractedCost"), of("BilledCost"));
        assert_eq!(of("EffectiveCost"), of("BilledCost"));
    }
    if !of("Tags").is_empty() {
        let tags: serde_json::Value = serde_json::from_str(of("Tags")).unwrap();
        assert!(tags.as_object().unwrap().values().all(serde_json::Value::is_string));
        assert!(tags.as_object().unwrap().keys().all(|key| key.starts_with("bizrq/")));
    }
}

#[test]
fn a_data_set_keeps_the_rules_of_focus_and_sums_to_the_invoice() {
    let log = TestLog::of(&history(5, 600));
    let file = tempfile::NamedTempFile::new().unwrap();
    let prices = "currency: EUR\nissuer: ACME\nprices:\n\
                  - {key: limits.cpu, price: \"0.123456789\"}\n\
                  - {key: limits.nvidia.com/gpu, price: 70}\n\
                  - {key: limits.nvidia.com/gpu, model: A30, price: 900}\n";
    fs::write(file.path(), prices).unwrap();
    let run = |output: &str, more: &[&str]| {
        let period = ["invoice", "--from", "2026-01-01T00:01:40Z", "--to", "2026-01-01T00:10:00Z"];
        let priced = ["--prices", file.path().to_str().unwrap(), "-o", output];
        log.run(&[&period[..], &priced, more].concat())
    };
    let invoice = run("json", &[]).json();
    let ran = run("focus-csv", &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let (head, rows) = data_set(&ran.stdout);
    let focus: Vec<&str> =
        head.iter().map(String::as_str).filter(|c| !c.starts_with("x_")).collect();
    assert_eq!(focus, RULES.iter().map(|(column, _)| *column).collect::<Vec<_>>());
    assert!(head[focus.len()..].iter().all(|c| c.starts_with("x_")), "ours come last");
    rows.iter().for_each(judge);
    let billed: i128 = rows.iter().map(|row| number(&row["BilledCost"])).sum();
    assert_eq!(billed, number(invoice["cost"].as_str().unwrap()));
    let categories: BTreeSet<_> = rows.iter().map(|row| row["ChargeCategory"].clone()).collect();
    assert_eq!(categories.len(), 2, "usage and adjustments");
    assert!(run("focus-csv", &["--summary"]).stdout.lines().count() < rows.len());
}

#[test]
fn what_focus_has_no_words_for_is_refused() {
    let log = TestLog::of(&history(5, 100));
    let file = tempfile::NamedTempFile::new().unwrap();
    let period = ["invoice", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T00:10:00Z"];
    let unpriced = log.run(&[&period[..], &["-o", "focus-csv"]].concat());
    assert!(unpriced.code == 2 && unpriced.stderr.contains("--prices"), "{}", unpriced.stderr);
    for (text, says) in [
        ("currency: tokens\nprices:\n- {key: limits.cpu, price: 1}\n", "no ISO 4217 code"),
        (
            "currency: EUR\nprices:\n- {key: limits.cpu, price: 1, per: 500m}\n",
            "let `per` be whole",
        ),
    ] {
        fs::write(file.path(), text).unwrap();
        let priced = ["--prices", file.path().to_str().unwrap(), "-o", "focus-csv"];
        let ran = log.run(&[&period[..], &priced].concat());
        assert!(ran.code == 3 && ran.stderr.contains(says), "{}", ran.stderr);
    }
}
