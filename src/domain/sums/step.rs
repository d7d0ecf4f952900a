//! A step from the segments that were believed to those that are, and by what it changes the sums.

use crate::domain::{
    history::Change,
    pod::Segment,
    quantity::Milli,
    time::{ORIGIN, Timestamp},
};

/// One step from what was believed to what is: a segment that is taken away, one that is added, or one
/// in place of the other, which holds the same in the same group.
#[derive(Clone, Copy, Debug)]
pub struct Step<'s> {
    /// Taken away.
    pub gone: Option<&'s Segment>,
    /// Added.
    pub come: Option<&'s Segment>,
}

/// By what a row changes for a milli-unit: its sums are linear in the amount, so that a step is looked at once and not
/// once a key. Milliseconds, and a count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slope {
    pub(super) closed: i64,
    pub(super) running: i64,
    pub(super) started: i64,
}

impl<'s> Step<'s> {
    /// The step back.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { gone: self.come, come: self.gone }
    }

    /// The segments with their signs, the one that is taken away first.
    pub(super) fn signed(self, amount: Milli) -> impl Iterator<Item = (&'s Segment, Milli)> {
        let gone = self.gone.map(|segment| (segment, amount.saturating_neg()));
        gone.into_iter().chain(self.come.map(|segment| (segment, amount)))
    }

    /// By what each sum changes for a milli-unit.
    pub(super) fn slope(self) -> Slope {
        let mut slope = Slope::default();
        for (sign, segment) in [(-1, self.gone), (1, self.come)] {
            let Some(segment) = segment else { continue };
            let (sum, by) = match segment.to {
                Some(to) => (&mut slope.closed, to.since(segment.from)),
                None => (&mut slope.started, segment.from.since(ORIGIN)),
            };
            // Instants lie within 230 years of each other.
            *sum = sum.saturating_add(by.saturating_mul(sign));
            if segment.to.is_none() {
                slope.running = slope.running.saturating_add(sign);
            }
        }
        slope
    }

    /// Whether nothing about either segment is doubtful.
    pub(super) fn is_plain(self) -> bool {
        self.gone.into_iter().chain(self.come).all(Segment::is_plain)
    }

    /// Where what is held changes, and whether it becomes more or less there. A boundary that both segments
    /// share is none.
    pub(in crate::domain) fn boundaries(self) -> impl Iterator<Item = (Timestamp, Change)> + Clone {
        let ends = |s: Option<&Segment>| (s.map(|s| s.from), s.and_then(|s| s.to));
        let ((gone_from, gone_to), (come_from, come_to)) = (ends(self.gone), ends(self.come));
        let from = [(gone_from, Change::Less), (come_from, Change::More)];
        let to = [(gone_to, Change::More), (come_to, Change::Less)];
        let from = (gone_from != come_from).then_some(from);
        let to = (gone_to != come_to).then_some(to);
        let boundaries = from.into_iter().chain(to).flatten();
        boundaries.filter_map(|(at, change)| Some((at?, change)))
    }
}

impl Segment {
    /// It runs and may go on, or it ended for good: nothing about it is doubtful.
    fn is_plain(&self) -> bool {
        self.uncertain.is_none() && self.provisional == self.to.is_none()
    }
}
