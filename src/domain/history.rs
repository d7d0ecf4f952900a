//! Usage of past hours: hourly differences of one group, rolled up into days and months.
//!
//! A segment is two boundaries: at its start its amount begins to count, at its end it ceases. A boundary
//! touches one row: the amount that it adds inside its hour, and the change of rate from the next hour on.
//! A finished day is the sum of its hours, a finished month the sum of its days; both are made when the group's
//! next day begins and corrected in place when something about them is learned later.
//!
//! An hour in which a date begins at some place (`history/splits.rs`) has a second row, of what its boundaries add
//! before that instant: budgets that begin anew there are exact to the millisecond however long ago it was.

mod entry;
pub mod splits;
mod state;

pub use entry::Change;
use entry::Entry;
use splits::Splits;
pub(in crate::domain) use state::Rows;

use super::{
    amounts::{Overflow, product},
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
    /// From `at` on, so much more (or less) is held under these slots.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn boundary(
        &mut self,
        splits: &mut Splits,
        at: Timestamp,
        change: Change,
        slots: &[(usize, Milli)],
    ) -> Result<(), Overflow> {
        self.enter(splits, at, Entry::Rate(change), slots)
    }

    /// Adds a signed amount to the hour of `at`: a correction, which changes no rate.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn adjust(
        &mut self,
        splits: &mut Splits,
        slot: usize,
        at: Timestamp,
        exact: i128,
    ) -> Result<(), Overflow> {
        self.enter(splits, at, Entry::Amount(Change::More), &[(slot, exact)])
    }

    /// Looks at the newest hour; see [`super::ledger::ahead`].
    pub(super) fn look(&self, step: u8) -> Milli {
        let Table { numbers, cells, width, noted, .. } = &self.hours;
        if step == 0 {
            return (numbers.len() ^ cells.len() ^ noted.len()) as Milli;
        }
        let newest = cells.get(cells.len().saturating_sub(*width)..).unwrap_or_default();
        let seen = newest.iter().fold(0, |seen, cell| seen ^ cell.rate);
        let is_noted = noted.last().is_some_and(|noted| *noted);
        seen ^ Milli::from(is_noted) ^ numbers.last().map_or(0, |number| Milli::from(*number))
    }

    /// What boundaries up to now add before `end`, inside its hour: it is kept in parts from now on.
    pub(super) fn split(
        &mut self,
        end: Timestamp,
        slots: &[(usize, i128)],
    ) -> Result<(), Overflow> {
        self.parts.add(end.millis(), 0, Entry::Amount(Change::More), slots)
    }

    /// Enters something into the row of its hour, into that of each part that ends later in it, and where days and
    /// months were rolled up already, into theirs.
    fn enter(
        &mut self,
        splits: &mut Splits,
        at: Timestamp,
        entry: Entry,
        slots: &[(usize, i128)],
    ) -> Result<(), Overflow> {
        let day = Unit::Day.number(at);
        let newest = self.hours.last().map(day_of_hour);
        if let Some(newest) = newest.filter(|newest| day > *newest) {
            self.finish(newest)?;
        }
        let row = |rows, unit: Unit| (rows, unit.number(at), unit.rest(at), entry);
        let is_finished = newest.is_some_and(|newest| day < newest);
        let month = || Some(row(Rows::Months, Unit::Month));
        let month = if is_finished { month() } else { None };
        let month = month.filter(|(_, number, ..)| self.months.last() >= Some(*number));
        let whole = [
            Some(row(Rows::Hours, Unit::Hour)),
            is_finished.then(|| row(Rows::Days, Unit::Day)),
            month,
        ];
        let ends = splits.after(at);
        let part =
            |end: &Timestamp| (Rows::Parts, end.millis(), end.since(at), entry.without_rate());
        let rows = whole.into_iter().flatten().chain(ends.iter().map(part));
        for (done, (table, number, rest, entry)) in rows.clone().enumerate() {
            if let Err(overflow) = self.table_mut(table).add(number, rest, entry, slots) {
                for (table, number, rest, entry) in rows.take(done) {
                    // Stepping back restores sums that were in range.
                    let _ = self.table_mut(table).add(number, rest, entry.reversed(), slots);
                }
                return Err(overflow);
            }
        }
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

    /// Usage under `slot` from the beginning to `to`, milli-units × milliseconds. Exact when `to` is a whole hour;
    /// otherwise `None`: what happened inside an hour is not kept here.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn usage(&self, slot: usize, to: Timestamp) -> Result<Option<i128>, Overflow> {
        if to.millis().rem_euclid(HOUR_MS) != 0 {
            return Ok(None);
        }
        self.sum(slot, to)?.until(to.millis()).map(Some)
    }

    /// The same where two parts of an hour meet, which [`Splits`] knows.
    ///
    /// # Errors
    /// [`Overflow`].
    pub(super) fn usage_by_part(&self, slot: usize, to: Timestamp) -> Result<i128, Overflow> {
        let before = self.sum(slot, Unit::Hour.begin_of(to))?.until(to.millis())?;
        let part = self.parts.cells_of(to.millis()).and_then(|cells| cells.get(slot));
        before.checked_add(part.map_or(0, |cell| cell.amount)).ok_or(Overflow)
    }

    /// What the rows up to `to`, a whole hour, add up to.
    fn sum(&self, slot: usize, to: Timestamp) -> Result<Sum, Overflow> {
        let mut sum = Sum::default();
        // Whole months, then whole days of the rest, then hours of the rest: each row once.
        let mut reached = i64::MIN;
        for (unit, table) in
            [(Unit::Month, &self.months), (Unit::Day, &self.days), (Unit::Hour, &self.hours)]
        {
            for (number, cells) in table.from(unit, reached) {
                let end = unit.end(unit.begin(number));
                if end > to.millis() {
                    break;
                }
                sum.period(cells.get(slot), end)?;
                reached = end;
            }
        }
        Ok(sum)
    }

    /// Usage under `slot` inside the period of `unit` that begins at `begin`.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn within(&self, unit: Unit, slot: usize, begin: Timestamp) -> Result<i128, Overflow> {
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
