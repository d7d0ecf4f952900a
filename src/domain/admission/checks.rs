//! What a workload's review must pass before its numbers are looked at, in the order of the refusals.

use super::{
    Reason, Refusal,
    workloads::{Case, Review, budget_line},
};
use crate::domain::{
    book::{Exceeded, Frozen, Spend, Trial},
    event::{ModelPolicy, ObjectRef, Role},
    names::{GroupId, KeyId, Names},
    quota::count_key,
    resources::{is_model, model_of},
    time::Timestamp,
};

/// The object names no group, and must.
pub(super) fn group_missing(object: &ObjectRef<'_>, label: &str) -> Refusal {
    let message = format!(
        "{} `{}` names no group; label it with {label}: GROUP",
        &*object.kind, &*object.name
    );
    Refusal::new(Reason::GroupMissing, message)
}

/// Nobody declared this group.
pub(super) fn not_declared(group: &str) -> Refusal {
    let message = format!("group `{group}` is not declared; name one that is, or declare it first");
    Refusal::new(Reason::UnknownGroup, message)
}

/// The group admits nothing.
pub(super) fn frozen(trial: &Trial<'_>, group: &str, id: GroupId) -> Option<Refusal> {
    let message = match trial.frozen(id)? {
        Frozen::NotDeclared => return Some(not_declared(group)),
        Frozen::Leaving => format!("group `{group}` is being removed; name another group"),
        Frozen::Moving => format!(
            "group `{group}` changes its place in the tree and admits nothing meanwhile; \
             try again in a minute"
        ),
    };
    Some(Refusal::new(Reason::UnknownGroup, message))
}

/// The first value that a container leaves open although the group or one above it limits it.
pub(super) fn unspecified(
    trial: &Trial<'_>,
    names: &Names,
    review: &Review<'_>,
    group: GroupId,
) -> Option<Refusal> {
    if review.undeclared.is_empty() {
        return None;
    }
    let above = trial.above(group);
    let lister = |key: &str| {
        let key = names.known_key(key)?;
        let listed = |g, key| trial.line(g, key).limit.is_some();
        let lists = |g: &GroupId| {
            listed(*g, key) || trial.budget_of(key).is_some_and(|budget| listed(*g, budget))
        };
        above.iter().copied().find(lists)
    };
    let typed = |key: &str, role: &Role<'_>| {
        let (_, resource) = key.split_once('.')?;
        lister(&format!("{key}.{}", model_of(&role.models, resource)?))
    };
    let (open, lister) = review.undeclared.iter().find_map(|open| {
        let by_model = || review.roles.iter().find_map(|role| typed(open.key, role));
        Some((open, lister(open.key).or_else(by_model)?))
    })?;
    let message = format!(
        "container `{}` does not declare {}, which group `{}` limits; declare it in its resources",
        open.container,
        open.key,
        names.group_name(lister)
    );
    Some(Refusal::new(Reason::UnspecifiedResource, message))
}

/// The first resource without a model of which the group, which wants models, limits one.
pub(super) fn model_required(
    trial: &Trial<'_>,
    names: &Names,
    review: &Review<'_>,
    group: GroupId,
) -> Option<Refusal> {
    let spec = &trial.declaration(group)?.spec;
    if spec.models != ModelPolicy::Required {
        return None;
    }
    let of_model = |key: &str| {
        let hard = spec.hard.iter().map(|(k, _)| names.key_name(*k));
        let model = |hard: &str| {
            let rest = hard.strip_prefix(key).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(is_model)
        };
        hard.into_iter().find(|hard| model(hard))
    };
    for role in review.roles.iter().filter(|role| role.count > 0) {
        for (side, list) in [("requests.", &role.pod.requests), ("limits.", &role.pod.limits)] {
            let typed = |r: &str| model_of(&role.models, r).is_some_and(is_model);
            for (resource, quantity) in list.iter().filter(|(r, q)| q.milli() > 0 && !typed(r)) {
                let Some(hard) = of_model(&format!("{side}{resource}")) else { continue };
                let message = format!(
                    "{resource}={quantity} is asked for without a model, and group `{}` limits {hard}; \
                     label it with {}: MODEL",
                    names.group_name(group),
                    review.labels.of_model(resource)
                );
                return Some(Refusal::new(Reason::ModelRequired, message));
            }
        }
    }
    None
}

/// What never fits, not even alone: the limits below what one of the workloads that it makes asks for.
pub(super) fn never_fits(
    trial: &Trial<'_>,
    names: &mut Names,
    review: &Review<'_>,
    group: GroupId,
) -> Option<Refusal> {
    if review.makes.is_empty() {
        return None;
    }
    let asked = match trial.demand_in(group, review.workload, review.makes, names) {
        Ok(asked) => asked,
        Err(error) => return Some(Refusal::new(Reason::InvalidQuantity, error.to_string())),
    };
    let own = names.known_key(&count_key(review.workload));
    let mut exceeded = Vec::new();
    for above in trial.above(group) {
        for (key, requested) in asked.iter().filter(|(key, _)| Some(*key) != own) {
            let Some(limited) = trial.line(above, key).limit else { continue };
            if requested > limited {
                exceeded.push(Exceeded { group: above, key, requested, used: 0, limited });
            }
        }
    }
    (!exceeded.is_empty()).then(|| Refusal::never(names, review.workload, exceeded))
}

/// The growing keys whose budgets are used up.
pub(super) fn cash_out(
    trial: &Trial<'_>,
    names: &Names,
    spend: &impl Spend,
    case: &Case,
    now: Timestamp,
) -> Option<Refusal> {
    let line = |key: &KeyId| {
        let group = trial.cash_out(case.asked.group, *key, spend, now)?;
        let budget = trial.budget_of(*key)?;
        let limit = trial.budget_limit(group, *key, spend, now)?;
        let used = trial.budget_used(group, *key, spend, now);
        let anew = trial.period(group, now).map(|span| span.to);
        Some((budget_line(names, group, *key, budget, used, limit), anew))
    };
    let mut lines: Vec<_> = case.grow.iter().filter_map(line).collect();
    if lines.is_empty() {
        return None;
    }
    lines.sort();
    let anew = lines.iter().filter_map(|(_, anew)| *anew).min();
    let lines: Vec<_> = lines.into_iter().map(|(line, _)| line).collect();
    let wait = anew.map(|anew| format!("wait for the period that begins at {anew}, "));
    let wait = wait.unwrap_or_default();
    let message = format!("{}; {wait}raise the budget, or ask for none of it", lines.join("; "));
    Some(Refusal::new(Reason::CashExhausted, message))
}
