//! A state for people and for programs. Amounts are strings: JSON numbers lose digits in many readers.

use super::{Budget, Limit, State};
use crate::{
    Output,
    reading::{hours, quantity},
};
use bizrq::{
    cli::{
        Error,
        out::{Align, Cell, Out, Style, Table},
    },
    domain::{book::Exhaustion, event::Period, ledger::Usage, quota::Unit, time::Timestamp},
};
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Json {
    from: Option<Timestamp>,
    /// `null`: no record is counted.
    to: Option<Timestamp>,
    position: u64,
    root: String,
    quarantined: usize,
    usage: Vec<UsageJson>,
    quotas: Vec<LimitJson>,
    cash: Vec<BudgetJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UsageJson {
    group: String,
    key: String,
    unit: &'static str,
    hours: String,
    exact: String,
    running: String,
    provisional: bool,
    uncertain_hours: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LimitJson {
    group: String,
    parent: Option<String>,
    key: String,
    unit: &'static str,
    hard: Option<String>,
    used: String,
    self_used: String,
    left: Option<String>,
    unreviewed: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BudgetJson {
    group: String,
    key: String,
    unit: &'static str,
    hard_hours: String,
    /// What went over from the period before, where the tree's budgets begin anew.
    carried_hours: Option<String>,
    /// The period that the numbers are of, where they begin anew.
    period: Option<Period>,
    used_hours: String,
    consumed_hours: String,
    left_hours: String,
    left_exact: String,
    /// From this instant on the budget is used up; `null`: never, if all goes on as it is.
    exhausted: Option<Timestamp>,
    /// It was used up within the hour before `exhausted`, so long ago that more is not known.
    exhausted_within_hour: bool,
}

impl From<&Usage> for UsageJson {
    fn from(line: &Usage) -> Self {
        Self {
            group: line.group.clone(),
            unit: Unit::of(&line.key).name(),
            hours: hours(line.exact),
            exact: line.exact.to_string(),
            running: quantity(&line.key, line.running),
            provisional: line.provisional,
            uncertain_hours: hours(line.uncertain),
            key: line.key.clone(),
        }
    }
}

impl From<&Limit> for LimitJson {
    fn from(limit: &Limit) -> Self {
        let amount = |milli| quantity(&limit.key, milli);
        Self {
            group: limit.group.clone(),
            parent: limit.parent.clone(),
            unit: Unit::of(&limit.key).name(),
            hard: limit.hard.map(amount),
            used: amount(limit.used),
            self_used: amount(limit.self_used),
            left: limit.hard.map(|hard| amount(hard.saturating_sub(limit.used))),
            unreviewed: amount(limit.unreviewed),
            key: limit.key.clone(),
        }
    }
}

impl From<&Budget> for BudgetJson {
    fn from(budget: &Budget) -> Self {
        let left = budget.hard.saturating_add(budget.carried).saturating_sub(budget.used);
        Self {
            group: budget.group.clone(),
            key: budget.key.clone(),
            unit: Unit::of(&budget.key).name(),
            hard_hours: hours(budget.hard),
            carried_hours: budget.period.map(|_| hours(budget.carried)),
            period: budget.period,
            used_hours: hours(budget.used),
            consumed_hours: hours(budget.consumed),
            left_hours: hours(left),
            left_exact: left.to_string(),
            exhausted: match budget.exhaustion {
                Some(Exhaustion::At(at) | Exhaustion::By(at)) => Some(at),
                Some(Exhaustion::Never) | None => None,
            },
            exhausted_within_hour: matches!(budget.exhaustion, Some(Exhaustion::By(_))),
        }
    }
}

impl State {
    pub(super) fn print(&self, output: Output, out: &mut Out) -> Result<(), Error> {
        let json = Json {
            from: None,
            to: self.at,
            position: self.known.position(),
            root: self.known.root().to_string(),
            quarantined: self.known.quarantined().len(),
            usage: self.usage.iter().map(UsageJson::from).collect(),
            quotas: self.quotas.iter().map(LimitJson::from).collect(),
            cash: self.cash.iter().map(BudgetJson::from).collect(),
        };
        match output {
            Output::Json => out.json(&json),
            Output::Table => json.tables(out),
        }
    }
}

impl Json {
    fn tables(&self, out: &mut Out) -> Result<(), Error> {
        let Self { to, position, root, quarantined, .. } = self;
        let Some(to) = to else {
            return out.line("no record is counted: nothing was used, nothing is allowed");
        };
        out.line(format_args!("up to {to}, by the records to position {position}, root {root}"))?;
        if *quarantined > 0 {
            out.line(format_args!("{quarantined} records quarantined; `verify` lists them"))?;
        }
        let title = |text: &str| out_title(text);
        if !self.usage.is_empty() {
            out.line(title("used"))?;
            out.table(&self.usage_table())?;
        }
        if !self.quotas.is_empty() {
            out.line(title("allowed"))?;
            out.table(&self.quota_table())?;
        }
        if !self.cash.is_empty() {
            out.line(title("budgets, in unit-hours"))?;
            out.table(&self.cash_table())?;
        }
        Ok(())
    }

    fn usage_table(&self) -> Table {
        let mut table = table(&["group", "key", "unit"], &["hours", "running", "uncertain", ""]);
        for line in &self.usage {
            let sign = if line.provisional { "provisional" } else { "" };
            table.push([
                named(&line.group),
                line.key.as_str().into(),
                line.unit.into(),
                line.hours.as_str().into(),
                line.running.as_str().into(),
                line.uncertain_hours.as_str().into(),
                Cell::styled(Style::Dim, sign),
            ]);
        }
        table
    }

    fn quota_table(&self) -> Table {
        let columns = ["hard", "used", "self", "left", "unreviewed"];
        let mut table = table(&["group", "key", "unit"], &columns);
        for line in &self.quotas {
            let over = line.left.as_ref().is_some_and(|left| left.starts_with('-'));
            let style = if over { Style::Bad } else { Style::Plain };
            let or_none = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
            table.push([
                named(&line.group),
                line.key.as_str().into(),
                line.unit.into(),
                or_none(&line.hard).into(),
                line.used.as_str().into(),
                line.self_used.as_str().into(),
                Cell::styled(style, or_none(&line.left)),
                line.unreviewed.as_str().into(),
            ]);
        }
        table
    }

    fn cash_table(&self) -> Table {
        let columns = ["budget", "carried", "used", "consumed", "left", "exhausted"];
        let mut table = table(&["group", "key", "unit"], &columns);
        for line in &self.cash {
            let over = line.left_exact.starts_with('-') || line.left_exact == "0";
            let style = if over { Style::Bad } else { Style::Plain };
            let exhausted = match line.exhausted {
                None => "never".to_owned(),
                Some(at) if line.exhausted_within_hour => format!("in the hour before {at}"),
                Some(at) => at.to_string(),
            };
            table.push([
                named(&line.group),
                line.key.as_str().into(),
                line.unit.into(),
                line.hard_hours.as_str().into(),
                line.carried_hours.as_deref().unwrap_or_default().into(),
                line.used_hours.as_str().into(),
                line.consumed_hours.as_str().into(),
                Cell::styled(style, line.left_hours.as_str()),
                exhausted.into(),
            ]);
        }
        table
    }
}

fn out_title(text: &str) -> String {
    format!("\n{text}")
}

fn table(left: &[&'static str], right: &[&'static str]) -> Table {
    let left = left.iter().map(|name| (*name, Align::Left));
    Table::new(&left.chain(right.iter().map(|name| (*name, Align::Right))).collect::<Vec<_>>())
}

/// A group's name, or what stands for none.
fn named(group: &str) -> Cell {
    if group.is_empty() { Cell::styled(Style::Dim, "(none)") } else { group.into() }
}
