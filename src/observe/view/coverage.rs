//! Which pods are charged although no API server asks about them or about what made them: neither is their owner's kind
//! declared nor their namespace managed. What an operator excluded is left out.

use super::{Changed, View, pods::Kept};
use crate::{
    domain::names::Map,
    k8s::{
        meta::ObjectMeta,
        reviewed::{Namespace, is_reviewed},
    },
    observe::owners::Assignment,
};
use std::sync::Arc;

/// What namespaces say of reviews, and how many pods none covers.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    namespaces: Map<Arc<str>, Namespace>,
    pub(super) uncovered: usize,
}

impl Coverage {
    /// Takes in a namespace; whether it says something else than before.
    pub(super) fn see(&mut self, name: &Arc<str>, meta: &ObjectMeta) -> bool {
        let now = Namespace::of(meta);
        self.namespaces.insert(Arc::clone(name), now).unwrap_or_default() != now
    }

    pub(super) fn lose(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    fn of(&self, namespace: &str) -> Namespace {
        self.namespaces.get(namespace).copied().unwrap_or_default()
    }
}

impl View {
    /// How many pods are charged to a group although nobody is asked about them.
    pub(in crate::observe) const fn uncovered(&self) -> usize {
        self.coverage.uncovered
    }

    /// Whether a pod, by what it counts under, is one of them. A kubelet runs what it has a file of whatever is said.
    pub(super) fn is_uncovered(&self, kept: &Kept, under: &Assignment) -> bool {
        let namespace = self.coverage.of(&kept.namespace);
        if under.group.is_empty() || namespace.excluded || !kept.lives() {
            return false;
        }
        let owner = kept.declared.last().and_then(|declared| declared.owner.as_deref());
        let kind =
            owner.and_then(|owner| self.kinds.find_in_group(&owner.api_version, &owner.kind));
        let asked_about = namespace.managed || kind.is_some_and(|kind| is_reviewed(kind));
        kept.mirrored || !asked_about
    }

    /// Counts a pod, or counts it no more.
    pub(super) fn count_uncovered(&mut self, kept: &mut Kept, uncovered: bool) {
        let before = std::mem::replace(&mut kept.uncovered, uncovered);
        let others = self.coverage.uncovered.saturating_sub(usize::from(before));
        self.coverage.uncovered = others.saturating_add(usize::from(uncovered));
    }

    /// Takes in what a namespace says of reviews.
    pub(super) fn see_coverage(&mut self, name: &Arc<str>, meta: &ObjectMeta) {
        if self.coverage.see(name, meta) {
            let inside = self.namespaces.get(name).into_iter().flatten();
            self.changed.extend(inside.map(|uid| Changed::Pod(*uid)));
        }
    }
}
