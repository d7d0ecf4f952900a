//! Reviews of workloads, of what their controllers make of them, and of pods.
//!
//! What lets nothing grow is answered here, without the decider: deletions, what is being deleted, mirror pods, and
//! changes of nothing that counts. All else becomes a question: what the object is to ask for, what it asked for before,
//! and in which group.

use super::{
    Next, Question, Request, Surroundings,
    owners::{self, Above},
    review::{Body, Verb},
    scale,
};
use crate::{
    decider::{Ask, Former, Undeclared, What, Workload},
    domain::{
        event::{ObjectRef, Operation, PodResize, Role},
        label_keys::{LabelKeys, Named},
        resources::Resources,
    },
    k8s::{
        demand::{Demand, DemandError, demand},
        kinds::{Kind, MIRROR, Object},
    },
};
use std::sync::Arc;

/// What is to be done with the review of a workload.
pub(super) fn next(request: &Request, around: &Surroundings<'_>) -> Next {
    if !matches!(request.operation, Verb::Create | Verb::Update) {
        return Next::nothing_grows(request);
    }
    match &*request.sub_resource {
        "" | "resize" => {}
        "scale" => return scale::next(request, around),
        _ => return Next::nothing_grows(request),
    }
    let (kind, object) = match &request.object {
        Body::Object(kind, object) => (kind, object),
        Body::Wrong(wrong) if wrong.deleting || request.object.is_as_wrong_as(&request.old) => {
            return Next::nothing_grows(request);
        }
        Body::Wrong(wrong) => return Next::malformed(request, &wrong.why),
        _ => return Next::not_declared(request),
    };
    let old = match &request.old {
        Body::Object(_, old) if request.operation == Verb::Update => Some(&**old),
        _ => None,
    };
    let leaving = object.metadata.deletion_timestamp.is_some();
    if is_mirror(request, object) || (leaving && request.sub_resource.is_empty()) {
        return Next::nothing_grows(request);
    }
    let version = old.map_or("", |old| &old.metadata.resource_version);
    changed(request, kind, object, old, version, around)
}

/// What is to be done when an object is to become `new`.
pub(super) fn changed(
    request: &Request,
    kind: &Arc<Kind>,
    new: &Object,
    old: Option<&Object>,
    old_version: &str,
    around: &Surroundings<'_>,
) -> Next {
    if old.is_some_and(|old| says_the_same(old, new, around.context.labels())) {
        return Next::nothing_grows(request);
    }
    let of = |object, before| Asking::of(request, kind, object, before, around);
    let new_asking = match of(new, old) {
        Ok(asking) => asking,
        Err(DemandError::Roles(why)) => return Next::malformed(request, why),
        Err(error @ DemandError::Amount { .. }) => Asking::invalid(request, new, error, around),
    };
    // What the old object asked for cannot be told of one that nobody could understand: then all of it is new.
    let old_asking = old.and_then(|old| of(old, None).ok());
    let asking = Change { request, kind, new, around, old_version, updates: old.is_some() };
    asking.question(new_asking, old_asking)
}

/// A pod that a kubelet runs from a file and shows to the API server: no refusal could keep it from running.
fn is_mirror(request: &Request, object: &Object) -> bool {
    object.metadata.annotations.contains_key(MIRROR) && request.user.starts_with("system:node:")
}

/// Whether nothing changes that any group could be charged for.
fn says_the_same(old: &Object, new: &Object, keys: &LabelKeys) -> bool {
    let same = |what| {
        let key = keys.key(what);
        old.metadata.label(key) == new.metadata.label(key)
    };
    old.body == new.body && Named::ALL.into_iter().all(same)
}

/// What one version of an object asks for, and in which group.
struct Asking {
    demand: Demand,
    group: Option<String>,
    above: Option<Above>,
    invalid: Option<String>,
}

/// What a review changes.
struct Change<'c> {
    request: &'c Request,
    kind: &'c Kind,
    new: &'c Object,
    around: &'c Surroundings<'c>,
    old_version: &'c str,
    updates: bool,
}

impl Asking {
    fn of(
        request: &Request,
        kind: &Kind,
        object: &Object,
        before: Option<&Object>,
        around: &Surroundings<'_>,
    ) -> Result<Self, DemandError> {
        // Pods come with what the API server filled in; templates are completed as their pods will be.
        let complete = *kind.kind != *"Pod" || around.options.offline;
        let demand = demand(kind, object, before, around.context, complete)?;
        let mut asking = Self::nothing(request, object, around);
        let template = demand.group.clone();
        let namespace = || around.context.namespace_group(&request.namespace).map(str::to_owned);
        asking.group = asking.group.or(template).or_else(namespace);
        asking.demand = demand;
        Ok(asking)
    }

    fn invalid(
        request: &Request,
        object: &Object,
        error: DemandError,
        around: &Surroundings<'_>,
    ) -> Self {
        let mut asking = Self::nothing(request, object, around);
        let namespace = || around.context.namespace_group(&request.namespace).map(str::to_owned);
        asking.group = asking.group.or_else(namespace);
        Self { invalid: Some(error.to_string()), ..asking }
    }

    /// Whose it is, by its workload's label, else its own.
    fn nothing(request: &Request, object: &Object, around: &Surroundings<'_>) -> Self {
        let above = owners::above(request, object, around);
        let key = &around.context.labels().group;
        let group = above.as_ref().and_then(|above| above.group(key));
        let group = group.or_else(|| object.metadata.label(key).map(str::to_owned));
        Self { demand: Demand::default(), group, above, invalid: None }
    }
}

impl Change<'_> {
    fn question(&self, new: Asking, old: Option<Asking>) -> Next {
        let Asking { demand, group, above, invalid } = new;
        let Demand { roles, undeclared, warnings, .. } = demand;
        let operation = if self.updates { Operation::Update } else { Operation::Create };
        let old_resource_version = self.updates.then(|| self.old_version.to_owned());
        let draws_on = above.as_ref().filter(|a| a.by_controller).map(Above::reference);
        let undeclared = undeclared
            .into_iter()
            .map(|(container, key)| Undeclared { container, key: key.to_owned() });
        let resize = self.resize(&roles, old.as_ref(), above.as_ref());
        let workload = match (&resize, &above) {
            (Some(_), Some(above)) => above.reference(),
            _ => self.reference(),
        };
        let former = old.map(|old| (old.group.unwrap_or_default(), old.demand.roles));
        let (roles, makes) = match self.kind.makes {
            true => (Vec::new(), self.larger(roles, former.as_ref().map(|(_, roles)| &**roles))),
            false => (roles, Vec::new()),
        };
        let former = former.filter(|_| resize.is_none()).map(|(group, roles)| {
            let roles = if self.kind.makes { Vec::new() } else { roles };
            Former { group, roles }
        });
        let workload = Workload {
            operation,
            name_is_taken: self.name_is_taken(),
            missing: self.around.options.missing.clone(),
            labels: Arc::clone(self.around.context.labels()),
            undeclared: undeclared.collect(),
            workload,
            old_resource_version,
            group,
            roles,
            old: former,
            resize,
            draws_on,
            makes,
            invalid,
        };
        let ask = Ask {
            request: self.request.uid.clone(),
            cluster: self.around.options.cluster.clone(),
            dry_run: self.request.dry_run,
            what: What::Workload(Box::new(workload)),
        };
        Next::Ask(Box::new(Question::new(ask, warnings, self.around)))
    }

    /// A pod that is resized, or comes beside the other pods of its workload, changes the sum over them.
    fn resize(
        &self,
        roles: &[Role<'static>],
        old: Option<&Asking>,
        above: Option<&Above>,
    ) -> Option<PodResize<'static>> {
        let resized = self.request.sub_resource == "resize";
        let joins = !self.updates && above.is_some() && *self.kind.kind == *"Pod";
        let role = roles.first().filter(|_| resized || joins)?;
        let before = old.and_then(|old| old.demand.roles.first()).map(|role| Arc::clone(&role.pod));
        Some(PodResize {
            uid: self.new.metadata.uid.clone().into(),
            models: role.models.clone(),
            from: before.unwrap_or_default(),
            to: Arc::clone(&role.pod),
        })
    }

    /// Of what an object makes, what is more than before: what only shrinks is not asked about.
    fn larger(
        &self,
        roles: Vec<Role<'static>>,
        old: Option<&[Role<'static>]>,
    ) -> Vec<Role<'static>> {
        let within = |new: &Role<'_>, old: &Role<'_>| {
            new.count <= old.count
                && new.peak <= old.peak
                && new.models == old.models
                && is_within(&new.pod, &old.pod)
        };
        let grown = |role: &Role<'static>| {
            let before = old.into_iter().flatten().find(|old| old.name == role.name);
            before.is_none_or(|old| !within(role, old))
        };
        roles.into_iter().filter(grown).collect()
    }

    /// Another object that is not being deleted has this name: the create will end in a conflict.
    fn name_is_taken(&self) -> bool {
        let Object { api_version, kind, metadata, .. } = self.new;
        let context = self.around.context;
        let known = context.named(api_version, kind, &metadata.namespace, &metadata.name);
        !self.updates
            && !self.around.options.offline
            && known.is_some_and(|known| {
                let other = &known.object.metadata;
                other.uid != metadata.uid && other.deletion_timestamp.is_none()
            })
    }

    fn reference(&self) -> ObjectRef<'static> {
        owners::reference(self.new)
    }
}

/// Whether no amount of `new` is larger than in `old`.
fn is_within(new: &Resources, old: &Resources) -> bool {
    let sides = [(&new.requests, &old.requests), (&new.limits, &old.limits)];
    sides.into_iter().all(|(new, old)| {
        new.iter().all(|(resource, amount)| old.get(resource).is_some_and(|old| amount <= old))
    })
}
