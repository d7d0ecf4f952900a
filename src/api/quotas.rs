//! `/v1/quotas`: the tree of groups, page by page, and one group.

use super::{
    Shared,
    answer::{answer, read_token, token},
    problem::Problem,
};
use crate::domain::{
    names::GroupId,
    standing::{Group, Tree},
    time::Timestamp,
};
use axum::{
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::HeaderMap,
    response::Response,
};
use serde::{Deserialize, Serialize};

/// Groups of a page, unless asked for fewer.
const MOST: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    limit: Option<usize>,
    page: Option<String>,
}

#[derive(Serialize)]
struct Page {
    #[serde(flatten)]
    tree: Tree,
    /// The token of what follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// One group, with the names around it.
#[derive(Serialize)]
struct One {
    at: Timestamp,
    position: u64,
    #[serde(flatten)]
    group: Group,
    /// Everything above it, the nearest first.
    above: Vec<String>,
    children: Vec<String>,
}

pub(super) async fn all(
    State(api): Shared,
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(Asked { limit, page }) = asked?;
    let limit = limit.unwrap_or(MOST);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::wrong("limit", &limit.to_string(), "must be from 1 to 1000"));
    }
    let after = page.as_deref().map(read_token::<1>).transpose()?.map(|[group]| group);
    let page = api
        .ask(move |ledger, now| {
            let page = Tree::page(ledger, now, after.as_deref(), limit);
            let page = page.map_err(|why| Problem::internal(&why))?;
            let unknown = || Problem::not_found("page: the group that it names is not there");
            let (tree, more) = page.ok_or_else(unknown)?;
            let last = tree.groups.last().filter(|_| more);
            let next = last.map(|last| token(&[&last.group]));
            Ok(Page { tree, next })
        })
        .await?;
    answer(&headers, (page.tree.position, page.tree.at), &page)
}

pub(super) async fn one(
    State(api): Shared,
    headers: HeaderMap,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name?;
    let one = api
        .ask(move |ledger, at| {
            let unknown = || Problem::not_found(format!("no group is called `{name}`"));
            let group = Tree::one(ledger, at, &name).ok_or_else(unknown)?;
            let names = ledger.names();
            let told = |groups: &[GroupId]| {
                groups.iter().map(|group| names.group_name(*group).to_owned()).collect::<Vec<_>>()
            };
            let around = ledger.book().zip(names.known_group(&name)).map(|(book, id)| {
                let above: Vec<_> = book.above(id).into_iter().filter(|g| *g != id).collect();
                (told(&above), told(book.children(id)))
            });
            let (above, mut children) = around.unwrap_or_default();
            children.sort();
            Ok(One { at, position: ledger.position(), group, above, children })
        })
        .await?;
    answer(&headers, (one.position, one.at), &one)
}
