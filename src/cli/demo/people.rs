//! The demo for people: what happened, the tree, the hours, the refusals, the proof, and what to try next.

use super::report::{Line, Report};
use crate::{
    cli::{
        Error,
        out::{Align, Cell, Out, Style, Table},
        quota::tree::draw,
    },
    demo::Played,
    domain::{hours::NanoHours, time::Timestamp},
};
use std::collections::BTreeMap;

/// What the table of hours shows of each group.
const HOURS: [(&str, &str); 4] = [
    ("core-hours", "limits.cpu"),
    ("card-hours", "limits.nvidia.com/gpu"),
    ("on A100", "limits.nvidia.com/gpu.A100"),
    ("on A30", "limits.nvidia.com/gpu.A30"),
];

/// Longer lists say how much more there is.
const MOST_REFUSALS: usize = 24;

pub(super) fn print(report: &Report, played: &Played, out: &mut Out) -> Result<(), Error> {
    let paint = out.paint();
    out.line(paint.styled(Style::Bold, "A simulated fortnight of acme"))?;
    out.line(format_args!(
        "{} to {}, three departments on two clusters, {} pods, seed {}",
        day(report.from),
        day(report.to),
        grouped(report.pods),
        report.seed
    ))?;
    story(report, out)?;
    tree(report, played, out)?;
    hours(report, played, out)?;
    refusals(report, out)?;
    budgets(report, out)?;
    proof(report, out)?;
    next(report, out)
}

fn title(out: &mut Out, text: &str) -> Result<(), Error> {
    out.line("")?;
    out.line(out.paint().styled(Style::Bold, text))
}

fn story(report: &Report, out: &mut Out) -> Result<(), Error> {
    title(out, "What happened")?;
    for scene in &report.story {
        let time = minute(scene.time);
        let time = out.paint().styled(Style::Dim, &time).into_owned();
        out.line(format_args!("  {time}  {}", scene.text))?;
    }
    Ok(())
}

fn tree(report: &Report, played: &Played, out: &mut Out) -> Result<(), Error> {
    title(out, &format!("The quota tree at {}", report.to))?;
    let many = report.groups.groups.len();
    let shown = report.groups.only(|name| played.groups.iter().any(|group| group == name));
    draw::draw(&shown, out)?;
    more(many.saturating_sub(shown.groups.len()), out)
}

/// Says how many groups are not shown.
fn more(groups: usize, out: &mut Out) -> Result<(), Error> {
    match groups {
        0 => Ok(()),
        n => out.line(format_args!("  … and {n} more groups of the crowd")),
    }
}

fn hours(report: &Report, played: &Played, out: &mut Out) -> Result<(), Error> {
    title(out, "Who held what, in hours")?;
    let mut groups: BTreeMap<&str, BTreeMap<&str, &Line>> = BTreeMap::new();
    for line in &report.usage {
        groups.entry(&line.group).or_default().insert(&line.key, line);
    }
    let mut columns = vec![("  group", Align::Left)];
    columns.extend(HOURS.map(|(name, _)| (name, Align::Right)));
    columns.push(("", Align::Left));
    let mut table = Table::new(&columns);
    let shown = |group: &str| played.groups.iter().any(|name| name == group);
    for (group, lines) in groups.iter().filter(|(group, _)| shown(group)) {
        table.push(row(group, lines));
    }
    total(report, &mut table);
    out.table(&table)?;
    more(groups.keys().filter(|group| !shown(group)).count(), out)
}

fn row(group: &str, lines: &BTreeMap<&str, &Line>) -> Vec<Cell> {
    let mut cells = vec![Cell::from(format!("  {group}"))];
    let cell = |(_, key): &(&str, &str)| lines.get(key).map_or("", |line| &line.hours).into();
    cells.extend(HOURS.iter().map(cell));
    let runs = lines.values().any(|line| line.running != "0");
    cells.push(Cell::styled(Style::Dim, if runs { "still running" } else { "" }));
    cells
}

/// The sum of the printed lines; and where the exact sum rounds to something else, by how much.
fn total(report: &Report, table: &mut Table) {
    let mut cells = vec![Cell::styled(Style::Bold, "  total")];
    let mut rounding = vec![Cell::styled(Style::Dim, "  rounding")];
    let mut rounds = false;
    for (_, key) in HOURS {
        let lines = report.usage.iter().filter(|line| line.key == key);
        let (printed, exact) =
            lines.fold((Some(0_i128), Some(0_i128)), |(printed, exact), line| {
                let printed = printed.and_then(|sum| sum.checked_add(line.nano_hours.0));
                (printed, exact.and_then(|sum| sum.checked_add(line.exact_sum)))
            });
        let differs = exact.map(|exact| NanoHours::of(exact).0).zip(printed);
        let differs = differs.map(|(exact, printed)| exact.saturating_sub(printed));
        let differs = differs.filter(|by| *by != 0).map(|by| NanoHours(by).to_string());
        rounds |= differs.is_some();
        let sum = printed.map(|sum| NanoHours(sum).to_string()).unwrap_or_default();
        cells.push(Cell::styled(Style::Bold, sum));
        rounding.push(Cell::styled(Style::Dim, differs.unwrap_or_default()));
    }
    table.push(cells);
    if rounds {
        table.push(rounding);
    }
}

fn refusals(report: &Report, out: &mut Out) -> Result<(), Error> {
    title(out, "What was refused, in the words that people saw")?;
    for refusal in report.refusals.iter().take(MOST_REFUSALS) {
        let time = out.paint().styled(Style::Dim, &minute(refusal.time)).into_owned();
        let reason = out.paint().styled(Style::Bad, &refusal.reason).into_owned();
        out.line(format_args!("  {time}  {} on {}", refusal.workload, refusal.cluster))?;
        out.line(format_args!("          {reason}: {}", refusal.message))?;
    }
    match report.refusals.len().saturating_sub(MOST_REFUSALS) {
        0 => Ok(()),
        n => out.line(format_args!("  … and {n} more")),
    }
}

fn budgets(report: &Report, out: &mut Out) -> Result<(), Error> {
    title(out, "Budgets that were used up, to the millisecond")?;
    for exhausted in &report.exhausted {
        let at = exhausted.at.to_string();
        let at = out.paint().styled(Style::Near, &at).into_owned();
        out.line(format_args!("  {}  {}  {at}", exhausted.group, exhausted.key))?;
    }
    Ok(())
}

fn proof(report: &Report, out: &mut Out) -> Result<(), Error> {
    title(out, "The log, read back and verified")?;
    let paint = out.paint();
    let mut check = |fine: bool, yes: String, no: &str| {
        let mark =
            paint.styled(if fine { Style::Good } else { Style::Bad }, if fine { "✓" } else { "✗" });
        out.line(format_args!("  {mark} {}", if fine { &yes } else { no }))
    };
    let verified = &report.verified;
    let (records, kib) = (grouped(verified.records), grouped(verified.bytes / 1024));
    let (read, given) = if verified.keeps_roots {
        let roots = grouped(verified.roots);
        (
            "each gives the hash that stands beside it",
            format!("{roots} recorded roots of the Merkle tree: each is given again"),
        )
    } else {
        ("read in order, without a hole", "the Merkle tree is computed: keep its root".to_owned())
    };
    check(true, format!("{records} records ({kib} KiB): {read}"), "")?;
    check(verified.root_recorded, given, "the root of the records was not recorded")?;
    check(
        report.quarantined == 0,
        "folded: nothing contradicts anything, nothing is quarantined".to_owned(),
        "folded: some records contradict what is known and are quarantined",
    )?;
    check(
        verified.same_quotas,
        "the quotas that follow from the log are those that decided".to_owned(),
        "the quotas that follow from the log differ from those that decided",
    )?;
    out.line(format_args!("  root {} at position {}", report.root, report.position))
}

fn next(report: &Report, out: &mut Out) -> Result<(), Error> {
    title(out, "What to try next")?;
    let Some(log) = &report.log else {
        out.line("  bizrq demo --log ./demo      keeps the log, for all that follows")?;
        return out.line(format_args!(
            "  bizrq demo --seed {}          another fortnight",
            report.seed.wrapping_add(1)
        ));
    };
    // An argument with anything but plain characters is quoted, so that the line can be pasted.
    let plain = log.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@%".contains(c));
    let log = if plain { log.clone() } else { format!("'{}'", log.replace('\'', r"'\''")) };
    let broke = report.exhausted.first().map_or(report.to, |exhausted| exhausted.at);
    for line in [
        format!("bizrq meter --log {log} --at {}", report.to),
        format!("bizrq quota tree --log {log} --at {} language", report.to),
        format!("bizrq-replay verify --log {log} --root {}", report.root),
        format!("bizrq-replay state --log {log} --at {broke}"),
        format!(
            "bizrq-replay explain --log {log} --group language --key limits.nvidia.com/gpu --to {}",
            report.to
        ),
    ] {
        out.line(format_args!("  {line}"))?;
    }
    Ok(())
}

/// `2026-11-02 09:10`.
fn minute(time: Timestamp) -> String {
    let text = time.to_string();
    format!("{} {}", text.get(..10).unwrap_or_default(), text.get(11..16).unwrap_or_default())
}

/// `2026-11-02`.
fn day(time: Timestamp) -> String {
    time.to_string().chars().take(10).collect()
}

/// `1,234,567`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
