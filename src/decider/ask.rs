//! What is asked, reduced to what a decision needs, and owned, so that it can wait in a queue or travel to the
//! replica that decides. No object of Kubernetes, no HTTP.

use crate::domain::{
    admission::{self, MissingGroup, QuotaReview, Review},
    event::{ObjectRef, Operation, PodResize, Position, QuotaSpec, Role},
    label_keys::LabelKeys,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// A review that waits for its decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// Uid of the review: asked again, it is answered as before.
    pub request: String,
    /// The cluster that asks, by name.
    pub cluster: String,
    /// It is decided, and leaves no trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// What is asked.
    pub what: What,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// About a workload, or a pod's resize inside one.
    Workload(Box<Workload>),
    /// About a quota object.
    Quota(Box<Quota>),
}

/// The owned form of [`Review`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// What is done to it.
    pub operation: Operation,
    /// The workload; of a resize the pod's top-level workload.
    #[serde(deserialize_with = "object")]
    pub workload: ObjectRef<'static>,
    /// Version of the object that is changed (of a resize, the pod's).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_resource_version: Option<String>,
    /// The group that the object names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What to do if it names none.
    #[serde(default)]
    pub missing: Missing,
    /// By which labels it could name one, and its models.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub labels: Arc<LabelKeys>,
    /// What it is to ask for.
    #[serde(deserialize_with = "roles")]
    pub roles: Vec<Role<'static>>,
    /// Of an update: what it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Former>,
    /// Of a resize: the pod.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "resize")]
    pub resize: Option<PodResize<'static>>,
    /// What containers leave open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undeclared: Vec<Undeclared>,
    /// Of a create: the asker's watch shows an object of this name that is not being deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub name_is_taken: bool,
    /// Of what the controller of a workload's kind makes: the top-level workload.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "owner")]
    pub draws_on: Option<ObjectRef<'static>>,
    /// Of what makes other workloads: what one of them asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "roles")]
    pub makes: Vec<Role<'static>>,
    /// What is wrong with an amount; the roles then say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// The owned form of [`MissingGroup`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Missing {
    /// Allowed, metered under the empty group.
    #[default]
    Allow,
    /// `GroupMissing`.
    Refuse,
    /// This group.
    Default(String),
}

/// The owned form of [`admission::Former`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// Its group; empty for none.
    pub group: String,
    /// What it asked for.
    #[serde(deserialize_with = "roles")]
    pub roles: Vec<Role<'static>>,
}

/// The owned form of [`admission::Undeclared`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undeclared {
    /// The container.
    pub container: String,
    /// The key that it would count under.
    pub key: String,
}

/// The owned form of [`QuotaReview`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// What is asked.
    pub operation: Operation,
    /// The object's name: the group.
    pub name: String,
    /// The object.
    pub uid: String,
    /// Version of the object that is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_resource_version: Option<String>,
    /// What it is to say; `None` for a removal.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "spec")]
    pub spec: Option<QuotaSpec<'static>>,
    /// The annotation `bizrq.io/allow-orphans: "true"`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_orphans: bool,
}

impl Ask {
    /// Asks what `review` asks.
    #[must_use]
    pub fn workload(review: &Review<'_>, dry_run: bool) -> Self {
        let owned = |roles: &[Role<'_>]| roles.iter().cloned().map(Role::into_owned).collect();
        let former = |old: admission::Former<'_>| Former {
            group: old.group.to_owned(),
            roles: owned(old.roles),
        };
        let undeclared = review.undeclared.iter().map(|open| Undeclared {
            container: open.container.to_owned(),
            key: open.key.to_owned(),
        });
        let workload = Workload {
            operation: review.operation,
            workload: review.workload.clone().into_owned(),
            old_resource_version: review.old_resource_version.map(str::to_owned),
            group: review.group.map(str::to_owned),
            missing: match review.missing {
                MissingGroup::Allow => Missing::Allow,
                MissingGroup::Refuse => Missing::Refuse,
                MissingGroup::Default(group) => Missing::Default(group.to_owned()),
            },
            labels: Arc::new(review.labels.clone()),
            roles: owned(review.roles),
            old: review.old.map(former),
            resize: review.resize.cloned().map(PodResize::into_owned),
            undeclared: undeclared.collect(),
            name_is_taken: review.name_is_taken,
            draws_on: review.draws_on.cloned().map(ObjectRef::into_owned),
            makes: owned(review.makes),
            invalid: review.invalid.map(str::to_owned),
        };
        Self {
            request: review.request.to_owned(),
            cluster: review.cluster.to_owned(),
            dry_run,
            what: What::Workload(Box::new(workload)),
        }
    }

    /// Asks what `review` asks, which comes from `cluster` with the uid `request`. (Its `seen` is the decider's.)
    #[must_use]
    pub fn quota(request: &str, cluster: &str, review: &QuotaReview<'_>, dry_run: bool) -> Self {
        let quota = Quota {
            operation: review.operation,
            name: review.name.to_owned(),
            uid: review.uid.to_owned(),
            old_resource_version: review.old_resource_version.map(str::to_owned),
            spec: review.spec.cloned().map(QuotaSpec::into_owned),
            allow_orphans: review.allow_orphans,
        };
        Self {
            request: request.to_owned(),
            cluster: cluster.to_owned(),
            dry_run,
            what: What::Quota(Box::new(quota)),
        }
    }
}

impl Workload {
    /// What the domain judges; `undeclared` is [`Self::undeclared`], borrowed.
    #[must_use]
    pub fn review<'r>(
        &'r self,
        ask: &'r Ask,
        undeclared: &'r [admission::Undeclared<'r>],
    ) -> Review<'r> {
        Review {
            request: &ask.request,
            cluster: &ask.cluster,
            operation: self.operation,
            workload: &self.workload,
            old_resource_version: self.old_resource_version.as_deref(),
            group: self.group.as_deref(),
            missing: match &self.missing {
                Missing::Allow => MissingGroup::Allow,
                Missing::Refuse => MissingGroup::Refuse,
                Missing::Default(group) => MissingGroup::Default(group),
            },
            labels: &self.labels,
            roles: &self.roles,
            old: self
                .old
                .as_ref()
                .map(|old| admission::Former { group: &old.group, roles: &old.roles }),
            resize: self.resize.as_ref(),
            undeclared,
            name_is_taken: self.name_is_taken,
            draws_on: self.draws_on.as_ref(),
            drawn: &[],
            makes: &self.makes,
            invalid: self.invalid.as_deref(),
        }
    }

    /// Of a pod that may draw on its workload's promise: the workload and the pod.
    #[must_use]
    pub fn draws(&self) -> Option<(&ObjectRef<'static>, &PodResize<'static>)> {
        self.draws_on.as_ref().zip(self.resize.as_ref())
    }

    /// [`Self::undeclared`], borrowed.
    #[must_use]
    pub fn open(&self) -> Vec<admission::Undeclared<'_>> {
        let open = self.undeclared.iter();
        open.map(|u| admission::Undeclared { container: &u.container, key: &u.key }).collect()
    }
}

impl Quota {
    /// What the domain judges, at `seen`.
    #[must_use]
    pub fn review<'r>(&'r self, ask: &'r Ask, seen: Position) -> QuotaReview<'r> {
        QuotaReview {
            seen,
            request: Some(&ask.request),
            operation: self.operation,
            name: &self.name,
            uid: &self.uid,
            old_resource_version: self.old_resource_version.as_deref(),
            spec: self.spec.as_ref(),
            allow_orphans: self.allow_orphans,
        }
    }
}

fn is_usual(labels: &LabelKeys) -> bool {
    *labels == LabelKeys::USUAL
}

fn object<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectRef<'static>, D::Error> {
    ObjectRef::deserialize(from).map(ObjectRef::into_owned)
}

fn owner<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ObjectRef<'static>>, D::Error> {
    Option::<ObjectRef<'de>>::deserialize(from).map(|owner| owner.map(ObjectRef::into_owned))
}

fn roles<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Role<'static>>, D::Error> {
    let roles = Vec::<Role<'de>>::deserialize(from)?;
    Ok(roles.into_iter().map(Role::into_owned).collect())
}

fn resize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PodResize<'static>>, D::Error> {
    Option::<PodResize<'de>>::deserialize(from).map(|resize| resize.map(PodResize::into_owned))
}

fn spec<'de, D: Deserializer<'de>>(from: D) -> Result<Option<QuotaSpec<'static>>, D::Error> {
    Option::<QuotaSpec<'de>>::deserialize(from).map(|spec| spec.map(QuotaSpec::into_owned))
}
