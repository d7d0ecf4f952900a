//! What is entered in a period's cells at an instant, and how they change.

use super::Cell;
use crate::domain::amounts::products;

/// Whether something becomes more or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is added.
    More,
    /// It is taken away.
    Less,
}

impl Change {
    /// The other one.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::More => Self::Less,
            Self::Less => Self::More,
        }
    }

    const fn of(self, factor: i64) -> i64 {
        match self {
            Self::More => factor,
            Self::Less => factor.saturating_neg(),
        }
    }
}

/// What is entered at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    /// So much more or less is held from then on.
    Rate(Change),
    /// The same, and the period's end is looked at alone: what is held from there on is nothing to it.
    Held(Change),
    /// So much more or less was used, at once.
    Amount(Change),
}

impl Entry {
    /// What takes it back.
    pub(super) const fn reversed(self) -> Self {
        match self {
            Self::Rate(change) => Self::Rate(change.reversed()),
            Self::Held(change) => Self::Held(change.reversed()),
            Self::Amount(change) => Self::Amount(change.reversed()),
        }
    }

    /// As it counts where only the period itself is looked at.
    pub(super) const fn without_rate(self) -> Self {
        match self {
            Self::Rate(change) => Self::Held(change),
            other => other,
        }
    }

    /// By what a cell changes for each unit that is entered `rest` milliseconds before the end of its period.
    pub(super) const fn slope(self, rest: i64) -> Slope {
        match self {
            Self::Rate(change) => Slope { amount: change.of(rest), rate: change.of(1) },
            Self::Held(change) => Slope { amount: change.of(rest), rate: 0 },
            Self::Amount(change) => Slope { amount: change.of(1), rate: 0 },
        }
    }
}

/// By what a cell changes for each unit: looked at once, and not once a key.
#[derive(Clone, Copy)]
pub(super) struct Slope {
    amount: i64,
    rate: i64,
}

impl Cell {
    /// The cell with `amount` entered.
    pub(super) fn with(self, slope: Slope, amount: i128) -> Option<Self> {
        let [inside, rate] = products(amount, [slope.amount, slope.rate])?;
        Some(Self { amount: self.amount.checked_add(inside)?, rate: self.rate.checked_add(rate)? })
    }
}
