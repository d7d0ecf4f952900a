//! Paces: how each group's spend goes on, summed up the tree, so that a question about a budget looks at no group
//! that cannot matter.
//!
//! ```text
//! consumed ≤ used ≤ consumed + given     consumed: Σ spend below    given: Σ over children of max(cash, given)
//! ```
//!
//! Both bounds are sums of the tree. Paces must be told ([`Book::paced`]); where they are not, everybody is asked.
//! Where budgets begin anew, a base counts from the beginning of the newest period on ([`Book::base`]), and what went
//! over into it is summed up beside: so far claims may be above what is said, or below. Questions about another period
//! look at everybody.

use super::{Book, Spend, periods::Current, tree::plain};
use crate::domain::{
    calendar::Span,
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

/// What is summed up of a key.
#[derive(Clone, Copy)]
enum Sum {
    /// Bases of paces.
    Base,
    /// Their rates.
    Rate,
    /// What went over into the period.
    More,
    /// What it was overdrawn by when it began.
    Less,
}

impl Sum {
    /// The tree's key for it.
    const fn of(self, key: KeyId) -> KeyId {
        plain((key.0 << 2) | self as u32)
    }
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

/// The period whose beginning paces count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Based {
    pub(super) span: Span,
    /// No group was credited more in it than it spent.
    pub(super) is_sound: bool,
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
        let current = self.basis(group, at)?;
        self.used_to_depth(current.as_ref(), group, [key, budget], at, DEEP)
    }

    /// What `group` and everything below it spent by `at`, in its period, from paces; `None` where they are not known.
    pub(super) fn consumed_by_pace(
        &self,
        group: GroupId,
        key: KeyId,
        at: Timestamp,
    ) -> Option<i128> {
        self.basis(group, at)?;
        self.is_paced(key, at).then(|| self.consumed_line(group, key, at))
    }

    /// The period that the paces in `group`'s tree count from (`None`: there are no periods), if questions about `at`
    /// count from there, too, and it is known what went over into it.
    fn basis(&self, group: GroupId, at: Timestamp) -> Option<Option<Current<'_>>> {
        let Some(based) = self.based(group) else {
            return self.current(group, at).is_none().then_some(None);
        };
        let current = self.current(group, at)?;
        let counts = based.is_sound && based.span == current.span && self.is_counted(&current);
        counts.then_some(Some(current))
    }

    /// Exact, and looking only at children that may be above what they claim.
    fn used_to_depth(
        &self,
        current: Option<&Current<'_>>,
        group: GroupId,
        keys: [KeyId; 2],
        at: Timestamp,
        depth: u32,
    ) -> Option<i128> {
        let (low, high) = self.bounds_within(group, keys, at)?;
        if low == high {
            return Some(low);
        }
        let depth = depth.checked_sub(1)?;
        let own = |sum: Sum| self.tree.cell(group, sum.of(keys[0])).own;
        let mut used = line(own(Sum::Base), own(Sum::Rate), at);
        for child in self.tree.children(group) {
            let carry = current.map_or(0, |current| self.counted_carry(current, *child, keys[0]));
            let claim = self.claim_with(*child, keys[1], carry);
            let weight = match self.bounds_within(*child, keys, at) {
                Some((_, high)) if high <= claim => claim,
                _ => self.used_to_depth(current, *child, keys, at, depth)?.max(claim),
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
        self.basis(group, at)?;
        self.bounds_within(group, [key, budget], at)
    }

    /// The same, where the tree's basis is that of the question.
    fn bounds_within(
        &self,
        group: GroupId,
        [key, budget]: [KeyId; 2],
        at: Timestamp,
    ) -> Option<(i128, i128)> {
        if !self.is_paced(key, at) {
            return None;
        }
        let consumed = self.consumed_line(group, key, at);
        let given = self.tree.cell(group, budget).used();
        let carried = |sum: Sum| self.tree.cell(group, sum.of(key)).given;
        let least = given.saturating_sub(carried(Sum::Less));
        let most = consumed.saturating_add(given).saturating_add(carried(Sum::More));
        Some((consumed.max(least), most))
    }

    fn is_paced(&self, key: KeyId, at: Timestamp) -> bool {
        let paces = &self.paces;
        let known = paces.known.get(key.index()).is_some_and(|known| *known);
        known && !paces.broken && at >= paces.from
    }

    fn consumed_line(&self, group: GroupId, key: KeyId, at: Timestamp) -> i128 {
        let sum = |sum: Sum| self.tree.cell(group, sum.of(key)).used();
        line(sum(Sum::Base), sum(Sum::Rate), at)
    }

    /// Paces in the tree of `root` count from `span` on, or from the opening of accounts; what went over into it is
    /// known.
    pub(super) fn base(&mut self, root: GroupId, based: Option<Based>, spend: &impl Spend) {
        self.set_based(root, based);
        let keys: Vec<_> = self.budgets().map(|(key, _)| key).collect();
        for group in self.tree.below(root) {
            for key in &keys {
                let is_known = self.paces.known.get(key.index()).is_some_and(|known| *known);
                if is_known && self.account(group).is_some() {
                    self.keep_pace(group, *key, spend);
                }
                let carry = match self.current_of(root, based) {
                    Some(current) => self.counted_carry(&current, group, *key),
                    None => 0,
                };
                self.set_plain(group, Sum::More.of(*key), carry.max(0));
                self.set_plain(group, Sum::Less.of(*key), carry.min(0).saturating_neg());
            }
        }
    }

    /// Where the paces in `group`'s tree count from; `None`: where accounts were opened.
    fn based(&self, group: GroupId) -> Option<Based> {
        match self.periods.based.is_empty() {
            true => None,
            false => self.periods.based.get(&self.root_in_force(group)).copied(),
        }
    }

    fn set_based(&mut self, root: GroupId, based: Option<Based>) {
        match based {
            Some(based) => drop(self.periods.based.insert(root, based)),
            None => drop(self.periods.based.remove(&root)),
        }
    }

    /// Bounds by paces do not hold in `group`'s tree.
    fn unsound(&mut self, group: GroupId) {
        let root = self.root_in_force(group);
        if let Some(based) = self.periods.based.get_mut(&root) {
            based.is_sound = false;
        }
    }

    fn set_plain(&mut self, group: GroupId, key: KeyId, now: i128) {
        let was = self.tree.cell(group, key).own;
        self.tree.charge(group, key, now.saturating_sub(was), 0);
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
        let begin = self.based(group).map(|based| based.span.from);
        let begun = begin.map_or(0, |begin| spend.spent(group, key, begin));
        let base = pace.base.saturating_sub(begun);
        if begin.is_some_and(|begin| line(base, pace.rate, pace.from.max(begin)) < 0) {
            // Credited more than it spent in this period: bounds hold no more while that lasts.
            self.unsound(group);
        }
        self.set_plain(group, Sum::Base.of(key), base);
        self.set_plain(group, Sum::Rate.of(key), pace.rate);
    }
}

fn line(base: i128, rate: Milli, at: Timestamp) -> i128 {
    // See `FASTEST`; with more than 2^16 such groups it stops at the end of 128 bits, beyond every budget.
    base.saturating_add(rate.saturating_mul(i128::from(at.since(ORIGIN))))
}
