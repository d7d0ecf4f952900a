//! What is said of a pod: that it came, began to hold a node, changed and stopped, and how each instant is known.

use super::{ObjectRef, Period};
use crate::domain::{
    resources::{Models, Resources},
    text::Text,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a start's time comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum StartBasis {
    /// The transition of the condition `PodScheduled` (API server's clock).
    Bound,
    /// The creation of a pod that came with its node (API server's clock).
    Created,
    /// `status.startTime` (the node's clock).
    KubeletStart,
    /// The observer first saw it on a node (the observer's clock).
    Observed,
    /// An imported row.
    Imported,
}

/// Where a stop's time comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum StopBasis {
    /// The kubelet's status write that showed the end (API server's clock).
    TerminalStatus,
    /// Arrival of that version over an unbroken watch (the observer's clock).
    Received,
    /// The last container's `finishedAt` (the node's clock).
    ContainersFinished,
    /// An imported row.
    Imported,
    /// The object was deleted (API server's clock).
    Deleted,
    /// The node was lost; provisional.
    NodeLost,
    /// Absent from a list; provisional.
    Absent,
}

/// Where a resize's time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum ResizeBasis {
    /// The kubelet's status write (API server's clock).
    KubeletStatus,
    /// Arrival over the watch (the observer's clock).
    Received,
    /// An imported row.
    Imported,
}

/// Data of `pod.created`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodCreated<'a> {
    /// The pod; of a mirror pod `UID@NODE`.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Its top-level workload; absent when it is its own.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ObjectRef<'a>>,
    /// The group that is charged; empty for none.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// Models.
    #[serde(borrow)]
    pub models: Models<'a>,
    /// What is charged against quota.
    pub reserved: Arc<Resources>,
}

/// Data of `pod.started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodStarted<'a> {
    /// The pod; of a mirror pod `UID@NODE`.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Its top-level workload; absent when it is its own.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ObjectRef<'a>>,
    /// The group that is billed; empty for none.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// Models.
    #[serde(borrow)]
    pub models: Models<'a>,
    /// The node.
    #[serde(borrow)]
    pub node: Text<'a>,
    /// What is metered.
    pub held: Arc<Resources>,
    /// What is charged against quota, where it differs from `held`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Arc<Resources>>,
    /// Where `time` comes from.
    pub basis: StartBasis,
}

/// Data of `pod.ran`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodRan<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// First `startedAt` (the node's clock).
    pub from: Timestamp,
}

/// Data of `pod.resized`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodResized<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// What is metered from here on.
    pub held: Arc<Resources>,
    /// What is charged against quota, where it differs from `held`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Arc<Resources>>,
    /// Where `time` comes from.
    pub basis: ResizeBasis,
}

/// Data of `pod.moved`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodMoved<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Its top-level workload from here on.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ObjectRef<'a>>,
    /// Its group from here on.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// Its models from here on.
    #[serde(borrow)]
    pub models: Models<'a>,
}

/// Data of `pod.stopped`; the event's `time` is the billed instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodStopped<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// It held its resources until here at least.
    pub earliest: Timestamp,
    /// It held none after this.
    pub latest: Timestamp,
    /// Where `time` comes from.
    pub basis: StopBasis,
    /// `status.phase`.
    #[serde(borrow, default)]
    pub phase: Text<'a>,
    /// `status.reason`.
    #[serde(borrow, default)]
    pub reason: Text<'a>,
    /// First `startedAt` to last `finishedAt` (the node's clock).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Period>,
}

/// Data of `pod.stop_withdrawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodStopWithdrawn<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// It was alive then: every provisional stop before this is void.
    pub alive_at: Timestamp,
}
