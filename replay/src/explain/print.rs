//! An explanation for people and for programs.

use super::{Adjustment, Explanation, Line};
use crate::{
    Output,
    reading::{hours, quantity},
};
use bizrq::{
    cli::{
        Error,
        out::{Align, Cell, Out, Style, Table, warn},
    },
    domain::{event::Position, hours::NanoHours, quota::Unit, time::Timestamp},
};
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Json<'e> {
    group: &'e str,
    key: &'e str,
    unit: &'static str,
    basis: &'static str,
    from: Option<Timestamp>,
    to: Timestamp,
    position: Position,
    root: &'e str,
    hours: String,
    exact: String,
    /// What the ledger says for the same interval: the same number.
    ledger_exact: String,
    segments: Vec<SegmentJson<'e>>,
    adjustments: Vec<AdjustmentJson<'e>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SegmentJson<'e> {
    source: &'e str,
    pod: &'e str,
    uid: &'e str,
    from: Timestamp,
    /// `null` while the pod runs.
    to: Option<Timestamp>,
    amount: String,
    hours: String,
    exact: String,
    provisional: bool,
    positions: &'e [Position],
}

#[derive(Serialize)]
struct AdjustmentJson<'e> {
    position: Position,
    at: Timestamp,
    hours: String,
    exact: String,
    why: &'e str,
    by: &'e str,
}

impl Explanation {
    pub(super) fn print(&self, output: Output, out: &mut Out) -> Result<(), Error> {
        match output {
            Output::Json => out.json(&self.json())?,
            Output::Table => self.table(out)?,
        }
        if self.sum != self.ledger {
            let Self { sum, ledger, .. } = self;
            warn(format_args!(
                "the segments add up to {sum}, the ledger says {ledger}: one of them is wrong; report this"
            ));
        }
        Ok(())
    }

    fn json(&self) -> Json<'_> {
        let question = &self.question;
        let key = question.key.as_str();
        Json {
            group: &question.group,
            key,
            unit: Unit::of(key).name(),
            basis: question.basis.name(),
            from: question.window.from,
            to: question.to,
            position: self.position,
            root: &self.root,
            hours: hours(self.sum),
            exact: self.sum.to_string(),
            ledger_exact: self.ledger.to_string(),
            segments: self.segments.iter().map(|line| line.json(key)).collect(),
            adjustments: self.adjustments.iter().map(Adjustment::json).collect(),
        }
    }

    fn table(&self, out: &mut Out) -> Result<(), Error> {
        let question = &self.question;
        let unit = Unit::of(&question.key).name();
        let head = format!("{unit}-hours");
        let mut table = Table::new(&[
            ("from", Align::Left),
            ("to", Align::Left),
            ("pod", Align::Left),
            ("amount", Align::Right),
            ("hours", Align::Right),
            ("exact", Align::Right),
            ("records", Align::Left),
        ]);
        let mut total = Some(NanoHours::default());
        for line in &self.segments {
            total = total.and_then(|total| total.checked_add(NanoHours::of(line.exact)));
            table.push(line.cells(&question.key));
        }
        for adjustment in &self.adjustments {
            total = total.and_then(|total| total.checked_add(NanoHours::of(adjustment.exact)));
            table.push(adjustment.cells());
        }
        let group = if question.group.is_empty() { "(none)" } else { &question.group };
        let from =
            question.window.from.map_or_else(|| "the beginning".to_owned(), |t| t.to_string());
        out.line(format_args!(
            "{group} {} in {head}, from {from} to {}",
            question.key, question.to
        ))?;
        out.line(format_args!("by the records to position {}, root {}", self.position, self.root))?;
        out.table(&table)?;
        let exact = NanoHours::of(self.sum);
        let total = total.unwrap_or(exact);
        out.line(format_args!("total {total} {head}, exact {}", self.sum))?;
        let rounding = NanoHours(exact.0.saturating_sub(total.0));
        if rounding.0 != 0 {
            out.line(format_args!("rounding {rounding}: the exact total is {exact}"))?;
        }
        Ok(())
    }
}

impl Line {
    fn json(&self, key: &str) -> SegmentJson<'_> {
        SegmentJson {
            source: &self.source,
            pod: &self.pod,
            uid: &self.uid,
            from: self.from,
            to: self.to,
            amount: quantity(key, self.amount),
            hours: hours(self.exact),
            exact: self.exact.to_string(),
            provisional: self.provisional,
            positions: &self.positions,
        }
    }

    fn cells(&self, key: &str) -> [Cell; 7] {
        let to = match self.to {
            Some(to) if self.provisional => Cell::styled(Style::Near, format!("{to}?")),
            Some(to) => to.to_string().into(),
            None => Cell::styled(Style::Dim, "running"),
        };
        [
            self.from.to_string().into(),
            to,
            format!("{} {}", self.source.rsplit('/').next().unwrap_or_default(), self.pod).into(),
            quantity(key, self.amount).into(),
            hours(self.exact).into(),
            self.exact.to_string().into(),
            list(&self.positions).into(),
        ]
    }
}

impl Adjustment {
    fn json(&self) -> AdjustmentJson<'_> {
        AdjustmentJson {
            position: self.position,
            at: self.at,
            hours: hours(self.exact),
            exact: self.exact.to_string(),
            why: &self.why,
            by: &self.by,
        }
    }

    fn cells(&self) -> [Cell; 7] {
        [
            self.at.to_string().into(),
            Cell::default(),
            format!("correction by {}: {}", self.by, self.why).into(),
            Cell::default(),
            hours(self.exact).into(),
            self.exact.to_string().into(),
            self.position.to_string().into(),
        ]
    }
}

fn list(positions: &[Position]) -> String {
    positions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
