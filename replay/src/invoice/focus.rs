//! An invoice as a Cost and Usage data set of FOCUS 1.4, the FinOps Open Cost and Usage Specification: columns by its
//! names, in its formats and under its rules. What it has no column for is in columns that begin with `x_`.
//!
//! Lines without a price are no charges and are left out. `BilledCost` is rounded as on the invoice; list and
//! contracted cost are quantity times unit price, to the last digit, as the specification wants it.

use super::{
    Args, Invoice,
    fold::Folded,
    prices::PriceList,
    print::{called, cluster, status},
};
use bizrq::{
    cli::{Error, out::Out},
    domain::{
        billing::{Correction, Line},
        prices::{Price, Rounded, with_model},
        quota::Unit,
        time::Timestamp,
    },
};

/// Columns in the order of their names; ours behind those of the specification.
const COLUMNS: [&str; 44] = [
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "HostProviderName",
    "InvoiceDetailId",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceProviderName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
    "x_Exact",
    "x_Position",
    "x_Root",
    "x_Status",
];

/// Digits of quantities and of unit prices.
const DIGITS: u32 = 9;

impl Invoice<'_> {
    /// Prints the data set.
    pub(super) fn focus(&self, out: &mut Out) -> Result<(), Error> {
        let Some(list) = self.prices else {
            return Err(Error::Usage(
                "-o focus-csv needs --prices: every row has a cost".to_owned(),
            ));
        };
        let currency = list.currency.as_str();
        if currency.len() != 3 || !currency.bytes().all(|b| b.is_ascii_uppercase()) {
            let why =
                format!("currency `{currency}` is no ISO 4217 code such as EUR, which FOCUS wants");
            return Err(Error::input(&list.place, why));
        }
        let mut rows = Vec::new();
        // Numbered as in the JSON form, which can be proved.
        for (number, line) in (1_usize..).zip(self.lines()) {
            if let Some(price) = line.price.and_then(|number| list.prices.get(number)) {
                let row = self.charge(list, number, &line, price);
                rows.push(row.map_err(|why| Error::input(&list.place, why))?);
            }
        }
        out.csv(&COLUMNS, rows)
    }

    /// One row, in the order of [`COLUMNS`]; what is empty is null.
    fn charge(
        &self,
        list: &PriceList,
        number: usize,
        line: &Line<'_>,
        price: &Price,
    ) -> Result<[String; COLUMNS.len()], String> {
        let beyond = |_| format!("the cost of {} exceeds 128 bits", line.key);
        let billed = price.cost(line.exact).and_then(|cost| cost.rounded(list.prices.digits()));
        let billed = billed.map_err(beyond)?.to_string();
        let priced = match line.correction {
            // What somebody said is no quantity of anything.
            Some(Correction::Adjusted { .. }) => None,
            _ => Some(Quantity::of(line, price)?),
        };
        let of = |value: fn(&Quantity) -> &String| priced.as_ref().map(value).cloned();
        let [quantity, unit, unit_price] =
            [of(|q| &q.quantity), of(|q| &q.unit), of(|q| &q.price)].map(Option::unwrap_or_default);
        let cost = of(|q| &q.cost).unwrap_or_else(|| billed.clone());
        let usage = priced.is_some();
        let earlier = line.period.from < self.args.from;
        let sku = with_model(line.key, line.model);
        let account = self.args.group.clone().unwrap_or_else(|| list.issuer.clone());
        let workload = line.workload;
        let resource = match called(&workload) {
            name if name.is_empty() => name,
            name => [cluster(&workload), workload.namespace, &name].join("/"),
        };
        let text = |text: &str| text.to_owned();
        let (charge_start, mut charge_end) = (instant(line.period.from), instant(line.period.to));
        if charge_end == charge_start {
            // A charge of an instant has a second, and none has no time.
            charge_end = instant(line.period.from.shifted(1000));
        }
        // A SKU's price is named where there is one: on what has a unit price, and there alone.
        let sku_price = |name: &str| text(if usage { name } else { "" });
        Ok([
            billed.clone(),
            account.clone(),
            account,
            list.currency.clone(),
            instant(self.args.to),
            instant(self.args.from),
            text(if usage { "Usage" } else { "Adjustment" }),
            text(if line.correction.is_some() && earlier { "Correction" } else { "" }),
            description(line, &sku),
            text(if usage { "Usage-Based" } else { "One-Time" }),
            charge_end,
            charge_start,
            quantity.clone(),
            unit.clone(),
            cost.clone(),
            unit_price.clone(),
            billed,
            list.issuer.clone(),
            number.to_string(),
            self.id(list),
            list.issuer.clone(),
            cost,
            unit_price,
            text(if usage { "Standard" } else { "" }),
            quantity,
            unit,
            resource,
            text(workload.name),
            text(workload.kind),
            text("Compute"),
            text("Kubernetes"),
            list.issuer.clone(),
            text("Containers"),
            sku.clone(),
            text(line.key),
            sku_price(&known([("x_Model", line.model)])),
            sku_price(&sku),
            text(line.group),
            text(line.group),
            tags(line),
            line.exact.to_string(),
            self.folded.position.to_string(),
            self.folded.root.to_string(),
            text(status(line.status)),
        ])
    }

    /// Names the invoice among all of its issuer: whom it bills, for what time, by which clock, and the log that says so.
    fn id(&self, list: &PriceList) -> String {
        let Args { group, subtree, from, to, basis, .. } = self.args;
        let account = group.as_deref().unwrap_or(&list.issuer);
        let below = if *subtree { "/*" } else { "" };
        let (from, to, basis) = (instant(*from), instant(*to), basis.name());
        let Folded { position, root, .. } = self.folded;
        format!("{account}{below}/{from}/{to}/{basis}/{position}-{root}")
    }
}

/// How much of what, at which price, and what that makes.
struct Quantity {
    quantity: String,
    unit: String,
    price: String,
    cost: String,
}

impl Quantity {
    fn of(line: &Line<'_>, price: &Price) -> Result<Self, String> {
        let beyond = || format!("the cost of {} exceeds 128 bits", line.key);
        // Priced at one, it costs its quantity.
        let one = Price { nano: 1_000_000_000, ..price.clone() };
        let quantity = one.cost(line.exact).and_then(|cost| cost.rounded(DIGITS));
        let quantity = quantity.map_err(|_| beyond())?;
        let cost = quantity.minor.checked_mul(price.nano).ok_or_else(beyond)?;
        let cost = Rounded { minor: cost, digits: DIGITS.saturating_mul(2) };
        Ok(Self {
            quantity: short(&quantity),
            unit: unit(line.key, price.per)?,
            price: price.to_string(),
            cost: short(&cost),
        })
    }
}

/// Without digits that say nothing.
fn short(number: &Rounded) -> String {
    let text = number.to_string();
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `GiB-Hours`, `Core-Hours`, `100 Core-Hours`.
fn unit(key: &str, per: i128) -> Result<String, String> {
    let (unit, whole) = (Unit::of(key), per / 1000);
    if per % 1000 != 0 {
        let per = unit.written(per);
        return Err(format!(
            "FOCUS has no unit for a price per {per} of {key}; let `per` be whole"
        ));
    }
    let named = |base: i128, names: [&'static str; 7]| {
        let mut powers =
            std::iter::successors(Some(1_i128), |power| power.checked_mul(base)).zip(names);
        powers.find(|(power, _)| *power == whole).map(|(_, name)| name)
    };
    let name = match unit {
        Unit::Byte => {
            let binary = named(1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
            let decimal = || named(1000, ["B", "KB", "MB", "GB", "TB", "PB", "EB"]);
            match binary.or_else(decimal) {
                Some(name) => return Ok(format!("{name}-Hours")),
                None => "B",
            }
        }
        Unit::Core => "Core",
        Unit::Card => "Card",
        Unit::Item => "Item",
    };
    Ok(if whole == 1 { format!("{name}-Hours") } else { format!("{whole} {name}-Hours") })
}

/// To the second, as the specification writes instants.
fn instant(t: Timestamp) -> String {
    let text = t.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

fn description(line: &Line<'_>, sku: &str) -> String {
    match line.correction {
        Some(Correction::Adjusted { why, by, .. }) => format!("{sku}, corrected by {by}: {why}"),
        Some(Correction::Learned) => format!("{sku}, learned after the period was closed"),
        None if line.workload.kind.is_empty() => format!("{sku} held"),
        None => format!("{sku} held by {}", called(&line.workload)),
    }
}

fn tags(line: &Line<'_>) -> String {
    known([
        ("bizrq/cluster", cluster(&line.workload)),
        ("bizrq/model", line.model),
        ("bizrq/namespace", line.workload.namespace),
    ])
}

/// What is known of these, as a JSON object; null if nothing is.
fn known<const N: usize>(pairs: [(&str, &str); N]) -> String {
    let known = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let known: serde_json::Map<String, serde_json::Value> =
        known.map(|(key, value)| (key.to_owned(), value.into())).collect();
    if known.is_empty() { String::new() } else { serde_json::Value::Object(known).to_string() }
}
