//! A sum that grows as time goes on: `usage(t) = base + rate × (t − ORIGIN)`, from its newest boundary on.
//!
//! Whatever is held is two boundaries: from the first on the rate is higher, from the second on it is again what it was.
//! So a sum is two numbers, and what happened since some moment is the difference of two sums.

use super::{
    amounts::{Overflow, product, products},
    quantity::Milli,
    time::{ORIGIN, Timestamp},
};
use serde::{Deserialize, Serialize};

/// What was used, and what is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Growth {
    /// Milli-units × milliseconds at the origin, if what is held now had always been held.
    pub(super) base: i128,
    /// Milli-units that are held.
    pub(super) rate: Milli,
}

/// Whether something becomes more or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is added.
    More,
    /// It is taken away.
    Less,
}

/// By what a sum changes for a milli-unit: it is linear in the amount, so that a boundary is looked at once and not once a
/// key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slope {
    /// Milliseconds; of what is added at once, a count.
    pub(super) base: i64,
    /// A count.
    pub(super) rate: i64,
}

impl Change {
    /// The other one.
    pub(super) const fn reversed(self) -> Self {
        match self {
            Self::More => Self::Less,
            Self::Less => Self::More,
        }
    }

    /// `factor` with the sign of the change.
    pub(super) const fn of(self, factor: i64) -> i64 {
        match self {
            Self::More => factor,
            Self::Less => factor.saturating_neg(),
        }
    }
}

impl Slope {
    /// From `at` on more, or less, is held.
    pub(super) fn at(at: Timestamp, change: Change) -> Self {
        Self { base: change.of(ORIGIN.since(at)), rate: change.of(1) }
    }

    /// Of both.
    pub(super) const fn and(self, other: Self) -> Self {
        // Instants lie within 230 years of each other.
        Self {
            base: self.base.saturating_add(other.base),
            rate: self.rate.saturating_add(other.rate),
        }
    }

    /// What takes it back.
    const fn reversed(self) -> Self {
        Self { base: self.base.saturating_neg(), rate: self.rate.saturating_neg() }
    }
}

impl Growth {
    /// The sum with `amount` milli-units of `slope`.
    fn with(self, slope: Slope, amount: Milli) -> Option<Self> {
        let [base, rate] = products(amount, [slope.base, slope.rate])?;
        Some(Self { base: self.base.checked_add(base)?, rate: self.rate.checked_add(rate)? })
    }

    /// What was used up to `at`, which is not before the newest boundary.
    ///
    /// # Errors
    /// [`Overflow`] when what is held has grown out of 128 bits by then.
    pub(super) fn until(self, at: Timestamp) -> Result<i128, Overflow> {
        product(self.rate, at.since(ORIGIN)).and_then(|g| g.checked_add(self.base)).ok_or(Overflow)
    }

    /// What this sum has at `end` (milliseconds since 1970, of a period, hence possibly behind the last instant) more
    /// than `before` has, and its higher rate. A step on the way may leave 128 bits and come back: what is between two
    /// sums of one hour fits (`history/newest.rs`).
    pub(super) const fn more_than(self, before: Self, end: i64) -> (i128, Milli) {
        let rate = self.rate.wrapping_sub(before.rate);
        let grown = rate.wrapping_mul(end.saturating_sub(ORIGIN.millis()) as i128);
        (self.base.wrapping_sub(before.base).wrapping_add(grown), rate)
    }

    /// The sum that this one was before it had `amount` more at `end`, and that higher rate.
    pub(super) const fn before(self, amount: i128, rate: Milli, end: i64) -> Self {
        let grown = rate.wrapping_mul(end.saturating_sub(ORIGIN.millis()) as i128);
        let base = self.base.wrapping_sub(amount).wrapping_add(grown);
        Self { base, rate: self.rate.wrapping_sub(rate) }
    }
}

/// Adds amounts to sums one by one, by one slope: all of it or nothing.
///
/// # Errors
/// [`Overflow`]; nothing is changed.
pub(super) fn add_each(
    sums: &mut [Growth],
    amounts: impl Iterator<Item = Milli> + Clone,
    slope: Slope,
) -> Result<(), Overflow> {
    let too_much = sums.iter_mut().zip(amounts.clone()).position(|(sum, amount)| {
        let next = sum.with(slope, amount);
        *sum = next.unwrap_or(*sum);
        next.is_none()
    });
    let Some(done) = too_much else { return Ok(()) };
    for (sum, amount) in sums.iter_mut().zip(amounts).take(done) {
        // Stepping back restores sums that were in range.
        *sum = sum.with(slope.reversed(), amount).unwrap_or(*sum);
    }
    Err(Overflow)
}

/// The same of some places, which are there.
///
/// # Errors
/// [`Overflow`]; nothing is changed.
pub(super) fn add_at(
    sums: &mut [Growth],
    slots: &[(usize, Milli)],
    slope: Slope,
) -> Result<(), Overflow> {
    for (done, (slot, amount)) in slots.iter().enumerate() {
        let Some(sum) = sums.get_mut(*slot) else { continue };
        if let Some(next) = sum.with(slope, *amount) {
            *sum = next;
            continue;
        }
        for (slot, amount) in slots.iter().take(done) {
            if let Some(sum) = sums.get_mut(*slot) {
                // Stepping back restores sums that were in range.
                *sum = sum.with(slope.reversed(), *amount).unwrap_or(*sum);
            }
        }
        return Err(Overflow);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_what_was_held_between_two_boundaries() {
        let at = |millis| ORIGIN.shifted(millis);
        let mut sum = [Growth::default()];
        add_each(&mut sum, [7].into_iter(), Slope::at(at(-500), Change::More)).unwrap();
        let before = sum[0];
        assert_eq!((before.rate, before.until(at(100))), (7, Ok(7 * 600)));
        add_at(&mut sum, &[(0, 7)], Slope::at(at(40), Change::Less)).unwrap();
        assert_eq!((sum[0].rate, sum[0].until(at(100))), (0, Ok(7 * 540)));
        let (amount, rate) = sum[0].more_than(before, at(100).millis());
        assert_eq!((amount, rate), (-7 * 60, -7));
        assert_eq!(sum[0].before(amount, rate, at(100).millis()), before);
    }

    #[test]
    fn of_what_does_not_fit_nothing_is_added() {
        let more = Slope::at(ORIGIN.shifted(1), Change::More);
        let sums = [Growth { base: 5, rate: 5 }; 2];
        let mut changed = sums;
        assert_eq!(add_each(&mut changed, [1, Milli::MAX].into_iter(), more), Err(Overflow));
        assert_eq!(add_at(&mut changed, &[(1, 1), (0, Milli::MAX)], more), Err(Overflow));
        assert_eq!(changed, sums);
    }
}
