//! An invoice for people, for programs and for spreadsheets. An invoice that is made twice is the same, byte by byte.

use super::{Every, Format, Invoice};
use bizrq::{
    cli::{
        Error,
        out::{Align, Cell, Out, Style, Table},
    },
    domain::{
        billing::{Correction, Line, Status, Workload},
        event::Position,
        hours::NanoHours,
        prices::{self, Money, Price, Rounded},
        quota::Unit,
        time::Timestamp,
    },
};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Json<'i> {
    from: Timestamp,
    to: Timestamp,
    basis: &'static str,
    by: Option<&'static str>,
    group: Option<&'i str>,
    subtree: bool,
    summary: bool,
    position: Position,
    root: String,
    closed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<&'i str>,
    lines: Lines<'i>,
    totals: Vec<Total<'i>>,
    #[serde(flatten)]
    cost: Option<Cost>,
}

/// A sum of money.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cost {
    /// Of the printed lines.
    cost: String,
    /// What the printed lines lack of the exact sum.
    cost_rounding: String,
}

/// The lines, one after another: they are many.
struct Lines<'i>(&'i Invoice<'i>);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LineJson<'i> {
    line: usize,
    group: &'i str,
    key: &'i str,
    model: &'i str,
    cluster: &'i str,
    namespace: &'i str,
    workload: String,
    from: Timestamp,
    to: Timestamp,
    unit: &'static str,
    hours: String,
    exact: String,
    #[serde(flatten)]
    priced: Option<Priced>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    correction: Option<CorrectionJson<'i>>,
}

/// What a line costs.
#[derive(Serialize)]
struct Priced {
    price: String,
    /// The price is for an hour of so many.
    per: String,
    cost: String,
}

#[derive(Serialize)]
struct CorrectionJson<'i> {
    positions: &'i [Position],
    why: &'i str,
    by: &'i str,
}

/// The sum of a key's lines.
#[derive(Serialize)]
struct Total<'i> {
    key: &'i str,
    unit: &'static str,
    /// Of the printed lines.
    hours: String,
    exact: String,
    /// What the printed lines lack of the exact sum.
    rounding: String,
    #[serde(flatten)]
    cost: Option<Cost>,
}

/// A key's lines, added up: what is printed, and what is exact.
#[derive(Clone, Copy, Default)]
struct Sum {
    hours: NanoHours,
    exact: i128,
    minor: i128,
    money: Money,
    priced: bool,
}

/// What is said of a correction that nobody made by hand.
const LEARNED: &str = "learned after the period was closed";

/// Heads of columns, as in the JSON form.
const HEAD: [&str; 20] = [
    "line",
    "group",
    "key",
    "model",
    "cluster",
    "namespace",
    "workload",
    "from",
    "to",
    "unit",
    "hours",
    "exact",
    "status",
    "correction",
    "position",
    "root",
    "price",
    "per",
    "cost",
    "currency",
];

impl Invoice<'_> {
    pub(super) fn print(&self, out: &mut Out) -> Result<(), Error> {
        match self.args.output {
            Format::Json => out.json(&self.json()?),
            Format::Csv => self.csv(out),
            Format::FocusCsv => self.focus(out),
            Format::Parquet => self.parquet(out),
            Format::Table => self.table(out),
        }
    }

    fn json(&self) -> Result<Json<'_>, Error> {
        let args = self.args;
        let (totals, cost) = self.totals()?;
        Ok(Json {
            from: args.from,
            to: args.to,
            basis: args.basis.name(),
            by: args.by.map(|every| match every {
                Every::Hour => "hour",
                Every::Day => "day",
            }),
            group: args.group.as_deref(),
            subtree: args.subtree,
            summary: args.summary,
            position: self.folded.position,
            root: self.folded.root.to_string(),
            closed: self.folded.closed,
            currency: self.prices.map(|list| &*list.currency),
            lines: Lines(self),
            totals,
            cost,
        })
    }

    /// The sums of each key's lines.
    fn sums(&self) -> Result<BTreeMap<&str, Sum>, Error> {
        let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
        for line in self.lines() {
            let sum = sums.entry(line.key).or_default();
            let beyond =
                || Error::log(&self.args.log, format!("the sum of {} exceeds 128 bits", line.key));
            let hours = sum.hours.checked_add(NanoHours::of(line.exact));
            sum.hours = hours.ok_or_else(beyond)?;
            sum.exact = sum.exact.checked_add(line.exact).ok_or_else(beyond)?;
            if let Some((_, money, rounded)) = self.cost(&line).map_err(|_| self.too_dear(&line))? {
                sum.minor = sum.minor.checked_add(rounded.minor).ok_or_else(beyond)?;
                sum.money = sum.money.plus(money).map_err(|_| self.too_dear(&line))?;
                sum.priced = true;
            }
        }
        Ok(sums)
    }

    /// Of a price that no number can hold what it makes.
    fn too_dear(&self, line: &Line<'_>) -> Error {
        let list = self.prices.map_or_else(|| self.args.log.clone(), |list| list.place.clone());
        let (hours, unit) = (NanoHours::of(line.exact), Unit::of(line.key).name());
        let why = format!(
            "the cost of {hours} {unit}-hours of {} exceeds 128 bits; give the price for more at once with `per`, or a lower one",
            line.key
        );
        Error::input(list, why)
    }

    /// A line's price, and what it costs: exactly, and as it is printed.
    pub(super) fn cost(
        &self,
        line: &Line<'_>,
    ) -> Result<Option<(&Price, Money, Rounded)>, prices::Error> {
        let Some(list) = self.prices else { return Ok(None) };
        let Some(price) = line.price.and_then(|number| list.prices.get(number)) else {
            return Ok(None);
        };
        let money = price.cost(line.exact)?;
        Ok(Some((price, money, money.rounded(list.prices.digits())?)))
    }

    /// The totals, and what everything costs.
    fn totals(&self) -> Result<(Vec<Total<'_>>, Option<Cost>), Error> {
        let sums = self.sums()?;
        let total = |key, sum: &Sum| {
            Ok(Total {
                key,
                unit: Unit::of(key).name(),
                hours: sum.hours.to_string(),
                exact: sum.exact.to_string(),
                rounding: NanoHours(NanoHours::of(sum.exact).0.saturating_sub(sum.hours.0))
                    .to_string(),
                cost: if sum.priced { Some(self.printed(sum.minor, sum.money)?) } else { None },
            })
        };
        let totals =
            sums.iter().map(|(key, sum)| total(*key, sum)).collect::<Result<_, Error>>()?;
        if self.prices.is_none() {
            return Ok((totals, None));
        }
        let (mut minor, mut money) = (0_i128, Money::default());
        for sum in sums.values() {
            minor = minor.saturating_add(sum.minor);
            money = money.plus(sum.money).map_err(|e| Error::log(&self.args.log, e))?;
        }
        Ok((totals, Some(self.printed(minor, money)?)))
    }

    /// The sum of printed amounts beside the exact one.
    fn printed(&self, minor: i128, money: Money) -> Result<Cost, Error> {
        let digits = self.prices.map_or(2, |list| list.prices.digits());
        let exact = money.rounded(digits).map_err(|e| Error::log(&self.args.log, e))?;
        let lacks = Rounded { minor: exact.minor.saturating_sub(minor), digits };
        let cost = Rounded { minor, digits }.to_string();
        Ok(Cost { cost, cost_rounding: lacks.to_string() })
    }

    fn csv(&self, out: &mut Out) -> Result<(), Error> {
        self.sums()?;
        let (position, root) = (self.folded.position.to_string(), self.folded.root.to_string());
        let currency = self.prices.map(|list| list.currency.clone()).unwrap_or_default();
        let rows = (1..).zip(self.lines()).map(|(number, line)| {
            let LineJson {
                group, key, model, cluster, namespace, workload, from, to, priced, ..
            } = LineJson::of(self, number, &line);
            let [price, per, cost] = priced.map(|p| [p.price, p.per, p.cost]).unwrap_or_default();
            [
                number.to_string(),
                group.to_owned(),
                key.to_owned(),
                model.to_owned(),
                cluster.to_owned(),
                namespace.to_owned(),
                workload,
                from.to_string(),
                to.to_string(),
                Unit::of(key).name().to_owned(),
                NanoHours::of(line.exact).to_string(),
                line.exact.to_string(),
                status(line.status).to_owned(),
                line.correction.map(said).unwrap_or_default(),
                position.clone(),
                root.clone(),
                price,
                per,
                cost,
                currency.clone(),
            ]
        });
        out.csv(&HEAD, rows)
    }

    fn table(&self, out: &mut Out) -> Result<(), Error> {
        let (args, folded) = (self.args, self.folded);
        out.line(format_args!("Invoice from {} to {}", args.from, args.to))?;
        let closed = if folded.closed { ", closed" } else { "" };
        out.line(format_args!("position {}, root {}{closed}", folded.position, folded.root))?;
        out.line("")?;
        let (totals, all) = self.totals()?;
        let cost = if all.is_some() { "cost" } else { "" };
        let mut table = Table::new(&[
            ("line", Align::Right),
            ("group", Align::Left),
            ("key", Align::Left),
            ("model", Align::Left),
            ("workload", Align::Left),
            ("from", Align::Left),
            ("to", Align::Left),
            ("hours", Align::Right),
            ("unit", Align::Left),
            (cost, Align::Right),
            ("", Align::Left),
        ]);
        for (number, line) in (1..).zip(self.lines()) {
            table.push(LineJson::of(self, number, &line).cells(&line));
        }
        out.table(&table)?;
        out.line("")?;
        out.table(&total_table(&totals, cost))?;
        let Some((Cost { cost, cost_rounding }, list)) = all.zip(self.prices) else {
            return Ok(());
        };
        let lacks = if is_nothing(&cost_rounding) {
            String::new()
        } else {
            format!(", rounding {cost_rounding}")
        };
        out.line("")?;
        out.line(format_args!("total {cost} {}{lacks}", list.currency))
    }
}

fn total_table(totals: &[Total<'_>], cost: &'static str) -> Table {
    let mut table = Table::new(&[
        ("total of", Align::Left),
        ("hours", Align::Right),
        ("unit", Align::Left),
        ("rounding", Align::Right),
        (cost, Align::Right),
    ]);
    for total in totals {
        let rounding = if is_nothing(&total.rounding) { "" } else { &total.rounding };
        table.push([
            total.key.into(),
            Cell::styled(Style::Bold, total.hours.clone()),
            Cell::styled(Style::Dim, format!("{}-hours", total.unit)),
            rounding.into(),
            total.cost.as_ref().map(|cost| cost.cost.clone()).unwrap_or_default().into(),
        ]);
    }
    table
}

/// Whether a number is written as 0, in whatever digits.
fn is_nothing(number: &str) -> bool {
    number.bytes().all(|b| matches!(b, b'0' | b'.'))
}

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lines = (1..).zip(self.0.lines());
        serializer.collect_seq(lines.map(|(number, line)| LineJson::of(self.0, number, &line)))
    }
}

impl<'i> LineJson<'i> {
    fn of(invoice: &Invoice<'_>, number: usize, line: &Line<'i>) -> Self {
        let workload = line.workload;
        // What leaves 128 bits was found when the lines were added up.
        let priced = invoice.cost(line).ok().flatten().map(|(price, _, cost)| Priced {
            price: price.to_string(),
            per: Unit::of(line.key).written(price.per),
            cost: cost.to_string(),
        });
        Self {
            line: number,
            group: line.group,
            key: line.key,
            model: line.model,
            cluster: cluster(&workload),
            namespace: workload.namespace,
            workload: called(&workload),
            from: line.period.from,
            to: line.period.to,
            unit: Unit::of(line.key).name(),
            hours: NanoHours::of(line.exact).to_string(),
            exact: line.exact.to_string(),
            priced,
            status: status(line.status),
            correction: line.correction.map(CorrectionJson::of),
        }
    }

    fn cells(self, line: &Line<'_>) -> [Cell; 11] {
        let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let workload = match self.namespace {
            "" => dash(&self.workload),
            namespace => format!("{namespace} {}", self.workload),
        };
        let said = match line.correction {
            Some(correction) => said(correction),
            None if line.status == Status::Provisional => self.status.to_owned(),
            None => String::new(),
        };
        [
            self.line.to_string().into(),
            dash(self.group).into(),
            self.key.into(),
            dash(self.model).into(),
            workload.into(),
            Cell::styled(Style::Dim, self.from.to_string()),
            Cell::styled(Style::Dim, self.to.to_string()),
            Cell::styled(Style::Bold, self.hours),
            Cell::styled(Style::Dim, format!("{}-hours", self.unit)),
            self.priced.map(|priced| priced.cost).unwrap_or_default().into(),
            Cell::styled(Style::Near, said),
        ]
    }
}

impl<'i> CorrectionJson<'i> {
    fn of(correction: &'i Correction) -> Self {
        let (why, by) = reason(correction);
        Self { positions: correction.positions(), why, by }
    }
}

/// Why something was corrected, and by whom.
pub(super) fn reason(correction: &Correction) -> (&str, &str) {
    match correction {
        Correction::Learned => (LEARNED, ""),
        Correction::Adjusted { why, by, .. } => (why, by),
    }
}

/// The cluster that a workload is in, or the import.
pub(super) fn cluster<'b>(workload: &Workload<'b>) -> &'b str {
    workload.source.strip_prefix("/clusters/").unwrap_or(workload.source)
}

/// `Kind/name`; nothing for none.
pub(super) fn called(workload: &Workload<'_>) -> String {
    match workload.kind {
        "" => String::new(),
        kind => format!("{kind}/{}", workload.name),
    }
}

/// What a correction says for people.
pub(super) fn said(correction: &Correction) -> String {
    match correction {
        Correction::Learned => format!("corrected: {LEARNED}"),
        Correction::Adjusted { why, by, .. } => format!("corrected by {by}: {why}"),
    }
}

pub(super) const fn status(status: Status) -> &'static str {
    match status {
        Status::Provisional => "provisional",
        Status::Final => "final",
        Status::Corrected => "corrected",
    }
}
