//! The billed time, cut into slices: at hours or days where lines are by these, and wherever a price may change.

use crate::domain::{event::Period, history::Unit, time::Timestamp};

/// Slices of a period, in order, without gaps.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    from: Timestamp,
    /// Where each slice ends; the last where the period does.
    ends: Vec<Timestamp>,
}

impl Axis {
    /// The slices of `period`, cut by the calendar (UTC) and at `cuts`.
    pub(super) fn new(period: Period, every: Option<Unit>, cuts: &[Timestamp]) -> Self {
        let inside = |t: &Timestamp| period.from < *t && *t < period.to;
        let mut ends: Vec<Timestamp> = cuts.iter().copied().filter(inside).collect();
        if let Some(unit) = every {
            let next = |t: &Timestamp| Some(unit.end_of(*t));
            ends.extend(std::iter::successors(next(&period.from), next).take_while(inside));
        }
        ends.push(period.to);
        ends.sort_unstable();
        ends.dedup();
        Self { from: period.from, ends }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn period(&self) -> Period {
        Period { from: self.from, to: self.ends.last().copied().unwrap_or(self.from) }
    }

    /// The part of `[from, to)` that is billed.
    pub(super) fn clip(&self, from: Timestamp, to: Timestamp) -> Option<Period> {
        let whole = self.period();
        let part = Period { from: from.max(whole.from), to: to.min(whole.to) };
        (part.from < part.to).then_some(part)
    }

    /// The slice that holds `t`, which lies inside the period.
    pub(super) fn slice(&self, t: Timestamp) -> usize {
        self.ends.partition_point(|end| *end <= t)
    }

    /// From where to where a slice goes.
    pub(super) fn of(&self, slice: usize) -> Period {
        let from = slice.checked_sub(1).and_then(|before| self.ends.get(before));
        let from = from.copied().unwrap_or(self.from);
        Period { from, to: self.ends.get(slice).copied().unwrap_or(from) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn a_period_is_cut_at_days_and_prices_and_has_no_gap() {
        let period =
            Period { from: at("2026-02-27T18:00:00.000Z"), to: at("2026-03-01T06:00:00.000Z") };
        let price = at("2026-02-28T12:00:00.000Z");
        let axis = Axis::new(period, Some(Unit::Day), &[price, period.from, period.to]);
        let ends = ["2026-02-28T00:00:00Z", "2026-02-28T12:00:00Z", "2026-03-01T00:00:00Z"];
        assert_eq!(axis.ends, [ends.map(at).as_slice(), &[period.to]].concat());
        for slice in 0..axis.len() {
            let Period { from, to } = axis.of(slice);
            assert_eq!((axis.slice(from), axis.slice(to.shifted(-1))), (slice, slice));
        }
        assert_eq!((axis.of(0).from, axis.of(3).to), (period.from, period.to));
    }
}
