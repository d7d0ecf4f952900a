//! Usage of past hours: hourly differences of one group, rolled up into days and months.
//!
//! A segment is two boundaries: at its start its amount begins to count, at its end it ceases. A boundary
//! touches one row: the amount that it adds inside its hour, and the change of rate from the next hour on.
//! A finished day is the sum of its hours, a finished month the sum of its days; both are made when the group's
//! next day begins and corrected in place when something about them is learned later.

use super::{
    amounts::Overflow,
    quantity::Milli,
    time::{HOUR_MS, Timestamp},
};
use chrono::{DateTime, Datelike, NaiveDate};

/// Milliseconds in a UTC day.
const DAY_MS: i64 = 24 * HOUR_MS;

/// Hours, days and months of one group; amounts by the group's slots.
#[derive(Clone, Debug, Default)]
pub struct History {
    hours: Vec<Row>,
    days: Vec<Row>,
    months: Vec<Row>,
}

/// What one period adds, by slot.
#[derive(Clone, Debug)]
struct Row {
    /// Number of the period: hours or days since 1970, months since year 0.
    number: i64,
    cells: Vec<Cell>,
}

/// Amount inside the period, and change of rate from the next period on.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    amount: i128,
    rate: Milli,
}

/// A length of calendar time, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// From `at` on, `amount` more is held under `slot` (less when negative).
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn boundary(&mut self, slot: usize, at: Timestamp, amount: Milli) -> Result<(), Overflow> {
        let day = Unit::Day.number(at);
        let newest =
            self.hours.last().map(|row| Unit::Day.number(clock(Unit::Hour.begin(row.number))));
        if newest.is_some_and(|newest| day > newest) {
            self.finish(newest.unwrap_or(day))?;
        }
        add(&mut self.hours, Unit::Hour, slot, at, amount)?;
        if newest.is_some_and(|newest| day < newest) {
            self.correct(slot, at, amount).inspect_err(|_| {
                // Takes back what was just added: the sum was in range before.
                let _ = add(&mut self.hours, Unit::Hour, slot, at, amount.saturating_neg());
            })?;
        }
        Ok(())
    }

    /// The newest day has ended: its row is made, and the rows of the months before its own.
    fn finish(&mut self, day: i64) -> Result<(), Overflow> {
        if self.days.last().is_none_or(|row| row.number < day) {
            let row = roll_up(&self.hours, Unit::Hour, Unit::Day, day)?;
            self.days.push(row);
        }
        let after = self.months.last().map_or(i64::MIN, |row| row.number);
        let newest_first = self.days.iter().rev().map(|row| month_of_day(row.number));
        let mut months: Vec<i64> = newest_first.take_while(|m| *m > after).collect();
        months.retain(|m| *m < month_of_day(day));
        months.dedup();
        for month in months.into_iter().rev() {
            let row = roll_up(&self.days, Unit::Day, Unit::Month, month)?;
            self.months.push(row);
        }
        Ok(())
    }

    /// Something is learned about a finished day, and perhaps about a finished month.
    fn correct(&mut self, slot: usize, at: Timestamp, amount: Milli) -> Result<(), Overflow> {
        add(&mut self.days, Unit::Day, slot, at, amount)?;
        if self.months.last().is_none_or(|row| row.number < Unit::Month.number(at)) {
            return Ok(());
        }
        add(&mut self.months, Unit::Month, slot, at, amount).inspect_err(|_| {
            let _ = add(&mut self.days, Unit::Day, slot, at, amount.saturating_neg());
        })
    }

    /// Adds an amount to the hour of `at`: a correction, which changes no rate.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn adjust(&mut self, slot: usize, at: Timestamp, exact: i128) -> Result<(), Overflow> {
        let end = clock(Unit::Hour.end(at.millis()));
        // One unit for the last millisecond of the hour, `exact` times.
        let last = end.shifted(-1);
        self.boundary(slot, last, exact)?;
        self.boundary(slot, end, exact.saturating_neg()).inspect_err(|_| {
            let _ = self.boundary(slot, last, exact.saturating_neg());
        })
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
        let mut sum = Sum::default();
        // Whole months, then whole days of the rest, then hours of the rest: each row once.
        let mut reached = i64::MIN;
        for (unit, rows) in
            [(Unit::Month, &self.months), (Unit::Day, &self.days), (Unit::Hour, &self.hours)]
        {
            let first = rows.partition_point(|row| unit.begin(row.number) < reached);
            for row in rows.get(first..).unwrap_or_default() {
                let end = unit.end(unit.begin(row.number));
                if end > to.millis() {
                    break;
                }
                sum.row(row, slot, end)?;
                reached = end;
            }
        }
        sum.until(to.millis()).map(Some)
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
    fn row(&mut self, row: &Row, slot: usize, end: i64) -> Result<(), Overflow> {
        let Some(cell) = row.cells.get(slot) else { return Ok(()) };
        self.total = self.until(end)?.checked_add(cell.amount).ok_or(Overflow)?;
        self.rate = self.rate.checked_add(cell.rate).ok_or(Overflow)?;
        self.since = end;
        Ok(())
    }

    fn until(&self, t: i64) -> Result<i128, Overflow> {
        let time = i128::from(t.saturating_sub(self.since));
        let grown = self.rate.checked_mul(time).ok_or(Overflow)?;
        self.total.checked_add(grown).ok_or(Overflow)
    }
}

/// Adds a boundary to the row of its period.
fn add(
    rows: &mut Vec<Row>,
    unit: Unit,
    slot: usize,
    at: Timestamp,
    amount: Milli,
) -> Result<(), Overflow> {
    let number = unit.number(at);
    let i = match rows.last() {
        Some(row) if row.number == number => rows.len().saturating_sub(1),
        Some(row) if row.number > number => {
            match rows.binary_search_by_key(&number, |r| r.number) {
                Ok(i) => i,
                Err(i) => {
                    rows.insert(i, Row { number, cells: Vec::new() });
                    i
                }
            }
        }
        _ => {
            // A row is as wide as the one before it: the group's keys seldom change.
            let width = rows.last().map_or(0, |row| row.cells.len());
            rows.push(Row { number, cells: Vec::with_capacity(width) });
            rows.len().saturating_sub(1)
        }
    };
    let Some(row) = rows.get_mut(i) else { return Ok(()) };
    if row.cells.len() <= slot {
        row.cells.resize(slot.saturating_add(1), Cell::default());
    }
    let Some(cell) = row.cells.get_mut(slot) else { return Ok(()) };
    let rest = i128::from(unit.end(at.millis()).saturating_sub(at.millis()));
    let inside =
        amount.checked_mul(rest).and_then(|a| cell.amount.checked_add(a)).ok_or(Overflow)?;
    let rate = cell.rate.checked_add(amount).ok_or(Overflow)?;
    *cell = Cell { amount: inside, rate };
    Ok(())
}

/// The row of one `coarse` period, made of its `fine` rows.
fn roll_up(rows: &[Row], fine: Unit, coarse: Unit, number: i64) -> Result<Row, Overflow> {
    let (begin, end) = (coarse.begin(number), coarse.end(coarse.begin(number)));
    let mut sum = Row { number, cells: Vec::new() };
    let first = rows.partition_point(|row| fine.begin(row.number) < begin);
    for row in rows.get(first..).unwrap_or_default() {
        let begins = fine.begin(row.number);
        if begins >= end {
            break;
        }
        let rest = i128::from(end.saturating_sub(fine.end(begins)));
        if sum.cells.len() < row.cells.len() {
            sum.cells.resize(row.cells.len(), Cell::default());
        }
        for (total, cell) in sum.cells.iter_mut().zip(&row.cells) {
            let later = cell.rate.checked_mul(rest).ok_or(Overflow)?;
            let inside = cell.amount.checked_add(later).ok_or(Overflow)?;
            total.amount = total.amount.checked_add(inside).ok_or(Overflow)?;
            total.rate = total.rate.checked_add(cell.rate).ok_or(Overflow)?;
        }
    }
    Ok(sum)
}

fn month_of_day(day: i64) -> i64 {
    Unit::Month.number(clock(Unit::Day.begin(day)))
}

/// Within the range of timestamps whatever the row; rows come from timestamps.
fn clock(millis: i64) -> Timestamp {
    Timestamp::MIN.shifted(millis)
}
