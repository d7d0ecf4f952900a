//! Periods as they are written, and read again: which changed, and what each adds.

use super::{Cell, History, Table};

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
        let changed = Rows::ALL.map(|rows| (rows, self.table_mut(rows).take_changed()));
        changed.into_iter().flat_map(|(rows, numbers)| numbers.into_iter().map(move |n| (rows, n)))
    }

    /// Every period is to be written.
    pub(in crate::domain) fn note_all(&mut self) {
        for rows in Rows::ALL {
            let table = self.table_mut(rows);
            (0..table.numbers.len()).for_each(|place| table.note(place));
        }
    }

    /// Every period that has a row.
    pub(in crate::domain) fn periods(&self) -> impl Iterator<Item = (Rows, i64)> {
        let numbers = |rows| self.table(rows).numbers.iter().map(move |number| (rows, *number));
        Rows::ALL.into_iter().flat_map(numbers)
    }

    /// What a period adds, by slot; `None` where it has no row.
    pub(in crate::domain) fn cells(&self, rows: Rows, number: i64) -> Option<&[Cell]> {
        self.table(rows).cells_of(number)
    }

    /// Takes in the next period as it was written; periods of one kind come in order of time.
    pub(in crate::domain) fn load(&mut self, rows: Rows, number: i64, cells: &[Cell]) {
        let table = self.table_mut(rows);
        table.push(number, cells);
        table.take_changed();
    }

    const fn table(&self, rows: Rows) -> &Table {
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
        let cells = self.cells.get(from..from.saturating_add(self.width))?;
        let used = cells.iter().rposition(|cell| *cell != Cell::default());
        cells.get(..used.map_or(0, |last| last.saturating_add(1)))
    }
}
