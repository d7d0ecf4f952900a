//! Objects of any kind, as far as groups and owners go: names, labels and owner references.

use super::meta::{ObjectMeta, nullable};
use serde::Deserialize;

/// The label (or annotation) that names the group.
pub const GROUP: &str = "biz.group.resource.quota";
/// The label (or annotation) that declares the CPU model.
pub const CPU_MODEL: &str = "biz.group.resource.quota/cpu-type";
/// The label (or annotation) that declares the memory model.
pub const MEMORY_MODEL: &str = "biz.group.resource.quota/memory-type";
/// The label (or annotation) that declares the model of every extended resource.
pub const GPU_MODEL: &str = "biz.group.resource.quota/gpu-type";
/// The annotation of a pod that the kubelet runs from a file and only mirrors into the API.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// An object of any kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    /// `apps/v1`.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    /// `Deployment`.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// Name, labels, owners, times.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
}
