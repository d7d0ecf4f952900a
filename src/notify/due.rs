//! Which notices are due: pure, by the ledger, an instant, and what was told before. The same three give the same
//! notices with the same ids, whoever asks and however often.
//!
//! ```text
//!  each budget:  50 %──80 %──90 %──100 %──over──▶     each at its millisecond, and again only when it was over
//!  each limit:   nearly full, unreviewed; models that were not admitted   when a record says so
//!  each cluster: silent          the log: quarantined records, stopped
//! ```

mod budget;
mod limit;
mod model;
mod source;

use super::notice::{Notice, Scope, Told, Topic, What};
use crate::domain::{
    admission::amount,
    book::{Book, Declaration},
    ledger::Ledger,
    names::{GroupId, KeyId},
    time::Timestamp,
};
use budget::Budget;
use model::Models;
use std::collections::BTreeSet;

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

/// A look that is taken in parts, between which the ledger may go on: whoever waits for it waits for a part only.
#[derive(Debug, Default)]
pub struct Parts {
    due: Due,
    watched: BTreeSet<Scope>,
    models: Option<Models>,
    /// The last group that was looked at.
    last: Option<GroupId>,
}

impl Due {
    /// What is due at `now`, if `told` was told. `stopped`: why nothing more is folded, if so.
    #[must_use]
    pub fn at(ledger: &Ledger, told: &Told, now: Timestamp, stopped: Option<&str>) -> Self {
        let mut parts = Parts::default();
        parts.groups(ledger, told, now, usize::MAX);
        parts.end(ledger, told, now, stopped)
    }
}

impl Parts {
    /// Looks at the next `most` groups; whether there are more.
    pub fn groups(&mut self, ledger: &Ledger, told: &Told, now: Timestamp, most: usize) -> bool {
        let Some(book) = ledger.book() else { return false };
        let mut look = self.look(ledger, told, now);
        // In the order of their numbers: who gets an account meanwhile makes nobody come twice.
        let last = self.last;
        let mut accounts = book.accounts().filter(|group| last.is_none_or(|last| *group > last));
        for group in accounts.by_ref().take(most) {
            self.last = Some(group);
            if let Some(declared) = book.declaration(group) {
                look.group(book, group, declared);
            }
        }
        let more = accounts.next().is_some();
        let Look { due, watched, models, .. } = look;
        (self.due, self.watched, self.models) = (due, watched, Some(models));
        more
    }

    /// The rest, once all groups were looked at.
    #[must_use]
    pub fn end(
        mut self,
        ledger: &Ledger,
        told: &Told,
        now: Timestamp,
        stopped: Option<&str>,
    ) -> Due {
        let mut look = self.look(ledger, told, now);
        source::look(&mut look, stopped);
        let gone = told.standing().map(|(scope, _)| scope).filter(|s| !look.watched.contains(s));
        for scope in gone.collect::<BTreeSet<_>>() {
            look.lift(scope, |_| false);
        }
        look.due
    }

    /// Goes on with what there is so far.
    fn look<'l>(&mut self, ledger: &'l Ledger, told: &'l Told, now: Timestamp) -> Look<'l> {
        let newest = ledger.meter().newest();
        let now = newest.filter(|n| *n <= now.shifted(SKEW)).map_or(now, |newest| newest.max(now));
        let (due, watched) = (std::mem::take(&mut self.due), std::mem::take(&mut self.watched));
        let models = self.models.take();
        let models = models.unwrap_or_else(|| Models::new(ledger.meter().known_resources()));
        Look { ledger, told, now, due, watched, models }
    }
}

/// One look at a ledger.
struct Look<'l> {
    ledger: &'l Ledger,
    told: &'l Told,
    now: Timestamp,
    due: Due,
    /// Everything that is watched.
    watched: BTreeSet<Scope>,
    models: Models,
}

/// What notices of a scope have in common.
#[derive(Clone, Copy)]
struct Subject<'l> {
    scope: Scope,
    group: &'l str,
    key: &'l str,
    /// Of a quota object.
    declared: Option<&'l Declaration>,
}

/// What one notice says beside that.
struct Said {
    kind: &'static str,
    threshold: Option<u16>,
    /// Since when.
    at: Timestamp,
    exact: bool,
    /// When it is expected to come to its end.
    forecast: Option<Timestamp>,
    hard: String,
    of: i128,
    message: String,
}

impl<'l> Look<'l> {
    /// Looks at every key of what is in force; a change that is only proposed is told of when it is declared.
    fn group(&mut self, book: &'l Book, group: GroupId, declared: &'l Declaration) {
        let names = self.ledger.names();
        for (listed, hard) in declared.spec.hard.iter() {
            let key = names.key_name(*listed);
            let subject = Subject {
                scope: Scope::of(&[&declared.uid.to_string(), key]),
                group: names.group_name(group),
                key,
                declared: Some(declared),
            };
            match names.budgeted(*listed) {
                Some(key) => {
                    let carried = book.carried(group, key, self.ledger.meter(), self.now);
                    let (hard, period) =
                        (hard.saturating_add(carried), book.period(group, self.now));
                    Budget { book, group, key, listed: *listed, hard, period, subject }.look(self);
                }
                None => limit::look(self, book, (group, *listed, *hard), subject),
            }
        }
        model::look(self, book, group, declared);
    }

    fn text(&self, key: KeyId, milli: i128) -> String {
        amount(self.ledger.names(), key, milli)
    }

    /// What was told last of a mark.
    fn last(&self, scope: Scope, what: What) -> Option<&'l Notice> {
        self.told.of(scope)?.get(&what)
    }

    /// It holds from now on, or still and otherwise than was told.
    fn begin(&mut self, subject: Subject<'_>, what: What, said: Said) {
        let topic = Topic { scope: subject.scope, what };
        let number = self.last(topic.scope, what).map_or(1, |last| last.number.saturating_add(1));
        self.tell(Notice {
            id: topic.id(number),
            topic,
            number,
            kind: said.kind.to_owned(),
            stands: true,
            group: subject.group.to_owned(),
            key: subject.key.to_owned(),
            threshold: said.threshold,
            uid: subject.declared.map(|declared| declared.uid.to_string()),
            generation: subject.declared.map(|declared| declared.generation),
            at: said.at,
            exact: said.exact,
            forecast: said.forecast,
            hard: said.hard,
            of: said.of.to_string(),
            message: said.message,
            position: self.ledger.position(),
        });
    }

    /// It holds no more.
    fn end(&mut self, last: &Notice, kind: String, why: &str) {
        let number = last.number.saturating_add(1);
        self.tell(Notice {
            id: last.topic.id(number),
            number,
            kind,
            stands: false,
            at: self.now,
            exact: false,
            forecast: None,
            message: format!("no more: {} ({why})", last.message),
            position: self.ledger.position(),
            ..last.clone()
        });
    }

    /// What was told of `scope` and is not watched any more is over.
    fn lift(&mut self, scope: Scope, is_watched: impl Fn(What) -> bool) {
        let told = self.told.of(scope).into_iter().flat_map(|told| told.values());
        for last in told.filter(|last| last.stands && !is_watched(last.topic.what)) {
            let (series, _) = last.kind.split_once('.').unwrap_or((&last.kind, ""));
            self.end(last, format!("{series}.lifted"), "nobody watches it any more");
        }
    }

    /// A ledger that has read less than the one of the last notice knows nothing newer.
    fn tell(&mut self, notice: Notice) {
        let Topic { scope, what } = notice.topic;
        if self.last(scope, what).is_none_or(|last| last.position <= notice.position) {
            self.due.notices.push(notice);
        }
    }

    fn again(&mut self, at: Timestamp) {
        self.due.next = Some(self.due.next.map_or(at, |next| next.min(at)));
    }
}

#[cfg(test)]
mod tests;
