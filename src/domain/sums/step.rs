//! A step from the segments that were believed to those that are, and by what it changes the sums.

use crate::domain::{
    growth::{Change, Slope},
    pod::Segment,
    quantity::Milli,
    time::Timestamp,
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

/// Where a step changes what is held: a start and an end that were believed, and those that are.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::domain) struct Boundaries([Option<(Timestamp, Change)>; 4]);

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

    /// Whether nothing about either segment is doubtful.
    pub(super) fn is_plain(self) -> bool {
        self.gone.into_iter().chain(self.come).all(Segment::is_plain)
    }

    /// Where what is held changes, and whether it becomes more or less there. A boundary that both segments
    /// share is none.
    pub(in crate::domain) fn boundaries(self) -> Boundaries {
        let ends = |s: Option<&Segment>| (s.map(|s| s.from), s.and_then(|s| s.to));
        let ((gone_from, gone_to), (come_from, come_to)) = (ends(self.gone), ends(self.come));
        let mut boundaries = Boundaries::default();
        if gone_from != come_from {
            boundaries.0[0] = gone_from.map(|at| (at, Change::Less));
            boundaries.0[1] = come_from.map(|at| (at, Change::More));
        }
        if gone_to != come_to {
            boundaries.0[2] = gone_to.map(|at| (at, Change::More));
            boundaries.0[3] = come_to.map(|at| (at, Change::Less));
        }
        boundaries
    }
}

impl Boundaries {
    /// One after the other.
    pub(in crate::domain) fn iter(&self) -> impl Iterator<Item = (Timestamp, Change)> + '_ {
        self.0.iter().flatten().copied()
    }

    /// By what they change a sum together, for a milli-unit.
    pub(super) fn slope(&self) -> Slope {
        self.iter().fold(Slope::default(), |sum, (at, change)| sum.and(Slope::at(at, change)))
    }
}

impl Segment {
    /// It runs and may go on, or it ended for good: nothing about it is doubtful.
    fn is_plain(&self) -> bool {
        self.uncertain.is_none() && self.provisional == self.to.is_none()
    }
}
