//! Time budgets: the same carve-out as everything else, of another quantity.
//!
//! Under `cash/K` what a group uses is what it spent of K, and what it claims is its budget: a parent has given
//! a child `max(cash(child), used(child))`. Only that spend is a function of time: the meter says what each group
//! spent by an instant, and the tree says who counts in whom (`pace.rs`: how to look at few of them). Where budgets
//! begin anew, every question is about the period that its instant lies in (`periods.rs`).

use super::{Book, Pace, periods::Inside};
use crate::domain::{
    names::{GroupId, KeyId, Map},
    quantity::Milli,
    time::{HOUR_MS, Timestamp},
};
use std::fmt;

/// What the meter knows: spend in milli-units × milliseconds since each account was opened.
pub trait Spend {
    /// What `group` itself spent of `key` by `at`; never less at a later instant.
    fn spent(&self, group: GroupId, key: KeyId, at: Timestamp) -> i128;

    /// Whether `group` itself spent anything of any key by `at`, or is spending.
    fn has_spent(&self, group: GroupId, at: Timestamp) -> bool;

    /// How `group`'s own spend of `key` goes on. `None`: not known; then every question looks at every group.
    /// Who answers this tells the book of every change ([`Book::paced`]).
    fn pace(&self, _group: GroupId, _key: KeyId) -> Option<Pace> {
        None
    }

    /// Spend of `key` inside the hour that begins at `hour`, to be asked often; `None`: ask [`Self::spent`].
    fn course(&self, _key: KeyId, _hour: Timestamp) -> Option<Course> {
        None
    }

    /// Whether [`Self::spent`] is exact at instants inside the hour that begins at `hour`, not only at its ends.
    fn is_remembered(&self, _hour: Timestamp) -> bool {
        true
    }
}

/// What groups spent of one key inside one hour, piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Course {
    groups: Map<GroupId, Vec<Piece>>,
}

/// `amount` milli-units from `from` to `to`; with no length, `amount` milli-units × milliseconds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First instant inside.
    pub from: Timestamp,
    /// First instant after it.
    pub to: Timestamp,
    /// How much.
    pub amount: i128,
}

impl Course {
    /// Adds a piece of a group's spend.
    pub fn add(&mut self, group: GroupId, piece: Piece) {
        self.groups.entry(group).or_default().push(piece);
    }
}

impl Spend for Course {
    fn spent(&self, group: GroupId, _: KeyId, at: Timestamp) -> i128 {
        let pieces = self.groups.get(&group).map_or(&[][..], |pieces| pieces);
        let of = |piece: &Piece| match piece.to.since(piece.from) {
            // As in the meter: what is dated at an instant was used before the next one.
            0 if piece.from < at => piece.amount,
            _ => piece.amount.saturating_mul(i128::from(piece.to.min(at).since(piece.from).max(0))),
        };
        pieces.iter().map(of).fold(0, i128::saturating_add)
    }

    fn has_spent(&self, group: GroupId, _: Timestamp) -> bool {
        self.groups.contains_key(&group)
    }
}

/// When a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhaustion {
    /// From this millisecond on, as far as is known: past, present or to come.
    At(Timestamp),
    /// Within the hour before this instant, so long ago that the pods that tell the millisecond were forgotten.
    By(Timestamp),
    /// Not before the end of time, or of the period, if all goes on as it is.
    Never,
}

/// Something that a budget comes to, and never leaves again while its terms stay: amounts are milli-units ×
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// So much of it is used: spent by the group itself, or given to its children.
    Used(i128),
    /// So much was spent by the group and everything below it.
    Consumed(i128),
    /// The group itself spent something, and of what `hard` leaves to it beside its children this many percent.
    Own {
        /// Of a hundred, or more.
        percent: u16,
        /// The budget.
        hard: i128,
    },
}

/// What a group spent and gave by an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlay {
    /// Its own spend.
    pub own: i128,
    /// What its children got or took, whichever is more.
    pub given: i128,
    /// What the whole subtree spent; 0 where nobody asked.
    pub consumed: i128,
}

impl Mark {
    /// Whether `outlay` has come to it.
    #[must_use]
    pub fn is_passed(self, outlay: &Outlay) -> bool {
        let Outlay { own, given, consumed } = *outlay;
        match self {
            Self::Used(amount) => own.saturating_add(given) >= amount,
            Self::Consumed(amount) => consumed >= amount,
            Self::Own { percent, hard } => {
                // own ≥ percent/100 × (hard − given), which no later instant undoes.
                let percent = i128::from(percent);
                let spent = own.saturating_mul(100).saturating_add(given.saturating_mul(percent));
                own > 0 && spent >= hard.saturating_mul(percent)
            }
        }
    }
}

/// The instant, `by` an instant, or `never`.
impl fmt::Display for Exhaustion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => at.fmt(f),
            Self::By(at) => write!(f, "by {at}"),
            Self::Never => f.write_str("never"),
        }
    }
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
        let paced = self.budget_of(key).and_then(|b| self.used_by_pace(group, key, b, at));
        paced.unwrap_or_else(|| {
            let inside = self.inside(group, key, spend, at);
            self.used_by(inside.as_ref(), group, key, spend, at)
        })
    }

    /// The same, where it is known what the period is, if there is any.
    fn used_by(
        &self,
        inside: Option<&Inside>,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        at: Timestamp,
    ) -> i128 {
        let Some(budget) = self.budget_of(key) else { return self.consumed(group, key, spend, at) };
        // Behind its end a period may be asked for, too: then paces are of another.
        let is_now = inside.is_none_or(|inside| inside.span.contains(at));
        if let Some(used) = self.used_by_pace(group, key, budget, at).filter(|_| is_now) {
            return used;
        }
        if let Some(inside) = inside {
            return inside.used(self, key, spend, at);
        }
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

    /// What `group` spent of `key` itself by `at`, gave its children, and, with `whole`, what its subtree spent.
    #[must_use]
    pub fn outlay(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        whole: bool,
        at: Timestamp,
    ) -> Outlay {
        let own = self.budget_own(group, key, spend, at);
        let given = self.budget_used(group, key, spend, at).saturating_sub(own);
        let consumed = if whole { self.budget_consumed(group, key, spend, at) } else { 0 };
        Outlay { own, given, consumed }
    }

    /// The same, where it is known what the period is, if there is any.
    fn outlay_by(
        &self,
        inside: Option<&Inside>,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        whole: bool,
        at: Timestamp,
    ) -> Outlay {
        let own = match inside {
            Some(inside) => inside.own(group, key, spend, at),
            None => spend.spent(group, key, at),
        };
        let given = self.used_by(inside, group, key, spend, at).saturating_sub(own);
        let consumed = match inside {
            _ if !whole => 0,
            Some(inside) => inside.consumed(key, spend, at),
            None => self.consumed(group, key, spend, at),
        };
        Outlay { own, given, consumed }
    }

    fn passes(
        &self,
        inside: Option<&Inside>,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        mark: Mark,
        at: Timestamp,
    ) -> bool {
        match mark {
            Mark::Used(amount) => self.used_by(inside, group, key, spend, at) >= amount,
            Mark::Own { .. } | Mark::Consumed(_) => {
                let whole = matches!(mark, Mark::Consumed(_));
                mark.is_passed(&self.outlay_by(inside, group, key, spend, whole, at))
            }
        }
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
        let limit = self.budget_limit(group, key, spend, at)?;
        Some(limit.saturating_sub(self.budget_used(group, key, spend, at)))
    }

    /// The first millisecond since its account was opened, or of the period that `at` lies in, at which `group`'s
    /// budget for `key` is used up, if all goes on as it is now; `None` where it lists no `cash/K`.
    #[must_use]
    pub fn exhaustion(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        at: Timestamp,
    ) -> Option<Exhaustion> {
        let limit = self.budget_limit(group, key, spend, at)?;
        Some(self.reaches(group, key, spend, Mark::Used(limit), at))
    }

    /// The same for any mark: when the budget comes to it, in the period that `within` lies in.
    #[must_use]
    pub fn reaches(
        &self,
        group: GroupId,
        key: KeyId,
        spend: &impl Spend,
        mark: Mark,
        within: Timestamp,
    ) -> Exhaustion {
        let inside = self.inside(group, key, spend, within);
        let inside = inside.as_ref();
        let opened = self.opened(group).unwrap_or(Timestamp::MIN);
        let (since, last) = match inside {
            Some(inside) => (opened.max(inside.span.from), inside.span.to.shifted(-1)),
            None => (opened, Timestamp::MAX),
        };
        let used_up = |at| self.passes(inside, group, key, spend, mark, at);
        if last < since || !used_up(last) {
            return Exhaustion::Never;
        }
        if used_up(since) {
            return Exhaustion::At(since);
        }
        // Use never falls, so the hour is found by halving, then the millisecond in it: 21 and 22 times.
        let hour_at = |n: i64| Timestamp::MIN.shifted(n.saturating_mul(HOUR_MS));
        let number = |at: Timestamp| at.millis().div_euclid(HOUR_MS).saturating_add(1);
        let next = first(number(since), number(last), |n| used_up(hour_at(n)));
        let hour = hour_at(next.saturating_sub(1));
        if !spend.is_remembered(hour) {
            return Exhaustion::By(hour_at(next).min(last.shifted(1)));
        }
        let course = spend.course(key, hour);
        let millis = first(0, HOUR_MS, |n| {
            let at = hour.shifted(n);
            match &course {
                Some(course) => {
                    let joined = Joined { before: spend, hour, course };
                    self.passes(inside, group, key, &joined, mark, at)
                }
                None => used_up(at),
            }
        });
        Exhaustion::At(hour.shifted(millis))
    }

    /// When the nearest budget for `key` at or above `group` is used up if `more` milli-units run in `group` from `now`
    /// on, beside all that goes on as it is; and whose budget it is. `None` where nobody lists `cash/K`.
    #[must_use]
    pub fn exhaustion_with(
        &self,
        group: GroupId,
        key: KeyId,
        more: Milli,
        spend: &impl Spend,
        now: Timestamp,
    ) -> Option<(GroupId, Exhaustion)> {
        let budget = self.budget_of(key)?;
        let payer = self.lister(group, budget)?;
        let limit = self.budget_limit(payer, key, spend, now)?;
        let inside = self.inside(payer, key, spend, now);
        let inside = inside.as_ref();
        // Between the two nobody has a budget, so what the one spends the other does.
        let used_up = |after: i64| {
            let spent = self.used_by(inside, payer, key, spend, now.shifted(after));
            spent.saturating_add(more.saturating_mul(i128::from(after))) >= limit
        };
        let end = inside.map_or(Timestamp::MAX, |inside| inside.span.to.shifted(-1));
        let most = end.since(now).max(0);
        if !used_up(most) {
            return Some((payer, Exhaustion::Never));
        }
        if used_up(0) {
            return self.exhaustion(payer, key, spend, now).map(|end| (payer, end));
        }
        Some((payer, Exhaustion::At(now.shifted(first(0, most, used_up)))))
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
                continue;
            }
            let limit = limit.saturating_add(self.carried(group, key, spend, at));
            let used_up = match self.bounds(group, key, budget, at) {
                Some((low, _)) if low >= limit => true,
                Some((_, high)) if high < limit => false,
                _ => self.budget_used(group, key, spend, at) >= limit,
            };
            if used_up {
                return Some(group);
            }
        }
        None
    }
}

/// The first number in `low..=high` of which `holds`, if it holds of every number after it and of `high`.
fn first(mut low: i64, mut high: i64, holds: impl Fn(i64) -> bool) -> i64 {
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { high = middle } else { low = middle.saturating_add(1) }
    }
    high
}

/// Spend up to an hour, and inside it.
struct Joined<'s, S> {
    before: &'s S,
    hour: Timestamp,
    course: &'s Course,
}

impl<S: Spend> Spend for Joined<'_, S> {
    fn spent(&self, group: GroupId, key: KeyId, at: Timestamp) -> i128 {
        let before = self.before.spent(group, key, self.hour);
        before.saturating_add(self.course.spent(group, key, at))
    }

    fn has_spent(&self, group: GroupId, at: Timestamp) -> bool {
        self.before.has_spent(group, at)
    }
}
