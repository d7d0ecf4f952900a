//! The status of each group as numbers and conditions: pure, by the ledger at an instant.
//!
//! Amounts are written as refusals write them: `cash/K` in unit-hours, bytes in binary units.

use super::Statuses;
use crate::{
    domain::{
        admission::{Refusal, amount},
        book::{Book, Exhaustion},
        calendar::Span,
        ledger::Ledger,
        names::{GroupId, KeyId},
        time::Timestamp,
    },
    k8s::crd::{BizGroupResourceQuotaStatus, Condition, Summary, Window},
};
use std::collections::{BTreeMap, BTreeSet};

/// The statuses of all groups that have a quota object, at `now`. What `shown` says of conditions that have not
/// changed since stays.
#[must_use]
pub fn all(ledger: &Ledger, now: Timestamp, shown: &Statuses) -> Statuses {
    let mut parts = Parts::default();
    parts.read(ledger, now, shown, usize::MAX);
    parts.statuses
}

/// The same some groups at a time, for a ledger that others wait for meanwhile.
#[derive(Debug, Default)]
pub struct Parts {
    last: Option<GroupId>,
    /// What was read so far.
    pub statuses: Statuses,
}

impl Parts {
    /// Reads `most` further groups; says whether there are more.
    pub fn read(&mut self, ledger: &Ledger, now: Timestamp, shown: &Statuses, most: usize) -> bool {
        let Some(book) = ledger.book() else { return false };
        // In the order of their numbers: who gets an account meanwhile makes nobody come twice.
        let last = self.last;
        let mut accounts = book.accounts().filter(|group| last.is_none_or(|last| *group > last));
        for group in accounts.by_ref().take(most) {
            self.last = Some(group);
            if generation(book, group).is_some() {
                let name = ledger.names().group_name(group).to_owned();
                let before = shown.get(&name).map_or(&[][..], |status| &status.conditions);
                let status = Of { ledger, book, group, now }.status(before);
                self.statuses.insert(name, status);
            }
        }
        accounts.next().is_some()
    }
}

/// The generation of the newest object, in force or not; `None`: there is none.
fn generation(book: &Book, group: GroupId) -> Option<i64> {
    let invalid = book.invalid(group).map(|invalid| invalid.object.generation);
    invalid.or_else(|| book.declaration(group).map(|declared| declared.generation))
}

/// One group at one instant.
struct Of<'l> {
    ledger: &'l Ledger,
    book: &'l Book,
    group: GroupId,
    now: Timestamp,
}

/// What is said of one key.
struct Row {
    key: KeyId,
    hard: Option<i128>,
    used: i128,
    self_used: i128,
    unreviewed: i128,
    budget: Option<Budget>,
}

/// What is said of a key `cash/K` besides.
struct Budget {
    consumed: i128,
    /// What went over from the period before.
    carried: i128,
    period: Option<Span>,
    exhaustion: Option<Exhaustion>,
}

impl Row {
    /// What may be used: hard, and of a budget what went over.
    fn limit(&self) -> Option<i128> {
        let carried = self.budget.as_ref().map_or(0, |budget| budget.carried);
        self.hard.map(|hard| hard.saturating_add(carried))
    }
}

impl Of<'_> {
    fn status(&self, before: &[Condition]) -> BizGroupResourceQuotaStatus {
        let rows = self.rows();
        let amounts = |of: &dyn Fn(&Row) -> Option<i128>| {
            let amounts = rows.iter().filter_map(|row| {
                let (key, amount) = (row.key, of(row)?);
                Some((self.name(key).to_owned(), self.amount(key, amount)))
            });
            amounts.collect::<BTreeMap<_, _>>()
        };
        BizGroupResourceQuotaStatus {
            hard: amounts(&|row| row.hard),
            used: amounts(&|row| Some(row.used)),
            self_used: amounts(&|row| Some(row.self_used)),
            consumed: amounts(&|row| row.budget.as_ref().map(|budget| budget.consumed)),
            carried: amounts(&|row| {
                row.budget.as_ref().filter(|b| b.period.is_some()).map(|b| b.carried)
            }),
            cash_period: self
                .book
                .period(self.group, self.now)
                .map(|span| Window { from: span.from.to_string(), to: span.to.to_string() }),
            unreviewed: amounts(&|row| (row.unreviewed != 0).then_some(row.unreviewed)),
            summary: self.summary(&rows),
            last_reconcile_time: Some(self.now.to_string()),
            conditions: self.conditions(&rows, before),
            observed_generation: generation(self.book, self.group).unwrap_or_default(),
            position: self.ledger.position(),
        }
    }

    /// Every key that is listed or used.
    fn rows(&self) -> Vec<Row> {
        let listed = self.book.declaration(self.group).map_or(&[][..], |d| &d.spec.hard);
        let mut keys: BTreeSet<KeyId> = listed.iter().map(|(key, _)| *key).collect();
        keys.extend(self.book.keys(self.group));
        let rows = keys.into_iter().map(|key| self.row(key));
        rows.filter(|row| row.hard.is_some() || row.used != 0).collect()
    }

    fn row(&self, key: KeyId) -> Row {
        let Self { book, group, now, .. } = *self;
        let (meter, line) = (self.ledger.meter(), book.line(group, key));
        let Some(budgeted) = self.ledger.names().budgeted(key) else {
            let unreviewed = book.unreviewed(group, key);
            let (used, self_used) = (line.used, line.self_used);
            return Row { key, hard: line.limit, used, self_used, unreviewed, budget: None };
        };
        let budget = Budget {
            consumed: book.budget_consumed(group, budgeted, meter, now),
            carried: book.carried(group, budgeted, meter, now),
            period: book.period(group, now),
            exhaustion: book.exhaustion(group, budgeted, meter, now),
        };
        Row {
            key,
            hard: line.limit,
            used: book.budget_used(group, budgeted, meter, now),
            self_used: book.budget_own(group, budgeted, meter, now),
            unreviewed: 0,
            budget: Some(budget),
        }
    }

    fn name(&self, key: KeyId) -> &str {
        self.ledger.names().key_name(key)
    }

    fn amount(&self, key: KeyId, milli: i128) -> String {
        amount(self.ledger.names(), key, milli)
    }

    fn summary(&self, rows: &[Row]) -> Summary {
        let of_hard = |row: &Row| {
            let used = self.amount(row.key, row.used);
            row.hard.map_or_else(
                || used.clone(),
                |hard| format!("{used}/{}", self.amount(row.key, hard)),
            )
        };
        let one = |name: &str| rows.iter().find(|row| self.name(row.key) == name);
        let cards = rows.iter().filter(|row| is_card(self.name(row.key)));
        let left = rows.iter().filter(|row| row.budget.is_some()).filter_map(|row| {
            let resource = self.name(row.key).strip_prefix("cash/")?;
            let left = row.limit()?.saturating_sub(row.used);
            Some(format!("{resource}={}", self.amount(row.key, left)))
        });
        Summary {
            cpu: one("limits.cpu").map(of_hard).unwrap_or_default(),
            memory: one("requests.memory").map(of_hard).unwrap_or_default(),
            gpu: cards.map(of_hard).collect::<Vec<_>>().join(" "),
            cash_left: left.collect::<Vec<_>>().join(" "),
        }
    }

    fn conditions(&self, rows: &[Row], before: &[Condition]) -> Vec<Condition> {
        let said = [self.ready(), self.within_hard(rows), self.cash_available(rows)];
        let conditions = said.into_iter().map(|Said { kind, holds, reason, message }| {
            let status = if holds { "True" } else { "False" };
            let same = before.iter().find(|b| b.kind == kind && b.status == status);
            let since =
                same.map_or_else(|| self.now.to_string(), |b| b.last_transition_time.clone());
            Condition {
                kind: kind.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message,
                last_transition_time: since,
                observed_generation: generation(self.book, self.group).unwrap_or_default(),
            }
        });
        conditions.collect()
    }

    fn ready(&self) -> Said {
        let kind = "Ready";
        let Some(invalid) = self.book.invalid(self.group) else {
            let message = "the object is in force".to_owned();
            return Said { kind, holds: true, reason: "InForce", message };
        };
        let refusal = Refusal::fault(self.ledger.names(), self.group, &invalid.fault);
        let message = match self.book.declaration(self.group) {
            Some(_) => format!("{}; the last valid object stays in force", refusal.message),
            None => refusal.message,
        };
        Said { kind, holds: false, reason: refusal.reason.name(), message }
    }

    fn within_hard(&self, rows: &[Row]) -> Said {
        let over = rows.iter().filter(|row| row.budget.is_none()).filter_map(|row| {
            let hard = row.hard.filter(|hard| row.used > *hard)?;
            let (used, hard) = (self.amount(row.key, row.used), self.amount(row.key, hard));
            Some(format!("{}: {used} of {hard}", self.name(row.key)))
        });
        let over: Vec<_> = over.collect();
        let (reason, message) = match over.is_empty() {
            true => ("WithinHard", String::new()),
            false => ("OverHard", format!("{}; nothing more is admitted", over.join(", "))),
        };
        Said { kind: "WithinHard", holds: over.is_empty(), reason, message }
    }

    fn cash_available(&self, rows: &[Row]) -> Said {
        let kind = "CashAvailable";
        let budgets = rows.iter().filter_map(|row| Some((row, row.budget.as_ref()?)));
        let told: Vec<_> = budgets.map(|(row, budget)| self.cash(row, budget)).collect();
        if told.is_empty() {
            let message = "no budget is set".to_owned();
            return Said { kind, holds: true, reason: "NoBudget", message };
        }
        let holds = told.iter().all(|(left, _)| *left);
        let reason = if holds { "CashLeft" } else { "CashExhausted" };
        let message = told.into_iter().map(|(_, words)| words).collect::<Vec<_>>().join("; ");
        Said { kind, holds, reason, message }
    }

    /// Whether a budget has something left, and until when.
    fn cash(&self, row: &Row, budget: &Budget) -> (bool, String) {
        let left = row.limit().is_none_or(|limit| row.used < limit);
        let name = self.name(row.key);
        let words = match (left, budget.exhaustion) {
            (true, Some(Exhaustion::At(at) | Exhaustion::By(at))) => {
                format!("{name} lasts until {at} if all goes on as it is")
            }
            (true, _) => match budget.period {
                Some(period) => format!("{name} lasts until the period ends at {}", period.to),
                None => format!("{name} lasts"),
            },
            (false, Some(Exhaustion::At(at))) => format!("{name} is used up since {at}"),
            (false, Some(Exhaustion::By(at))) => format!("{name} was used up by {at}"),
            (false, _) => format!("{name} is used up"),
        };
        (left, words)
    }
}

/// What is said of one condition.
struct Said {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

/// Whether a key is about cards of any model: `limits.` before an extended name, without a model behind it.
fn is_card(key: &str) -> bool {
    let name = key.strip_prefix("limits.").and_then(|resource| resource.split_once('/'));
    name.is_some_and(|(_, name)| !name.contains('.'))
}

#[cfg(test)]
mod tests;
