//! Time budgets: the same carve-out as everything else, of another quantity.
//!
//! Under `cash/K` what a group uses is what it spent of K, and what it claims is its budget: a parent has given
//! a child `max(cash(child), used(child))`. Only that spend is a function of time, so nothing is kept here: the
//! meter says what each group spent by an instant, and the tree says who counts in whom.

use super::Book;
use crate::domain::{
    names::{GroupId, KeyId, Map},
    quantity::Milli,
    time::Timestamp,
};

/// What the meter knows: spend in milli-units × milliseconds since each account was opened.
pub trait Spend {
    /// What `group` itself spent of `key` by `at`; never less at a later instant.
    fn spent(&self, group: GroupId, key: KeyId, at: Timestamp) -> i128;

    /// Whether `group` itself spent anything of any key by `at`, or is spending.
    fn has_spent(&self, group: GroupId, at: Timestamp) -> bool;
}

/// When a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhaustion {
    /// From this millisecond on, as far as is known: past, present or to come.
    At(Timestamp),
    /// Not before the end of time if all goes on as it is.
    Never,
}

/// Budgets at an instant. `budget` is a key `cash/K`; amounts are milli-units × milliseconds.
impl Book {
    /// `cash/K`, if any group ever limited it.
    #[must_use]
    pub fn budget_of(&self, key: KeyId) -> Option<KeyId> {
        self.budgets.get(key.index()).copied().flatten()
    }

    /// Every budgeted key K with its `cash/K`.
    pub fn budgets(&self) -> impl Iterator<Item = (KeyId, KeyId)> + '_ {
        (0..).zip(&self.budgets).filter_map(|(key, budget)| Some((KeyId(key), (*budget)?)))
    }

    /// What `group` used of its budget for `key` by `at`: its own spend, and what it has given its children.
    #[must_use]
    pub fn budget_used(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        at: Timestamp,
    ) -> i128 {
        let Some(budget) = self.budget_of(key) else { return self.consumed(group, key, spend, at) };
        let mut used = Map::<GroupId, i128>::default();
        for at_group in self.tree.bottom_up(group) {
            let given = self.tree.children(at_group).iter().map(|child| {
                let claim: Milli = self.tree.cell(*child, budget).claim;
                used.get(child).copied().unwrap_or_default().max(claim)
            });
            // What leaves 128 bits has left every budget long before.
            let sum = given.fold(spend.spent(at_group, key, at), i128::saturating_add);
            used.insert(at_group, sum);
        }
        used.get(&group).copied().unwrap_or_default()
    }

    /// What `group` and everything below it spent of `key` by `at`.
    #[must_use]
    pub fn consumed(&self, group: GroupId, key: KeyId, spend: &impl Spend, at: Timestamp) -> i128 {
        let below = self.tree.below(group).into_iter();
        below.fold(0, |sum: i128, g| sum.saturating_add(spend.spent(g, key, at)))
    }

    /// What is left of `group`'s own budget for `key`; negative after it was overspent, `None` where it lists
    /// no `cash/K`.
    #[must_use]
    pub fn cash_left(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        at: Timestamp,
    ) -> Option<i128> {
        let limit = self.line(group, self.budget_of(key)?).limit?;
        Some(limit.saturating_sub(self.budget_used(group, key, spend, at)))
    }

    /// The first millisecond since its account was opened at which `group`'s budget for `key` is used up, if all
    /// goes on as it is now; `None` where it lists no `cash/K`.
    #[must_use]
    pub fn exhaustion(&self, group: GroupId, key: KeyId, spend: &impl Spend) -> Option<Exhaustion> {
        let since = self.opened(group).unwrap_or(Timestamp::MIN);
        let limit = self.line(group, self.budget_of(key)?).limit?;
        let used_up = |millis: i64| {
            let at = Timestamp::MIN.shifted(millis);
            self.budget_used(group, key, spend, at) >= limit
        };
        let (mut low, mut high) = (since.millis(), Timestamp::MAX.millis());
        if !used_up(high) {
            return Some(Exhaustion::Never);
        }
        // Use never falls, so the first such millisecond is found by halving: 43 times at most.
        while low < high {
            let middle = low.midpoint(high);
            if used_up(middle) { high = middle } else { low = middle.saturating_add(1) }
        }
        Some(Exhaustion::At(Timestamp::MIN.shifted(high)))
    }

    /// The nearest budget for `key` at or above `group` that is used up at `at`.
    #[must_use]
    pub fn cash_out(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        at: Timestamp,
    ) -> Option<GroupId> {
        let budget = self.budget_of(key)?;
        let mut open = vec![group];
        while let Some(group) = open.pop() {
            let limit = self.tree.cell(group, budget).limit;
            if limit == super::UNLISTED {
                open.extend(self.tree.parents(group));
            } else if self.budget_used(group, key, spend, at) >= limit {
                return Some(group);
            }
        }
        None
    }
}
