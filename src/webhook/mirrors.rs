//! Reviews of mirrors: what a mirror may say is what the log says, whoever writes it.

use super::{
    Options, Request, Response,
    review::{Body, Verb},
};
use crate::{
    domain::{admission::Reason, ledger::Ledger},
    k8s::{
        crd::{BizGroupResourceQuotaSpec, QuotaObject},
        mirror::{self, MIRROR_OF},
    },
};

/// What is to become of a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mirror {
    request: String,
    group: String,
    /// The cluster whose objects count.
    origin: String,
    becomes: Becomes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Becomes {
    /// As far as its specification goes, what it was.
    Same,
    /// A mirror that says this.
    Saying(Box<BizGroupResourceQuotaSpec>),
    /// An object that nobody keeps up.
    Unmarked,
    Gone,
}

impl Mirror {
    /// The mirror that a review is about; `None`: about something else, or nobody keeps mirrors here.
    pub(super) fn of(request: &Request, options: &Options) -> Option<Self> {
        let origin = options.quotas_elsewhere.as_ref().filter(|_| options.mirrored)?;
        if !request.is_quota() || !request.sub_resource.is_empty() {
            return None;
        }
        let (object, old) = (quota(&request.object), quota(&request.old));
        let label = |quota: Option<&QuotaObject>| {
            quota.and_then(|quota| quota.metadata.labels.get(MIRROR_OF).cloned())
        };
        let (marked, was_marked) = (label(object), label(old));
        if marked.is_none() && was_marked.is_none() {
            return None;
        }
        let becomes = match (request.operation, object, old) {
            (Verb::Delete, ..) => Becomes::Gone,
            (_, Some(new), Some(old)) if marked == was_marked && new.spec == old.spec => {
                Becomes::Same
            }
            (_, Some(new), _) if marked.is_some() => Becomes::Saying(Box::new(new.spec.clone())),
            _ => Becomes::Unmarked,
        };
        let (request, group) = (request.uid.clone(), request.name.clone());
        Some(Self { request, group, origin: origin.clone(), becomes })
    }

    /// What the API server is told, by the ledger as it is.
    pub(super) fn response(&self, ledger: &Ledger) -> Response {
        let declared = || mirror::spec(ledger, &self.group);
        let is_right = match &self.becomes {
            Becomes::Same => true,
            Becomes::Saying(spec) => {
                declared().is_some_and(|declared| mirror::same(&self.group, spec, &declared))
            }
            Becomes::Unmarked => false,
            Becomes::Gone => declared().is_none(),
        };
        if is_right {
            return Response::allowed(&self.request, "Mirror");
        }
        let Self { group, origin, .. } = self;
        let message = format!(
            "`{group}` is a mirror of the quota object in cluster `{origin}`: change or remove that one, and this one follows"
        );
        Response::refused(&self.request, Reason::Mirror, &message)
    }
}

fn quota(body: &Body) -> Option<&QuotaObject> {
    match body {
        Body::Quota(quota) => Some(quota),
        _ => None,
    }
}
