//! Periods as they are written, and read again: which changed, and what each adds.

use super::{Cell, History, Past, Table, Unit, newest::Newest};
use crate::domain::growth::Growth;
use std::borrow::Cow;

/// Which periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::domain) enum Rows {
    /// Parts of hours.
    Parts,
    /// Hours.
    Hours,
    /// Days.
    Days,
    /// Months.
    Months,
}

impl Rows {
    /// All of them.
    const ALL: [Self; 4] = [Self::Parts, Self::Hours, Self::Days, Self::Months];
}

/// How periods are written.
impl History {
    /// The periods that changed since the last call, in no order.
    pub(in crate::domain) fn take_changed(&mut self) -> impl Iterator<Item = (Rows, i64)> {
        let newest = self.newest.take_changed().map(|number| (Rows::Hours, number));
        let changed = Rows::ALL.map(|rows| (rows, self.table_mut(rows).take_changed()));
        let changed = changed.into_iter();
        let changed =
            changed.flat_map(|(rows, numbers)| numbers.into_iter().map(move |n| (rows, n)));
        changed.chain(newest)
    }

    /// Every period is to be written.
    pub(in crate::domain) fn note_all(&mut self) {
        for rows in Rows::ALL {
            let table = self.table_mut(rows);
            (0..table.numbers.len()).for_each(|place| table.note(place));
        }
        self.newest.note();
    }

    /// Takes in the next period as it was written; periods of one kind come in order of time.
    pub(in crate::domain) fn load(&mut self, rows: Rows, number: i64, cells: &[Cell]) {
        let table = self.table_mut(rows);
        table.push(number, cells);
        table.take_changed();
    }

    /// All periods have been read in; `now` is what they add up to.
    pub(in crate::domain) fn resume(&mut self, now: &[Growth]) {
        let Some(number) = self.hours.last() else { return };
        let cells = self.hours.cells_of(number).unwrap_or_default();
        let cells = cells.iter().copied().chain(std::iter::repeat(Cell::default()));
        let end = Unit::Hour.end(Unit::Hour.begin(number));
        let before = now.iter().zip(cells);
        let before = before.map(|(now, cell)| now.before(cell.amount, cell.rate, end)).collect();
        self.newest = Newest::of(number, before);
        self.hours.pop();
    }

    pub(super) const fn table(&self, rows: Rows) -> &Table {
        match rows {
            Rows::Parts => &self.parts,
            Rows::Hours => &self.hours,
            Rows::Days => &self.days,
            Rows::Months => &self.months,
        }
    }

    pub(super) const fn table_mut(&mut self, rows: Rows) -> &mut Table {
        match rows {
            Rows::Parts => &mut self.parts,
            Rows::Hours => &mut self.hours,
            Rows::Days => &mut self.days,
            Rows::Months => &mut self.months,
        }
    }
}

/// What is written.
impl<'s> Past<'s> {
    /// Every period that has a row.
    pub(in crate::domain) fn periods(self) -> impl Iterator<Item = (Rows, i64)> + use<'s> {
        let history = self.history;
        let numbers = |rows| history.table(rows).numbers.iter().map(move |number| (rows, *number));
        let newest = history.newest.number().map(|number| (Rows::Hours, number));
        Rows::ALL.into_iter().flat_map(numbers).chain(newest)
    }

    /// What a period adds, by slot, without the zeros at the end; `None` where it has no row.
    pub(in crate::domain) fn cells(self, rows: Rows, number: i64) -> Option<Cow<'s, [Cell]>> {
        if rows == Rows::Hours && self.history.newest.number() == Some(number) {
            let mut cells: Vec<_> = self.history.newest.cells(self.now).collect();
            cells.truncate(used(&cells).len());
            return Some(Cow::Owned(cells));
        }
        self.history.table(rows).cells_of(number).map(Cow::Borrowed)
    }
}

/// Cells without the zeros at the end.
fn used(cells: &[Cell]) -> &[Cell] {
    let last = cells.iter().rposition(|cell| *cell != Cell::default());
    cells.get(..last.map_or(0, |last| last.saturating_add(1))).unwrap_or_default()
}

impl Table {
    /// The row at `place` is to be written.
    pub(super) fn note(&mut self, place: usize) {
        if let Some(noted) = self.noted.get_mut(place).filter(|noted| !**noted) {
            *noted = true;
            self.changed.extend(self.numbers.get(place));
        }
    }

    fn take_changed(&mut self) -> Vec<i64> {
        if self.changed.is_empty() {
            return Vec::new();
        }
        for number in &self.changed {
            let place = self.numbers.binary_search(number).unwrap_or(usize::MAX);
            if let Some(noted) = self.noted.get_mut(place) {
                *noted = false;
            }
        }
        std::mem::take(&mut self.changed)
    }

    /// What the period of that number adds, by slot, without the zeros at the end.
    pub(super) fn cells_of(&self, number: i64) -> Option<&[Cell]> {
        let place = match self.last() {
            Some(last) if last == number => self.numbers.len().saturating_sub(1),
            _ => self.numbers.binary_search(&number).ok()?,
        };
        let from = place.saturating_mul(self.width);
        self.cells.get(from..from.saturating_add(self.width)).map(used)
    }
}
