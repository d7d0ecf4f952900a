//! Versions of an object: `resourceVersion` where an API server counts, `generation` where none does.

use serde::{Deserialize, Serialize};

/// Which of two observations of one object is the later one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub(super) struct Version {
    /// `metadata.resourceVersion`; 0 where there is no API server.
    pub(super) resource: u64,
    /// `metadata.generation`; counts only where `resource` does not.
    pub(super) generation: i64,
}

/// A `resourceVersion` that is no number, so that nothing is later or earlier than it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotAVersion;

impl Version {
    /// The version that an object's metadata names; an empty `resource` is that of no API server.
    pub(super) fn parse(resource: &str, generation: i64) -> Result<Self, NotAVersion> {
        if resource.is_empty() {
            return Ok(Self { resource: 0, generation });
        }
        // Versions are whole numbers by KEP-5504; before it every server that stores in etcd wrote such ones.
        resource.parse().map(|resource| Self { resource, generation: 0 }).map_err(|_| NotAVersion)
    }
}
