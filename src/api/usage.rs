//! `/v1/usage`: unit-hours of whole hours, by hour, day, month or in one sum, of groups alone or with what is below them.

use super::{
    Seen, Shared,
    answer::{self, Paged, token},
    problem::Problem,
    view::View,
};
use crate::domain::{
    history::Unit as Period,
    hours::NanoHours,
    ledger::Ledger,
    names::{GroupId, KeyId, Set},
    quota::Unit,
    time::{HOUR_MS, Timestamp},
};
use axum::{Extension, extract::State, http::HeaderMap, response::Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Lines of a page, unless asked for fewer, and at most.
const USUAL: usize = 1000;
pub(super) const MOST: usize = 10_000;
/// Periods in one question: a year of hours of one group, or a year of days of all. The fold waits meanwhile.
const PERIODS: usize = 8784;
const PERIODS_OF_ALL: usize = 366;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    group: Option<String>,
    key: Option<String>,
    from: Option<String>,
    to: Option<String>,
    by: Option<By>,
    #[serde(default)]
    scope: Scope,
}

/// The length of a line.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "By")]
pub(super) enum By {
    Hour,
    Day,
    Month,
}

/// Whose use counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scope {
    /// The group's own workloads.
    #[default]
    Own,
    /// These, and those of all groups below.
    Subtree,
}

impl Scope {
    /// The groups that it takes in.
    pub(super) fn of(self, view: &View<'_>, group: GroupId) -> Set<GroupId> {
        match self {
            Self::Subtree => view.subtree(group).into_iter().collect(),
            Self::Own => std::iter::once(group).collect(),
        }
    }
}

/// What is asked, checked.
struct Question {
    group: Option<String>,
    key: Option<String>,
    scope: Scope,
    /// Where periods begin, and where the last one ends.
    bounds: Vec<Timestamp>,
    limit: usize,
    /// The last line of the page before: group, key, from.
    after: Option<[String; 3]>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Usage {
    from: Timestamp,
    to: Timestamp,
    by: Option<By>,
    scope: Scope,
    lines: Vec<Line>,
}

/// So much was used in a period; nothing is no line.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UsageLine")]
struct Line {
    group: String,
    key: String,
    unit: &'static str,
    from: Timestamp,
    to: Timestamp,
    /// Rounded, as everywhere.
    hours: String,
    /// Milli-units × milliseconds.
    exact: String,
}

pub(super) async fn usage(
    State(api): Shared,
    Extension(sees): Seen,
    headers: HeaderMap,
    asked: Paged<Asked>,
) -> Result<Response, Problem> {
    let page = move |view: &View<'_>, now| {
        let (by, scope) = (asked.of.by, asked.of.scope);
        let question = Question::of(asked, now)?;
        let (lines, more) = question.lines(view)?;
        let last = lines.last().filter(|_| more);
        let next = last.map(|last| token(&[&last.group, &last.key, &last.from.to_string()]));
        let from = question.bounds.first().copied().unwrap_or(now);
        let to = question.bounds.last().copied().unwrap_or(now);
        let list = Usage { from, to, by, scope, lines };
        Ok(answer::Page { at: now, position: view.ledger().position(), list, next })
    };
    api.answer(sees, &headers, page).await
}

impl Question {
    fn of(asked: Paged<Asked>, now: Timestamp) -> Result<Self, Problem> {
        let limit = asked.limit(USUAL, MOST)?;
        let after = asked.after()?;
        let Asked { group, key, from, to, by, scope } = asked.of;
        let over = now.shifted(now.millis().rem_euclid(HOUR_MS).saturating_neg());
        let to = to.as_deref().map_or(Ok(over), |to| instant("to", to))?;
        if to > over {
            let why = format!("lies behind {over}, the last whole hour; give an earlier one");
            return Err(Problem::wrong("to", &to.to_string(), &why));
        }
        let hours = match by {
            None | Some(By::Hour) => 24,
            Some(By::Day) => 24 * 31,
            Some(By::Month) => 24 * 366,
        };
        let usual = to.shifted(-hours * HOUR_MS);
        let from = from.as_deref().map_or(Ok(usual), |from| instant("from", from))?;
        if from >= to {
            let why = format!("does not lie before to, {to}");
            return Err(Problem::wrong("from", &from.to_string(), &why));
        }
        let most = group.as_ref().map_or(PERIODS_OF_ALL, |_| PERIODS);
        let bounds = bounds(from, to, by, most)?;
        Ok(Self { group, key, scope, bounds, limit, after })
    }
}

/// A whole hour.
fn instant(parameter: &str, text: &str) -> Result<Timestamp, Problem> {
    let instant = Timestamp::parse(text)
        .map_err(|why| Problem::wrong(parameter, text, &format!("is no instant: {why}")))?;
    match instant.millis().rem_euclid(HOUR_MS) {
        0 => Ok(instant),
        _ => Err(Problem::wrong(parameter, text, "is no whole hour, and only such are kept")),
    }
}

/// `from`, every end of a period between, and `to`.
pub(super) fn bounds(
    from: Timestamp,
    to: Timestamp,
    by: Option<By>,
    most: usize,
) -> Result<Vec<Timestamp>, Problem> {
    let period = match by {
        None => return Ok(vec![from, to]),
        Some(By::Hour) => Period::Hour,
        Some(By::Day) => Period::Day,
        Some(By::Month) => Period::Month,
    };
    let ends = std::iter::successors(Some(from), |at| Some(period.end_of(*at)));
    let mut bounds: Vec<_> = ends.take_while(|at| *at < to).take(most.saturating_add(1)).collect();
    if bounds.len() > most {
        let why =
            format!("lies more than {most} periods before {to}; name a group, or ask for less");
        return Err(Problem::wrong("from", &from.to_string(), &why));
    }
    bounds.push(to);
    Ok(bounds)
}

impl Question {
    /// The lines of a page by group, key and time, and whether more follow.
    fn lines(&self, view: &View<'_>) -> Result<(Vec<Line>, bool), Problem> {
        let (ledger, mut lines) = (view.ledger(), Vec::new());
        for (name, group) in self.groups(view)? {
            let members = match self.scope {
                Scope::Subtree => view.subtree(group),
                Scope::Own => vec![group],
            };
            for (key, id) in self.keys(ledger, &members) {
                if self.is_behind(name, key) {
                    continue;
                }
                let totals = self.totals(ledger, &members, id)?;
                for ((from, to), exact) in self.periods().zip(totals) {
                    let is_told = self.after.as_ref().is_some_and(|[group, told, last]| {
                        group == name && told == key && from.to_string() <= *last
                    });
                    if exact == 0 || is_told {
                        continue;
                    }
                    if lines.len() == self.limit {
                        return Ok((lines, true));
                    }
                    lines.push(Line {
                        group: name.to_owned(),
                        key: key.to_owned(),
                        unit: Unit::of(key).name(),
                        from,
                        to,
                        hours: NanoHours::of(exact).to_string(),
                        exact: exact.to_string(),
                    });
                }
            }
        }
        Ok((lines, false))
    }

    fn periods(&self) -> impl Iterator<Item = (Timestamp, Timestamp)> + '_ {
        self.bounds.iter().copied().zip(self.bounds.iter().copied().skip(1))
    }

    /// The groups that are asked about and not told yet, by name.
    fn groups<'l>(&self, view: &View<'l>) -> Result<Vec<(&'l str, GroupId)>, Problem> {
        if let Some(name) = &self.group {
            let group = view.group(name)?;
            return Ok(vec![(view.name(group), group)]);
        }
        let mut groups: Vec<_> = view.groups().map(|g| (view.name(g), g)).collect();
        groups.sort_unstable_by_key(|(name, _)| *name);
        let told = |name: &str| self.after.as_ref().is_some_and(|[last, ..]| name < last.as_str());
        groups.retain(|(name, _)| !told(name));
        Ok(groups)
    }

    /// The keys that any of these groups used, by name.
    fn keys<'l>(&self, ledger: &'l Ledger, groups: &[GroupId]) -> BTreeMap<&'l str, KeyId> {
        let names = ledger.names();
        let used = groups.iter().filter_map(|group| ledger.meter().sums(*group));
        let keys = used.flat_map(|sums| sums.keys()).map(|key| (names.key_name(key), key));
        keys.filter(|(name, _)| self.key.as_ref().is_none_or(|key| key == name)).collect()
    }

    /// Whether a page before has told everything about this key.
    fn is_behind(&self, name: &str, key: &str) -> bool {
        self.after.as_ref().is_some_and(|[group, told, _]| group == name && key < told.as_str())
    }

    /// What these groups used together in each period.
    fn totals(
        &self,
        ledger: &Ledger,
        groups: &[GroupId],
        key: KeyId,
    ) -> Result<Vec<i128>, Problem> {
        let overflow = || Problem::internal(&"a sum does not fit into 128 bits");
        let mut until = vec![0_i128; self.bounds.len()];
        for sums in groups.iter().filter_map(|group| ledger.meter().sums(*group)) {
            let Some((slot, history)) = sums.known_slot(key).zip(sums.history()) else { continue };
            for (total, at) in until.iter_mut().zip(&self.bounds) {
                let used = history.usage(slot, *at).map_err(|_| overflow())?.unwrap_or_default();
                *total = total.checked_add(used).ok_or_else(overflow)?;
            }
        }
        let grown = until.iter().zip(until.iter().skip(1));
        grown.map(|(before, after)| after.checked_sub(*before).ok_or_else(overflow)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn periods_end_with_the_calendar_and_with_the_question() {
        let (from, to) = (at("2026-11-30T22:00:00Z"), at("2026-12-02T01:00:00Z"));
        let days = bounds(from, to, Some(By::Day), PERIODS).unwrap();
        assert_eq!(days, [from, at("2026-12-01T00:00:00Z"), at("2026-12-02T00:00:00Z"), to]);
        let months = bounds(from, to, Some(By::Month), PERIODS).unwrap();
        assert_eq!(months, [from, at("2026-12-01T00:00:00Z"), to]);
        assert_eq!(bounds(from, to, Some(By::Hour), PERIODS).unwrap().len(), 28);
        assert_eq!(bounds(from, to, None, 1).unwrap(), [from, to]);
        assert!(bounds(at("1990-01-01T00:00:00Z"), to, Some(By::Hour), PERIODS).is_err());
    }
}
