//! Periods as they are written, and read again: which changed, and what each adds.

use super::{Cell, History, Table, Unit};

/// How periods are written.
impl History {
    /// The periods that changed since the last call, in no order.
    pub(in crate::domain) fn take_changed(&mut self) -> impl Iterator<Item = (Unit, i64)> {
        let tables = [
            (Unit::Hour, &mut self.hours),
            (Unit::Day, &mut self.days),
            (Unit::Month, &mut self.months),
        ];
        tables.into_iter().flat_map(|(unit, table)| {
            table.take_changed().into_iter().map(move |number| (unit, number))
        })
    }

    /// Every period is to be written.
    pub(in crate::domain) fn note_all(&mut self) {
        for table in [&mut self.hours, &mut self.days, &mut self.months] {
            (0..table.numbers.len()).for_each(|place| table.note(place));
        }
    }

    /// Every period that has a row.
    pub(in crate::domain) fn periods(&self) -> impl Iterator<Item = (Unit, i64)> {
        [Unit::Hour, Unit::Day, Unit::Month]
            .into_iter()
            .flat_map(|unit| self.table(unit).numbers.iter().map(move |number| (unit, *number)))
    }

    /// What a period adds, by slot; `None` where it has no row.
    pub(in crate::domain) fn cells(&self, unit: Unit, number: i64) -> Option<&[Cell]> {
        self.table(unit).cells_of(number)
    }

    /// Takes in the next period as it was written; periods of one unit come in order of time.
    pub(in crate::domain) fn load(&mut self, unit: Unit, number: i64, cells: &[Cell]) {
        let table = match unit {
            Unit::Hour => &mut self.hours,
            Unit::Day => &mut self.days,
            Unit::Month => &mut self.months,
        };
        table.push(number, cells);
        table.take_changed();
    }

    const fn table(&self, unit: Unit) -> &Table {
        match unit {
            Unit::Hour => &self.hours,
            Unit::Day => &self.days,
            Unit::Month => &self.months,
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
    fn cells_of(&self, number: i64) -> Option<&[Cell]> {
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
