//! How long something was held, slice by slice of the billed time: a start or a stop touches one or two cells, however
//! many slices lie behind it.

use super::axis::Axis;
use crate::domain::{amounts::product, event::Period, time::Timestamp};

/// What pods of one kind held, as differences from slice to slice.
#[derive(Clone, Debug, Default)]
pub(super) struct Course(Vec<Cell>);

/// What begins or ends in one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    slice: usize,
    /// Pods × milliseconds inside the slice.
    inside: i128,
    /// So many pods more hold it from the next slice on.
    pods: i128,
    /// So many pods more that are not settled contribute from this slice on.
    unsettled: i128,
}

/// What was held in one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) slice: usize,
    /// Pods × milliseconds.
    pub(super) millis: i128,
    /// A pod that contributes still runs, or its stop may be withdrawn.
    pub(super) provisional: bool,
}

impl Course {
    /// Adds `pods` (or takes them away, if negative) that held it during `part`, which is not empty.
    pub(super) fn add(&mut self, axis: &Axis, part: Period, pods: i128, provisional: bool) {
        self.boundary(axis, part.from, pods);
        self.boundary(axis, part.to, pods.saturating_neg());
        if provisional {
            let last = axis.slice(part.to.shifted(-1));
            self.unsettled(axis, axis.slice(part.from), pods);
            self.unsettled(axis, last.saturating_add(1), pods.saturating_neg());
        }
        self.0.retain(|cell| *cell != Cell { slice: cell.slice, ..Cell::default() });
    }

    /// Whether nothing was ever held.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From `at` on so many pods more hold it.
    fn boundary(&mut self, axis: &Axis, at: Timestamp, pods: i128) {
        let slice = axis.slice(at);
        if slice < axis.len() {
            let rest = axis.of(slice).to.since(at);
            let cell = self.cell(slice);
            // Pods and milliseconds are 64-bit numbers: neither product nor sum leaves 128 bits.
            cell.inside = cell.inside.saturating_add(product(pods, rest).unwrap_or_default());
            cell.pods = cell.pods.saturating_add(pods);
        }
    }

    fn unsettled(&mut self, axis: &Axis, slice: usize, pods: i128) {
        if slice < axis.len() {
            let cell = self.cell(slice);
            cell.unsettled = cell.unsettled.saturating_add(pods);
        }
    }

    fn cell(&mut self, slice: usize) -> &mut Cell {
        let place = self.0.partition_point(|cell| cell.slice < slice);
        if self.0.get(place).is_none_or(|cell| cell.slice != slice) {
            self.0.insert(place, Cell { slice, ..Cell::default() });
        }
        // It is there: the line above.
        #[allow(clippy::indexing_slicing)]
        &mut self.0[place]
    }

    /// Every slice in which anything was held.
    pub(super) fn shares(&self, axis: &Axis) -> Vec<Share> {
        let mut shares = Vec::with_capacity(self.0.len());
        let (mut cells, mut pods, mut unsettled) = (self.0.iter().peekable(), 0_i128, 0_i128);
        let mut slice = self.0.first().map_or(axis.len(), |cell| cell.slice);
        while slice < axis.len() {
            let Period { from, to } = axis.of(slice);
            let mut millis = product(pods, to.since(from)).unwrap_or_default();
            if let Some(cell) = cells.next_if(|cell| cell.slice == slice) {
                millis = millis.saturating_add(cell.inside);
                pods = pods.saturating_add(cell.pods);
                unsettled = unsettled.saturating_add(cell.unsettled);
            }
            if millis != 0 {
                shares.push(Share { slice, millis, provisional: unsettled > 0 });
            }
            slice = match cells.peek() {
                Some(next) if pods == 0 => next.slice,
                None if pods == 0 => axis.len(),
                _ => slice.saturating_add(1),
            };
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{history::Unit, time::HOUR_MS};

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms).unwrap()
    }

    fn millis(course: &Course, axis: &Axis) -> Vec<(usize, i128, bool)> {
        course.shares(axis).iter().map(|s| (s.slice, s.millis, s.provisional)).collect()
    }

    #[test]
    fn what_runs_on_fills_every_slice_and_what_is_taken_away_leaves_nothing() {
        let axis = Axis::new(Period { from: at(0), to: at(4 * HOUR_MS) }, Some(Unit::Hour), &[]);
        let mut course = Course::default();
        let running = Period { from: at(HOUR_MS - 5), to: at(4 * HOUR_MS) };
        course.add(&axis, running, 1, true);
        let hour = i128::from(HOUR_MS);
        let all = [(0, 5, true), (1, hour, true), (2, hour, true), (3, hour, true)];
        assert_eq!(millis(&course, &axis), all);
        course.add(&axis, Period { to: at(2 * HOUR_MS), ..running }, 1, false);
        course.add(&axis, running, -1, true);
        assert_eq!(millis(&course, &axis), [(0, 5, false), (1, hour, false)]);
        course.add(&axis, Period { to: at(2 * HOUR_MS), ..running }, -1, false);
        assert!(course.is_empty());
    }
}
