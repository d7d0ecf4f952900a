//! What groups may use, use and have left, at `/metrics`, if the operator asks for it: `/metrics` asks nobody who they are.
//!
//! The numbers are those of the API and the tree, each rounded once, to the nearest 64-bit float: Prometheus knows no other
//! numbers. Up to 2^53 thousandths of a unit (nine billion cores, nine tebibytes) and 2^53 billionths of an hour (nine
//! million core-hours) that rounds nothing that is printed; beyond it 15 digits are right. Invoices are made of the log.

use crate::{
    domain::{
        hours::NanoHours,
        ledger::Ledger,
        standing::{Row, Tree},
        time::Timestamp,
    },
    projection::Projection,
};
use prometheus::{
    GaugeVec, IntGauge, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// Groups that are read without letting the fold in between: an eighth of a millisecond's work.
const AT_ONCE: usize = 16;

/// See the head of this file.
struct Metrics {
    seen: Projection,
    now: fn() -> Timestamp,
    /// Rows (a group and a key) that are shown at most.
    most: usize,
    gauges: [(GaugeVec, Number); 5],
    left_out: IntGauge,
}

/// A number of a row, if it has one.
type Number = fn(&Row) -> Option<f64>;

/// Name, help, and which number.
const NUMBERS: [(&str, &str, Number); 5] = [
    (
        "bizrq_group_hard",
        "What a group's quota object lists, in units or, of cash, in hours",
        |row| row.hard.map(|hard| number(row, hard)),
    ),
    ("bizrq_group_used", "What a group uses, and has given to its children", |row| {
        Some(number(row, row.used))
    }),
    ("bizrq_group_self_used", "What a group's own workloads use", |row| {
        Some(number(row, row.self_used))
    }),
    ("bizrq_group_left", "What of hard, and of what cash went over, is not used", |row| {
        row.left().map(|left| number(row, left))
    }),
    ("bizrq_group_consumed_hours", "Unit-hours that a group and those below it spent", |row| {
        Some(hours(row.consumed))
    }),
];

/// Shows `most` rows, spent counted up to `now`.
///
/// # Errors
/// When they are registered already.
pub fn register(
    registry: &Registry,
    seen: Projection,
    most: usize,
    now: fn() -> Timestamp,
) -> Result<(), prometheus::Error> {
    let [hard, used, own, left, consumed] = NUMBERS.map(|(name, help, number)| {
        GaugeVec::new(Opts::new(name, help), &["group", "key"]).map(|gauge| (gauge, number))
    });
    let help = "Groups and keys that are not shown: there are more than the setting lets through";
    registry.register(Box::new(Metrics {
        seen,
        now,
        most,
        gauges: [hard?, used?, own?, left?, consumed?],
        left_out: IntGauge::new("bizrq_group_rows_left_out", help)?,
    }))
}

/// An amount of a row in units; of cash in unit-hours.
fn number(row: &Row, amount: i128) -> f64 {
    if row.cash { hours(amount) } else { decimal(&thousandths(amount)) }
}

fn hours(exact: i128) -> f64 {
    decimal(&NanoHours::of(exact).to_string())
}

fn thousandths(milli: i128) -> String {
    let sign = if milli < 0 { "-" } else { "" };
    let milli = milli.unsigned_abs();
    format!("{sign}{}.{:03}", milli / 1000, milli % 1000)
}

/// The float that is nearest to a decimal number.
fn decimal(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

impl Metrics {
    /// Every declared group, by name, with what it lists.
    fn declared(&self) -> Vec<(String, usize)> {
        let ledger = self.seen.ledger();
        let Some(book) = ledger.book() else { return Vec::new() };
        let listed = |group| Some((group, book.declaration(group)?.spec.hard.len()));
        let declared = book.accounts().filter_map(listed);
        let name = |group| ledger.names().group_name(group).to_owned();
        let mut all: Vec<_> = declared.map(|(group, keys)| (name(group), keys)).collect();
        all.sort();
        all
    }

    fn show(&self, ledger: &Ledger, group: &str) {
        for row in Tree::one(ledger, (self.now)(), group).into_iter().flat_map(|one| one.keys) {
            for (gauge, number) in &self.gauges {
                if let Some(number) = number(&row) {
                    gauge.with_label_values(&[group, &row.key]).set(number);
                }
            }
        }
    }
}

impl Collector for Metrics {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.iter().flat_map(|(gauge, _)| gauge.desc()).chain(self.left_out.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Half a history has other numbers.
        if !self.seen.status().caught_up {
            return Vec::new();
        }
        self.gauges.iter().for_each(|(gauge, _)| gauge.reset());
        let all = self.declared();
        let mut room = self.most;
        // A group is shown with all its keys, or not at all.
        let fits = |(_, keys): &&(String, usize)| {
            room.checked_sub(*keys).inspect(|left| room = *left).is_some()
        };
        let shown: Vec<_> = all.iter().take_while(fits).collect();
        let left_out = all.iter().skip(shown.len()).map(|(_, keys)| *keys).sum::<usize>();
        for some in shown.chunks(AT_ONCE) {
            let ledger = self.seen.ledger();
            some.iter().for_each(|(group, _)| self.show(&ledger, group));
        }
        self.left_out.set(i64::try_from(left_out).unwrap_or(i64::MAX));
        let gauges = self.gauges.iter().flat_map(|(gauge, _)| gauge.collect());
        gauges.chain(self.left_out.collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_once() {
        for (milli, nearest) in [
            (0, 0.0),
            (1, 0.001),
            (-1_500, -1.5),
            (-1, -0.001),
            // Between two floats that are 2 apart: twice rounded it would be the other one.
            (9_007_199_254_740_993_000, 9_007_199_254_740_992.0),
            (9_007_199_254_740_993_001, 9_007_199_254_740_994.0),
        ] {
            assert_eq!(decimal(&thousandths(milli)), nearest, "{milli}");
        }
        assert_eq!(hours(-3_600_000_000), -1.0);
        assert_eq!(hours(18), 0.000_000_005);
    }
}
