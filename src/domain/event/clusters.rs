//! What is said of clusters, their nodes and who observes them.

use crate::domain::{resources::Models, text::Text, time::Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Data of `node.observed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct NodeObserved<'a> {
    /// Models by node label.
    #[serde(borrow)]
    pub models: Models<'a>,
    /// Status of the condition `Ready`: `True`, `False`, `Unknown`.
    #[serde(borrow)]
    pub ready: Text<'a>,
    /// Where its clock is more than two seconds off the API server's, or was and is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<NodeClock>,
}

/// One write of a node's status by two clocks, both cut to whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct NodeClock {
    /// When the kubelet said it, by the node's clock.
    pub node: Timestamp,
    /// When it was taken, by the API server's clock.
    pub api: Timestamp,
}

impl NodeClock {
    /// Milliseconds by which the node is ahead; negative: behind.
    #[must_use]
    pub fn ahead(&self) -> i64 {
        self.node.since(self.api)
    }
}

/// Data of `cluster.bound`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct ClusterBound<'a> {
    /// Uid of its namespace `kube-system`.
    #[serde(borrow)]
    pub uid: Text<'a>,
}

/// Data of `cluster.retired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct ClusterRetired {
    /// When it ended.
    pub at: Timestamp,
}

/// Data of `observer.synced`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct ObserverSynced<'a> {
    /// Per kind, the version that everything is known up to.
    #[serde(borrow)]
    pub resource_versions: BTreeMap<Text<'a>, Text<'a>>,
    /// Nothing was missed since then.
    pub since: Timestamp,
}
