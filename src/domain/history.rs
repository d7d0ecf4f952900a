//! Usage of past hours: hourly differences of one group, rolled up into days and months.
//!
//! A segment is two boundaries: at its start its amount begins to count, at its end it ceases. A boundary
//! touches one row: the amount that it adds inside its hour, and the change of rate from the next hour on. The newest hour
//! has no row yet (`history/newest.rs`): it is made when the group's next hour begins. A finished day is the sum of its hours, a finished month the sum of its days; both are made when the group's
//! next day begins and corrected in place when something about them is learned later.
//!
//! An hour in which a date begins at some place (`history/splits.rs`) has a second row, of what its boundaries add
//! before that instant: budgets that begin anew there are exact to the millisecond however long ago it was.

mod entry;
mod newest;
mod past;
pub mod splits;
mod state;

pub(in crate::domain) use entry::Entry;
use newest::Newest;
pub use past::Past;
use splits::Splits;
pub(in crate::domain) use state::Rows;

use super::{
    amounts::{Overflow, product},
    growth::{Change, Growth},
    quantity::Milli,
    time::{HOUR_MS, Timestamp},
};
use chrono::{DateTime, Datelike, NaiveDate};
use serde::{Deserialize, Serialize};

/// Milliseconds in a UTC day.
const DAY_MS: i64 = 24 * HOUR_MS;

/// Hours, days and months of one group; amounts by the group's slots.
#[derive(Clone, Debug, Default)]
pub struct History {
    newest: Newest,
    /// Those before the newest.
    hours: Table,
    days: Table,
    months: Table,
    /// Parts of hours, up to where a date begins.
    parts: Table,
}

/// Periods of one unit in order of time, and what each adds, by slot.
#[derive(Clone, Debug, Default)]
struct Table {
    /// Numbers of the periods: hours or days since 1970, months since year 0; of a part of an hour its end, in
    /// milliseconds since 1970.
    numbers: Vec<i64>,
    /// `width` cells a period, side by side: a new row touches one place in memory.
    cells: Vec<Cell>,
    width: usize,
    /// By period: whether it is in `changed`.
    noted: Vec<bool>,
    /// Numbers of periods that changed since somebody asked.
    changed: Vec<i64>,
}

/// Amount inside the period, and change of rate from the next period on (0 of a part of an hour).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cell {
    amount: i128,
    rate: Milli,
}

/// A length of calendar time, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// 3,600,000 ms.
    Hour,
    /// 24 hours.
    Day,
    /// A calendar month.
    Month,
}

impl Unit {
    /// The number of the period that `t` lies in.
    fn number(self, t: Timestamp) -> i64 {
        match self {
            Self::Hour => t.millis().div_euclid(HOUR_MS),
            Self::Day => t.millis().div_euclid(DAY_MS),
            Self::Month => {
                let date = DateTime::from_timestamp_millis(t.millis()).unwrap_or_default();
                let month0 = i64::from(date.month0());
                i64::from(date.year()).saturating_mul(12).saturating_add(month0)
            }
        }
    }

    /// First millisecond of the period of that number.
    fn begin(self, number: i64) -> i64 {
        match self {
            Self::Hour => number.saturating_mul(HOUR_MS),
            Self::Day => number.saturating_mul(DAY_MS),
            Self::Month => {
                let year = i32::try_from(number.div_euclid(12)).unwrap_or_default();
                let month =
                    u32::try_from(number.rem_euclid(12)).unwrap_or_default().saturating_add(1);
                let date = NaiveDate::from_ymd_opt(year, month, 1).unwrap_or_default();
                i64::from(date.to_epoch_days()).saturating_mul(DAY_MS)
            }
        }
    }

    /// First instant of the period that `t` lies in.
    #[must_use]
    pub fn begin_of(self, t: Timestamp) -> Timestamp {
        clock(self.begin(self.number(t)))
    }

    /// First instant after the period that `t` lies in.
    #[must_use]
    pub fn end_of(self, t: Timestamp) -> Timestamp {
        clock(self.end(t.millis()))
    }

    /// Milliseconds from `t` to the end of its period.
    fn rest(self, t: Timestamp) -> i64 {
        self.end(t.millis()).saturating_sub(t.millis())
    }

    /// First millisecond after the period that `t` lies in.
    fn end(self, t: i64) -> i64 {
        match self {
            Self::Hour => t.div_euclid(HOUR_MS).saturating_add(1).saturating_mul(HOUR_MS),
            Self::Day => t.div_euclid(DAY_MS).saturating_add(1).saturating_mul(DAY_MS),
            Self::Month => match Timestamp::from_millis(t) {
                Ok(t) => self.begin(self.number(t).saturating_add(1)),
                Err(_) => i64::MAX,
            },
        }
    }
}

impl History {
    /// Looks at the newest hour; see [`super::ledger::ahead`].
    pub(super) fn look(&self) -> Milli {
        self.newest.look()
    }

    /// Whether boundaries at these instants change the newest hour and nothing else here, which they do from now on.
    pub(super) fn takes(
        &mut self,
        splits: &mut Splits,
        mut boundaries: impl Iterator<Item = Timestamp>,
    ) -> bool {
        let takes = boundaries.all(|at| self.newest.contains(at) && !splits.has_after(at));
        if takes {
            self.newest.note();
        }
        takes
    }

    /// What boundaries up to now add before `end`, inside its hour: it is kept in parts from now on.
    pub(super) fn split(
        &mut self,
        end: Timestamp,
        slots: &[(usize, i128)],
    ) -> Result<(), Overflow> {
        self.parts.add(end.millis(), 0, Entry::Amount(Change::More), slots)
    }

    /// Enters something under some slots at `at`: into its hour, into each part of that hour that ends later, and where
    /// days and months were rolled up already, into theirs. `now` are the sums before it is entered there.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub(super) fn enter(
        &mut self,
        splits: &mut Splits,
        at: Timestamp,
        entry: Entry,
        slots: &[(usize, i128)],
        now: &[Growth],
    ) -> Result<(), Overflow> {
        if self.newest.is_before(at) {
            self.begin(at, now)?;
        }
        let is_late = !self.newest.contains(at);
        if !is_late {
            if matches!(entry, Entry::Amount(Change::More)) && !self.newest.has_room(slots, now) {
                return Err(Overflow);
            }
            self.newest.note();
        }
        let day = Unit::Day.number(at);
        let newest = self.newest.number().map(day_of_hour);
        let row = |rows, unit: Unit| (rows, unit.number(at), unit.rest(at), entry);
        let is_finished = newest.is_some_and(|newest| day < newest);
        let month = || Some(row(Rows::Months, Unit::Month));
        let month = if is_finished { month() } else { None };
        let month = month.filter(|(_, number, ..)| self.months.last() >= Some(*number));
        let whole = [
            is_late.then(|| row(Rows::Hours, Unit::Hour)),
            is_finished.then(|| row(Rows::Days, Unit::Day)),
            month,
        ];
        let ends = splits.after(at);
        let part =
            |end: &Timestamp| (Rows::Parts, end.millis(), end.since(at), entry.without_rate());
        let rows = whole.into_iter().flatten().chain(ends.iter().map(part));
        let count = rows.clone().count();
        let entered =
            rows.clone().enumerate().try_for_each(|(done, (table, number, rest, entry))| {
                self.table_mut(table).add(number, rest, entry, slots).map_err(|Overflow| done)
            });
        let learned = entered.and_then(|()| {
            if !is_late {
                return Ok(());
            }
            self.newest.learn(slots, entry.slope_of_sum(at)).map_err(|Overflow| count)
        });
        let Err(done) = learned else { return Ok(()) };
        for (table, number, rest, entry) in rows.take(done) {
            // Stepping back restores sums that were in range.
            let _ = self.table_mut(table).add(number, rest, entry.reversed(), slots);
        }
        Err(Overflow)
    }

    /// The hour of `at`, which lies after the newest, is the newest from now on: that one gets its row, and a day that
    /// ended with it too.
    fn begin(&mut self, at: Timestamp, now: &[Growth]) -> Result<(), Overflow> {
        let hour = Unit::Hour.number(at);
        if let Some(ended) = self.newest.number() {
            let cells: Vec<_> = self.newest.cells(now).collect();
            self.hours.push(ended, &cells);
            if day_of_hour(hour) > day_of_hour(ended)
                && let Err(overflow) = self.finish(day_of_hour(ended))
            {
                self.hours.pop();
                return Err(overflow);
            }
        }
        self.newest = Newest::of(hour, now.to_vec());
        Ok(())
    }

    /// The newest day has ended: its row is made, and the rows of the months before its own.
    fn finish(&mut self, day: i64) -> Result<(), Overflow> {
        if self.days.last().is_none_or(|last| last < day) {
            let cells = self.hours.roll_up(Unit::Hour, Unit::Day, day)?;
            self.days.push(day, &cells);
        }
        let after = self.months.last().unwrap_or(i64::MIN);
        let newest_first = self.days.numbers.iter().rev().map(|day| month_of_day(*day));
        let mut months: Vec<i64> = newest_first.take_while(|m| *m > after).collect();
        months.retain(|m| *m < month_of_day(day));
        months.dedup();
        for month in months.into_iter().rev() {
            let cells = self.days.roll_up(Unit::Day, Unit::Month, month)?;
            self.months.push(month, &cells);
        }
        Ok(())
    }
}

impl Table {
    /// The newest period.
    fn last(&self) -> Option<i64> {
        self.numbers.last().copied()
    }

    /// Periods that begin at `reached` or later, with their cells.
    fn from(&self, unit: Unit, reached: i64) -> impl Iterator<Item = (i64, &[Cell])> {
        let first = self.numbers.partition_point(|number| unit.begin(*number) < reached);
        let numbers = self.numbers.get(first..).unwrap_or_default().iter().copied();
        let cells = self.cells.get(first.saturating_mul(self.width)..).unwrap_or_default();
        // No width means no cells; chunks of one of nothing are nothing.
        numbers.zip(cells.chunks_exact(self.width.max(1)))
    }

    /// Enters something under some slots into the row of a period, `rest` milliseconds before its end: all of it or
    /// nothing.
    fn add(
        &mut self,
        number: i64,
        rest: i64,
        entry: Entry,
        slots: &[(usize, i128)],
    ) -> Result<(), Overflow> {
        let row = self.row(number);
        self.note(row);
        let widest = slots.iter().map(|(slot, _)| *slot).max().unwrap_or_default();
        if widest >= self.width {
            self.widen(widest.saturating_add(1));
        }
        let (slope, back) = (entry.slope(rest), entry.reversed().slope(rest));
        let cells = self.cells.get_mut(row.saturating_mul(self.width)..).unwrap_or_default();
        for (done, (slot, amount)) in slots.iter().enumerate() {
            let Some(cell) = cells.get_mut(*slot) else { continue };
            if let Some(next) = cell.with(slope, *amount) {
                *cell = next;
                continue;
            }
            for (slot, amount) in slots.iter().take(done) {
                let cell = cells.get_mut(*slot);
                // Stepping back restores sums that were in range.
                if let Some((cell, before)) =
                    cell.and_then(|c| c.with(back, *amount).map(|before| (c, before)))
                {
                    *cell = before;
                }
            }
            return Err(Overflow);
        }
        Ok(())
    }

    /// The place of a period, which has a row from now on.
    fn row(&mut self, number: i64) -> usize {
        let place = match self.last() {
            Some(last) if last == number => return self.numbers.len().saturating_sub(1),
            Some(last) if last > number => match self.numbers.binary_search(&number) {
                Ok(place) => return place,
                Err(place) => place,
            },
            _ => self.numbers.len(),
        };
        self.numbers.insert(place, number);
        self.noted.insert(place, false);
        let at = place.saturating_mul(self.width);
        self.cells.splice(at..at, std::iter::repeat_n(Cell::default(), self.width));
        place
    }

    fn push(&mut self, number: i64, cells: &[Cell]) {
        if cells.len() > self.width {
            self.widen(cells.len());
        }
        self.numbers.push(number);
        self.noted.push(false);
        self.note(self.numbers.len().saturating_sub(1));
        self.cells.extend_from_slice(cells);
        self.cells.resize(self.numbers.len().saturating_mul(self.width), Cell::default());
    }

    /// Takes the last row away again.
    fn pop(&mut self) {
        self.numbers.pop();
        self.noted.pop();
        self.cells.truncate(self.numbers.len().saturating_mul(self.width));
    }

    fn widen(&mut self, width: usize) {
        let mut cells = Vec::with_capacity(self.numbers.len().saturating_mul(width));
        for row in 0..self.numbers.len() {
            let at = row.saturating_mul(self.width);
            let old = self.cells.get(at..at.saturating_add(self.width)).unwrap_or_default();
            cells.extend_from_slice(old);
            cells.resize(row.saturating_add(1).saturating_mul(width), Cell::default());
        }
        (self.cells, self.width) = (cells, width);
    }

    /// The cells of one `coarse` period, made of its `fine` rows, which are this table.
    fn roll_up(&self, fine: Unit, coarse: Unit, number: i64) -> Result<Vec<Cell>, Overflow> {
        let (begin, end) = (coarse.begin(number), coarse.end(coarse.begin(number)));
        let mut totals = vec![Cell::default(); self.width];
        for (number, cells) in self.from(fine, begin) {
            let begins = fine.begin(number);
            if begins >= end {
                break;
            }
            let rest = end.saturating_sub(fine.end(begins));
            for (total, cell) in totals.iter_mut().zip(cells) {
                let later = product(cell.rate, rest).ok_or(Overflow)?;
                let inside = cell.amount.checked_add(later).ok_or(Overflow)?;
                total.amount = total.amount.checked_add(inside).ok_or(Overflow)?;
                total.rate = total.rate.checked_add(cell.rate).ok_or(Overflow)?;
            }
        }
        Ok(totals)
    }
}

fn day_of_hour(hour: i64) -> i64 {
    hour.div_euclid(24)
}

fn month_of_day(day: i64) -> i64 {
    Unit::Month.number(clock(Unit::Day.begin(day)))
}

/// Within the range of timestamps whatever the row; rows come from timestamps.
fn clock(millis: i64) -> Timestamp {
    Timestamp::MIN.shifted(millis)
}
