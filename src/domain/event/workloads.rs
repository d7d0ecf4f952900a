//! What is said of workloads: as they really are, what was granted to them, and what was refused.

use super::{ObjectRef, Position};
use crate::domain::{
    resources::{Models, Resources},
    text::Text,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One role of a workload: so many pods like this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Role<'a> {
    /// Empty where the kind has one role only; else `Worker`, `head`, …
    #[serde(borrow, default)]
    pub name: Text<'a>,
    /// Pods that are wanted.
    pub count: u64,
    /// Pods that may be wanted at once while the workload is updated; not below `count`.
    pub peak: u64,
    /// Declared models.
    #[serde(borrow, default)]
    pub models: Models<'a>,
    /// What one pod reserves.
    pub pod: Arc<Resources>,
}

/// Data of `workload.observed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct WorkloadObserved<'a> {
    /// The workload.
    #[serde(borrow)]
    pub workload: ObjectRef<'a>,
    /// The version that was observed.
    #[serde(borrow)]
    pub resource_version: Text<'a>,
    /// `metadata.generation`.
    #[serde(default)]
    pub generation: i64,
    /// Its group; empty for none.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// What it asks for.
    #[serde(borrow)]
    pub roles: Vec<Role<'a>>,
}

/// Data of `workload.gone`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct WorkloadGone<'a> {
    /// The workload.
    #[serde(borrow)]
    pub workload: ObjectRef<'a>,
    /// `Deleted`, `Finished`, `Absent`.
    #[serde(borrow)]
    pub cause: Text<'a>,
}

/// What a review was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// A removed object.
    Delete,
}

/// Data of `workloads.admitted`: granted in this order, each judged with those before it in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct WorkloadsAdmitted<'a> {
    /// Position of the last record that the decider had applied.
    pub seen: Position,
    /// The admissions.
    #[serde(borrow)]
    pub admissions: Vec<Admission<'a>>,
}

/// One granted reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Admission<'a> {
    /// Uid of the review.
    #[serde(borrow)]
    pub request: Text<'a>,
    /// The cluster that asked.
    #[serde(borrow)]
    pub cluster: Text<'a>,
    /// What was asked.
    pub operation: Operation,
    /// The workload; of a resize the resized pod's top-level workload.
    #[serde(borrow)]
    pub workload: ObjectRef<'a>,
    /// Version of the object that is changed (of a resize, the pod's); absent for a create.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub old_resource_version: Option<Text<'a>>,
    /// The group that is asked.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// What the workload is to become.
    #[serde(borrow)]
    pub roles: Vec<Role<'a>>,
    /// Of a change of group: what the workload was, which the new group is asked for as well.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub old_roles: Option<Vec<Role<'a>>>,
    /// Of a pod's resize: the pod, and what it reserves before and after.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<PodResize<'a>>,
    /// Advice for people; expiry follows a consistent read.
    pub reserved_until: Timestamp,
}

/// A resize of one pod inside its workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodResize<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Its models.
    #[serde(borrow, default)]
    pub models: Models<'a>,
    /// What it reserves.
    pub from: Arc<Resources>,
    /// What it is to reserve.
    pub to: Arc<Resources>,
}

/// Data of `reservation.expired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct ReservationExpired<'a> {
    /// Position of the admission, of the proposal, or of the fact whose former charge was kept.
    pub position: Position,
    /// The workload that was admitted (a batch holds many); absent for a proposal, whose name is in the subject.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<ObjectRef<'a>>,
    /// The cluster that asked.
    #[serde(borrow)]
    pub cluster: Text<'a>,
}

/// Data of `workloads.refused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct WorkloadsRefused<'a> {
    /// The refusals.
    #[serde(borrow)]
    pub refusals: Vec<Refused<'a>>,
}

/// Refusals of one workload for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Refused<'a> {
    /// The cluster that asked.
    #[serde(borrow)]
    pub cluster: Text<'a>,
    /// The workload.
    #[serde(borrow)]
    pub workload: ObjectRef<'a>,
    /// The group that was asked.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// `QuotaExceeded`, …
    #[serde(borrow)]
    pub reason: Text<'a>,
    /// What the user was told last.
    #[serde(borrow)]
    pub message: Text<'a>,
    /// How often.
    pub count: u64,
    /// First time.
    pub first: Timestamp,
    /// Last time.
    pub last: Timestamp,
}
