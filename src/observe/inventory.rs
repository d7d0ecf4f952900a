//! Which objects of one kind are there, by what was listed and watched: so that a list can say what vanished while
//! nobody watched.

use super::objects::Object;
use crate::{
    domain::names::{Map, Set, Uid},
    k8s::meta::ObjectMeta,
};

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    there: Map<Uid, Named>,
    /// What the list that is under way has shown.
    listing: Option<Set<Uid>>,
    /// Everything up to this version was told; 0 before the first list.
    reached: u64,
    /// The newest version that was told, to whomever.
    newest: u64,
}

/// An object's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// Uid.
    pub(super) uid: Box<str>,
    /// Namespace; empty for what has none.
    pub(super) namespace: Box<str>,
    /// Name.
    pub(super) name: Box<str>,
}

impl Named {
    /// An object's.
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        let [uid, namespace, name] =
            [&meta.uid, &meta.namespace, &meta.name].map(|text| text.as_str().into());
        Self { uid, namespace, name }
    }
}

impl Inventory {
    /// Everything will be listed anew, for somebody who knows nothing yet; what vanishes meanwhile is still found.
    pub(super) fn restart(&mut self) {
        (self.listing, self.reached) = (None, 0);
    }

    /// A list begins.
    pub(super) fn begins(&mut self) {
        self.listing = Some(Set::default());
    }

    /// An object is there.
    pub(super) fn sees(&mut self, object: &Object) {
        let meta = object.meta();
        let uid = Uid::of(&meta.uid);
        if let Some(listing) = &mut self.listing {
            listing.insert(uid);
        }
        self.there.entry(uid).or_insert_with(|| Named::of(meta));
    }

    /// An object was deleted.
    pub(super) fn loses(&mut self, object: &Object) {
        self.there.remove(&Uid::of(&object.meta().uid));
    }

    /// The list is whole: what it did not show is not there any more.
    pub(super) fn listed(&mut self, version: u64) -> Vec<Named> {
        self.reached(version);
        let Some(listing) = self.listing.take() else { return Vec::new() };
        let gone: Vec<Uid> =
            self.there.keys().filter(|uid| !listing.contains(*uid)).copied().collect();
        gone.into_iter().filter_map(|uid| self.there.remove(&uid)).collect()
    }

    /// Everything up to `version` was told.
    pub(super) fn reached(&mut self, version: u64) {
        self.reached = self.reached.max(version);
        self.newest = self.newest.max(version);
    }

    /// Up to which version everything was told; `None` before the first list, or while one is under way.
    pub(super) fn version(&self) -> Option<u64> {
        Some(self.reached).filter(|version| *version > 0 && self.listing.is_none())
    }

    /// The newest version that was ever told; an API server that lists an older one has forgotten something.
    pub(super) const fn newest(&self) -> u64 {
        self.newest
    }

    /// How many are there.
    pub(super) fn len(&self) -> usize {
        self.there.len()
    }
}
