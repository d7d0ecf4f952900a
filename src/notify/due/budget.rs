//! What is watched of one budget: parts of it, an overdraft, and when it is going to end.

use super::{AHEAD, Look, Said, Subject};
use crate::{
    domain::{
        book::{Book, Exhaustion, Mark, Outlay},
        calendar::Span,
        names::{GroupId, KeyId},
        time::{HOUR_MS, Timestamp},
    },
    notify::notice::{Notice, What},
};

/// Parts of a budget that are told, in percent; the last is all of it.
pub(super) const THRESHOLDS: [u16; 4] = [50, 80, 90, 100];
/// An end that is expected within so many milliseconds is told.
const HORIZON: i64 = 24 * HOUR_MS;
/// One that was told is taken back when it is not expected within so many.
const BEYOND: i64 = 26 * HOUR_MS;
/// A forecast is renewed when it moves by more than a tenth of what was left when it was told, and by more than so
/// many milliseconds: pods come and go.
const SLIGHT: i64 = 60_000;

/// One budget of a group.
#[derive(Clone, Copy)]
pub(super) struct Budget<'l> {
    pub(super) book: &'l Book,
    pub(super) group: GroupId,
    /// K.
    pub(super) key: KeyId,
    /// `cash/K`.
    pub(super) listed: KeyId,
    /// With what went over from the period before.
    pub(super) hard: i128,
    /// Where budgets begin anew: the period that everything is about.
    pub(super) period: Option<Span>,
    pub(super) subject: Subject<'l>,
}

impl Budget<'_> {
    pub(super) fn look(self, look: &mut Look<'_>) {
        // Of a group alone both sets would say the same.
        let whole = !self.book.children(self.group).is_empty();
        let outlay = |at| self.outlay(look, whole, at);
        let (now, soon) = (outlay(look.now), outlay(look.now.shifted(AHEAD)));
        let Self { hard, .. } = self;
        let spec = self.subject.declared.map(|declared| &declared.spec);
        let asked = |list: Option<&Option<Vec<u16>>>| match list {
            Some(Some(list)) => list.clone(),
            _ => THRESHOLDS.to_vec(),
        };
        let own = asked(spec.map(|spec| &spec.notify_cash)).into_iter();
        let own = own.map(|percent| (What::Cash(percent), Mark::Own { percent, hard }));
        let consumed = asked(spec.map(|spec| &spec.notify_consumed)).into_iter();
        let consumed = consumed.filter(|_| whole).map(|percent| {
            // Nothing is no part of a budget that was spent.
            let part = part(hard, percent).max(1);
            (What::Consumed(percent), Mark::Consumed(part))
        });
        let over = (What::Overdraft, Mark::Used(hard.saturating_add(1)));
        let marks: Vec<_> = own.chain([over]).chain(consumed).collect();
        for (what, mark) in &marks {
            self.judge(look, *what, *mark, &now, &soon);
        }
        self.forecast(look, &now);
        look.watched.insert(self.subject.scope);
        let is_watched = |what| what == What::Forecast || marks.iter().any(|(w, _)| *w == what);
        look.lift(self.subject.scope, is_watched);
        look.again(look.now.shifted(AHEAD));
        if let Some(period) = self.period {
            look.again(period.to);
        }
    }

    /// By `at`, but not beyond the period.
    fn outlay(self, look: &Look<'_>, whole: bool, at: Timestamp) -> Outlay {
        let at = self.period.map_or(at, |period| at.min(period.to.shifted(-1)));
        self.book.outlay(self.group, self.key, look.ledger.meter(), whole, at)
    }

    fn reaches(self, look: &Look<'_>, mark: Mark) -> Exhaustion {
        self.book.reaches(self.group, self.key, look.ledger.meter(), mark, look.now)
    }

    fn judge(self, look: &mut Look<'_>, what: What, mark: Mark, now: &Outlay, soon: &Outlay) {
        let stood = look.last(self.subject.scope, what).filter(|last| last.stands);
        if mark.is_passed(now) {
            // What was told of a period that is over says nothing of this one.
            if stood.is_none_or(|last| self.is_past(last)) {
                let (at, exact) = match self.reaches(look, mark) {
                    Exhaustion::At(at) if at <= look.now => (at, true),
                    Exhaustion::By(at) => (at.min(look.now), false),
                    // A credit made what was used less than it had been.
                    Exhaustion::At(_) | Exhaustion::Never => (look.now, false),
                };
                look.begin(self.subject, what, self.said(look, what, now, (at, exact)));
            }
            return;
        }
        if let Some(last) = stood {
            // Whoever told it may have had a later clock.
            let then = look.now.max(last.at);
            if !mark.is_passed(&self.outlay(look, true, then)) {
                self.end(look, last, now);
            }
        }
        if mark.is_passed(soon)
            && let Exhaustion::At(at) | Exhaustion::By(at) = self.reaches(look, mark)
        {
            look.again(at);
        }
    }

    /// What percentages of `what` are of.
    fn of(self, what: What, outlay: &Outlay) -> i128 {
        match what {
            What::Cash(_) | What::Forecast => self.hard.saturating_sub(outlay.given),
            _ => self.hard,
        }
    }

    fn said(
        self,
        look: &Look<'_>,
        what: What,
        outlay: &Outlay,
        (at, exact): (Timestamp, bool),
    ) -> Said {
        let Subject { group, key, .. } = self.subject;
        let (of, hard) = (self.of(what, outlay), look.text(self.listed, self.hard));
        let own = look.text(self.listed, of);
        let (kind, threshold, message) = match what {
            What::Consumed(percent) => (
                if percent >= 100 { "consumed.exhausted" } else { "consumed.threshold" },
                Some(percent),
                format!("{group} and the groups below it spent {percent} % of its {hard} of {key}"),
            ),
            What::Cash(percent) => (
                if percent >= 100 { "cash.exhausted" } else { "cash.threshold" },
                Some(percent),
                format!("{group} spent {percent} % of its own {own} of {key}"),
            ),
            _ => ("cash.overdraft", None, format!("{group} uses more than its {hard} of {key}")),
        };
        Said { kind, threshold, at, exact, forecast: None, hard, of, message }
    }

    /// Whether it was told of a period before the present one.
    fn is_past(self, last: &Notice) -> bool {
        self.period.is_some_and(|period| last.at < period.from)
    }

    fn end(self, look: &mut Look<'_>, last: &Notice, outlay: &Outlay) {
        let of = self.of(last.topic.what, outlay);
        let before = last.of.parse().unwrap_or(i128::MAX);
        let (kind, why) = match of > before {
            _ if self.is_past(last) => ("replenished", "a new period began".to_owned()),
            true => ("replenished", format!("there are {} now", look.text(self.listed, of))),
            false => ("withdrawn", "by what is known now".to_owned()),
        };
        let (series, _) = last.kind.split_once('.').unwrap_or((&last.kind, ""));
        look.end(last, format!("{series}.{kind}"), &why);
    }

    /// When the group's own cash ends if all goes on as it is, if that is soon.
    fn forecast(self, look: &mut Look<'_>, now: &Outlay) {
        let mark = Mark::Own { percent: 100, hard: self.hard };
        if mark.is_passed(now) {
            // It has come, and that is told.
            return;
        }
        let last = look.last(self.subject.scope, What::Forecast).filter(|last| last.stands);
        let within =
            |look: &Look<'_>, ms| mark.is_passed(&self.outlay(look, false, look.now.shifted(ms)));
        let at = match within(look, BEYOND) {
            false => None,
            true => match self.reaches(look, mark) {
                Exhaustion::At(at) => Some(at),
                Exhaustion::By(_) | Exhaustion::Never => None,
            },
        };
        match (at, last) {
            (None, Some(last)) => self.end(look, last, now),
            (None, None) => {}
            (Some(at), Some(last)) if !has_moved(last, at) && !self.is_past(last) => {}
            (Some(at), None) if look.now.shifted(HORIZON) < at => look.again(at.shifted(-HORIZON)),
            (Some(at), _) => {
                let rate = look.ledger.meter().rate(self.group, self.key);
                let Subject { group, key, .. } = self.subject;
                let of = self.of(What::Forecast, now);
                let message = format!(
                    "{group}'s own {} of {key} are used up at {at} if the {} that run now run on",
                    look.text(self.listed, of),
                    look.text(self.key, rate),
                );
                let hard = look.text(self.listed, self.hard);
                let (kind, threshold, exact) = ("cash.forecast", None, false);
                let (forecast, at) = (Some(at), look.now);
                let said = Said { kind, threshold, at, exact, forecast, hard, of, message };
                look.begin(self.subject, What::Forecast, said);
            }
        }
    }
}

/// Whether `at` is another end than the one that was told, for whoever plans by it.
fn has_moved(last: &Notice, at: Timestamp) -> bool {
    let Some(told) = last.forecast else { return true };
    let left = told.since(last.at).max(0);
    at.since(told).abs() > SLIGHT.max(left / 10)
}

/// `percent` of `hard`, rounded up: below it the threshold is not reached.
fn part(hard: i128, percent: u16) -> i128 {
    hard.saturating_mul(i128::from(percent)).saturating_add(99).div_euclid(100)
}
