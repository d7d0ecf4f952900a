//! `/v1/quotas`: the tree of groups, page by page, and one group.

use super::{
    Seen, Shared,
    answer::{Paged, Whole, token},
    problem::Problem,
    view::View,
};
use crate::domain::{
    event::CashPeriod,
    ledger::Ledger,
    names::GroupId,
    standing::{Group, Tree},
    time::Timestamp,
};
use axum::{
    Extension,
    extract::{Path, State, rejection::PathRejection},
    http::HeaderMap,
    response::Response,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Groups of a page, unless asked for fewer.
pub(super) const MOST: usize = 1000;
/// A group with so many below it is told at once: some ten microseconds.
const BRIEF: usize = 128;

/// A page of a tree.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tree")]
pub(super) struct Page {
    #[serde(flatten)]
    pub(super) tree: Tree,
    /// The token of what follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// One group, with the names around it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Quota")]
pub(super) struct One {
    at: Timestamp,
    position: u64,
    #[serde(flatten)]
    group: Group,
    /// When the budgets of its tree begin anew and what goes over, if its root says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    cash_period: Option<CashPeriod>,
    /// Everything above it, the nearest first.
    above: Vec<String>,
    children: Vec<String>,
}

pub(super) async fn all(
    State(api): Shared,
    Extension(sees): Seen,
    headers: HeaderMap,
    asked: Paged<Whole>,
) -> Result<Response, Problem> {
    let limit = asked.limit(MOST, MOST)?;
    let after = asked.after()?.map(|[group]| group);
    let page = move |view: &View<'_>, now| {
        let (tree, more) = view.page(now, after.as_deref(), limit)?;
        Ok(Page::new(tree, more))
    };
    api.answer(sees, &headers, page).await
}

impl Page {
    pub(super) fn new(tree: Tree, more: bool) -> Self {
        let last = tree.groups.last().filter(|_| more);
        let next = last.map(|last| token(&[&last.group]));
        Self { tree, next }
    }
}

pub(super) async fn one(
    State(api): Shared,
    Extension(sees): Seen,
    headers: HeaderMap,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name?;
    let asked = name.clone();
    let brief = move |ledger: &Ledger| Tree::is_small(ledger, &asked, BRIEF);
    let one = move |view: &View<'_>, at| {
        let (group, id) = (view.one(at, &name)?, view.group(&name)?);
        let told = |groups: &[GroupId]| {
            let shown = groups.iter().filter(|g| **g != id && view.shows(**g));
            shown.map(|group| view.name(*group).to_owned()).collect::<Vec<_>>()
        };
        let book = view.ledger().book();
        let around = book.map(|book| (told(&book.above(id)), told(book.children(id))));
        let (above, mut children) = around.unwrap_or_default();
        children.sort();
        let cash_period = book.and_then(|book| book.cash_period(id)).cloned();
        let position = view.ledger().position();
        Ok(One { at, position, group, cash_period, above, children })
    };
    api.answer_briefly(sees, &headers, brief, one).await
}
