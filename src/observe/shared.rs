//! Texts and resource lists that many objects have in common, each kept once; and how much is kept in all.

use super::{
    owners::{Declared, Reference},
    pods::Sighting,
};
use crate::{
    domain::{label_keys::LabelKeys, names::Set, resources::Resources},
    k8s::{convert, meta::ObjectMeta},
};
use std::sync::Arc;

/// How many different resources of pods are remembered for sharing: pods of one workload come together.
const RECENT: usize = 64;

/// What is shared.
#[derive(Debug, Default)]
pub(super) struct Shared {
    labels: Arc<LabelKeys>,
    texts: Set<Arc<str>>,
    resources: Vec<Arc<Resources>>,
    next: usize,
    /// Bytes that are kept, roughly: here and by everyone who reports it.
    pub(super) bytes: usize,
}

impl Shared {
    /// Nothing yet, of objects that name group and models by these labels.
    pub(super) fn new(labels: Arc<LabelKeys>) -> Self {
        Self { labels, ..Self::default() }
    }

    /// The shared copy of `text`.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        // Two counters, an entry of the set at its usual load, and the text.
        self.count(text.len().saturating_add(48));
        self.texts.insert(Arc::clone(&new));
        new
    }

    /// The shared copy of `text`, if there is one and it is not empty.
    pub(super) fn optional(&mut self, text: Option<&str>) -> Option<Arc<str>> {
        text.filter(|t| !t.is_empty()).map(|t| self.text(t))
    }

    /// What an object's labels and owner references say.
    pub(super) fn declared(&mut self, meta: &ObjectMeta) -> Declared {
        let models = convert::models(meta, &self.labels);
        let group = meta.label(&self.labels.group);
        Declared {
            group: self.optional(group),
            models: [&models.cpu, &models.memory, &models.gpu].map(|m| self.optional(m.as_deref())),
            owner: meta.controller().map(|owner| {
                Arc::new(Reference {
                    api_version: self.text(&owner.api_version),
                    kind: self.text(&owner.kind),
                    name: self.text(&owner.name),
                    uid: self.text(&owner.uid),
                })
            }),
        }
    }

    /// Replaces what the sighting owns by what is shared.
    pub(super) fn share(&mut self, sighting: &mut Sighting) {
        let Some(state) = Arc::get_mut(&mut sighting.state) else { return };
        for text in [&mut state.node, &mut state.phase, &mut state.reason] {
            *text = self.text(text);
        }
        for resources in [&mut state.held, &mut state.reserved] {
            *resources = self.resources(resources);
        }
    }

    /// The shared copy of `resources`.
    pub(super) fn resources(&mut self, resources: &Arc<Resources>) -> Arc<Resources> {
        if let Some(known) = self.resources.iter().find(|r| *r == resources) {
            return Arc::clone(known);
        }
        let entries = resources.requests.iter().chain(resources.limits.iter());
        self.count(entries.map(|(name, _)| name.len().saturating_add(64)).sum::<usize>());
        self.count(size_of::<Resources>());
        match self.resources.get_mut(self.next) {
            Some(oldest) => oldest.clone_from(resources),
            None => self.resources.push(Arc::clone(resources)),
        }
        self.next = self.next.saturating_add(1).checked_rem(RECENT).unwrap_or(0);
        Arc::clone(resources)
    }

    /// Counts bytes that are kept elsewhere.
    pub(super) fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }
}
