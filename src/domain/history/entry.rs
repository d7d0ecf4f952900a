//! What is entered in a period's cells at an instant, and how they change.

use super::Cell;
use crate::domain::{
    amounts::products,
    growth::{self, Change},
    time::Timestamp,
};

/// What is entered at an instant.
#[derive(Clone, Copy, Debug)]
pub(in crate::domain) enum Entry {
    /// So much more or less is held from then on.
    Rate(Change),
    /// The same, and the period's end is looked at alone: what is held from there on is nothing to it.
    Held(Change),
    /// So much more or less was used, at once.
    Amount(Change),
}

impl Entry {
    /// What takes it back.
    pub(in crate::domain) const fn reversed(self) -> Self {
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

    /// By what a sum changes for each unit that is entered at `at`.
    pub(in crate::domain) fn slope_of_sum(self, at: Timestamp) -> growth::Slope {
        match self {
            Self::Rate(change) | Self::Held(change) => growth::Slope::at(at, change),
            Self::Amount(change) => growth::Slope { base: change.of(1), rate: 0 },
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
