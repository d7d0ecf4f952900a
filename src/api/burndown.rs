//! `/v1/burndown`: how a budget came to what is left of it, instant by instant, by the limits and the tree of now.

use super::{Seen, Shared, problem::Problem, usage, view::View};
use crate::domain::{
    hours::NanoHours,
    names::{GroupId, KeyId},
    quota::Unit,
    time::{HOUR_MS, Timestamp},
};
use axum::{
    Extension,
    extract::{Query, State, rejection::QueryRejection},
    http::HeaderMap,
    response::Response,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Points of one answer: a fortnight of hours, or a year of days. Each looks at the group's subtree.
const POINTS: usize = 366;
/// Steps between them where nobody says where to begin; the first and the last may lie between two steps.
const STEPS: i64 = 364;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    group: String,
    key: String,
    from: Option<String>,
    to: Option<String>,
    by: Option<usage::By>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Burndown")]
pub(super) struct Course {
    at: Timestamp,
    position: u64,
    group: String,
    /// `cash/K`.
    key: String,
    unit: &'static str,
    points: Vec<Point>,
}

/// How a budget stood. Unit-hours, rounded as everywhere; of a budget that begins anew those of its period.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BurndownPoint")]
struct Point {
    at: Timestamp,
    /// Own use, and what was given to children.
    used: String,
    /// Hard, and what went over, less used.
    left: String,
}

pub(super) async fn burndown(
    State(api): Shared,
    Extension(sees): Seen,
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(asked) = asked?;
    api.answer(sees, &headers, move |view, now| asked.course(view, now)).await
}

impl Asked {
    fn course(self, view: &View<'_>, now: Timestamp) -> Result<Course, Problem> {
        let group = view.group(&self.group)?;
        let no_budget = || Problem::wrong("key", &self.key, "is no budget that the group lists");
        let budgeted = budgeted(view, group, &self.key).ok_or_else(no_budget)?;
        let (book, meter) = (view.ledger().book().ok_or_else(no_budget)?, view.ledger().meter());
        let points = self.instants(view, group, now)?.into_iter().map(|at| {
            let limit = book.budget_limit(group, budgeted, meter, at)?;
            let used = book.budget_used(group, budgeted, meter, at);
            let left = limit.saturating_sub(used);
            let [used, left] = [used, left].map(|amount| NanoHours::of(amount).to_string());
            Some(Point { at, used, left })
        });
        let points = points.collect::<Option<_>>().ok_or_else(no_budget)?;
        let position = view.ledger().position();
        let unit = Unit::of(&self.key).name();
        Ok(Course { at: now, position, group: self.group, key: self.key, unit, points })
    }

    /// From `from`, else the begin of the period or of the account, to `to`, else now.
    fn instants(
        &self,
        view: &View<'_>,
        group: GroupId,
        now: Timestamp,
    ) -> Result<Vec<Timestamp>, Problem> {
        let by = self.by.unwrap_or(usage::By::Day);
        let to = self.to.as_deref().map_or(Ok(now), |to| instant("to", to))?;
        if to > now {
            return Err(Problem::wrong("to", &to.to_string(), &format!("lies ahead; it is {now}")));
        }
        let from = match self.from.as_deref() {
            Some(from) => instant("from", from)?,
            None => {
                let book = view.ledger().book();
                let opened = book.and_then(|book| book.opened(group));
                let period = book.and_then(|book| book.period(group, to)).map(|span| span.from);
                let longest = STEPS * hours(by) * HOUR_MS;
                let begin = opened.max(period).unwrap_or(to).max(to.shifted(-longest));
                begin.min(to)
            }
        };
        if from > to {
            let why = format!("lies behind to, {to}");
            return Err(Problem::wrong("from", &from.to_string(), &why));
        }
        usage::bounds(from, to, Some(by), POINTS)
    }
}

/// The hours of the shortest period of this length.
const fn hours(by: usage::By) -> i64 {
    match by {
        usage::By::Hour => 1,
        usage::By::Day => 24,
        usage::By::Month => 24 * 28,
    }
}

/// K, if the group lists `cash/K`.
fn budgeted(view: &View<'_>, group: GroupId, key: &str) -> Option<KeyId> {
    let (ledger, key) = (view.ledger(), view.ledger().names().known_key(key)?);
    let budgeted = ledger.names().budgeted(key)?;
    ledger.book()?.line(group, key).limit.map(|_| budgeted)
}

fn instant(parameter: &str, text: &str) -> Result<Timestamp, Problem> {
    Timestamp::parse(text)
        .map_err(|why| Problem::wrong(parameter, text, &format!("is no instant: {why}")))
}
