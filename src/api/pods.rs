//! `/v1/pods/{uid}`: what is known of one pod, segment by segment, with the unit-hours that each is billed.

use super::{Seen, Shared, problem::Problem, view::View, workloads::written};
use crate::domain::{
    amounts::product,
    event::Period,
    hours::NanoHours,
    names::{ObjectId, Uid},
    pod,
    time::Timestamp,
};
use axum::{
    Extension,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::HeaderMap,
    response::Response,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    cluster: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pod {
    at: Timestamp,
    position: u64,
    cluster: String,
    uid: String,
    /// Its top-level workload's; its own, if it has none.
    workload: String,
    state: &'static str,
    /// First container's start, on the node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    ran_from: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<Stop>,
    segments: Vec<Segment>,
}

#[derive(Serialize, JsonSchema)]
struct Stop {
    /// The billed instant.
    time: Timestamp,
    earliest: Timestamp,
    latest: Timestamp,
    /// How it is known.
    basis: String,
    /// The record that told it.
    position: u64,
}

/// Constant resources, group and models, from `from` to `to`.
#[derive(Serialize, JsonSchema)]
struct Segment {
    from: Timestamp,
    /// Absent while the pod runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Timestamp>,
    group: String,
    /// It runs, or nobody saw it stop.
    provisional: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncertain: Option<Period>,
    /// Key by key, as Kubernetes writes it.
    held: BTreeMap<String, String>,
    /// Unit-hours by now.
    hours: BTreeMap<String, String>,
    /// The same in milli-units × milliseconds.
    exact: BTreeMap<String, String>,
}

pub(super) async fn one(
    State(api): Shared,
    Extension(sees): Seen,
    headers: HeaderMap,
    uid: Result<Path<String>, PathRejection>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let (Path(uid), Query(Asked { cluster })) = (uid?, asked?);
    let pod = move |view: &View<'_>, at| {
        let names = view.ledger().names();
        let among = names.clusters().filter(|id| {
            cluster.as_ref().is_none_or(|wanted| is_called(names.cluster_name(*id), wanted))
        });
        let found = among.map(|cluster| ObjectId { cluster, uid: Uid::of(&uid) });
        let mut found = found.filter(|id| is_shown(view, *id));
        let unknown = || Problem::not_found(format!("no pod that is shown to you is `{uid}`"));
        let id = found.next().ok_or_else(unknown)?;
        if let Some(other) = found.next() {
            let (one, other) = (names.cluster_name(id.cluster), names.cluster_name(other.cluster));
            let why = format!("stands for a pod of {one} and one of {other}; give cluster");
            return Err(Problem::wrong("uid", &uid, &why));
        }
        drop(found);
        Pod::of(view, id, at).ok_or_else(unknown)
    };
    api.answer(sees, &headers, pod).await
}

/// `east` or `/clusters/east`.
fn is_called(source: &str, name: &str) -> bool {
    source == name || source.strip_prefix("/clusters/").is_some_and(|cluster| cluster == name)
}

/// A pod that was ever elsewhere is not shown: its segments would tell of that time.
fn is_shown(view: &View<'_>, id: ObjectId) -> bool {
    let mut groups = view.ledger().meter().groups_of(id).into_iter();
    view.ledger().meter().pod(id).is_some() && groups.all(|group| view.shows(group))
}

impl Pod {
    fn of(view: &View<'_>, id: ObjectId, at: Timestamp) -> Option<Self> {
        let (ledger, mut segments) = (view.ledger(), Vec::new());
        let meter = ledger.meter();
        let pod = meter.pod(id)?;
        meter.segments_of(id, |group, measure, segment| {
            let end = segment.to.map_or(at, |to| to.min(at));
            let length = end.since(segment.from).max(0);
            let (mut hours, mut exact) = (BTreeMap::new(), BTreeMap::new());
            for (key, amount) in measure.usage.iter() {
                let Some(sum) = product(amount, length) else { continue };
                let name = ledger.names().key_name(key);
                hours.insert(name.to_owned(), NanoHours::of(sum).to_string());
                exact.insert(name.to_owned(), sum.to_string());
            }
            segments.push(Segment {
                from: segment.from,
                to: segment.to,
                group: view.name(group).to_owned(),
                provisional: segment.provisional,
                uncertain: segment.uncertain,
                held: written(view, &measure.usage),
                hours,
                exact,
            });
        });
        Some(Self {
            at,
            position: ledger.position(),
            cluster: ledger.names().cluster_name(id.cluster).to_owned(),
            uid: id.uid.to_string(),
            workload: pod.workload().uid.to_string(),
            state: state(pod),
            ran_from: pod.ran_from(),
            stop: pod.ended().map(|stop| Stop {
                time: stop.time,
                earliest: stop.earliest,
                latest: stop.latest,
                basis: format!("{:?}", stop.basis),
                position: stop.position,
            }),
            segments,
        })
    }
}

fn state(pod: &pod::Pod) -> &'static str {
    match (pod.ended(), pod.has_started()) {
        (Some(_), _) => "Ended",
        (None, true) => "Bound",
        (None, false) => "Created",
    }
}
