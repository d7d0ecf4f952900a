//! Quota objects: what is declared, what is proposed, and what of it is in force.
//!
//! An account is a name, for ever: a removed group keeps its place in its tree and its spend counts there. A
//! group claims by the larger of what is declared and proposed, and admits by the smaller.

use super::{
    Book, Error, MOST, Stamp, Ticket, cash::Spend, facts::version, periods::Term, rules::Fault,
    trial::Undo, version::Version,
};
use crate::domain::{
    amounts::Overflow,
    event::{
        CashPeriod, Charge, ModelPolicy, Operation, Position, QuotaDeclared, QuotaProposed,
        QuotaRemoved, QuotaSpec,
    },
    names::{GroupId, KeyId, Names, Uid},
    time::{HOUR_MS, Timestamp},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

/// What a quota object says, in numbers: `cash/K` in milli-units × milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The parent; `None` for a root.
    pub parent: Option<GroupId>,
    /// Limits.
    pub hard: Arc<Limits>,
    /// Steady or peak.
    pub charge: Charge,
    /// Declared or required.
    pub models: ModelPolicy,
    /// Percentages of its own cash that are told, if that is said.
    pub notify_cash: Option<Vec<u16>>,
    /// Percentages of the budget that its subtree spent, if that is said.
    pub notify_consumed: Option<Vec<u16>>,
    /// Of a root: when the budgets of its tree begin anew.
    pub cash_period: Option<Arc<CashPeriod>>,
}

/// Limits by key, sorted by key; unlike in `Amounts`, 0 is not the same as absent.
pub type Limits = Vec<(KeyId, i128)>;

/// A quota object in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    /// The object.
    pub uid: Uid,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// What it says.
    pub spec: Spec,
}

/// A quota object that is not in force, because it breaks a rule (the webhook was bypassed, or a restore).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invalid {
    /// The object.
    pub object: Declaration,
    /// The rule.
    pub fault: Fault,
    /// Its place among all that are not in force: what came first is tried again first.
    pub(super) arrival: u64,
}

/// A change that was let through its review and is neither declared, superseded nor expired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Its record.
    pub position: Position,
    /// What was asked.
    pub operation: Operation,
    /// The object.
    pub uid: Uid,
    pub(super) old: Version,
    /// What it is to say; `None` for a removal.
    pub spec: Option<Spec>,
}

impl Proposal {
    /// A proposal that has no record yet.
    pub(crate) fn new(
        ticket: Ticket,
        operation: Operation,
        uid: &str,
        old: &str,
        spec: Option<Spec>,
    ) -> Result<Self, Error> {
        let old = version(old, 0)?;
        Ok(Self { position: ticket.position, operation, uid: Uid::of(uid), old, spec })
    }
}

/// What became of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The account was opened by it: spend counts from its time.
    pub opened: bool,
    /// What it did.
    pub outcome: Outcome,
}

/// Whether a declaration is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is.
    InForce,
    /// It breaks a rule; the last valid one stays in force.
    Invalid(Fault),
    /// It is older than what is known, or of an object that is gone: it says nothing.
    Stale,
}

/// A group's account.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::domain) struct Account {
    pub(super) declared: Option<Declaration>,
    /// The parent by the last declaration in force, kept when it is removed. `Some(None)`: a root.
    pub(super) place: Option<Option<GroupId>>,
    pub(super) proposals: Vec<Proposal>,
    newest: Version,
    invalid: Option<Invalid>,
    opened: Option<Timestamp>,
    /// What was in force since when, the newest last.
    pub(super) terms: Vec<Term>,
}

impl Account {
    /// What is declared or proposed to be declared.
    fn specs(&self) -> impl Iterator<Item = &Spec> {
        let declared = self.declared.iter().map(|d| &d.spec);
        declared.chain(self.proposals.iter().filter_map(|p| p.spec.as_ref()))
    }

    /// Everywhere the group counts or may come to count.
    pub(super) fn places(&self) -> Vec<Option<GroupId>> {
        let mut places: Vec<_> = self.specs().map(|s| s.parent).chain(self.place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Whether its removal is under way.
    pub(super) fn is_leaving(&self) -> bool {
        self.proposals.iter().any(|p| p.spec.is_none())
    }

    /// Whether it is, or may come to be, a group.
    pub(super) fn is_alive(&self) -> bool {
        self.specs().next().is_some()
    }
}

/// Questions about accounts.
impl Book {
    /// What is in force for `group`.
    #[must_use]
    pub fn declaration(&self, group: GroupId) -> Option<&Declaration> {
        self.account(group)?.declared.as_ref()
    }

    /// The newest object of `group`, if it is not in force, and why.
    #[must_use]
    pub fn invalid(&self, group: GroupId) -> Option<&Invalid> {
        self.account(group)?.invalid.as_ref()
    }

    /// When the account of `group` was opened.
    #[must_use]
    pub fn opened(&self, group: GroupId) -> Option<Timestamp> {
        self.account(group)?.opened
    }

    /// Changes of `group` that are under way.
    #[must_use]
    pub fn proposals(&self, group: GroupId) -> &[Proposal] {
        self.account(group).map_or(&[], |a| &a.proposals)
    }

    /// Every group that was ever declared or proposed.
    pub fn accounts(&self) -> impl Iterator<Item = GroupId> + '_ {
        let used = |a: &Account| a.opened.is_some() || !a.proposals.is_empty();
        (0..).zip(self.accounts.as_slice()).filter(move |(_, a)| used(a)).map(|(id, _)| GroupId(id))
    }

    /// The newest version of its object that was told.
    pub(super) fn newest(&self, group: GroupId) -> Option<Version> {
        self.account(group).map(|account| account.newest)
    }

    pub(super) fn account(&self, group: GroupId) -> Option<&Account> {
        self.accounts.get(group.index())
    }

    pub(super) fn account_mut(&mut self, group: GroupId) -> &mut Account {
        self.accounts.at_mut(group.index(), Account::default)
    }
}

/// Facts and decisions about quota objects.
impl Book {
    /// Understands a spec.
    ///
    /// # Errors
    /// An amount is negative or too large.
    pub fn spec(&mut self, names: &mut Names, spec: &QuotaSpec<'_>) -> Result<Spec, Error> {
        let mut hard = Limits::with_capacity(spec.hard.len());
        for (text, quantity) in &spec.hard {
            let key = names.key(text);
            let mut amount = quantity.milli();
            if let Some(budgeted) = names.budgeted(key) {
                amount = amount.checked_mul(i128::from(HOUR_MS)).ok_or(Overflow)?;
                self.know_budget(budgeted, key);
            }
            // A cash limit is 2^73 thousandths by 2^22 milliseconds at most, one a group: 2^32 of them fit.
            if !(0..=MOST.saturating_mul(1 << 5)).contains(&amount) {
                return Err(Overflow.into());
            }
            hard.push((key, amount));
        }
        hard.sort_unstable();
        let parent = (!spec.parent.is_empty()).then(|| names.group(&spec.parent));
        // A child's would hold for nobody: the door refuses it, and what passed it is not believed.
        let cash_period = spec.cash_period.clone().filter(|_| parent.is_none());
        Ok(Spec {
            parent,
            hard: Arc::new(hard),
            charge: spec.charge,
            models: spec.models,
            notify_cash: spec.notify_cash.clone(),
            notify_consumed: spec.notify_consumed.clone(),
            cash_period,
        })
    }

    /// Notes that `budget` limits the spend of `key`.
    fn know_budget(&mut self, key: KeyId, budget: KeyId) {
        if self.budgets.len() <= key.index() {
            self.budgets.resize(key.index().saturating_add(1), None);
        }
        if let Some(known) = self.budgets.get_mut(key.index())
            && known.replace(budget).is_none()
            && self.trying
        {
            self.undo.push(Undo::Budget(key));
        }
    }

    /// Takes [`Self::know_budget`] back.
    pub(super) fn forget_budget(&mut self, key: KeyId) {
        if let Some(known) = self.budgets.get_mut(key.index()) {
            *known = None;
        }
        while self.budgets.last() == Some(&None) {
            self.budgets.pop();
        }
    }

    /// A quota object as it really is.
    ///
    /// # Errors
    /// An amount is negative or too large; the version is no number.
    pub fn quota_declared(
        &mut self,
        names: &mut Names,
        stamp: Stamp,
        group: GroupId,
        fact: &QuotaDeclared<'_>,
        spend: &impl Spend,
    ) -> Result<Declared, Error> {
        let newest = version(&fact.resource_version, fact.generation)?;
        let spec = self.spec(names, &fact.spec)?;
        self.learn_paces(spend);
        let object = Declaration { uid: Uid::of(&fact.uid), generation: fact.generation, spec };
        let gone = !fact.resource_version.is_empty() && self.gone_quotas.contains(&object.uid);
        let account = self.account_mut(group);
        if gone || newest <= account.newest {
            return Ok(Declared { opened: false, outcome: Outcome::Stale });
        }
        account.newest = newest;
        let opened = account.opened.is_none();
        account.opened.get_or_insert(stamp.time);
        let reviewed = self.end_proposals(group, &object, newest);
        self.arrivals = self.arrivals.saturating_add(1);
        let arrival = self.arrivals;
        let outcome = match self.put_in_force(group, object, arrival, reviewed, spend, stamp.time) {
            Ok(()) => Outcome::InForce,
            Err(fault) => Outcome::Invalid(fault),
        };
        if outcome == Outcome::InForce {
            self.retry(group, spend, stamp.time);
        }
        Ok(Declared { opened, outcome })
    }

    /// Ends the proposals that `object` fulfils or supersedes; says whether it fulfils one.
    fn end_proposals(&mut self, group: GroupId, object: &Declaration, newest: Version) -> bool {
        let mut reviewed = false;
        self.account_mut(group).proposals.retain(|p| {
            if p.uid != object.uid {
                // Another object of this name: the older one is gone.
                return !(Version::default() < p.old && p.old < newest);
            }
            reviewed |= p.old < newest && p.spec.as_ref() == Some(&object.spec);
            p.old >= newest
        });
        self.settle(group);
        reviewed
    }

    /// Puts a declaration in force unless it breaks a rule; if its proposal was open, it was judged already, and
    /// only its tree is looked at again.
    fn put_in_force(
        &mut self,
        group: GroupId,
        object: Declaration,
        arrival: u64,
        reviewed: bool,
        spend: &impl Spend,
        now: Timestamp,
    ) -> Result<(), Fault> {
        self.forget_invalid(group);
        let result = self.judge_declared(group, &object, reviewed, spend, now);
        if let Err(fault) = &result {
            match fault {
                Fault::ParentNotFound(parent) => {
                    self.waiting.entry(*parent).or_default().push(group);
                }
                _ => self.invalid.push(group),
            }
            let fault = fault.clone();
            self.account_mut(group).invalid = Some(Invalid { object, fault, arrival });
        }
        result
    }

    /// `group` has no object that is not in force.
    fn forget_invalid(&mut self, group: GroupId) {
        let Some(invalid) = self.account_mut(group).invalid.take() else { return };
        match invalid.fault {
            Fault::ParentNotFound(parent) => {
                if let Some(children) = self.waiting.get_mut(&parent) {
                    children.retain(|child| *child != group);
                    if children.is_empty() {
                        self.waiting.remove(&parent);
                    }
                }
            }
            _ => self.invalid.retain(|g| *g != group),
        }
    }

    fn judge_declared(
        &mut self,
        group: GroupId,
        object: &Declaration,
        reviewed: bool,
        spend: &impl Spend,
        now: Timestamp,
    ) -> Result<(), Fault> {
        if !reviewed {
            self.judge_parent(group, &object.spec)?;
        }
        self.judge_tree(group, &object.spec, spend, now)?;
        if !reviewed {
            self.judge_keys(group, &object.spec)?;
        }
        let before = self.remembered(group);
        let budgets = self.budgets_above(group, object.spec.parent, spend, now);
        let from = self.tree.step();
        let account = self.account_mut(group);
        account.declared = Some(object.clone());
        account.place = Some(object.spec.parent);
        account.invalid = None;
        self.settle(group);
        let result = if reviewed {
            Ok(())
        } else {
            self.judge_sums(group, from, &budgets, spend, now).and_then(|()| {
                let old = before.0.declared.as_ref();
                self.judge_children(group, &object.spec, old, spend, now)
            })
        };
        if result.is_err() {
            let (account, parents) = before;
            self.restore(group, account, &parents);
            self.tree.take_back(from);
        } else {
            self.begin_term(group, object.spec.clone(), now);
        }
        self.tree.stop_noting();
        result
    }

    /// Tries everything again that is not in force, in order of arrival: the change of `changed` may have mended it
    /// (its parent was declared after it, a limit above was raised, …), or room that became free since it was last
    /// tried; then what that mends. What waits for a parent is left alone until the parent is there.
    fn retry(&mut self, changed: GroupId, spend: &impl Spend, now: Timestamp) {
        let mut mended = vec![changed];
        while !mended.is_empty() {
            let waiting = mended.drain(..).flat_map(|parent| self.waiting_for(parent));
            let mut pass: BTreeSet<_> = waiting.collect();
            pass.extend(self.invalid.iter().filter_map(|group| self.arrived(*group)));
            while let Some((arrival, group)) = pass.pop_first() {
                let Some(object) = self.invalid(group).map(|i| i.object.clone()) else { continue };
                if self.put_in_force(group, object, arrival, false, spend, now).is_ok() {
                    pass.extend(self.waiting_for(group).into_iter().filter(|(a, _)| *a > arrival));
                    mended.push(group);
                }
            }
        }
    }

    /// Groups that wait for `parent`, if it is there now.
    fn waiting_for(&self, parent: GroupId) -> Vec<(u64, GroupId)> {
        let children = self.waiting.get(&parent).filter(|_| self.declaration(parent).is_some());
        children.into_iter().flatten().filter_map(|group| self.arrived(*group)).collect()
    }

    fn arrived(&self, group: GroupId) -> Option<(u64, GroupId)> {
        Some((self.invalid(group)?.arrival, group))
    }

    /// A quota object is no more. Its account stays where it is.
    pub fn quota_removed(
        &mut self,
        stamp: Stamp,
        group: GroupId,
        fact: &QuotaRemoved<'_>,
        spend: &impl Spend,
    ) {
        let uid = Uid::of(&fact.uid);
        self.gone_quotas.insert(uid);
        let account = self.account_mut(group);
        account.proposals.retain(|p| p.uid != uid);
        if account.declared.as_ref().is_some_and(|d| d.uid == uid) {
            account.declared = None;
            self.end_term(group, stamp.time);
        }
        let account = self.account_mut(group);
        if account.invalid.as_ref().is_some_and(|i| i.object.uid == uid) {
            self.forget_invalid(group);
        }
        self.settle(group);
        self.retry(group, spend, stamp.time);
    }

    /// A change of a quota object was let through its review.
    ///
    /// # Errors
    /// An amount is negative or too large; the version is no number.
    pub fn proposed(
        &mut self,
        names: &mut Names,
        stamp: Stamp,
        group: GroupId,
        decision: &QuotaProposed<'_>,
    ) -> Result<(), Error> {
        let old = version(decision.old_resource_version.as_deref().unwrap_or_default(), 0)?;
        let spec = decision.spec.as_ref().map(|spec| self.spec(names, spec)).transpose()?;
        let proposal = Proposal {
            position: stamp.position,
            operation: decision.operation,
            uid: Uid::of(&decision.uid),
            old,
            spec,
        };
        self.propose(group, proposal);
        Ok(())
    }

    /// Takes in a proposal, unless it is already real, already overtaken, or would close a circle (a declaration
    /// that no review saw came between: then it will be judged when it is declared).
    pub(crate) fn propose(&mut self, group: GroupId, proposal: Proposal) {
        if self.trying {
            let before = Box::new(self.remembered(group));
            self.undo.push(Undo::Account(group, before));
        }
        let gone = self.gone_quotas.contains(&proposal.uid);
        let parent = proposal.spec.as_ref().and_then(|s| s.parent);
        let circle = parent.is_some_and(|parent| self.tree.is_above(group, parent));
        let account = self.account_mut(group);
        let create = proposal.operation == Operation::Create;
        let real = create && account.declared.as_ref().is_some_and(|d| d.uid == proposal.uid);
        let overtaken = !create && account.newest > proposal.old;
        if !(gone || real || overtaken || circle) {
            account.proposals.push(proposal);
            self.settle(group);
        }
    }

    /// A proposal never became real.
    pub(super) fn proposal_expired(&mut self, group: GroupId, position: Position) {
        if self.trying {
            let before = Box::new(self.remembered(group));
            self.undo.push(Undo::Account(group, before));
        }
        self.account_mut(group).proposals.retain(|p| p.position != position);
        self.settle(group);
    }

    fn remembered(&self, group: GroupId) -> (Account, Vec<GroupId>) {
        let account = self.account(group).cloned().unwrap_or_default();
        (account, self.tree.parents(group).to_vec())
    }

    /// Puts back what [`Self::remembered`] returned; the sums are the tree's business.
    pub(super) fn restore(&mut self, group: GroupId, account: Account, parents: &[GroupId]) {
        *self.account_mut(group) = account;
        self.tree.set_parents(group, parents);
    }

    /// Makes the tree say what the account says: claims by the larger, admits by the smaller, counts in every
    /// place.
    pub(super) fn settle(&mut self, group: GroupId) {
        let Some(account) = self.accounts.get(group.index()) else { return };
        let parents: Vec<_> = account.places().into_iter().flatten().collect();
        let mut terms: Vec<(KeyId, i128, i128)> = Vec::new();
        let in_force = account.declared.is_some();
        for (key, amount) in account.specs().flat_map(|s| s.hard.iter()) {
            let limit = if in_force { *amount } else { super::UNLISTED };
            match terms.iter_mut().find(|(k, _, _)| k == key) {
                Some((_, claim, least)) => {
                    *claim = (*claim).max(*amount);
                    *least = (*least).min(limit);
                }
                None => terms.push((*key, *amount, limit)),
            }
        }
        for key in self.tree.keys(group).to_vec() {
            if !terms.iter().any(|(k, _, _)| *k == key) {
                terms.push((key, 0, super::UNLISTED));
            }
        }
        for (key, claim, limit) in terms {
            let cell = self.tree.cell(group, key);
            if (cell.claim, cell.limit) != (claim, limit) {
                self.tree.set_terms(group, key, claim, limit);
            }
        }
        self.tree.relink(group, &parents);
    }
}
