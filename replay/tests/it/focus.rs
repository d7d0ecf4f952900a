//! FOCUS data sets, judged by the rules of the specification, version 1.4 (ratified on 2026-06-04), read a second time:
//! which columns must be there, what may be null, which formats and values are allowed, and that quantities times prices
//! are costs. The table of columns is that of its data model, the rules those of its requirements model.

use crate::logs::{TestLog, history};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Whether a column must be in a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Mandatory,
    /// It must, where its condition holds: [`ABSENT`].
    Conditional,
    Recommended,
}
use Level::{Conditional, Mandatory, Recommended};

const NULL: bool = true;
const NOT_NULL: bool = false;

/// Every column of Cost and Usage 1.4: its feature level, and whether it may be null.
const COLUMNS: &[(&str, Level, bool)] = &[
    ("AllocatedMethodDetails", Recommended, NULL),
    ("AllocatedMethodId", Conditional, NULL),
    ("AllocatedResourceId", Conditional, NULL),
    ("AllocatedResourceName", Conditional, NULL),
    ("AllocatedTags", Conditional, NULL),
    ("AvailabilityZone", Recommended, NULL),
    ("BilledCost", Mandatory, NOT_NULL),
    ("BillingAccountId", Mandatory, NOT_NULL),
    ("BillingAccountName", Mandatory, NULL),
    ("BillingAccountType", Conditional, NOT_NULL),
    ("BillingCurrency", Mandatory, NOT_NULL),
    ("BillingPeriodEnd", Mandatory, NOT_NULL),
    ("BillingPeriodStart", Mandatory, NOT_NULL),
    ("CapacityReservationId", Conditional, NULL),
    ("CapacityReservationStatus", Conditional, NULL),
    ("ChargeCategory", Mandatory, NOT_NULL),
    ("ChargeClass", Mandatory, NULL),
    ("ChargeDescription", Mandatory, NULL),
    ("ChargeFrequency", Recommended, NOT_NULL),
    ("ChargePeriodEnd", Mandatory, NOT_NULL),
    ("ChargePeriodStart", Mandatory, NOT_NULL),
    ("CommitmentDiscountCategory", Conditional, NULL),
    ("CommitmentDiscountId", Conditional, NULL),
    ("CommitmentDiscountName", Conditional, NULL),
    ("CommitmentDiscountQuantity", Conditional, NULL),
    ("CommitmentDiscountStatus", Conditional, NULL),
    ("CommitmentDiscountType", Conditional, NULL),
    ("CommitmentDiscountUnit", Conditional, NULL),
    ("CommitmentProgramEligibilityDetails", Conditional, NULL),
    ("ConsumedQuantity", Conditional, NULL),
    ("ConsumedUnit", Conditional, NULL),
    ("ContractApplied", Conditional, NULL),
    ("ContractedCost", Mandatory, NOT_NULL),
    ("ContractedUnitPrice", Conditional, NULL),
    ("EffectiveCost", Mandatory, NOT_NULL),
    ("HostProviderName", Mandatory, NULL),
    ("InvoiceDetailId", Conditional, NULL),
    ("InvoiceId", Conditional, NULL),
    ("InvoiceIssuerName", Mandatory, NOT_NULL),
    ("ListCost", Mandatory, NOT_NULL),
    ("ListUnitPrice", Conditional, NULL),
    ("PricingCategory", Conditional, NULL),
    ("PricingCurrency", Conditional, NOT_NULL),
    ("PricingCurrencyContractedUnitPrice", Conditional, NULL),
    ("PricingCurrencyEffectiveCost", Conditional, NOT_NULL),
    ("PricingCurrencyListUnitPrice", Conditional, NULL),
    ("PricingQuantity", Mandatory, NULL),
    ("PricingUnit", Mandatory, NULL),
    ("RegionId", Conditional, NULL),
    ("RegionName", Conditional, NULL),
    ("ResourceId", Conditional, NULL),
    ("ResourceName", Conditional, NULL),
    ("ResourceType", Conditional, NULL),
    ("ServiceCategory", Mandatory, NOT_NULL),
    ("ServiceName", Mandatory, NOT_NULL),
    ("ServiceProviderName", Mandatory, NOT_NULL),
    ("ServiceSubcategory", Recommended, NOT_NULL),
    ("SkuId", Conditional, NULL),
    ("SkuMeter", Conditional, NULL),
    ("SkuPriceDetails", Conditional, NULL),
    ("SkuPriceId", Conditional, NULL),
    ("SubAccountId", Conditional, NULL),
    ("SubAccountName", Conditional, NULL),
    ("SubAccountType", Conditional, NULL),
    ("Tags", Conditional, NULL),
];

/// Beginnings of the conditional columns whose condition does not hold of an invoice of bizrq, which splits no cost of a
/// shared resource, has one type of accounts and groups, no commitments, no regions, and one currency.
const ABSENT: &[&str] = &[
    "Allocated",
    "BillingAccountType",
    "CapacityReservation",
    "CommitmentDiscount",
    "CommitmentProgram",
    "ContractApplied",
    "PricingCurrency",
    "Region",
    "SubAccountType",
];

/// CAU-…: of type Decimal, conform to NumericFormat. The last three MUST be non-negative.
const NUMBERS: &[&str] = &[
    "BilledCost",
    "ConsumedQuantity",
    "ContractedCost",
    "EffectiveCost",
    "ListCost",
    "PricingQuantity",
    "ContractedUnitPrice",
    "ListUnitPrice",
];

/// A rule of the specification, by the identifier that its requirements model gives it, or by its words, and whether a
/// row keeps it.
type Rule = (&'static str, fn(&Row) -> bool);

/// What has a price of a SKU, and nothing else, has these.
const PRICED: &[&str] =
    &["ContractedUnitPrice", "ListUnitPrice", "PricingCategory", "PricingQuantity"];

fn is_usage(row: &Row) -> bool {
    row["ChargeCategory"] == "Usage"
}

fn null(row: &Row, column: &str) -> bool {
    row[column].is_empty()
}

fn one_of(row: &Row, column: &str, allowed: &[&str]) -> bool {
    null(row, column) || allowed.contains(&row[column].as_str())
}

/// Of two columns both are null, or neither is.
fn both(row: &Row, one: &str, other: &str) -> bool {
    null(row, one) == null(row, other)
}

fn same(row: &Row, one: &str, other: &str) -> bool {
    number(&row[one]) == number(&row[other])
}

/// The unit price times the quantity is the cost, to the last digit, where there is a unit price.
fn product(row: &Row, unit_price: &str, cost: &str) -> bool {
    let billionth = 1_000_000_000;
    null(row, unit_price)
        || (number(&row["PricingQuantity"]) / billionth) * (number(&row[unit_price]) / billionth)
            == number(&row[cost])
}

/// A flat JSON object whose keys have this beginning.
fn is_key_value(text: &str, prefix: &str) -> bool {
    let Ok(serde_json::Value::Object(object)) = serde_json::from_str(text) else { return false };
    object.keys().all(|key| key.starts_with(prefix))
        && object.values().all(|value| value.is_string())
}

/// A number, if any, and units with a hyphen between; those of data by their abbreviations, time by its name.
fn is_unit(text: &str) -> bool {
    let (count, unit) = text.split_once(' ').unwrap_or(("1", text));
    let Some((base, "Hours")) = unit.split_once('-') else { return false };
    let data = ["B", "KB", "MB", "GB", "TB", "PB", "EB", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    count.parse::<u64>().is_ok_and(|count| count > 0)
        && (data.contains(&base) || ["Core", "Card", "Item"].contains(&base))
}

const RULES: &[Rule] = &[
    ("CAU-BillingCurrency: CurrencyFormat", |row| row["BillingCurrency"] == "EUR"),
    ("CAU-ChargeCategory: allowed values", |row| {
        one_of(row, "ChargeCategory", &["Usage", "Purchase", "Tax", "Credit", "Adjustment"])
    }),
    ("CAU-ChargeClass MUST be \"Correction\" when it is not null", |row| {
        one_of(row, "ChargeClass", &["Correction"])
    }),
    ("CAU-ChargeFrequency: allowed values", |row| {
        one_of(row, "ChargeFrequency", &["One-Time", "Recurring", "Usage-Based"])
    }),
    ("CAU-ChargePeriodStart lies before CAU-ChargePeriodEnd", |row| {
        row["ChargePeriodStart"] < row["ChargePeriodEnd"]
    }),
    ("CAU-ConsumedQuantity-C-006: not null on usage that corrects nothing", |row| {
        !is_usage(row) || !null(row, "ConsumedQuantity")
    }),
    ("CAU-ConsumedQuantity-C-009: null when SkuPriceId is null", |row| {
        !null(row, "SkuPriceId") || null(row, "ConsumedQuantity")
    }),
    ("CAU-ConsumedUnit-C-005, C-006: null when and only when CAU-ConsumedQuantity is", |row| {
        both(row, "ConsumedQuantity", "ConsumedUnit")
    }),
    ("CAU-ContractedCost-C-011: unit price × quantity", |row| {
        product(row, "ContractedUnitPrice", "ContractedCost")
    }),
    ("CAU-ContractedCost MUST equal ListCost when no negotiated pricing terms apply", |row| {
        same(row, "ContractedCost", "ListCost")
    }),
    ("CAU-EffectiveCost MUST equal BilledCost of what covers nothing and is not covered", |row| {
        same(row, "EffectiveCost", "BilledCost")
    }),
    ("CAU-HostProviderName MUST match ServiceProviderName where no host is exposed", |row| {
        row["HostProviderName"] == row["ServiceProviderName"]
    }),
    ("CAU-InvoiceDetailId, CAU-InvoiceId MUST NOT be null of what is on an invoice", |row| {
        !null(row, "InvoiceDetailId") && !null(row, "InvoiceId")
    }),
    ("CAU-ListCost-C-011: unit price × quantity", |row| product(row, "ListUnitPrice", "ListCost")),
    (
        "CAU-ListUnitPrice-C-012, C-013, CAU-ContractedUnitPrice-C-014, C-015: with SkuPriceId",
        |row| {
            both(row, "ListUnitPrice", "SkuPriceId")
                && both(row, "ContractedUnitPrice", "SkuPriceId")
        },
    ),
    ("CAU-PricingCategory: allowed values", |row| {
        one_of(row, "PricingCategory", &["Standard", "Dynamic", "Committed", "Other"])
    }),
    ("CAU-PricingCategory-C-012, CAU-PricingQuantity-C-011: null when SkuPriceId is null", |row| {
        !null(row, "SkuPriceId") || PRICED.iter().all(|column| null(row, column))
    }),
    (
        "CAU-PricingCategory-C-004, CAU-PricingQuantity-C-005, CAU-ListUnitPrice-C-005: of usage",
        |row| !is_usage(row) || PRICED.iter().all(|column| !null(row, column)),
    ),
    ("CAU-PricingUnit-C-005, C-006: null when and only when PricingQuantity is", |row| {
        both(row, "PricingQuantity", "PricingUnit")
    }),
    ("CAU-PricingUnit, CAU-ConsumedUnit: UnitFormat", |row| {
        let units = ["PricingUnit", "ConsumedUnit"];
        units.iter().all(|column| null(row, column) || is_unit(&row[*column]))
    }),
    ("CAU-ServiceSubcategory MUST have its one parent ServiceCategory", |row| {
        (&*row["ServiceCategory"], &*row["ServiceSubcategory"]) == ("Compute", "Containers")
    }),
    ("CAU-SkuId, CAU-SkuPriceId MUST NOT be null of usage", |row| {
        !is_usage(row) || !(null(row, "SkuId") || null(row, "SkuPriceId"))
    }),
    ("CAU-SkuMeter MUST be null when SkuId is null", |row| {
        !null(row, "SkuId") || null(row, "SkuMeter")
    }),
    ("CAU-SkuPriceDetails MUST be null when SkuPriceId is null; KeyValueFormat", |row| {
        let details = &row["SkuPriceDetails"];
        details.is_empty() || (!null(row, "SkuPriceId") && is_key_value(details, "x_"))
    }),
    ("CAU-SubAccountName, CAU-SubAccountId: null together", |row| {
        both(row, "SubAccountId", "SubAccountName")
    }),
    ("CAU-Tags: KeyValueFormat; those that the provider defines have its prefix", |row| {
        null(row, "Tags") || is_key_value(&row["Tags"], "bizrq/")
    }),
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

/// What of the specification a row does not keep.
fn broken(row: &Row) -> Vec<String> {
    let mut broken = Vec::new();
    for (column, _, nullable) in COLUMNS {
        if row.get(*column).is_some_and(|value| value.is_empty() && !nullable) {
            broken.push(format!("CAU-{column} MUST NOT be null"));
        }
    }
    for column in NUMBERS.iter().filter(|column| !null(row, column)) {
        let least = if column.ends_with("UnitPrice") { 0 } else { i128::MIN };
        if number(&row[*column]) < least {
            broken.push(format!("CAU-{column} MUST be a non-negative decimal value"));
        }
    }
    for column in ["BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"]
    {
        if !is_instant(&row[column]) {
            broken.push(format!("CAU-{column}: DateTimeFormat"));
        }
    }
    let rules = RULES.iter().filter(|(_, keeps)| !keeps(row));
    broken.extend(rules.map(|(rule, _)| (*rule).to_owned()));
    broken
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
    let is_ours = |column: &&String| column.starts_with("x_");
    // FocusColumnHandling, CustomColumnHandling.
    let (ours, focus): (Vec<_>, Vec<_>) = head.iter().partition(is_ours);
    assert!(focus.is_sorted(), "{focus:?}");
    assert!(head.ends_with(&ours.iter().map(|column| (*column).clone()).collect::<Vec<_>>()));
    for (column, level, _) in COLUMNS {
        let absent = ABSENT.iter().any(|absent| column.starts_with(absent));
        let wanted = *level == Mandatory || (*level == Conditional && !absent);
        assert!(!wanted || focus.iter().any(|c| c == column), "{column} is {level:?}");
    }
    let known = |column: &&String| COLUMNS.iter().any(|(known, ..)| known == column);
    assert!(focus.iter().all(known), "{focus:?}");
    for row in &rows {
        assert!(broken(row).is_empty(), "{:?} by {row:?}", broken(row));
    }
    // CAU-InvoiceDetailId MUST uniquely identify a record within a given InvoiceId: the line that can be proved.
    let ids: BTreeSet<_> = rows.iter().map(|row| &row["InvoiceId"]).collect();
    assert_eq!(ids.len(), 1);
    for row in &rows {
        let line: usize = row["InvoiceDetailId"].parse().unwrap();
        let line = &invoice["lines"][line - 1];
        assert_eq!(
            (&line["cost"], &line["exact"]),
            (&row["BilledCost"].as_str().into(), &row["x_Exact"].as_str().into())
        );
    }
    // CAU-BilledCost-C-007: per InvoiceId and InvoiceIssuerName the sum is what is to be paid.
    let billed: i128 = rows.iter().map(|row| number(&row["BilledCost"])).sum();
    assert_eq!(billed, number(invoice["cost"].as_str().unwrap()));
    let categories: BTreeSet<_> = rows.iter().map(|row| row["ChargeCategory"].clone()).collect();
    assert_eq!(categories.len(), 2, "usage and adjustments");
    assert!(run("focus-csv", &["--summary"]).stdout.lines().count() < rows.len());
    // Another bill of the same log is another invoice.
    let others = [
        run("focus-csv", &["--group", "team-1"]),
        run("focus-csv", &["--group", "team-1", "--subtree"]),
        run("focus-csv", &["--basis", "ran"]),
    ];
    let others = others.iter().map(|ran| data_set(&ran.stdout).1).filter(|rows| !rows.is_empty());
    let others: Vec<_> = others.map(|rows| rows[0]["InvoiceId"].clone()).collect();
    let all: BTreeSet<&String> = ids.into_iter().chain(&others).collect();
    assert!(all.len() > others.len() && others.len() > 1, "{all:?}");
}

#[test]
fn a_row_that_keeps_no_rule_is_found_out() {
    let log = TestLog::of(&history(5, 600));
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "currency: EUR\nprices:\n- {key: limits.cpu, price: 1}\n").unwrap();
    let period = ["invoice", "--from", "2026-01-01T00:01:40Z", "--to", "2026-01-01T00:10:00Z"];
    let priced = ["--prices", file.path().to_str().unwrap(), "-o", "focus-csv"];
    let (head, rows) = data_set(&log.run(&[&period[..], &priced].concat()).stdout);
    let row = rows.iter().find(|row| is_usage(row)).unwrap();
    assert!(broken(row).is_empty());
    let wrong = |column: &str| match column {
        column if NUMBERS.contains(&column) => ["-7", ""],
        "ChargePeriodEnd" => ["2026-01-01T00:00:00Z", "today"],
        _ => ["?", ""],
    };
    // Names and texts that are nobody's business, or that may be anything.
    let free =
        ["Name", "Id", "Description", "ResourceType", "SkuMeter", "PeriodStart", "PeriodEnd"];
    for column in head.iter().filter(|column| !column.starts_with("x_")) {
        let found = wrong(column).into_iter().any(|value| {
            let mut altered = row.clone();
            altered.insert(column.clone(), value.to_owned());
            !broken(&altered).is_empty()
        });
        assert!(found || free.iter().any(|end| column.ends_with(end)), "{column}");
    }
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
