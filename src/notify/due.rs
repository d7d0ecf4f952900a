//! Which notices are due: pure, by the ledger, an instant, and what was told before. The same three give the same
//! notices with the same ids, whoever asks and however often.
//!
//! ```text
//!  own spend of own cash ──50 %──80 %──90 %──100 %──▶     each at its millisecond, and again only when it was over
//!  spend of the subtree  ──50 %──80 %──90 %──100 %──▶
//!  used of the budget    ───────────────────────────over──▶
//! ```

use super::notice::{Notice, Scope, Told, Topic, What};
use crate::domain::{
    admission::amount,
    book::{Book, Declaration, Exhaustion, Mark, Outlay},
    event::Position,
    ledger::Ledger,
    names::{GroupId, KeyId},
    time::Timestamp,
};
use std::collections::BTreeSet;

/// Parts of a budget that are told, in percent; the last is all of it.
pub const THRESHOLDS: [u16; 4] = [50, 80, 90, 100];
/// What will be crossed later than so many milliseconds from now is looked for then: of most groups it is enough to
/// know that this is not soon.
const AHEAD: i64 = 10_000;
/// The API server's clock, which dates what happens, may be so many milliseconds before ours: up to there its
/// newest instant is taken for now, since every earlier one would have to be counted anew from the pods.
const SKEW: i64 = 1_000;

/// What is due at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// What has changed since it was last told.
    pub notices: Vec<Notice>,
    /// When to look again if nothing happens.
    pub next: Option<Timestamp>,
}

impl Due {
    /// What is due at `now`, if `told` was told.
    #[must_use]
    pub fn at(ledger: &Ledger, told: &Told, now: Timestamp) -> Self {
        let Some(book) = ledger.book() else { return Self::default() };
        let newest = ledger.meter().newest();
        let now = newest.filter(|n| *n <= now.shifted(SKEW)).map_or(now, |newest| newest.max(now));
        let mut look =
            Look { ledger, book, told, now, due: Self::default(), watched: BTreeSet::new() };
        for group in book.accounts() {
            let Some(declared) = book.declaration(group) else { continue };
            // What is in force; a change that is only proposed is told of when it is declared.
            for (budget, hard) in declared.spec.hard.iter() {
                if let Some(key) = ledger.names().budgeted(*budget) {
                    let scope = scope(ledger, declared, *budget);
                    Budget { group, key, budget: *budget, hard: *hard, declared, scope }
                        .look(&mut look);
                }
            }
        }
        let gone = told.standing().map(|(scope, _)| scope).filter(|s| !look.watched.contains(s));
        for scope in gone.collect::<BTreeSet<_>>() {
            look.lift(scope, |_| false);
        }
        look.due
    }
}

fn scope(ledger: &Ledger, declared: &Declaration, key: KeyId) -> Scope {
    Scope::of(&[&declared.uid.to_string(), ledger.names().key_name(key)])
}

/// One look at a ledger.
struct Look<'l> {
    ledger: &'l Ledger,
    book: &'l Book,
    told: &'l Told,
    now: Timestamp,
    due: Due,
    /// Everything that is watched.
    watched: BTreeSet<Scope>,
}

/// One budget of a group.
#[derive(Clone, Copy)]
struct Budget<'l> {
    group: GroupId,
    key: KeyId,
    budget: KeyId,
    hard: i128,
    declared: &'l Declaration,
    scope: Scope,
}

impl Budget<'_> {
    fn look(self, look: &mut Look<'_>) {
        // Of a group alone both sets would say the same.
        let whole = !look.book.children(self.group).is_empty();
        let outlay = |at| look.book.outlay(self.group, self.key, look.ledger.meter(), whole, at);
        let (now, soon) = (outlay(look.now), outlay(look.now.shifted(AHEAD)));
        let Self { hard, .. } = self;
        let own = THRESHOLDS.map(|percent| (What::Cash(percent), Mark::Own { percent, hard }));
        let consumed = THRESHOLDS.map(|percent| {
            // Nothing is no part of a budget that was spent.
            let part = part(hard, percent).max(1);
            (What::Consumed(percent), Mark::Consumed(part))
        });
        let over = (What::Overdraft, Mark::Used(hard.saturating_add(1)));
        let consumed = consumed.into_iter().filter(|_| whole);
        let marks: Vec<_> = own.into_iter().chain([over]).chain(consumed).collect();
        for (what, mark) in &marks {
            self.judge(look, *what, *mark, &now, &soon);
        }
        look.watched.insert(self.scope);
        look.lift(self.scope, |what| marks.iter().any(|(watched, _)| *watched == what));
        look.again(look.now.shifted(AHEAD));
    }

    fn judge(self, look: &mut Look<'_>, what: What, mark: Mark, now: &Outlay, soon: &Outlay) {
        let topic = Topic { scope: self.scope, what };
        let last = look.told.of(self.scope).and_then(|told| told.get(&what));
        let stood = last.filter(|last| last.stands);
        let reaches = || look.book.reaches(self.group, self.key, look.ledger.meter(), mark);
        if mark.is_passed(now) {
            if stood.is_none() {
                let (at, exact) = match reaches() {
                    Exhaustion::At(at) if at <= look.now => (at, true),
                    Exhaustion::By(at) => (at.min(look.now), false),
                    // A credit made what was used less than it had been.
                    Exhaustion::At(_) | Exhaustion::Never => (look.now, false),
                };
                let begun = self.begins(look, topic, last, now, (at, exact));
                look.tell(begun);
            }
            return;
        }
        if let Some(last) = stood {
            // Whoever told it may have had a later clock.
            let then = look.now.max(last.at);
            let outlay = look.book.outlay(self.group, self.key, look.ledger.meter(), true, then);
            if !mark.is_passed(&outlay) {
                let ended = self.ends(look, last, now);
                look.tell(ended);
            }
        }
        if mark.is_passed(soon)
            && let Exhaustion::At(at) | Exhaustion::By(at) = reaches()
        {
            look.again(at);
        }
    }

    /// What percentages of `what` are of.
    fn of(self, what: What, outlay: &Outlay) -> i128 {
        match what {
            What::Cash(_) => self.hard.saturating_sub(outlay.given),
            What::Overdraft | What::Consumed(_) => self.hard,
        }
    }

    fn begins(
        self,
        look: &Look<'_>,
        topic: Topic,
        last: Option<&Notice>,
        outlay: &Outlay,
        (at, exact): (Timestamp, bool),
    ) -> Notice {
        let names = look.ledger.names();
        let text = |milli| amount(names, self.budget, milli);
        let (group, key) = (names.group_name(self.group), names.key_name(self.budget));
        let of = self.of(topic.what, outlay);
        let (kind, threshold, message) = match topic.what {
            What::Cash(percent) => (
                if percent >= 100 { "cash.exhausted" } else { "cash.threshold" },
                Some(percent),
                format!("{group} spent {percent} % of its own {} of {key}", text(of)),
            ),
            What::Overdraft => (
                "cash.overdraft",
                None,
                format!("{group} uses more than its {} of {key}", text(self.hard)),
            ),
            What::Consumed(percent) => (
                if percent >= 100 { "consumed.exhausted" } else { "consumed.threshold" },
                Some(percent),
                format!(
                    "{group} and the groups below it spent {percent} % of its {} of {key}",
                    text(self.hard)
                ),
            ),
        };
        let number = last.map_or(1, |last| last.number.saturating_add(1));
        Notice {
            id: topic.id(number),
            topic,
            number,
            kind: kind.to_owned(),
            stands: true,
            group: group.to_owned(),
            key: key.to_owned(),
            threshold,
            generation: Some(self.declared.generation),
            at,
            exact,
            hard: text(self.hard),
            of: of.to_string(),
            message,
            position: look.ledger.position(),
        }
    }

    fn ends(self, look: &Look<'_>, last: &Notice, outlay: &Outlay) -> Notice {
        let (names, what) = (look.ledger.names(), last.topic.what);
        let of = self.of(what, outlay);
        let text = |milli| amount(names, self.budget, milli);
        let before = last.of.parse().unwrap_or(i128::MAX);
        let (kind, why) = match of > before {
            true => ("replenished", format!("there are {} now", text(of))),
            false => ("withdrawn", "a correction took it back".to_owned()),
        };
        let series = if matches!(what, What::Consumed(_)) { "consumed" } else { "cash" };
        let mut ended =
            last.ended(format!("{series}.{kind}"), &why, look.now, look.ledger.position());
        ended.generation = Some(self.declared.generation);
        ended.hard = text(self.hard);
        ended.of = of.to_string();
        ended
    }
}

impl Look<'_> {
    /// What was told of `scope` and is not watched any more is over.
    fn lift(&mut self, scope: Scope, is_watched: impl Fn(What) -> bool) {
        let position = self.ledger.position();
        let told = self.told.of(scope).into_iter().flat_map(|told| told.values());
        for last in told.filter(|last| last.stands && !is_watched(last.topic.what)) {
            let (series, _) = last.kind.split_once('.').unwrap_or((&last.kind, ""));
            let (kind, why) = (format!("{series}.lifted"), "nobody watches it any more");
            self.tell(last.ended(kind, why, self.now, position));
        }
    }

    /// A ledger that has read less than the one of the last notice knows nothing newer.
    fn tell(&mut self, notice: Notice) {
        let Topic { scope, what } = notice.topic;
        let last = self.told.of(scope).and_then(|told| told.get(&what));
        if last.is_none_or(|last| last.position <= notice.position) {
            self.due.notices.push(notice);
        }
    }

    fn again(&mut self, at: Timestamp) {
        self.due.next = Some(self.due.next.map_or(at, |next| next.min(at)));
    }
}

impl Notice {
    /// What follows it when it holds no more.
    fn ended(&self, kind: String, why: &str, at: Timestamp, position: Position) -> Self {
        let number = self.number.saturating_add(1);
        Self {
            id: self.topic.id(number),
            number,
            kind,
            stands: false,
            at,
            exact: false,
            message: format!("no more: {} ({why})", self.message),
            position,
            ..self.clone()
        }
    }
}

/// `percent` of `hard`, rounded up: below it the threshold is not reached.
fn part(hard: i128, percent: u16) -> i128 {
    hard.saturating_mul(i128::from(percent)).saturating_add(99).div_euclid(100)
}

#[cfg(test)]
mod tests;
