//! Closed periods: what was billed of them stays as it was, whatever is learned later.
//!
//! They follow each other without gaps. So the closed time is one stretch, and what is learned about it later is booked
//! at its end, which is where the next period begins.

use super::axis::Axis;
use crate::domain::{
    event::{Period, PeriodClosed, Position},
    merkle::Hash,
    time::Timestamp,
};

/// A period that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The record that closed it.
    pub at: Position,
    /// The period.
    pub period: Period,
    /// What was known up to here was billed.
    pub position: Position,
    /// Root of the log at that position.
    pub root: Hash,
}

/// Why a record closes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotClosed {
    /// It ends before it begins, or is empty.
    #[error("the period from {from} to {to} is empty")]
    Empty {
        /// First instant inside.
        from: Timestamp,
        /// First instant after it.
        to: Timestamp,
    },
    /// Closed periods follow each other.
    #[error("the last closed period ends at {ends}; the next to close begins there, not at {from}")]
    NotNext {
        /// End of the last closed period.
        ends: Timestamp,
        /// Where this one begins.
        from: Timestamp,
    },
    /// What was known then cannot have been known.
    #[error(
        "record {at} closes a period as known at position {position}; it must lie between {after} and {at}"
    )]
    Position {
        /// The record.
        at: Position,
        /// What it says.
        position: Position,
        /// Position of the closing before.
        after: Position,
    },
    /// No hash.
    #[error("`{0}` is no root; 64 lower-case hex digits are")]
    Root(String),
}

impl Closing {
    /// What the record `at` closes, after `last`.
    ///
    /// # Errors
    /// [`NotClosed`]: the record has no effect.
    pub fn new(
        last: Option<&Self>,
        at: Position,
        data: &PeriodClosed<'_>,
    ) -> Result<Self, NotClosed> {
        let PeriodClosed { from, to, position, ref root } = *data;
        if to <= from {
            return Err(NotClosed::Empty { from, to });
        }
        if let Some(ends) = last.map(|last| last.period.to).filter(|ends| *ends != from) {
            return Err(NotClosed::NotNext { ends, from });
        }
        let after = last.map_or(0, |last| last.at);
        if position < after || position >= at {
            return Err(NotClosed::Position { at, position, after });
        }
        let hash = root.parse().map_err(|_| NotClosed::Root(root.chars().take(80).collect()))?;
        Ok(Self { at, period: Period { from, to }, position, root: hash })
    }
}

/// The closings that are known, and how many of them hold for what is read next.
#[derive(Clone, Debug, Default)]
pub(super) struct Closings {
    list: Vec<Closing>,
    in_force: usize,
    /// The closed time in pieces, cut where a line must end.
    pieces: Vec<Period>,
    cuts: Vec<Timestamp>,
}

impl Closings {
    /// Closings that were found beforehand, in the order of their records.
    pub(super) fn known(list: Vec<Closing>, cuts: &[Timestamp]) -> Self {
        let mut closings = Self { cuts: cuts.to_vec(), ..Self::default() };
        list.into_iter().for_each(|closing| closings.push(closing));
        closings
    }

    /// The last of all.
    pub(super) fn last(&self) -> Option<&Closing> {
        self.list.last()
    }

    /// Whether the record `at` is known to close a period.
    pub(super) fn has(&self, at: Position) -> bool {
        self.list.iter().any(|closing| closing.at == at)
    }

    pub(super) fn push(&mut self, closing: Closing) {
        let axis = Axis::new(closing.period, None, &self.cuts);
        self.pieces.extend((0..axis.len()).map(|piece| axis.of(piece)));
        self.list.push(closing);
    }

    /// From here on records from `position` on are read.
    pub(super) fn reach(&mut self, position: Position) {
        let next = |closing: &Closing| closing.position < position;
        while self.list.get(self.in_force).is_some_and(next) {
            self.in_force = self.in_force.saturating_add(1);
        }
    }

    /// Closings that hold for what is read now.
    pub(super) fn in_force(&self) -> &[Closing] {
        self.list.get(..self.in_force).unwrap_or_default()
    }

    /// What closed the last of `billed`, if all of it was closed.
    pub(super) fn of(&self, billed: Period) -> Option<&Closing> {
        self.list.first().filter(|first| first.period.from <= billed.from)?;
        self.list.iter().find(|closing| billed.to <= closing.period.to)
    }

    /// The closed time.
    pub(super) fn closed(&self) -> Option<Period> {
        let (first, last) = (self.in_force().first()?, self.in_force().last()?);
        Some(Period { from: first.period.from, to: last.period.to })
    }

    /// Every piece of time that was ever closed, in order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Period> {
        self.pieces.iter().copied()
    }
}
