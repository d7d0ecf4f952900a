//! What is read off the hours of a group: whole months, whole days of the rest, hours of the rest, each row once.

use super::{Cell, HOUR_MS, History, Unit, clock};
use crate::domain::{
    amounts::{Overflow, product},
    growth::Growth,
    quantity::Milli,
    time::Timestamp,
};

/// Past hours of one group, and its sums as they are now: the newest hour follows from both.
#[derive(Clone, Copy, Debug)]
pub struct Past<'s> {
    pub(super) history: &'s History,
    /// By slot.
    pub(super) now: &'s [Growth],
}

impl<'s> Past<'s> {
    pub(in crate::domain) const fn new(history: &'s History, now: &'s [Growth]) -> Self {
        Self { history, now }
    }

    /// Usage under `slot` from the beginning to `to`, milli-units × milliseconds. Exact when `to` is a whole hour;
    /// otherwise `None`: what happened inside an hour is not kept here.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn usage(self, slot: usize, to: Timestamp) -> Result<Option<i128>, Overflow> {
        if to.millis().rem_euclid(HOUR_MS) != 0 {
            return Ok(None);
        }
        self.sum(slot, to)?.until(to.millis()).map(Some)
    }

    /// The same where two parts of an hour meet, which `history/splits.rs` knows.
    ///
    /// # Errors
    /// [`Overflow`].
    pub(in crate::domain) fn usage_by_part(
        self,
        slot: usize,
        to: Timestamp,
    ) -> Result<i128, Overflow> {
        let before = self.sum(slot, Unit::Hour.begin_of(to))?.until(to.millis())?;
        let part = self.history.parts.cells_of(to.millis()).and_then(|cells| cells.get(slot));
        before.checked_add(part.map_or(0, |cell| cell.amount)).ok_or(Overflow)
    }

    /// What the rows up to `to`, a whole hour, add up to.
    fn sum(self, slot: usize, to: Timestamp) -> Result<Sum, Overflow> {
        let History { months, days, hours, newest, .. } = self.history;
        let mut sum = Sum::default();
        // Whole months, then whole days of the rest, then hours of the rest: each row once.
        let mut reached = i64::MIN;
        for (unit, table) in [(Unit::Month, months), (Unit::Day, days), (Unit::Hour, hours)] {
            for (number, cells) in table.from(unit, reached) {
                let end = unit.end(unit.begin(number));
                if end > to.millis() {
                    break;
                }
                sum.period(cells.get(slot), end)?;
                reached = end;
            }
        }
        if newest.number().is_some() && newest.end() <= to.millis() {
            let cell = self.now.get(slot).map(|now| newest.cell(slot, *now));
            sum.period(cell.as_ref(), newest.end())?;
        }
        Ok(sum)
    }

    /// Usage under `slot` inside the period of `unit` that begins at `begin`.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn within(self, unit: Unit, slot: usize, begin: Timestamp) -> Result<i128, Overflow> {
        let end = clock(unit.end(begin.millis()));
        let [Some(before), Some(after)] = [self.usage(slot, begin)?, self.usage(slot, end)?] else {
            return Ok(0);
        };
        after.checked_sub(before).ok_or(Overflow)
    }
}

/// A running total over rows in order of time.
#[derive(Default)]
struct Sum {
    total: i128,
    rate: Milli,
    since: i64,
}

impl Sum {
    fn period(&mut self, cell: Option<&Cell>, end: i64) -> Result<(), Overflow> {
        let Some(cell) = cell else { return Ok(()) };
        self.total = self.until(end)?.checked_add(cell.amount).ok_or(Overflow)?;
        self.rate = self.rate.checked_add(cell.rate).ok_or(Overflow)?;
        self.since = end;
        Ok(())
    }

    fn until(&self, t: i64) -> Result<i128, Overflow> {
        let grown = product(self.rate, t.saturating_sub(self.since)).ok_or(Overflow)?;
        self.total.checked_add(grown).ok_or(Overflow)
    }
}
