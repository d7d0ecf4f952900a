//! What a quota object may say in its tree, and what a group may admit: the rules, without words.
//!
//! The order of [`Fault`] is the order in which they are named. A declaration whose proposal was let through is
//! not judged a second time, except that what holds or has spent anything does not change its tree.

use super::{
    Book, Declaration, Spec,
    cash::Spend,
    trial::{Mark, Trial},
};
use crate::domain::{
    names::{GroupId, KeyId},
    quantity::Milli,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// Why a quota object is not, or may not be, in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The parent is not declared, or is being removed.
    ParentNotFound(GroupId),
    /// The parent is the group itself or below it.
    Cycle(GroupId),
    /// It would come into another tree, and it or a group below it holds or has spent something: this one.
    DifferentTree(GroupId),
    /// No group above lists these keys, so nothing would limit them.
    KeyNotInParent(Vec<KeyId>),
    /// Groups above would have given or used more than they may.
    ParentExceeded(Vec<Exceeded>),
    /// The children claim more.
    BelowChildren(Vec<TooFew>),
    /// Groups count in it.
    HasChildren(Vec<GroupId>),
    /// Its own workloads are charged.
    HasWorkloads,
    /// It is a root, and it or a group below it holds or has spent something: this one.
    HasSpent(GroupId),
}

/// A limit that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exceeded {
    /// Whose limit.
    pub group: GroupId,
    /// Of what.
    pub key: KeyId,
    /// What is asked for on top.
    pub requested: Milli,
    /// What is used without it.
    pub used: Milli,
    /// What may be used.
    pub limited: Milli,
}

/// A limit below what is already given to children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooFew {
    /// Of what.
    pub key: KeyId,
    /// What it would be; `None`: the key would be left out.
    pub hard: Option<Milli>,
    /// What the children claim together.
    pub claimed: Milli,
}

/// Why a group admits nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frozen {
    /// No object of this name is in force.
    NotDeclared,
    /// Its removal is under way.
    Leaving,
    /// Its change of parent, or a change of tree above it, is under way.
    Moving,
}

/// Used of budgets above a group: whose, of what, how much.
pub(super) type Budgets = Vec<(GroupId, KeyId, i128)>;

impl Trial<'_> {
    /// The limits that the step since `mark` raised something above.
    pub(crate) fn exceeded(&self, mark: Mark) -> Vec<Exceeded> {
        let broken = self.changes(mark).filter(|c| c.breaks() && !self.is_budget(c.key));
        broken.map(|c| exceeded(&c)).collect()
    }

    /// The cells at or above 90 % of their limit that the step since `mark` raised.
    pub(crate) fn nearly_full(&self, mark: Mark) -> Vec<(GroupId, KeyId)> {
        let near = |c: &super::tree::Change| {
            let (used, limit) = (c.after.used(), c.after.limit);
            // Both are far below the tenth part of what 128 bits hold; a product is cheaper than a quotient.
            limit != super::UNLISTED
                && used > c.before.used()
                && used.saturating_mul(10) >= limit.saturating_mul(9)
        };
        let near = self.changes(mark).filter(|c| near(c) && !self.is_budget(c.key));
        near.map(|c| (c.group, c.key)).collect()
    }

    /// Judges a declaration that is proposed, and proposes it. On a fault the caller takes back to its mark.
    pub(crate) fn propose_spec(
        &mut self,
        mark: Mark,
        group: GroupId,
        proposal: super::Proposal,
        spend: &impl Spend,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let Some(spec) = proposal.spec.clone() else { return Ok(()) };
        let leaving = |parent| self.account(parent).is_some_and(super::quotas::Account::is_leaving);
        if let Some(parent) = spec.parent.filter(|p| leaving(*p)) {
            return Err(Fault::ParentNotFound(parent));
        }
        self.judge_parent(group, &spec)?;
        self.judge_roots(group, &spec, spend, now)?;
        self.judge_keys(group, &spec)?;
        let budgets = self.budgets_above(group, spec.parent, spend, now);
        let old = self.declaration(group).cloned();
        self.propose(group, proposal);
        self.judge_sums(group, mark.cells(), &budgets, spend, now)?;
        self.judge_children(group, &spec, old.as_ref(), spend, now)
    }
}

/// Rules for places and limits.
impl Book {
    /// Why `group` admits nothing, if it does not. (The empty group has no limits and admits everything.)
    #[must_use]
    pub fn frozen(&self, group: GroupId) -> Option<Frozen> {
        if group == GroupId::NONE {
            return None;
        }
        let Some(account) = self.account(group).filter(|a| a.declared.is_some()) else {
            return Some(Frozen::NotDeclared);
        };
        if account.is_leaving() {
            return Some(Frozen::Leaving);
        }
        let moving = account.places().len() > 1 || self.roots(group).len() > 1;
        moving.then_some(Frozen::Moving)
    }

    /// The roots of the trees that `group` is in: one, or several while a change of tree is open at or above it.
    #[must_use]
    pub fn roots(&self, group: GroupId) -> Vec<GroupId> {
        let proposals = |g| self.account(g).map_or(0, |a| a.proposals.len());
        let mut at = group;
        while proposals(at) == 0 {
            match self.tree.parents(at) {
                [] => return vec![at],
                [parent] => at = *parent,
                _ => break,
            }
        }
        let is_root = |g: &GroupId| {
            let rootish = self.account(*g).is_some_and(|a| a.places().contains(&None));
            rootish || self.tree.parents(*g).is_empty()
        };
        let mut roots: Vec<_> = self.tree.above(group).into_iter().filter(is_root).collect();
        roots.sort_unstable();
        roots
    }

    /// The root of `group` by what is or was in force, whatever is proposed.
    pub(super) fn root_in_force(&self, group: GroupId) -> GroupId {
        let mut at = group;
        // What is in force has no circle; the bound is for the reader.
        for _ in 0..=self.accounts.len() {
            match self.account(at).and_then(|a| a.place) {
                Some(Some(parent)) => at = parent,
                _ => return at,
            }
        }
        at
    }

    fn is_budget(&self, key: KeyId) -> bool {
        self.budgets.contains(&Some(key))
    }

    /// A group at or below `group` that holds or has spent something.
    fn busy_below(&self, group: GroupId, spend: &impl Spend, now: Timestamp) -> Option<GroupId> {
        self.tree.below(group).into_iter().find(|g| self.holds(*g) || spend.has_spent(*g, now))
    }

    /// The parent must be there, and not below.
    pub(super) fn judge_parent(&self, group: GroupId, spec: &Spec) -> Result<(), Fault> {
        let Some(parent) = spec.parent else { return Ok(()) };
        if self.declaration(parent).is_none() {
            return Err(Fault::ParentNotFound(parent));
        }
        if self.tree.is_above(group, parent) { Err(Fault::Cycle(parent)) } else { Ok(()) }
    }

    /// What holds or has spent anything does not change its tree, whoever let it through.
    pub(super) fn judge_tree(
        &self,
        group: GroupId,
        spec: &Spec,
        spend: &impl Spend,
        now: Timestamp,
    ) -> Result<(), Fault> {
        if self.account(group).is_none_or(|a| a.place.is_none()) {
            return Ok(());
        }
        let root = spec.parent.map_or(group, |parent| self.root_in_force(parent));
        if root == self.root_in_force(group) {
            return Ok(());
        }
        self.busy_below(group, spend, now).map_or(Ok(()), |busy| Err(Fault::DifferentTree(busy)))
    }

    /// The same rule for what is proposed: open proposals count.
    fn judge_roots(
        &self,
        group: GroupId,
        spec: &Spec,
        spend: &impl Spend,
        now: Timestamp,
    ) -> Result<(), Fault> {
        if self.account(group).is_none_or(|a| a.place.is_none() && a.proposals.is_empty()) {
            return Ok(());
        }
        let roots = spec.parent.map_or_else(|| vec![group], |parent| self.roots(parent));
        if roots == self.roots(group) {
            return Ok(());
        }
        self.busy_below(group, spend, now).map_or(Ok(()), |busy| Err(Fault::DifferentTree(busy)))
    }

    /// Every key that it lists, or that its children have from it, must be limited above.
    pub(super) fn judge_keys(&self, group: GroupId, spec: &Spec) -> Result<(), Fault> {
        let Some(parent) = spec.parent else { return Ok(()) };
        let above = self.tree.above(parent);
        let listed = |key| above.iter().any(|g| self.tree.lists(*g, key));
        let dropped = self.tree.keys(group).iter().copied().filter(|key| {
            !spec.hard.iter().any(|(k, _)| k == key) && self.claimed(group, *key) > 0
        });
        let keys = spec.hard.iter().map(|(key, _)| *key).chain(dropped);
        let missing: Vec<_> = keys.filter(|key| !listed(*key)).collect();
        if missing.is_empty() { Ok(()) } else { Err(Fault::KeyNotInParent(missing)) }
    }

    /// No sum above may have been raised above its limit since the tree's step `from`, no budget above what is
    /// in it.
    pub(super) fn judge_sums(
        &self,
        group: GroupId,
        from: usize,
        budgets: &Budgets,
        spend: &impl Spend,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let broken = self
            .tree
            .changes(from)
            .filter(|c| c.breaks() && c.group != group && !self.is_budget(c.key));
        let mut all: Vec<_> = broken.map(|c| exceeded(&c)).collect();
        for (above, key, before) in budgets {
            let Some(budget) = self.budget_of(*key) else { continue };
            let Some(limited) = self.budget_limit(*above, *key, spend, now) else { continue };
            let used = self.budget_used(*above, *key, spend, now);
            if used > *before && used > limited {
                let requested = used.saturating_sub(*before);
                let (group, key) = (*above, budget);
                all.push(Exceeded { group, key, requested, used: *before, limited });
            }
        }
        if all.is_empty() { Ok(()) } else { Err(Fault::ParentExceeded(all)) }
    }

    /// What is used of the budgets above `group`, where it is and where it is to go.
    pub(super) fn budgets_above(
        &self,
        group: GroupId,
        parent: Option<GroupId>,
        spend: &impl Spend,
        now: Timestamp,
    ) -> Budgets {
        let mut budgets = Budgets::new();
        if self.budgets.is_empty() {
            return budgets;
        }
        let mut above = self.tree.above(group);
        above.extend(parent.into_iter().flat_map(|parent| self.tree.above(parent)));
        above.sort_unstable();
        above.dedup();
        for above in above.into_iter().filter(|g| *g != group) {
            for (key, _) in self.budgets().filter(|(_, budget)| self.tree.lists(above, *budget)) {
                budgets.push((above, key, self.budget_used(above, key, spend, now)));
            }
        }
        budgets
    }

    /// A lowered or new limit must cover what is given below; a root must not drop a key that its children have
    /// from it.
    pub(super) fn judge_children(
        &self,
        group: GroupId,
        spec: &Spec,
        old: Option<&Declaration>,
        spend: &impl Spend,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let was = |key| {
            let hard = old.map_or(&[][..], |o| &o.spec.hard);
            hard.iter().find(|(k, _)| *k == key).map(|(_, amount)| *amount)
        };
        let mut short: Vec<TooFew> = Vec::new();
        for (key, hard) in spec.hard.iter().filter(|(k, hard)| was(*k).is_none_or(|w| *hard < w)) {
            let claimed = self.claimed_now(group, *key, spend, now);
            if self.effective(group, *key, *hard, spend, now) < claimed {
                short.push(TooFew { key: *key, hard: Some(*hard), claimed });
            }
        }
        if spec.parent.is_none() {
            for (key, _) in old.iter().flat_map(|o| o.spec.hard.iter()) {
                let claimed = self.claimed_now(group, *key, spend, now);
                if claimed > 0 && !spec.hard.iter().any(|(k, _)| k == key) {
                    short.push(TooFew { key: *key, hard: None, claimed });
                }
            }
        }
        if short.is_empty() { Ok(()) } else { Err(Fault::BelowChildren(short)) }
    }

    /// What the nearest groups below `group` that list `key` claim together, by their specs.
    fn claimed(&self, group: GroupId, key: KeyId) -> Milli {
        self.claims(group, key, |_, claim| claim)
    }

    /// The same with what went over into their budgets.
    fn claimed_now(&self, group: GroupId, key: KeyId, spend: &impl Spend, now: Timestamp) -> Milli {
        self.claims(group, key, |child, claim| self.effective(child, key, claim, spend, now))
    }

    fn claims(&self, group: GroupId, key: KeyId, of: impl Fn(GroupId, Milli) -> Milli) -> Milli {
        let mut sum: Milli = 0;
        let mut open = self.tree.children(group).to_vec();
        while let Some(child) = open.pop() {
            let cell = self.tree.cell(child, key);
            if cell.claim > 0 || cell.limit != super::UNLISTED {
                sum = sum.saturating_add(of(child, cell.claim));
            } else {
                open.extend(self.tree.children(child));
            }
        }
        sum
    }

    /// Whether the object of `group` may be removed.
    pub(crate) fn judge_removal(
        &self,
        group: GroupId,
        allow_orphans: bool,
        spend: &impl Spend,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let alive = |g: &GroupId| self.account(*g).is_some_and(super::quotas::Account::is_alive);
        let children: Vec<_> = self.tree.children(group).iter().copied().filter(alive).collect();
        if !children.is_empty() {
            return Err(Fault::HasChildren(children));
        }
        if self.holds(group) && !allow_orphans {
            return Err(Fault::HasWorkloads);
        }
        let rootish = self.account(group).is_some_and(|a| a.places().contains(&None));
        let is_root = rootish || self.tree.parents(group).is_empty();
        let busy = if is_root { self.busy_below(group, spend, now) } else { None };
        busy.map_or(Ok(()), |busy| Err(Fault::HasSpent(busy)))
    }
}

fn exceeded(change: &super::tree::Change) -> Exceeded {
    let (used, after) = (change.before.used(), change.after.used());
    Exceeded {
        group: change.group,
        key: change.key,
        requested: after.saturating_sub(used),
        used,
        limited: change.after.limit,
    }
}
