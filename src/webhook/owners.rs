//! Whose an object is: the workload above it, if there is one that is known, and whether whoever creates it is the
//! controller that would.

use super::{Request, Surroundings};
use crate::{
    domain::event::ObjectRef,
    k8s::{context::Known, kinds::Object},
};
use std::sync::Arc;

/// What is above an object.
#[derive(Clone, Debug)]
pub(super) struct Above {
    /// The top-level workload.
    pub(super) top: Arc<Known>,
    /// Whether the request comes from the controller of the owner's kind.
    pub(super) by_controller: bool,
}

/// What is above `object`, as far as it is known: anybody may write a reference, so that what is not there, is of
/// another name, or is of a kind that nobody declared is nobody's owner. What makes workloads (a CronJob) is no part
/// of them.
pub(super) fn above(
    request: &Request,
    object: &Object,
    around: &Surroundings<'_>,
) -> Option<Above> {
    let owner = object.metadata.controller()?;
    let chain = around.context.above(Some(owner), &request.namespace);
    let mut chain = chain.take_while(|known| !known.kind.makes);
    let parent = chain.next()?;
    let top = Arc::clone(chain.last().unwrap_or(parent));
    let by_controller = parent.kind.is_controlled_by(&request.user);
    Some(Above { top, by_controller })
}

impl Above {
    pub(super) fn reference(&self) -> ObjectRef<'static> {
        reference(&self.top.object)
    }

    /// The group that the workload's label of this key names, or that of its pod template.
    pub(super) fn group(&self, key: &str) -> Option<String> {
        let object = &self.top.object;
        let label = object.metadata.label(key).map(str::to_owned);
        label.or_else(|| self.top.kind.template_label(object, key).map(str::to_owned))
    }
}

/// How events name an object.
pub(super) fn reference(object: &Object) -> ObjectRef<'static> {
    let meta = &object.metadata;
    ObjectRef {
        api_version: object.api_version.clone().into(),
        kind: object.kind.clone().into(),
        namespace: (!meta.namespace.is_empty()).then(|| meta.namespace.clone().into()),
        name: meta.name.clone().into(),
        uid: meta.uid.clone().into(),
    }
}
