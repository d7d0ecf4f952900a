//! Paces: how each group's spend goes on, summed up the tree, so that a question about a budget looks at no group
//! that cannot matter.
//!
//! ```text
//! consumed ≤ used ≤ consumed + given     consumed: Σ spend below    given: Σ over children of max(cash, given)
//! ```
//!
//! Both bounds are sums of the tree. Paces must be told ([`Book::paced`]); where they are not, everybody is asked.

use super::{Book, Spend, tree::plain};
use crate::domain::{
    names::{GroupId, KeyId},
    quantity::Milli,
    time::{ORIGIN, Timestamp},
};
use serde::{Deserialize, Serialize};

/// Spend as a line: `base + rate × (t − ORIGIN)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Milli-units × milliseconds at the origin of time sums, if it had gone on like this since then.
    pub base: i128,
    /// Milli-units.
    pub rate: Milli,
    /// It is exact from this instant on.
    pub from: Timestamp,
}

/// What the book knows of paces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Paces {
    /// By key: every account's pace is in the tree.
    known: Vec<bool>,
    /// The latest instant from which one is exact.
    from: Timestamp,
    /// One was out of bounds, or an account was credited below zero: bounds hold no more.
    broken: bool,
}

/// Paces beyond these are not summed: 2^16 groups of the fastest, over 2^43 milliseconds, just fit into 128 bits.
const FARTHEST: u128 = 1 << 110;
const FASTEST: u128 = 1 << 67;

/// Trees this deep are looked at by recursion.
const DEEP: u32 = 64;

impl Book {
    /// What `group` used of its budget by `at`, from paces; `None` where they are not known, or the tree is
    /// deeper than the stack should be.
    pub(super) fn used_by_pace(
        &self,
        group: GroupId,
        key: KeyId,
        budget: KeyId,
        at: Timestamp,
    ) -> Option<i128> {
        self.used_to_depth(group, key, budget, at, DEEP)
    }

    /// Exact, and looking only at children that may be above what they claim.
    fn used_to_depth(
        &self,
        group: GroupId,
        key: KeyId,
        budget: KeyId,
        at: Timestamp,
        depth: u32,
    ) -> Option<i128> {
        let (low, high) = self.bounds(group, key, budget, at)?;
        if low == high {
            return Some(low);
        }
        let depth = depth.checked_sub(1)?;
        let (base, rate) = (plain(key.0 << 1), plain((key.0 << 1) | 1));
        let own = |key| self.tree.cell(group, key).own;
        let mut used = line(own(base), own(rate), at);
        for child in self.tree.children(group) {
            let claim = self.tree.cell(*child, budget).claim;
            let weight = match self.bounds(*child, key, budget, at) {
                Some((_, high)) if high <= claim => claim,
                _ => self.used_to_depth(*child, key, budget, at, depth)?.max(claim),
            };
            used = used.saturating_add(weight);
        }
        Some(used)
    }

    /// What `group` used of its budget lies between these, if paces are known.
    pub(super) fn bounds(
        &self,
        group: GroupId,
        key: KeyId,
        budget: KeyId,
        at: Timestamp,
    ) -> Option<(i128, i128)> {
        let paces = &self.paces;
        let known = paces.known.get(key.index()).is_some_and(|known| *known);
        if !known || paces.broken || at < paces.from {
            return None;
        }
        let sum = |key| self.tree.cell(group, key).used();
        let consumed = line(sum(plain(key.0 << 1)), sum(plain((key.0 << 1) | 1)), at);
        let given = sum(budget);
        Some((consumed.max(given), consumed.saturating_add(given)))
    }

    /// The pace of `group` changed (a pod started, stopped or moved; a correction; its account was opened).
    pub fn paced(&mut self, group: GroupId, spend: &impl Spend) {
        for key in (0..).zip(0..self.paces.known.len()).map(|(key, _)| KeyId(key)) {
            if self.paces.known.get(key.index()).is_some_and(|known| *known) {
                self.keep_pace(group, key, spend);
            }
        }
    }

    /// Learns the paces of every account under the keys that were budgeted since.
    pub(super) fn learn_paces(&mut self, spend: &impl Spend) {
        for (key, _) in self.budgets().collect::<Vec<_>>() {
            if self.paces.known.len() <= key.index() {
                self.paces.known.resize(key.index().saturating_add(1), false);
            }
            let new = self.paces.known.get_mut(key.index()).filter(|known| !**known);
            let Some(known) = new.filter(|_| spend.pace(GroupId::NONE, key).is_some()) else {
                continue;
            };
            *known = true;
            for group in self.accounts().collect::<Vec<_>>() {
                self.keep_pace(group, key, spend);
            }
        }
    }

    fn keep_pace(&mut self, group: GroupId, key: KeyId, spend: &impl Spend) {
        let pace = spend.pace(group, key).filter(|pace| {
            let fits = pace.base.unsigned_abs() < FARTHEST && pace.rate.unsigned_abs() < FASTEST;
            fits && line(pace.base, pace.rate, pace.from) >= 0
        });
        let Some(pace) = pace else {
            self.paces.broken = true;
            return;
        };
        self.paces.from = self.paces.from.max(pace.from);
        for (key, now) in [(key.0 << 1, pace.base), ((key.0 << 1) | 1, pace.rate)] {
            let was = self.tree.cell(group, plain(key)).own;
            self.tree.charge(group, plain(key), now.saturating_sub(was), 0);
        }
    }
}

fn line(base: i128, rate: Milli, at: Timestamp) -> i128 {
    // See `FASTEST`; with more than 2^16 such groups it stops at the end of 128 bits, beyond every budget.
    base.saturating_add(rate.saturating_mul(i128::from(at.since(ORIGIN))))
}
