//! Reviews of scale subresources: how many replicas are wanted is all that they say, so the object that is scaled is looked
//! up, also when it is at 0.

use super::{
    Next, Request, Surroundings,
    review::{Body, Scale, Verb},
    workloads,
};
use crate::k8s::{context::Known, kinds::Object};
use std::sync::Arc;

/// What is to be done with the review of a scale.
pub(super) fn next(request: &Request, around: &Surroundings<'_>) -> Next {
    let (Verb::Update, Body::Scale(new)) = (request.operation, &request.object) else {
        return match &request.object {
            Body::Wrong(wrong) => Next::malformed(request, &wrong.why),
            _ => Next::nothing_grows(request),
        };
    };
    let old = match &request.old {
        Body::Scale(old) => Some(&**old),
        _ => None,
    };
    let wanted = new.spec.replicas.unwrap_or(0);
    if wanted < 0 {
        return Next::malformed(request, format!("spec.replicas: `{wanted}` is no number of pods"));
    }
    if old.is_some_and(|old| wanted <= old.spec.replicas.unwrap_or(0)) {
        return Next::nothing_grows(request);
    }
    let Some(parent) = parent(request, new, around) else {
        let (kind, name) = (&request.resource, &request.name);
        return Next::unknown(
            request,
            format!("{kind} `{name}` is not known here yet; try again in a moment"),
        );
    };
    let (Some(now), Some(was)) = (at(&parent, Some(wanted)), at(&parent, replicas(&parent, old)))
    else {
        return Next::malformed(
            request,
            format!("kind {} has no scale in the table of kinds", parent.kind.kind),
        );
    };
    let version = old.map_or(&new.metadata.resource_version, |old| &old.metadata.resource_version);
    workloads::changed(request, &parent.kind, &now, Some(&was), version, around)
}

/// The object that is scaled: a scale carries its uid; by name where the cluster's server leaves it out.
fn parent(request: &Request, scale: &Scale, around: &Surroundings<'_>) -> Option<Arc<Known>> {
    let kind = around.kinds.find_resource(&request.resource_api_version, &request.resource)?;
    let by_uid = around.context.object(&scale.metadata.uid);
    let by_name = || {
        let version = kind.api_versions.first()?;
        around.context.named(version, &kind.kind, &request.namespace, &request.name)
    };
    let known = if scale.metadata.uid.is_empty() { by_name() } else { by_uid };
    known.filter(|known| known.kind.kind == kind.kind).cloned()
}

/// What the old scale says. A server writes neither 0 nor what is not there, which for a controller may be 1: then the
/// object itself says which it is.
fn replicas(parent: &Known, old: Option<&Scale>) -> Option<i64> {
    let written = old.and_then(|old| old.spec.replicas);
    written.or_else(|| parent.kind.writes_replicas(&parent.object).then_some(0))
}

/// The parent with so many replicas; as it is, without.
fn at(parent: &Known, replicas: Option<i64>) -> Option<Object> {
    match replicas {
        Some(replicas) => parent.kind.scaled(&parent.object, replicas),
        None => Some(parent.object.clone()),
    }
}
