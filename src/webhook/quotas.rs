//! Reviews of quota objects: what each says alone is judged here, whether it fits its tree by the decider.

use super::{
    Next, Question, Request, Surroundings,
    review::{Body, Verb},
};
use crate::{
    decider::{Ask, Quota, What},
    domain::{
        admission::{Reason, Refusal},
        event::Operation,
        quota::SpecError,
    },
    k8s::crd::QuotaObject,
};

/// The annotation that lets a group be removed although workloads are charged in it.
const ALLOW_ORPHANS: &str = "bizrq.io/allow-orphans";

/// What is to be done with the review of a quota object.
pub(super) fn next(request: &Request, around: &Surroundings<'_>) -> Next {
    if let Some(cluster) = &around.options.quotas_elsewhere {
        return Next::counts_elsewhere(request, cluster);
    }
    let (operation, object) = match (request.operation, &request.object, &request.old) {
        (_, _, _) if !request.sub_resource.is_empty() => return Next::nothing_grows(request),
        (Verb::Create, object, _) => (Operation::Create, object),
        (Verb::Update, object, _) => (Operation::Update, object),
        (Verb::Delete, _, old) => (Operation::Delete, old),
        (Verb::Connect, ..) => return Next::nothing_grows(request),
    };
    let object = match object {
        Body::Quota(object) => object,
        Body::Wrong(wrong) if wrong.deleting || request.object.is_as_wrong_as(&request.old) => {
            return Next::nothing_grows(request);
        }
        Body::Wrong(wrong) => return Next::malformed(request, &wrong.why),
        _ => {
            return Next::malformed(
                request,
                "request.object: missing; an API server always sends it",
            );
        }
    };
    let old = match &request.old {
        Body::Quota(old) if operation != Operation::Create => Some(&**old),
        _ => None,
    };
    let leaving = object.metadata.deletion_timestamp.is_some();
    if operation == Operation::Update && (leaving || old.is_some_and(|old| old.spec == object.spec))
    {
        return Next::nothing_grows(request);
    }
    question(request, operation, object, old, around)
}

fn question(
    request: &Request,
    operation: Operation,
    object: &QuotaObject,
    old: Option<&QuotaObject>,
    around: &Surroundings<'_>,
) -> Next {
    let meta = &object.metadata;
    let spec = match operation {
        Operation::Delete => None,
        _ => match object.spec.typed().accept(&meta.name) {
            Ok(spec) => Some(spec),
            Err(errors) => return Next::refused(request, &unacceptable(&errors)),
        },
    };
    let allow_orphans = meta.annotations.get(ALLOW_ORPHANS).is_some_and(|text| text == "true");
    let quota = Quota {
        operation,
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        old_resource_version: old.map(|old| old.metadata.resource_version.clone()),
        spec,
        allow_orphans,
    };
    let ask = Ask {
        request: request.uid.clone(),
        cluster: around.options.cluster.clone(),
        dry_run: request.dry_run,
        what: What::Quota(Box::new(quota)),
    };
    Next::Ask(Box::new(Question::new(ask, Vec::new(), around)))
}

/// Everything that is wrong with a specification in itself.
fn unacceptable(errors: &[SpecError]) -> Refusal {
    let quantities = errors.iter().all(|error| error.reason == Reason::InvalidQuantity.name());
    let reason = if quantities { Reason::InvalidQuantity } else { Reason::MalformedObject };
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    Refusal::new(reason, texts.join("; "))
}
