//! `/v1/pods`: what runs, or ran at an instant, newest first; as far as pods are remembered.

use super::{
    Seen, Shared,
    answer::{Page, Paged, token},
    problem::Problem,
    usage::Scope,
    view::View,
    workloads::written,
};
use crate::domain::{
    meter::Meter,
    names::{GroupId, Set, Uid},
    time::Timestamp,
};
use axum::{Extension, extract::State, http::HeaderMap, response::Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{cmp::Reverse, collections::BTreeMap};

/// Pods of a page, unless asked for fewer.
pub(super) const MOST: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    group: Option<String>,
    #[serde(default)]
    scope: Scope,
    at: Option<String>,
}

/// What runs at the page's instant.
#[derive(Serialize, JsonSchema)]
pub(super) struct Pods {
    pods: Vec<Running>,
}

/// A pod, and what it holds.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunningPod")]
struct Running {
    cluster: String,
    uid: String,
    /// Its top-level workload's; its own, if it has none.
    workload: String,
    group: String,
    /// Since when it holds this, and in this group.
    from: Timestamp,
    /// Key by key, as Kubernetes writes it.
    held: BTreeMap<String, String>,
}

/// Newest first, then by cluster and uid.
type Place<'l> = (Reverse<Timestamp>, &'l str, Uid);

pub(super) async fn pods(
    State(api): Shared,
    Extension(sees): Seen,
    headers: HeaderMap,
    asked: Paged<Asked>,
) -> Result<Response, Problem> {
    let limit = asked.limit(MOST, MOST)?;
    let after = asked.after()?.map(|[from, cluster, uid]| {
        let wrong =
            |_| Problem::wrong("page", &from, "is no token of this list; begin without one");
        Ok::<_, Problem>((Timestamp::parse(&from).map_err(wrong)?, cluster, Uid::of(&uid)))
    });
    let after = after.transpose()?;
    let Asked { group, scope, at } = asked.of;
    let page = move |view: &View<'_>, now| {
        let of = group.map(|name| Ok::<_, Problem>(scope.of(view, view.group(&name)?)));
        let of = of.transpose()?;
        let at = at.map_or(Ok(now), |at| instant(&at, view.ledger().meter(), now))?;
        let after = after.as_ref().map(|(from, cluster, uid)| (Reverse(*from), &**cluster, *uid));
        let (pods, next) = page_of(view, of.as_ref(), at, after, limit);
        Ok(Page { at, position: view.ledger().position(), list: Pods { pods }, next })
    };
    api.answer(sees, &headers, page).await
}

/// An instant that is remembered.
fn instant(text: &str, meter: &Meter, now: Timestamp) -> Result<Timestamp, Problem> {
    let wrong = |why: &str| Problem::wrong("at", text, why);
    let at = Timestamp::parse(text).map_err(|why| wrong(&format!("is no instant: {why}")))?;
    if at > now {
        return Err(wrong(&format!("lies ahead; it is {now}")));
    }
    match meter.forgotten_until().filter(|until| at < *until) {
        Some(until) => {
            Err(wrong(&format!("lies before {until}: pods of that time were forgotten")))
        }
        None => Ok(at),
    }
}

fn page_of<'l>(
    view: &View<'l>,
    of: Option<&Set<GroupId>>,
    at: Timestamp,
    after: Option<Place<'_>>,
    limit: usize,
) -> (Vec<Running>, Option<String>) {
    let names = view.ledger().names();
    let is_wanted = |group| view.shows(group) && of.is_none_or(|of| of.contains(&group));
    let mut running = Vec::new();
    view.ledger().meter().each_segment(at, |pod, group, measure, segment| {
        if segment.to.is_none() && is_wanted(group) {
            let place: Place<'l> =
                (Reverse(segment.from), names.cluster_name(pod.cluster()), pod.id.uid);
            if after.is_none_or(|after| place > after) {
                running.push((place, pod, group, measure));
            }
        }
    });
    let more = running.len() > limit;
    if more {
        running.select_nth_unstable_by(limit, |(one, ..), (other, ..)| one.cmp(other));
        running.truncate(limit);
    }
    running.sort_unstable_by_key(|(one, ..)| *one);
    let last = running.last().filter(|_| more);
    let next = last.map(|((Reverse(from), cluster, uid), ..)| {
        token(&[&from.to_string(), cluster, &uid.to_string()])
    });
    let told =
        running.into_iter().map(|((Reverse(from), cluster, uid), pod, group, measure)| Running {
            cluster: cluster.to_owned(),
            uid: uid.to_string(),
            workload: pod.workload().uid.to_string(),
            group: view.name(group).to_owned(),
            from,
            held: written(view, &measure.usage),
        });
    (told.collect(), next)
}
