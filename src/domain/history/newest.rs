//! The newest hour of a group: no row of its own, but what the group's sums changed by since it began. So a boundary inside
//! it, as nearly all are, changes the sums and nothing else.
//!
//! The difference fits into 128 bits: a boundary adds its amount, which is some 2^73 at most, for less than 2^22
//! milliseconds, so that thousands of millions of boundaries in one hour would fit; and corrections, which may be large, are
//! looked at one by one.

use super::{Cell, Unit};
use crate::domain::{
    amounts::Overflow,
    growth::{Growth, Slope, add_at},
    quantity::Milli,
    time::Timestamp,
};

/// The hour of the newest boundary.
#[derive(Clone, Debug)]
pub(super) struct Newest {
    /// First millisecond inside, and first after it; of a group without boundaries there is no such hour.
    begin: i64,
    end: i64,
    /// Whether it changed since somebody asked.
    noted: bool,
    /// By slot: the sums as they were when it began.
    before: Vec<Growth>,
}

impl Default for Newest {
    fn default() -> Self {
        Self { begin: i64::MIN, end: i64::MIN, noted: false, before: Vec::new() }
    }
}

impl Newest {
    /// The hour of that number, which begins with these sums.
    pub(super) fn of(number: i64, before: Vec<Growth>) -> Self {
        let begin = Unit::Hour.begin(number);
        Self { begin, end: Unit::Hour.end(begin), noted: false, before }
    }

    /// Its number, if there is one.
    pub(super) fn number(&self) -> Option<i64> {
        self.is_there().then(|| self.begin.div_euclid(super::HOUR_MS))
    }

    const fn is_there(&self) -> bool {
        self.begin < self.end
    }

    /// First millisecond after it.
    pub(super) const fn end(&self) -> i64 {
        self.end
    }

    pub(super) const fn contains(&self, at: Timestamp) -> bool {
        self.begin <= at.millis() && at.millis() < self.end
    }

    /// Whether it lies before `at`; so does none.
    pub(super) const fn is_before(&self, at: Timestamp) -> bool {
        self.end <= at.millis()
    }

    /// It is to be written.
    pub(super) const fn note(&mut self) {
        self.noted = self.is_there();
    }

    /// Its number, if it changed since the last call.
    pub(super) fn take_changed(&mut self) -> Option<i64> {
        self.number().filter(|_| std::mem::take(&mut self.noted))
    }

    /// Looks at it; see [`crate::domain::ledger::ahead`].
    pub(super) fn look(&self) -> Milli {
        Milli::from(self.begin) ^ Milli::from(self.noted)
    }

    /// What it adds under `slot`, whose sum is `now`.
    pub(super) fn cell(&self, slot: usize, now: Growth) -> Cell {
        let before = self.before.get(slot).copied().unwrap_or_default();
        let (amount, rate) = now.more_than(before, self.end);
        Cell { amount, rate }
    }

    /// What it adds under every slot, whose sums are `now`.
    pub(super) fn cells<'s>(&'s self, now: &'s [Growth]) -> impl Iterator<Item = Cell> + 's {
        now.iter().enumerate().map(|(slot, now)| self.cell(slot, *now))
    }

    /// Whether corrections fit into it, under slots whose sums are `now`; half of 128 bits is left to boundaries.
    pub(super) fn has_room(&self, slots: &[(usize, i128)], now: &[Growth]) -> bool {
        slots.iter().all(|(slot, exact)| {
            let now = now.get(*slot).copied().unwrap_or_default();
            let sum = self.cell(*slot, now).amount.checked_add(*exact);
            sum.is_some_and(|sum| sum.unsigned_abs() < 1 << 126)
        })
    }

    /// What happened before it is learned while it is the newest: the sums were others when it began.
    pub(super) fn learn(&mut self, slots: &[(usize, Milli)], slope: Slope) -> Result<(), Overflow> {
        let widest = slots.iter().map(|(slot, _)| slot.saturating_add(1)).max().unwrap_or_default();
        if self.before.len() < widest {
            self.before.resize(widest, Growth::default());
        }
        add_at(&mut self.before, slots, slope)
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::{
        growth::{Change, Growth, add_at},
        history::{Entry, HOUR_MS, History, Past, splits::Splits},
        quantity::Milli,
        time::{ORIGIN, Timestamp},
    };

    /// A group's hours and sums, as `Sums` keeps them.
    #[derive(Default)]
    struct Group {
        history: History,
        now: Vec<Growth>,
    }

    impl Group {
        fn more(&mut self, at: Timestamp, slots: &[(usize, Milli)]) -> bool {
            let (mut splits, entry) = (Splits::default(), Entry::Rate(Change::More));
            let takes = self.history.takes(&mut splits, [at].into_iter());
            let mut enter =
                |entry, now: &[Growth]| self.history.enter(&mut splits, at, entry, slots, now);
            if !takes && enter(entry, &self.now).is_err() {
                return false;
            }
            let added = add_at(&mut self.now, slots, entry.slope_of_sum(at));
            if added.is_err() && !takes {
                enter(entry.reversed(), &self.now).unwrap();
            }
            added.is_ok()
        }

        /// Written, and read again.
        fn again(&self) -> Self {
            let mut history = History::default();
            let past = Past::new(&self.history, &self.now);
            let mut periods: Vec<_> = past.periods().collect();
            periods.sort_unstable();
            for (rows, number) in periods {
                history.load(rows, number, &past.cells(rows, number).unwrap());
            }
            history.resume(&self.now);
            Self { history, now: self.now.clone() }
        }
    }

    #[test]
    fn hours_are_what_was_held_in_them_in_whatever_order_it_is_learned() {
        let mut chance = 1_u64;
        let mut pick = |below: i64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (chance >> 33) as i64 % below
        };
        let begin = 70 * 24 * HOUR_MS;
        let (mut late, mut refused) = (0, 0);
        for _ in 0..40 {
            let mut group = Group { now: vec![Growth::default(); 3], ..Group::default() };
            let mut told: Vec<(i64, usize, Milli)> = Vec::new();
            for step in 0..150 {
                let back = if pick(4) == 0 { pick(begin) } else { 0 };
                late += u32::from(back > HOUR_MS);
                let millis = begin + step * HOUR_MS / 3 - back;
                let slots = [0, 1].map(|_| (pick(2) as usize, Milli::from(pick(9) - 4)));
                if pick(8) == 0 {
                    // What does not fit changes nothing.
                    let [one, other] = slots;
                    assert!(!group.more(ORIGIN.shifted(millis), &[one, other, (2, 1 << 126)]));
                    refused += 1;
                }
                assert!(group.more(ORIGIN.shifted(millis), &slots));
                told.extend(slots.map(|(slot, amount)| (millis, slot, amount)));
                if pick(20) == 0 {
                    group = group.again();
                }
            }
            let past = Past::new(&group.history, &group.now);
            for hour in 0..begin / HOUR_MS + 60 {
                let to = hour * HOUR_MS;
                for slot in 0..2 {
                    let held = told.iter().filter(|(at, of, _)| *at < to && *of == slot);
                    let exact: Milli =
                        held.map(|(at, _, amount)| amount * Milli::from(to - at)).sum();
                    assert_eq!(
                        past.usage(slot, ORIGIN.shifted(to)),
                        Ok(Some(exact)),
                        "hour {hour}"
                    );
                }
            }
        }
        assert!(late > 1_000 && refused > 500, "{late} {refused}");
    }
}
