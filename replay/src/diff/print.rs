//! A difference for people and for programs.

use super::{Difference, LimitChange, Records, Side, UsageChange};
use crate::{
    Output,
    reading::{hours, quantity},
};
use bizrq::{
    cli::{
        Error,
        out::{Align, Cell, Out, Style, Table},
    },
    domain::{event::Position, quota::Unit, time::Timestamp},
};
use serde::Serialize;

#[derive(Serialize)]
struct Json<'d> {
    a: SideJson<'d>,
    b: SideJson<'d>,
    usage: Vec<UsageJson<'d>>,
    quotas: Vec<LimitJson<'d>>,
}

#[derive(Serialize)]
struct SideJson<'d> {
    position: Position,
    root: &'d str,
    at: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UsageJson<'d> {
    group: &'d str,
    key: &'d str,
    unit: &'static str,
    before_hours: String,
    before_exact: String,
    ran_on_hours: String,
    ran_on_exact: String,
    by_records_hours: String,
    by_records_exact: String,
    #[serde(flatten)]
    records: RecordsJson<'d>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LimitJson<'d> {
    group: &'d str,
    key: &'d str,
    unit: &'static str,
    hard_before: Option<String>,
    hard_after: Option<String>,
    used_before: String,
    used_after: String,
    #[serde(flatten)]
    records: RecordsJson<'d>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordsJson<'d> {
    records: &'d [Position],
    /// So many more than are listed.
    more_records: u64,
}

/// Positions that fit into a line.
const SHOWN: usize = 6;

impl Difference {
    pub(super) fn print(&self, output: Output, out: &mut Out) -> Result<(), Error> {
        match output {
            Output::Json => out.json(&Json {
                a: self.a.json(),
                b: self.b.json(),
                usage: self.usage.iter().map(UsageChange::json).collect(),
                quotas: self.limits.iter().map(LimitChange::json).collect(),
            }),
            Output::Table => self.table(out),
        }
    }

    fn table(&self, out: &mut Out) -> Result<(), Error> {
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            let Side { position, root, at } = side;
            out.line(format_args!("{name}: position {position}, published {at}, root {root}"))?;
        }
        out.line("")?;
        if self.usage.is_empty() && self.limits.is_empty() {
            return out.line("Nothing is different.");
        }
        let mut usage = Table::new(&[
            ("group", Align::Left),
            ("key", Align::Left),
            ("hours before", Align::Right),
            ("ran on", Align::Right),
            ("by records", Align::Right),
            ("records", Align::Left),
        ]);
        self.usage.iter().for_each(|change| usage.push(change.cells()));
        out.table(&usage)?;
        let mut limits = Table::new(&[
            ("group", Align::Left),
            ("key", Align::Left),
            ("hard", Align::Right),
            ("", Align::Left),
            ("used", Align::Right),
            ("", Align::Left),
            ("records", Align::Left),
        ]);
        self.limits.iter().for_each(|change| limits.push(change.cells()));
        if !limits.is_empty() {
            out.line("")?;
            out.table(&limits)?;
        }
        Ok(())
    }
}

impl Side {
    fn json(&self) -> SideJson<'_> {
        SideJson { position: self.position, root: &self.root, at: self.at }
    }
}

impl UsageChange {
    fn json(&self) -> UsageJson<'_> {
        UsageJson {
            group: &self.group,
            key: &self.key,
            unit: Unit::of(&self.key).name(),
            before_hours: hours(self.before),
            before_exact: self.before.to_string(),
            ran_on_hours: hours(self.ran_on),
            ran_on_exact: self.ran_on.to_string(),
            by_records_hours: hours(self.by_records),
            by_records_exact: self.by_records.to_string(),
            records: self.records.json(),
        }
    }

    fn cells(&self) -> [Cell; 6] {
        [
            dash(&self.group),
            self.key.as_str().into(),
            hours(self.before).into(),
            hours(self.ran_on).into(),
            Cell::styled(Style::Bold, hours(self.by_records)),
            if self.by_records == 0 { Cell::default() } else { self.records.cell() },
        ]
    }
}

impl LimitChange {
    fn json(&self) -> LimitJson<'_> {
        let [hard_before, hard_after] = self.hard.map(|hard| hard.map(|h| quantity(&self.key, h)));
        let [used_before, used_after] = self.used.map(|used| quantity(&self.key, used));
        LimitJson {
            group: &self.group,
            key: &self.key,
            unit: Unit::of(&self.key).name(),
            hard_before,
            hard_after,
            used_before,
            used_after,
            records: self.records.json(),
        }
    }

    fn cells(&self) -> [Cell; 7] {
        let hard =
            self.hard.map(|hard| hard.map_or_else(|| "-".to_owned(), |h| quantity(&self.key, h)));
        let used = self.used.map(|used| quantity(&self.key, used));
        let arrow = |[before, after]: [String; 2]| match before == after {
            true => [before.into(), Cell::default()],
            false => [before.into(), Cell::styled(Style::Bold, format!("→ {after}"))],
        };
        let ([hard, to_hard], [used, to_used]) = (arrow(hard), arrow(used));
        [
            dash(&self.group),
            self.key.as_str().into(),
            hard,
            to_hard,
            used,
            to_used,
            self.records.cell(),
        ]
    }
}

impl Records {
    fn json(&self) -> RecordsJson<'_> {
        RecordsJson { records: &self.positions, more_records: self.more }
    }

    fn cell(&self) -> Cell {
        let shown: Vec<String> =
            self.positions.iter().take(SHOWN).map(ToString::to_string).collect();
        let all = self.more.saturating_add(self.positions.len() as u64);
        match all.saturating_sub(shown.len() as u64) {
            0 => shown.join(",").into(),
            more => format!("{} and {more} more", shown.join(",")).into(),
        }
    }
}

fn dash(text: &str) -> Cell {
    if text.is_empty() { "-".into() } else { text.into() }
}
