//! How metered usage is shown: a table for people, JSON by the contract, CSV.

use super::{by::By, by::Line, feed::Fed, money::Budget};
use crate::{
    cli::{
        Error,
        out::{Align, Cell, Format, Out, Style, Table},
    },
    domain::{book::Exhaustion, hours::NanoHours, quota::Unit, time::Timestamp},
};
use serde_json::{Map, Value, json};

/// Prints usage from an instant to another (`None`: nothing was read), and budgets if any were asked for.
pub(super) fn print(
    out: &mut Out,
    format: Format,
    fed: &Fed,
    period: Option<(Timestamp, Timestamp)>,
    lines: &[Line],
    budgets: &[Budget],
) -> Result<(), Error> {
    match format {
        Format::Json => json(out, fed, period, lines, budgets),
        Format::Csv => csv(out, lines),
        Format::Table => table(out, fed, period, lines, budgets),
    }
}

fn json(
    out: &mut Out,
    fed: &Fed,
    period: Option<(Timestamp, Timestamp)>,
    lines: &[Line],
    budgets: &[Budget],
) -> Result<(), Error> {
    let usage: Vec<Value> = lines.iter().map(line_json).collect();
    let mut report = json!({
        "from": period.map(|(from, _)| from),
        "to": period.map(|(_, to)| to),
        "position": fed.head.map(|(position, _)| position),
        "root": fed.head.map(|(_, root)| root.to_string()),
        "quarantined": fed.quarantined,
        "usage": usage,
    });
    if let (Some(report), false) = (report.as_object_mut(), budgets.is_empty()) {
        report.insert("budgets".into(), budgets.iter().map(budget_json).collect());
    }
    out.json(&report)
}

fn line_json(line: &Line) -> Value {
    let mut object: Map<String, Value> =
        line.values.iter().map(|(by, value)| (by.name().into(), value.clone().into())).collect();
    object.insert("key".into(), line.key.clone().into());
    object.insert("unit".into(), Unit::of(&line.key).name().into());
    object.insert("hours".into(), NanoHours::of(line.exact).to_string().into());
    object.insert("exact".into(), line.exact.to_string().into());
    object.insert("running".into(), Unit::of(&line.key).written(line.running).into());
    object.insert("provisional".into(), line.provisional.into());
    object.insert("uncertainHours".into(), NanoHours::of(line.uncertain).to_string().into());
    object.into()
}

fn budget_json(budget: &Budget) -> Value {
    let hours = |exact| NanoHours::of(exact).to_string();
    json!({
        "group": budget.group,
        "key": budget.key,
        "unit": Unit::of(&budget.key).name(),
        "cashHours": hours(budget.cash),
        "carriedHours": budget.period.map(|_| hours(budget.carried)),
        "period": budget.period,
        "usedHours": hours(budget.used),
        "spentHours": hours(budget.spent),
        "consumedHours": hours(budget.consumed),
        "leftHours": hours(budget.left),
        "leftExact": budget.left.to_string(),
        "exhausted": match budget.exhaustion {
            Exhaustion::At(at) | Exhaustion::By(at) => json!(at),
            Exhaustion::Never => Value::Null,
        },
        "exhaustedWithinHour": matches!(budget.exhaustion, Exhaustion::By(_)),
    })
}

/// The dimensions, and the key if it is none of them: no line adds different keys up.
fn columns(lines: &[Line]) -> Vec<By> {
    let shown = lines.first().map(|line| line.values.iter().map(|(by, _)| *by).collect());
    let mut columns: Vec<By> = shown.unwrap_or_else(|| vec![By::Group]);
    if !columns.contains(&By::Key) {
        columns.push(By::Key);
    }
    columns
}

fn values(line: &Line, columns: &[By]) -> Vec<String> {
    let value = |by: &By| match line.values.iter().find(|(known, _)| known == by) {
        Some((_, value)) => value.clone(),
        None => line.key.clone(),
    };
    columns.iter().map(value).collect()
}

fn csv(out: &mut Out, lines: &[Line]) -> Result<(), Error> {
    let columns = columns(lines);
    let mut head: Vec<&str> = columns.iter().map(|by| by.name()).collect();
    head.extend(["unit", "hours", "exact", "running", "provisional", "uncertainHours"]);
    let rows = lines.iter().map(|line| {
        let mut row = values(line, &columns);
        row.extend([
            Unit::of(&line.key).name().to_owned(),
            NanoHours::of(line.exact).to_string(),
            line.exact.to_string(),
            Unit::of(&line.key).written(line.running),
            line.provisional.to_string(),
            NanoHours::of(line.uncertain).to_string(),
        ]);
        row
    });
    out.csv(&head, rows)
}

fn table(
    out: &mut Out,
    fed: &Fed,
    period: Option<(Timestamp, Timestamp)>,
    lines: &[Line],
    budgets: &[Budget],
) -> Result<(), Error> {
    let Some((from, to)) = period else { return out.line("Nothing was read.") };
    out.line(format!("Usage from {from} to {to}"))?;
    if let Some((position, root)) = fed.head {
        out.line(format!("position {position}, root {root}"))?;
    }
    if fed.quarantined > 0 {
        out.line(format!("{} records are quarantined and not counted", fed.quarantined))?;
    }
    out.line("")?;
    let columns = columns(lines);
    let mut heads: Vec<_> = columns.iter().map(|by| (by.name(), Align::Left)).collect();
    heads.extend([
        ("hours", Align::Right),
        ("unit", Align::Left),
        ("running", Align::Right),
        ("", Align::Left),
    ]);
    let mut table = Table::new(&heads);
    for line in lines {
        let mut row: Vec<Cell> = values(line, &columns)
            .into_iter()
            .map(|v| Cell::styled(Style::Plain, dash(v)))
            .collect();
        let unit = format!("{}-hours", Unit::of(&line.key).name());
        row.push(Cell::styled(Style::Bold, NanoHours::of(line.exact).to_string()));
        row.push(Cell::styled(Style::Dim, unit));
        row.push(Cell::styled(Style::Plain, Unit::of(&line.key).written(line.running)));
        row.push(Cell::styled(Style::Near, remark(line)));
        table.push(row);
    }
    out.table(&table)?;
    if !budgets.is_empty() {
        out.line("")?;
        out.table(&budget_table(budgets))?;
    }
    Ok(())
}

fn dash(value: String) -> String {
    if value.is_empty() { "-".to_owned() } else { value }
}

fn remark(line: &Line) -> String {
    match (line.provisional, line.uncertain) {
        (false, 0) => String::new(),
        (true, 0) => "provisional".to_owned(),
        (provisional, uncertain) => {
            let sign = if provisional { "provisional, " } else { "" };
            format!("{sign}{} of it uncertain", NanoHours::of(uncertain))
        }
    }
}

fn budget_table(budgets: &[Budget]) -> Table {
    let heads = [
        ("group", Align::Left),
        ("budget", Align::Left),
        ("cash", Align::Right),
        ("carried", Align::Right),
        ("used", Align::Right),
        ("consumed", Align::Right),
        ("left", Align::Right),
        ("runs out", Align::Left),
    ];
    let mut table = Table::new(&heads);
    for budget in budgets {
        let hours = |exact| NanoHours::of(exact).to_string();
        let style = if budget.left <= 0 { Style::Bad } else { Style::Good };
        let runs_out = match budget.exhaustion {
            Exhaustion::At(at) => at.to_string(),
            Exhaustion::By(at) => format!("in the hour before {at}"),
            Exhaustion::Never => "not at this rate".to_owned(),
        };
        table.push([
            Cell::styled(Style::Plain, budget.group.clone()),
            Cell::styled(Style::Plain, format!("cash/{}", budget.key)),
            Cell::styled(Style::Plain, hours(budget.cash)),
            // Empty where budgets do not begin anew.
            budget.period.map(|_| hours(budget.carried)).unwrap_or_default().into(),
            Cell::styled(Style::Plain, hours(budget.used)),
            Cell::styled(Style::Dim, hours(budget.consumed)),
            Cell::styled(style, hours(budget.left)),
            Cell::styled(style, runs_out),
        ]);
    }
    table
}
