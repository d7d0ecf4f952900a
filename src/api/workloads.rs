//! `/v1/workloads`: what is charged for each workload at present, page by page, by cluster and uid.
//!
//! The ledger keeps no names of objects: a workload is its uid, as `kubectl get -o jsonpath={.metadata.uid}` prints it.

use super::{
    Seen, Shared,
    answer::{Page, Paged, token},
    problem::Problem,
    view::View,
};
use crate::domain::{
    amounts::Amounts,
    book::Held,
    names::{ObjectId, Uid},
    quota::Unit,
};
use axum::{Extension, extract::State, http::HeaderMap, response::Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Workloads of a page, unless asked for fewer.
pub(super) const MOST: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    group: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Workloads {
    workloads: Vec<Workload>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Workload {
    cluster: String,
    uid: String,
    /// Where it is charged; while a change of group is open, twice.
    groups: Vec<String>,
    pods: u32,
    /// Pods that are charged in a group of their own.
    pods_apart: u32,
    /// Whether it was seen; else it was promised alone.
    seen: bool,
    /// Admissions that are neither confirmed nor expired.
    promises: usize,
    /// Key by key, as Kubernetes writes it.
    charge: BTreeMap<String, String>,
}

pub(super) async fn workloads(
    State(api): Shared,
    Extension(sees): Seen,
    headers: HeaderMap,
    asked: Paged<Asked>,
) -> Result<Response, Problem> {
    let limit = asked.limit(MOST, MOST)?;
    let after = asked.after::<2>()?;
    let page = move |view: &View<'_>, at| {
        let group = asked.of.group.map(|name| view.group(&name)).transpose()?;
        let shown = |held: &Held| match group {
            Some(group) => held.group == Some(group),
            None => held.group.is_none_or(|group| view.shows(group)) && shows(view, held),
        };
        let names = view.ledger().names();
        let place = |id: ObjectId| (names.cluster_name(id.cluster), id.uid);
        let after = after.as_ref().map(|[cluster, uid]| (cluster.as_str(), Uid::of(uid)));
        let book = view.ledger().book();
        let held = book.into_iter().flat_map(|book| book.held()).filter(shown);
        let mut ids: Vec<_> = held.map(|held| place(held.object)).collect();
        ids.retain(|place| after.as_ref().is_none_or(|after| place > after));
        let more = ids.len() > limit;
        if more {
            ids.select_nth_unstable(limit);
            ids.truncate(limit);
        }
        ids.sort_unstable();
        let next = ids.last().filter(|_| more);
        let next = next.map(|(cluster, uid)| token(&[cluster, &uid.to_string()]));
        let told = ids.into_iter().filter_map(|(cluster, uid)| {
            let cluster = names.known_cluster(cluster)?;
            Workload::of(view, ObjectId { cluster, uid })
        });
        let list = Workloads { workloads: told.collect() };
        Ok(Page { at, position: view.ledger().position(), list, next })
    };
    api.answer(sees, &headers, page).await
}

/// A workload that is nowhere is nobody's, and shown to who sees everything.
fn shows(view: &View<'_>, held: &Held) -> bool {
    held.group.is_some() || view.is_whole()
}

impl Workload {
    fn of(view: &View<'_>, id: ObjectId) -> Option<Self> {
        let book = view.ledger().book()?;
        let held = book.held_by(id)?;
        let (groups, charge) = book.shown_charge_of(id);
        let shown = groups.into_iter().filter(|group| view.shows(*group));
        Some(Self {
            cluster: view.ledger().names().cluster_name(id.cluster).to_owned(),
            uid: id.uid.to_string(),
            groups: shown.map(|group| view.name(group).to_owned()).collect(),
            pods: held.pods,
            pods_apart: held.pods_apart,
            seen: held.seen,
            promises: held.promises,
            charge: written(view, &charge),
        })
    }
}

/// Amounts by key, as Kubernetes writes them.
pub(super) fn written(view: &View<'_>, amounts: &Amounts) -> BTreeMap<String, String> {
    let names = view.ledger().names();
    let amounts = amounts.iter().filter(|(_, amount)| *amount != 0);
    let written = amounts.map(|(key, amount)| {
        let name = names.key_name(key);
        (name.to_owned(), Unit::of(name).written(amount))
    });
    written.collect()
}
