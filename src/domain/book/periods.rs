//! Budget periods: within each, a budget counts from the period's first instant; into the next goes what the root says.
//!
//! ```text
//!  limit(g, n) = hard(g) + carry(g, n)        carry(g, n + 1) = bounded(hard(g) + carry(g, n) − consumed(g, n))
//!  used(g, n)  = own spend in n + Σ over children of max(hard + carry of the child, its used)
//! ```
//!
//! What a group was given is only given while the period lasts: over goes what its subtree did not spend. Everything
//! follows from terms (what was in force since when) and spend at boundaries, by the best knowledge now: what is learned
//! late about a period that ended changes what went over, and no decision that was made.

use super::{Book, Spec, UNLISTED, cash::Spend, pace::Based};
use crate::domain::{
    calendar::Span,
    event::CashPeriod,
    names::{GroupId, KeyId, Map, Set},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// What was in force from an instant on; kept as far as budgets of past periods need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Term {
    from: Timestamp,
    spec: Spec,
}

/// What is known of periods beside the accounts' terms; all of it follows from them.
#[derive(Clone, Debug, Default)]
pub(super) struct Periods {
    /// Roots whose trees have periods.
    roots: Vec<GroupId>,
    /// Groups that had more than one parent within their terms.
    moved: Vec<GroupId>,
    closed: Closed,
    /// By root: from where on the paces of its tree count.
    pub(super) based: Map<GroupId, Based>,
}

/// What went over into the newest periods, by root, so that nobody counts from the first. It says nothing that is not
/// counted otherwise.
#[derive(Clone, Default)]
struct Closed {
    trees: Map<GroupId, Vec<Level>>,
    /// The next period of some tree begins here.
    next: Timestamp,
}

/// What went over into one period; what is not listed is 0.
#[derive(Clone)]
struct Level {
    number: i64,
    begin: Timestamp,
    carries: Map<(GroupId, KeyId), i128>,
}

/// So many levels are kept: facts are believed for 35 days, which are so many of the shortest periods.
const LEVELS: usize = 40;
/// So many are counted at once: one record with an absurd time must not count centuries of days.
const AT_ONCE: i64 = 64;
/// After so many records what late facts took away is counted again.
const AGAIN: u64 = 1024;

impl fmt::Debug for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed")
    }
}

/// A tree's periods, and the one that a question is about.
pub(super) struct Current<'b> {
    root: GroupId,
    period: &'b CashPeriod,
    /// The number of the first that counts: into it nothing went over.
    first: i64,
    pub(super) span: Span,
}

/// A group's budget inside one period: what does not change while it lasts.
pub(super) struct Inside {
    pub(super) span: Span,
    /// The group and everything below it, children first.
    order: Vec<GroupId>,
    /// What each had spent when the period began.
    begun: Map<GroupId, i128>,
    /// What each claims of its parent.
    claims: Map<GroupId, i128>,
}

/// Periods of budgets. Amounts are milli-units × milliseconds.
impl Book {
    /// The period that `at` lies in, if the budgets of `group`'s tree have any.
    #[must_use]
    pub fn period(&self, group: GroupId, at: Timestamp) -> Option<Span> {
        self.current(group, at).map(|current| current.span)
    }

    /// When the budgets of `group`'s tree begin anew and what goes over, if its root says so.
    #[must_use]
    pub fn cash_period(&self, group: GroupId) -> Option<&CashPeriod> {
        let terms = &self.account(self.root_in_force(group))?.terms;
        terms.last()?.spec.cash_period.as_deref()
    }

    /// What went over into `group`'s budget for `key` from the period before the one that `at` lies in; below zero if
    /// it had overspent.
    #[must_use]
    pub fn carried(&self, group: GroupId, key: KeyId, spend: &impl Spend, at: Timestamp) -> i128 {
        let listed = self.budget_of(key).filter(|budget| self.tree.lists(group, *budget));
        let Some((budget, current)) = listed.zip(self.current(group, at)) else { return 0 };
        self.carry(&current, group, [key, budget], current.span.number, spend)
    }

    /// What `group` may use of its budget for `key` in the period that `at` lies in: its hard, and what went over.
    #[must_use]
    pub fn budget_limit(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        at: Timestamp,
    ) -> Option<i128> {
        let limit = self.line(group, self.budget_of(key)?).limit?;
        Some(limit.saturating_add(self.carried(group, key, spend, at)))
    }

    /// What `group` itself spent of `key` in the period that `at` lies in; without periods since its account was opened.
    #[must_use]
    pub fn budget_own(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        at: Timestamp,
    ) -> i128 {
        self.since_begun(group, at, |at| spend.spent(group, key, at))
    }

    /// The same with everything below it.
    #[must_use]
    pub fn budget_consumed(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        at: Timestamp,
    ) -> i128 {
        let paced = self.consumed_by_pace(group, key, at);
        let asked = || self.since_begun(group, at, |at| self.consumed(group, key, spend, at));
        paced.unwrap_or_else(asked)
    }

    /// Of what is `spent` by `at` what was not yet spent when the period began, if there is any.
    fn since_begun(
        &self,
        group: GroupId,
        at: Timestamp,
        spent: impl Fn(Timestamp) -> i128,
    ) -> i128 {
        let before = self.period(group, at).map_or(0, |span| spent(span.from));
        spent(at).saturating_sub(before)
    }

    /// `group`'s budget for `key` inside the period that `at` lies in; `None` where there are no periods.
    pub(super) fn inside(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        at: Timestamp,
    ) -> Option<Inside> {
        let (budget, current) = (self.budget_of(key)?, self.current(group, at)?);
        let span = current.span;
        let order = self.tree.bottom_up(group);
        let begun = order.iter().map(|g| (*g, spend.spent(*g, key, span.from))).collect();
        let claim = |child: &GroupId| {
            let carry = self.carry(&current, *child, [key, budget], span.number, spend);
            (*child, self.claim_with(*child, budget, carry))
        };
        let claims = order.iter().filter(|g| **g != group).map(claim).collect();
        Some(Inside { span, order, begun, claims })
    }

    /// `amount` of the key `key` of `group`'s spec as it counts now: of `cash/K` with what went over.
    pub(super) fn effective(
        &self,
        group: GroupId,
        key: KeyId,
        amount: i128,
        spend: &impl Spend,
        now: Timestamp,
    ) -> i128 {
        let of = self.budgets().find(|(_, budget)| *budget == key);
        let carry = of.and_then(|(of, budget)| {
            let current = self.current(group, now)?;
            Some(self.carry(&current, group, [of, budget], current.span.number, spend))
        });
        amount.saturating_add(carry.unwrap_or(0)).max(0)
    }

    /// What `child` claims of its parent if `carry` went over into its budget; who says nothing claims nothing.
    pub(super) fn claim_with(&self, child: GroupId, budget: KeyId, carry: i128) -> i128 {
        let cell = self.tree.cell(child, budget);
        match cell.limit == UNLISTED && cell.claim == 0 {
            true => 0,
            false => cell.claim.saturating_add(carry).max(0),
        }
    }

    /// The period of `based`, if it is that of the root's calendar.
    pub(super) fn current_of(&self, root: GroupId, based: Option<Based>) -> Option<Current<'_>> {
        let span = based?.span;
        self.current(root, span.from).filter(|current| current.span == span)
    }

    /// Whether it is known, of every group, what went over into the period.
    pub(super) fn is_counted(&self, current: &Current<'_>) -> bool {
        let anybody = (GroupId::NONE, KeyId(0));
        self.periods.closed.known(current, anybody, current.span.number).0 == current.span.number
    }

    /// What went over into the period of `current`, where [`Self::is_counted`].
    pub(super) fn counted_carry(&self, current: &Current<'_>, group: GroupId, key: KeyId) -> i128 {
        self.periods.closed.known(current, (group, key), current.span.number).1
    }

    pub(super) fn current(&self, group: GroupId, at: Timestamp) -> Option<Current<'_>> {
        if self.periods.roots.is_empty() {
            return None;
        }
        let root = self.root_in_force(group);
        let terms = &self.account(root)?.terms;
        let period = terms.last()?.spec.cash_period.as_deref()?;
        let same = |term: &&Term| {
            term.spec.cash_period.as_ref().is_some_and(|p| p.calendar == period.calendar)
        };
        let since = terms.iter().rev().take_while(same).last()?.from;
        let first = period.calendar.number(since.millis());
        Some(Current { root, period, first, span: period.calendar.span(at) })
    }

    /// What went over into the period `number` of `group`'s budget: counted on from the newest that is known.
    fn carry(
        &self,
        current: &Current<'_>,
        group: GroupId,
        keys: [KeyId; 2],
        number: i64,
        spend: &impl Spend,
    ) -> i128 {
        let (mut at, mut carry) = self.periods.closed.known(current, (group, keys[0]), number);
        while at < number {
            let span = current.period.calendar.numbered(at);
            carry = self.carry_after(current, group, keys, span, carry, spend);
            at = at.saturating_add(1);
        }
        carry
    }

    /// What goes over at the end of `span`, into which `carry` went over.
    fn carry_after(
        &self,
        current: &Current<'_>,
        group: GroupId,
        [key, budget]: [KeyId; 2],
        span: Span,
        carry: i128,
        spend: &impl Spend,
    ) -> i128 {
        let period = self.term(current.root, span.to).and_then(|t| t.spec.cash_period.as_deref());
        let period = period.unwrap_or(current.period);
        let hard = self.term(group, span.to).and_then(|term| {
            term.spec.hard.iter().find(|(key, _)| *key == budget).map(|(_, hard)| *hard)
        });
        let Some(hard) = hard.filter(|_| period.carries()) else { return 0 };
        let spent = |g: GroupId| {
            spend.spent(g, key, span.to).saturating_sub(spend.spent(g, key, span.from))
        };
        let below = self.below_before(group, span.to);
        let consumed = below.into_iter().map(spent).fold(0, i128::saturating_add);
        period.carry(hard, hard.saturating_add(carry).saturating_sub(consumed))
    }

    /// What was in force of `group` just before `end`.
    fn term(&self, group: GroupId, end: Timestamp) -> Option<&Term> {
        self.account(group)?.terms.iter().rev().find(|term| term.from < end)
    }

    /// `group` and what was below it just before `end`.
    fn below_before(&self, group: GroupId, end: Timestamp) -> Vec<GroupId> {
        let (mut found, mut at) = (vec![group], 0);
        let mut known = Set::<GroupId>::default();
        known.insert(group);
        while let Some(parent) = found.get(at).copied() {
            let moved = self.periods.moved.iter();
            for child in self.tree.children(parent).iter().chain(moved) {
                let was = self.term(*child, end).is_some_and(|t| t.spec.parent == Some(parent));
                if was && known.insert(*child) {
                    found.push(*child);
                }
            }
            at = at.saturating_add(1);
        }
        found
    }
}

/// Terms, and what is known by them.
impl Book {
    /// `spec` is in force for `group` from `now` on.
    pub(super) fn begin_term(&mut self, group: GroupId, spec: Spec, now: Timestamp) {
        let account = self.account_mut(group);
        let last = account.terms.last();
        if last.is_some_and(|last| last.spec == spec) {
            return;
        }
        let from = last.map_or(now, |last| last.from.max(now));
        let calendar = |spec: &Spec| spec.cash_period.as_ref().map(|p| p.calendar.clone());
        let turns = last.is_none_or(|last| calendar(&last.spec) != calendar(&spec));
        account.terms.push(Term { from, spec });
        self.note_terms(group);
        if turns {
            self.periods.closed.trees.remove(&group);
            self.periods.closed.next = Timestamp::default();
        }
        self.spent_late(group, from);
        // What was superseded before its period ended, no period asks for.
        let since = self.current(group, from).map_or(Timestamp::MAX, |current| current.span.from);
        let terms = &mut self.account_mut(group).terms;
        while let Some(at) = terms.len().checked_sub(2)
            && terms.get(at).is_some_and(|term| term.from >= since || since == Timestamp::MAX)
        {
            terms.remove(at);
        }
        self.note_terms(group);
    }

    /// The object of `group` is gone: it lists nothing, and its account stays where it is.
    pub(super) fn end_term(&mut self, group: GroupId, now: Timestamp) {
        if let Some(last) = self.account(group).and_then(|account| account.terms.last()) {
            let spec = Spec { hard: Arc::default(), ..last.spec.clone() };
            self.begin_term(group, spec, now);
        }
    }

    /// Finds again what follows from the terms of `group`.
    pub(super) fn note_terms(&mut self, group: GroupId) {
        let terms = self.account(group).map_or(&[][..], |account| &account.terms);
        let has_period = terms.last().is_some_and(|term| term.spec.cash_period.is_some());
        let pairs = terms.iter().zip(terms.iter().skip(1));
        let has_moved = pairs.into_iter().any(|(a, b)| a.spec.parent != b.spec.parent);
        let Periods { roots, moved, .. } = &mut self.periods;
        for (list, is_in) in [(roots, has_period), (moved, has_moved)] {
            list.retain(|g| *g != group);
            if is_in {
                list.push(group);
            }
        }
    }

    /// The spend of `group` changed from `since` on: what went over later is not known any more.
    pub fn spent_late(&mut self, group: GroupId, since: Timestamp) {
        if self.periods.closed.trees.is_empty() {
            return;
        }
        let root = self.root_in_force(group);
        if let Some(levels) = self.periods.closed.trees.get_mut(&root) {
            levels.truncate(levels.partition_point(|level| level.begin <= since));
        }
    }

    /// The record at `position`, of this time, was taken: now and then what went over is counted, and from where on
    /// paces count.
    pub fn close_periods(&mut self, position: u64, time: Timestamp, spend: &impl Spend) {
        let is_due = time >= self.periods.closed.next || position.is_multiple_of(AGAIN);
        if !is_due || (self.periods.roots.is_empty() && self.periods.based.is_empty()) {
            return;
        }
        let based: Vec<_> = self.periods.based.keys().copied().collect();
        for root in based {
            if !self.periods.roots.contains(&root) {
                self.base(root, None, spend);
            }
        }
        let mut next = Timestamp::MAX;
        for root in self.periods.roots.clone() {
            let mut is_news = false;
            for _ in 0..AT_ONCE {
                let Some(level) = self.next_level(root, time, spend) else { break };
                is_news = true;
                let levels = self.periods.closed.trees.entry(root).or_default();
                levels.push(level);
                if levels.len() > LEVELS {
                    levels.remove(0);
                }
            }
            let is_behind = self.next_level_number(root, time).is_some();
            let span = self.period(root, time).filter(|_| !is_behind);
            next = next.min(span.map(|span| span.to).unwrap_or_default());
            // A late record lies in a period before: paces go on counting from the newest.
            let before = self.periods.based.get(&root).copied();
            let is_back = |span: &Span| {
                let of_now = self.current_of(root, before);
                of_now.is_some_and(|newest| newest.span.number > span.number)
            };
            let span = span.filter(|span| !is_back(span));
            let based = span.map(|span| Based { span, is_sound: true });
            if based.is_some() && (is_news || before != based) {
                self.base(root, based, spend);
            }
        }
        self.periods.closed.next = next;
    }

    /// The number of the level behind the newest of `root`, if that is not the last up to `time`.
    fn next_level_number(&self, root: GroupId, time: Timestamp) -> Option<i64> {
        let current = self.current(root, time)?;
        let newest = self.periods.closed.trees.get(&root).and_then(|levels| levels.last());
        let number = newest.map_or(current.first, |level| level.number).saturating_add(1);
        Some(number).filter(|number| *number <= current.span.number)
    }

    fn next_level(&self, root: GroupId, time: Timestamp, spend: &impl Spend) -> Option<Level> {
        let (number, current) = (self.next_level_number(root, time)?, self.current(root, time)?);
        let begin = current.period.calendar.numbered(number).from;
        let policy = self.term(root, begin).and_then(|term| term.spec.cash_period.as_deref());
        let mut carries = Map::default();
        if !policy.unwrap_or(current.period).carries() {
            return Some(Level { number, begin, carries });
        }
        for group in self.tree.below(root) {
            for (key, budget) in self.budgets() {
                let carry = self.carry(&current, group, [key, budget], number, spend);
                if carry != 0 {
                    carries.insert((group, key), carry);
                }
            }
        }
        Some(Level { number, begin, carries })
    }
}

impl Closed {
    /// The newest period not after `number` of which it is known what went over, and how much.
    fn known(&self, current: &Current<'_>, of: (GroupId, KeyId), number: i64) -> (i64, i128) {
        let levels = self.trees.get(&current.root).map_or(&[][..], |levels| levels);
        let level = levels.iter().rev().find(|level| level.number <= number);
        level.filter(|level| level.number >= current.first).map_or((current.first, 0), |level| {
            (level.number, level.carries.get(&of).copied().unwrap_or(0))
        })
    }
}

impl Inside {
    fn begun(&self, group: GroupId) -> i128 {
        self.begun.get(&group).copied().unwrap_or_default()
    }

    /// What `group`, which is inside, itself spent in this period by `at`.
    pub(super) fn own(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        at: Timestamp,
    ) -> i128 {
        spend.spent(group, key, at).saturating_sub(self.begun(group))
    }

    /// What all that are inside spent in this period by `at`.
    pub(super) fn consumed(&self, key: KeyId, spend: &impl Spend, at: Timestamp) -> i128 {
        let own = self.order.iter().map(|group| self.own(*group, key, spend, at));
        own.fold(0, i128::saturating_add)
    }

    /// What was used of the budget by `at`, in this period.
    pub(super) fn used(&self, book: &Book, key: KeyId, spend: &impl Spend, at: Timestamp) -> i128 {
        let mut used = Map::<GroupId, i128>::default();
        let of = |map: &Map<GroupId, i128>, g: &GroupId| map.get(g).copied().unwrap_or_default();
        for group in &self.order {
            let own = self.own(*group, key, spend, at);
            let children = book.tree.children(*group).iter();
            let given = children.map(|child| of(&used, child).max(of(&self.claims, child)));
            let sum = given.fold(own, i128::saturating_add);
            used.insert(*group, sum);
        }
        self.order.last().map_or(0, |group| of(&used, group))
    }
}
