//! The tree for people: lines and corners, aligned numbers, a bar for each limit.

use crate::{
    cli::{
        Error,
        out::{Align, Cell, Out, Style, Table},
    },
    domain::{
        book::Exhaustion,
        quota::Unit,
        standing::{Group, Row, Tree},
    },
};

/// Cells of a bar; each shows eighths.
const BAR: i128 = 20;
/// From here on a limit is near.
const NEAR_PERCENT: i128 = 80;
/// More than any percentage that is worth printing.
const BURSTING: i128 = 1 << 20;

pub(in crate::cli) fn draw(tree: &Tree, out: &mut Out) -> Result<(), Error> {
    if tree.groups.is_empty() {
        return out.line("no groups");
    }
    let columns = ["hard", "used", "self", "consumed", "left"].map(|name| (name, Align::Right));
    let mut head = vec![("group", Align::Left)];
    head.extend(columns);
    head.push(("", Align::Left));
    let mut table = Table::new(&head);
    // By depth: whether a later sibling follows, so that its line goes on.
    let mut goes_on: Vec<bool> = Vec::new();
    for (i, group) in tree.groups.iter().enumerate() {
        let rest = tree.groups.get(i.saturating_add(1)..).unwrap_or_default();
        if group.depth == 0 && i > 0 {
            table.push([Cell::default()]);
        }
        goes_on.truncate(group.depth);
        goes_on.push(has_sibling(group.depth, rest));
        let has_children = rest.first().is_some_and(|next| next.depth > group.depth);
        table.push(title(group, &goes_on));
        for row in &group.keys {
            let stem = stem(&goes_on) + if has_children { "│  " } else { "   " };
            table.push(line(stem, row));
        }
    }
    out.table(&table)
}

fn has_sibling(depth: usize, rest: &[Group]) -> bool {
    rest.iter().find(|next| next.depth <= depth).is_some_and(|next| next.depth == depth)
}

/// The lines that run past a group's rows; roots have none.
fn stem(goes_on: &[bool]) -> String {
    goes_on.iter().skip(1).map(|on| if *on { "│  " } else { "   " }).collect()
}

fn title(group: &Group, goes_on: &[bool]) -> Vec<Cell> {
    let corner = match goes_on.split_last() {
        Some((_, [])) | None => String::new(),
        Some((on, above)) => stem(above) + if *on { "├─ " } else { "└─ " },
    };
    let name = if group.group.is_empty() { "(no group)" } else { &group.group };
    let (style, state) = match (group.state, group.reason) {
        ("NotReady", Some(reason)) => (Style::Bad, format!("not in force: {reason}")),
        ("Removed", _) => (Style::Dim, "removed; its account stays".to_owned()),
        ("Undeclared", _) => (Style::Near, "not declared".to_owned()),
        _ => (Style::Plain, String::new()),
    };
    let mut cells = vec![Cell::styled(Style::Bold, corner + name)];
    cells.extend(std::iter::repeat_n(Cell::default(), 5));
    cells.push(Cell::styled(style, state));
    cells
}

fn line(stem: String, row: &Row) -> Vec<Cell> {
    let text = |amount| if row.cash { hours(row.unit, amount) } else { people(row.unit, amount) };
    let style = fullness(row);
    let consumed = if row.consumed == 0 { String::new() } else { hours(row.unit, row.consumed) };
    vec![
        Cell::styled(Style::Plain, stem + &row.key),
        row.hard.map(text).unwrap_or_default().into(),
        text(row.used).into(),
        text(row.self_used).into(),
        Cell::styled(Style::Dim, consumed),
        Cell::styled(style, row.left().map(text).unwrap_or_default()),
        Cell::styled(style, bar(row)),
    ]
}

/// Used in percent of hard; none without a limit. A limit of 0 is full once anything is used.
fn percent(row: &Row) -> Option<i128> {
    let hard = row.limit()?;
    match hard {
        // What is owed from before is used, too.
        ..0 => Some(BURSTING),
        0 if row.used > 0 => Some(BURSTING),
        0 => Some(0),
        // What overflows when it is multiplied by 100 is as full as can be told.
        hard => Some(row.used.checked_mul(100).map_or(BURSTING, |used| used / hard)),
    }
}

fn fullness(row: &Row) -> Style {
    match percent(row) {
        None => Style::Plain,
        Some(_) if row.left().is_some_and(|left| left < 0) => Style::Bad,
        Some(percent) if percent >= NEAR_PERCENT => Style::Near,
        Some(_) => Style::Good,
    }
}

fn bar(row: &Row) -> String {
    let (Some(percent), Some(hard)) = (percent(row), row.limit()) else { return String::new() };
    let eighths = match hard {
        ..=0 => 0,
        hard => row.used.clamp(0, hard).checked_mul(BAR * 8).map_or(BAR * 8, |used| used / hard),
    };
    let whole = usize::try_from(eighths / 8).unwrap_or_default();
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let part = usize::try_from(eighths % 8).ok().and_then(|i| part.get(i)).unwrap_or(&"");
    let drawn = whole + part.chars().count();
    let empty = usize::try_from(BAR).unwrap_or_default().saturating_sub(drawn);
    let percent = if percent > 9999 { ">9999".to_owned() } else { percent.to_string() };
    let mut bar = format!("{}{part}{} {percent:>4} %", "█".repeat(whole), "░".repeat(empty));
    match row.exhaustion {
        Some(Exhaustion::At(at)) => bar.push_str(&format!("  used up at {at}")),
        Some(Exhaustion::By(at)) => bar.push_str(&format!("  used up in the hour before {at}")),
        Some(Exhaustion::Never) => bar.push_str("  lasts"),
        None => {}
    }
    if let Some(period) = row.period {
        bar.push_str(&format!("  begins anew at {}", period.to));
    }
    if row.carried != 0 {
        bar.push_str(&format!("  carried over {}", hours(row.unit, row.carried)));
    }
    if row.unreviewed != 0 {
        bar.push_str(&format!("  unreviewed {}", people(row.unit, row.unreviewed)));
    }
    bar
}

/// An amount for people: `1.5`, `64Gi`; at most three decimals, cut towards zero.
fn people(unit: Unit, milli: i128) -> String {
    let (milli, suffix) = if unit == Unit::Byte { binary(milli) } else { (milli, "") };
    format!("{}{suffix}", decimal(milli))
}

/// Unit-hours for people.
fn hours(unit: Unit, exact: i128) -> String {
    // Thousandths of a unit-hour, cut.
    let milli = exact / 3_600_000;
    let (milli, suffix) = if unit == Unit::Byte { binary(milli) } else { (milli, "") };
    format!("{}{suffix} h", decimal(milli))
}

/// The largest binary unit that leaves at least 1.
fn binary(milli: i128) -> (i128, &'static str) {
    let mut scaled = milli;
    for suffix in ["", "Ki", "Mi", "Gi", "Ti", "Pi"] {
        if scaled.unsigned_abs() < 1024 * 1000 {
            return (scaled, suffix);
        }
        scaled /= 1024;
    }
    (scaled, "Ei")
}

/// `1,234.5` of 1234500.
fn decimal(milli: i128) -> String {
    let (whole, rest) = (milli.unsigned_abs() / 1000, milli.unsigned_abs() % 1000);
    let mut digits = whole.to_string();
    let mut at = digits.len();
    while at > 3 {
        at -= 3;
        digits.insert(at, ',');
    }
    let rest = format!("{rest:03}");
    let rest = rest.trim_end_matches('0');
    let sign = if milli < 0 { "-" } else { "" };
    if rest.is_empty() { format!("{sign}{digits}") } else { format!("{sign}{digits}.{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(hard: i128, used: i128) -> Row {
        Row {
            key: "limits.cpu".into(),
            unit: Unit::Core,
            cash: false,
            hard: Some(hard),
            carried: 0,
            period: None,
            used,
            self_used: used,
            consumed: 0,
            unreviewed: 0,
            exhaustion: None,
        }
    }

    #[test]
    fn bars_fill_by_eighths_and_stay_within_their_cells() {
        for (hard, used, shown) in [
            (1000, 0, "░░░░░░░░░░░░░░░░░░░░    0 %"),
            (1000, 500, "██████████░░░░░░░░░░   50 %"),
            (160, 1, "▏░░░░░░░░░░░░░░░░░░░    0 %"),
            (1000, 1000, "████████████████████  100 %"),
            (1000, 2500, "████████████████████  250 %"),
            (0, 0, "░░░░░░░░░░░░░░░░░░░░    0 %"),
            (0, 5, "░░░░░░░░░░░░░░░░░░░░ >9999 %"),
            (i128::MAX, i128::MAX, "████████████████████ >9999 %"),
        ] {
            assert_eq!(bar(&row(hard, used)), shown, "{used} of {hard}");
        }
        assert_eq!(fullness(&row(10, 11)), Style::Bad);
        assert_eq!(fullness(&row(10, 8)), Style::Near);
        assert_eq!(fullness(&row(10, 7)), Style::Good);
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!(people(Unit::Core, 1_234_500), "1,234.5");
        assert_eq!(people(Unit::Core, -1500), "-1.5");
        assert_eq!(people(Unit::Byte, (64 << 30) * 1000), "64Gi");
        assert_eq!(people(Unit::Byte, 1023 * 1000), "1,023");
        assert_eq!(hours(Unit::Core, 3_600_000_000), "1 h");
        assert_eq!(hours(Unit::Byte, (100 << 30) * 3_600_000_000), "100Gi h");
        assert_eq!(decimal(i128::MIN), "-170,141,183,460,469,231,731,687,303,715,884,105.728");
    }
}
