//! `POST /v1/fits`: would this manifest fit? Nothing is recorded, and nothing is held for whoever asks.
//!
//! What a manifest asks for, whoever knows Kubernetes says: the [`Judge`] that the API is given.

use super::{Seen, Shared, events::tenant, problem::Problem};
use crate::domain::{book::Exhaustion, time::Timestamp};
use axum::{
    Extension, Json,
    body::Bytes,
    extract::{
        Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio::task::spawn_blocking;

/// The largest manifest: Kubernetes itself takes objects of about 1.5 MiB, most of them status.
pub(super) const MOST_BYTES: usize = 256 << 10;

/// Reads manifests.
pub trait Judge: Send + Sync {
    /// What the manifest `body`, JSON or YAML, asks for in the cluster of this name, or in the first.
    ///
    /// # Errors
    /// What is wrong with it: field, value, remedy.
    fn read(&self, cluster: Option<&str>, body: &[u8]) -> Result<Box<dyn Case>, String>;
}

/// What a manifest asks for.
pub trait Case: Send {
    /// The group that is asked; empty for none.
    fn group(&self) -> &str;
    /// What it would be told by the ledger as it is now.
    fn decide(&self, now: Timestamp) -> Fitted;
}

/// What a manifest would be told.
#[derive(Clone, Debug, Default)]
pub struct Fitted {
    /// Whether it would be admitted.
    pub allowed: bool,
    /// The refusal's name.
    pub reason: Option<String>,
    /// Why not, for people.
    pub message: Option<String>,
    /// What should be known.
    pub warnings: Vec<String>,
    /// Of one role that grows: how many replicas would be admitted, of so many.
    pub replicas: Option<(u64, u64)>,
    /// What it asks for: key and amount, as Kubernetes writes it.
    pub asks: BTreeMap<String, String>,
    /// When budgets end if it runs from now on: whose, of which key, when.
    pub cash: Vec<(String, String, Exhaustion)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    cluster: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Fits")]
pub(super) struct Told {
    at: Timestamp,
    position: u64,
    group: String,
    fits: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// How many replicas would be admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<Replicas>,
    asks: BTreeMap<String, String>,
    cash: Vec<Cash>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Replicas {
    fit: u64,
    asked: u64,
}

/// A budget that it would be spent from.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Cash {
    group: String,
    key: String,
    /// An instant, `by` an instant, or `never`.
    exhausted_at: String,
}

pub(super) async fn fits(
    State(api): Shared,
    Extension(sees): Seen,
    asked: Result<Query<Asked>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let (Query(Asked { cluster }), body) = (asked?, body?);
    let Some(judge) = api.source.judge.clone() else {
        return Err(Problem::not_found("this server reads no manifests"));
    };
    let _place = api.place().await?;
    let read = spawn_blocking(move || judge.read(cluster.as_deref(), &body)).await;
    let case = read.map_err(|died| Problem::internal(&died))?.map_err(Problem::unreadable)?;
    let group = case.group().to_owned();
    // Before anything is decided: a group that is hidden is not there.
    let named = group.clone();
    let (at, position) = api.look(&sees, |view, at| {
        let hidden = !view.is_whole() && view.known(&named).is_none();
        match hidden {
            true => Err(Problem::no_group(&named)),
            false => Ok((at, view.ledger().position())),
        }
    })?;
    let decided = spawn_blocking(move || case.decide(at)).await;
    let Fitted { allowed, reason, message, warnings, replicas, asks, cash } =
        decided.map_err(|died| Problem::internal(&died))?;
    let told = api.look(&sees, |view, _| {
        let say = |text: String| tenant::message(view, &text).into_owned();
        let shown = cash.into_iter().filter(|(group, ..)| view.known(group).is_some());
        Ok(Told {
            at,
            position,
            group,
            fits: allowed,
            reason,
            message: message.map(say),
            warnings: warnings.into_iter().map(say).collect(),
            replicas: replicas.map(|(fit, asked)| Replicas { fit, asked }),
            asks,
            cash: shown
                .map(|(group, key, end)| Cash { group, key, exhausted_at: end.to_string() })
                .collect(),
        })
    })?;
    let mut response = Json(told).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
