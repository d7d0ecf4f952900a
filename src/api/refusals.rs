//! `/v1/refusals`: what was refused and why, newest first. Read off the log's newest records, a window at a time; the
//! ledger keeps no words.

use super::{
    Api, Seen, Shared,
    access::Sees,
    answer::{Page, Paged, answer, token},
    events::tenant,
    problem::Problem,
    usage::Scope,
    view::View,
};
use crate::{
    domain::{
        event::{Data, Kind, ObjectRef, Position, WorkloadsRefused},
        names::{GroupId, Set},
        text::Text,
        time::Timestamp,
    },
    event_log::{
        EventLog, Reader,
        codec::{Decoded, Decoder},
    },
};
use axum::{Extension, extract::State, http::HeaderMap, response::Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Refusals of a page, unless asked for fewer, and at most.
const USUAL: usize = 100;
pub(super) const MOST: usize = 1000;
/// Records that are read at once, and for one page: a tenth of a second's work.
const WINDOW: u64 = 10_000;
const WINDOWS: u64 = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    group: Option<String>,
    #[serde(default)]
    scope: Scope,
    at: Option<String>,
}

/// The newest first; a page may be empty and others follow.
#[derive(Serialize, JsonSchema)]
pub(super) struct Refusals {
    refusals: Vec<Refusal>,
}

/// So many times in a row.
#[derive(Serialize, JsonSchema)]
struct Refusal {
    /// The record that tells it.
    position: Position,
    cluster: String,
    workload: ObjectRef<'static>,
    group: String,
    reason: String,
    message: String,
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

/// Which refusals are asked for.
struct Wanted {
    /// Of these groups; `None`: of all.
    groups: Option<Set<GroupId>>,
    /// By records that were published by then.
    told_by: Option<Timestamp>,
}

pub(super) async fn refusals(
    State(api): Shared,
    Extension(sees): Seen,
    headers: HeaderMap,
    asked: Paged<Asked>,
) -> Result<Response, Problem> {
    let limit = asked.limit(USUAL, MOST)?;
    let before = asked.after()?.map(|[at]| {
        let wrong = || Problem::wrong("page", &at, "is no token of this list; begin without one");
        at.parse::<Position>().map_err(|_| wrong())
    });
    let before = before.transpose()?;
    let Asked { group, scope, at: told_by } = asked.of;
    let told_by = told_by.map(|text| {
        let wrong = |why| Problem::wrong("at", &text, &format!("is no instant: {why}"));
        Timestamp::parse(&text).map_err(wrong)
    });
    let told_by = told_by.transpose()?;
    // The group is looked for first, and the position that the answer is of is taken.
    let (groups, position, at) = api
        .ask(sees.clone(), move |view, at| {
            let group = group.map(|name| view.group(&name)).transpose()?;
            let groups = group.map(|group| scope.of(view, group));
            Ok((groups, view.ledger().position(), at))
        })
        .await?;
    let wanted = Wanted { groups, told_by };
    let mut end = before.map_or(position, |before| before.saturating_sub(1)).min(position);
    let mut refusals = Vec::new();
    let _place = api.place().await?;
    for _ in 0..WINDOWS {
        if end == 0 || refusals.len() >= limit {
            break;
        }
        let begin = end.saturating_sub(WINDOW);
        let mut window = read(&api, &sees, &wanted, begin.saturating_add(1), end).await?;
        window.reverse();
        refusals.extend(window);
        end = begin;
    }
    if let Some(last) = limit.checked_sub(1).and_then(|last| refusals.get(last))
        && refusals.len() > limit
    {
        // Those of one record stay together.
        let last = last.position;
        refusals.retain(|refusal| refusal.position >= last);
        end = last.saturating_sub(1);
    }
    let next = (end > 0).then(|| token(&[&end.saturating_add(1).to_string()]));
    let list = Refusals { refusals };
    answer(&headers, (position, at), &Page { at, position, list, next })
}

/// The refusals of the records from `first` to `last`, oldest first.
async fn read(
    api: &Api,
    sees: &Sees,
    wanted: &Wanted,
    first: Position,
    last: Position,
) -> Result<Vec<Refusal>, Problem> {
    let failed = |why: crate::event_log::ReadError| Problem::internal(&why);
    let (source, name) = (&api.source, Kind::WorkloadsRefused.type_name());
    let mut reader = source.log.read(first).map_err(failed)?;
    let (mut decoder, mut refusals) = (Decoder::default(), Vec::new());
    while let Some(records) = reader.next().await.map_err(failed)? {
        let mut batches = Vec::new();
        for (position, raw) in records.iter().take_while(|(position, _)| *position <= last) {
            let Ok(scanned) = raw.scan() else { continue };
            if *scanned.type_name != *name {
                continue;
            }
            if let Ok(Decoded::Event(event)) = decoder.decode(&scanned)
                && wanted.told_by.is_none_or(|at| event.recorded_at <= at)
                && let Data::WorkloadsRefused(batch) = event.data
            {
                batches.push((position, batch));
            }
        }
        if !batches.is_empty() {
            let ledger = source.projection.ledger();
            let view = View::new(&ledger, sees)?;
            batches.into_iter().for_each(|(position, batch)| {
                refusals.extend(shown(&view, wanted, position, batch));
            });
        }
        if records.next_position() > last {
            break;
        }
    }
    Ok(refusals)
}

fn shown<'b>(
    view: &'b View<'_>,
    wanted: &'b Wanted,
    position: Position,
    batch: WorkloadsRefused<'b>,
) -> impl Iterator<Item = Refusal> + 'b {
    let is_wanted = move |name: &Text<'_>| {
        let group = view.known(name);
        (view.is_whole() || group.is_some())
            && wanted.groups.as_ref().is_none_or(|all| group.is_some_and(|g| all.contains(&g)))
    };
    let refusals = batch.refusals.into_iter().filter(move |refused| is_wanted(&refused.group));
    refusals.map(move |refused| Refusal {
        position,
        cluster: refused.cluster.to_string(),
        workload: refused.workload.into_owned(),
        group: refused.group.to_string(),
        reason: refused.reason.to_string(),
        message: tenant::message(view, &refused.message).into_owned(),
        count: refused.count,
        first: refused.first,
        last: refused.last,
    })
}
