//! What API servers ask about: declared kinds, in namespaces that are not excluded; pods one by one, in managed ones.

use super::{kinds::Kind, meta::ObjectMeta};

/// The label of namespaces in which nothing is asked about.
pub const EXCLUDED: &str = "bizrq.io/excluded";
/// The label of namespaces whose pods are asked about one by one.
pub const MANAGED: &str = "bizrq.io/managed";

/// What a namespace's labels say of reviews.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Nothing is asked about.
    pub excluded: bool,
    /// Pods are asked about one by one.
    pub managed: bool,
}

impl Namespace {
    /// By its labels; whatever value they have.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        let has = |label| meta.labels.contains_key(label);
        Self { excluded: has(EXCLUDED), managed: has(MANAGED) }
    }
}

/// Whether objects of a kind are asked about wherever nothing is excluded. Pods have a webhook of their own, and a
/// template that nothing runs asks for nothing.
#[must_use]
pub fn is_reviewed(kind: &Kind) -> bool {
    let is_core = kind.api_versions.iter().any(|version| !version.contains('/'));
    !(is_core && ["Pod", "PodTemplate"].contains(&&*kind.kind))
}
