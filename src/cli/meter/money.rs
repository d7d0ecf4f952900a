//! Budgets of a quota file against what was metered: cash left, and the instant at which it runs out.

use crate::{
    cli::{
        Error,
        quota::{check, file::QuotaObject},
    },
    domain::{
        admission::Refusal,
        book::{Book, Exhaustion, Stamp},
        event::{Period, QuotaDeclared},
        ledger::Ledger,
        text::Text,
        time::Timestamp,
    },
};

/// One budget of one group, in milli-units × milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) group: String,
    /// The key whose spend is limited.
    pub(super) key: String,
    pub(super) cash: i128,
    /// What went over from the period before, where the tree's budgets begin anew.
    pub(super) carried: i128,
    /// The period that the numbers are of, where they begin anew.
    pub(super) period: Option<Period>,
    /// What is taken of it: used by the group itself, given to children or used by them.
    pub(super) used: i128,
    /// What the group itself used.
    pub(super) spent: i128,
    /// What the whole subtree used.
    pub(super) consumed: i128,
    /// What is left that is not given to children; negative after it was overspent.
    pub(super) left: i128,
    pub(super) exhaustion: Exhaustion,
}

/// Every budget that `quotas` give, counted from `since`, the beginning of what was metered, and what is left of
/// it `at` an instant.
///
/// # Errors
/// A quota that does not fit its tree.
pub(super) fn budgets(
    ledger: &Ledger,
    quotas: Vec<QuotaObject>,
    since: Timestamp,
    at: Timestamp,
) -> Result<Vec<Budget>, Error> {
    let mut names = ledger.names().clone();
    let mut book = Book::default();
    let spend = ledger.meter().from_the_beginning();
    let stamp = Stamp { time: since, ..Stamp::default() };
    let quotas = check::parents_first(quotas);
    for quota in &quotas {
        let group = names.group(&quota.name);
        let failed = |why: String| Error::input(&quota.place, why);
        let fact = QuotaDeclared {
            uid: crate::domain::quota::uid_of(&quota.name).into(),
            resource_version: Text::EMPTY,
            generation: 1,
            spec: quota.spec.clone(),
        };
        book.quota_declared(&mut names, stamp, group, &fact, &spend)
            .map_err(|e| failed(e.to_string()))?;
        if let Some(invalid) = book.invalid(group) {
            return Err(failed(Refusal::fault(&names, group, &invalid.fault).message));
        }
    }
    let mut budgets = Vec::new();
    for quota in &quotas {
        let group = names.group(&quota.name);
        for (key, budget) in book.budgets() {
            let line = book.line(group, budget);
            let left = book.cash_left(group, key, &spend, at);
            let exhaustion = book.exhaustion(group, key, &spend, at);
            let (Some(cash), Some(left), Some(exhaustion)) = (line.limit, left, exhaustion) else {
                continue;
            };
            budgets.push(Budget {
                group: quota.name.clone(),
                key: names.key_name(key).to_owned(),
                cash,
                carried: book.carried(group, key, &spend, at),
                period: book.period(group, at).map(Period::from),
                used: book.budget_used(group, key, &spend, at),
                spent: book.budget_own(group, key, &spend, at),
                consumed: book.budget_consumed(group, key, &spend, at),
                left,
                exhaustion,
            });
        }
    }
    Ok(budgets)
}
