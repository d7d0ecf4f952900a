//! Facts about workloads: what they really ask for, and that they are gone.
//!
//! A fact that lowers a charge keeps the former one beside it until its end is told: pods that were admitted
//! against it may still come.

use super::{
    Book, Error, Stamp, shared,
    version::Version,
    workload::{Kept, Observed, Open, Work},
};
use crate::domain::{
    amounts::Amounts,
    event::{Operation, WorkloadGone, WorkloadObserved},
    names::{GroupId, Names, ObjectId, Uid},
    quota::demand,
};
use std::sync::Arc;

impl Book {
    /// A workload as it really is. An older observation than the newest, or of what is gone, says nothing.
    /// Rolling updates are charged by the policy that is in force in the group as the record is read.
    ///
    /// # Errors
    /// An amount is too large; the version is no number.
    pub fn workload_observed(
        &mut self,
        names: &mut Names,
        stamp: Stamp,
        fact: &WorkloadObserved<'_>,
    ) -> Result<(), Error> {
        let object = ObjectId { cluster: stamp.cluster, uid: Uid::of(&fact.workload.uid) };
        let version = version(&fact.resource_version, fact.generation)?;
        let group = names.group(&fact.group);
        let asked = demand(&fact.workload, &fact.roles, self.policy(group), names)?;
        let asked = shared(asked)?;
        let known = self.works.slots.get(&object).and_then(|s| self.works.row(*s));
        let newest = known.and_then(|w| w.observed.as_ref()).map(|o| o.version);
        if self.ended.contains(object) || newest.is_some_and(|newest| version <= newest) {
            return Ok(());
        }
        let (slot, _) = self.row(object);
        self.regroup(slot, group, newest.is_none());
        let seen = Observed { version, group, demand: asked };
        self.change(slot, None, |work| observe(work, stamp, seen));
        Ok(())
    }

    /// A workload is no more; its pods may live on, where it was.
    pub fn workload_gone(&mut self, stamp: Stamp, fact: &WorkloadGone<'_>) {
        let object = ObjectId { cluster: stamp.cluster, uid: Uid::of(&fact.workload.uid) };
        if !self.ended.insert(object, stamp.time) {
            return;
        }
        if let Some(slot) = self.works.slots.get(&object).copied() {
            self.change(slot, None, |work| {
                work.gone = true;
                keep(work, stamp);
                work.observed = None;
                if let Some(open) = &mut work.open {
                    open.reservations.clear();
                }
                tidy(work);
            });
            self.drop_blank(slot);
        }
    }

    /// A cluster is no more: neither are its workloads, what was promised to them, and what was kept for what might
    /// still come. Its pods' own records end those.
    pub fn retire(&mut self, stamp: Stamp) {
        let rows = self.works.rows.iter();
        let mut here: Vec<(ObjectId, u32)> = rows
            .filter(|(_, work)| work.object.cluster == stamp.cluster)
            .map(|(slot, work)| (work.object, slot))
            .collect();
        here.sort_unstable();
        for (object, slot) in here {
            self.ended.insert(object, stamp.time);
            self.change(slot, None, |work| {
                work.gone = true;
                (work.observed, work.open) = (None, None);
            });
            self.drop_blank(slot);
        }
    }

    /// Where a workload is, if that is known.
    #[must_use]
    pub fn workload_group(&self, workload: ObjectId) -> Option<GroupId> {
        self.works.slots.get(&workload).and_then(|s| self.works.row(*s)).and_then(|w| w.group)
    }
}

/// The version that a record names.
pub(super) fn version(resource: &str, generation: i64) -> Result<Version, Error> {
    Version::parse(resource, generation)
        .map_err(|_| Error::NotAVersion(resource.chars().take(64).collect()))
}

/// Takes over what was observed: older promises have ended, and of what it asks for now so much is reviewed
/// as was promised before.
fn observe(work: &mut Work, stamp: Stamp, seen: Observed) {
    let mut covered = work.charge().covered;
    for held in work.open.iter().flat_map(|open| &open.reservations) {
        covered.raise_all(&held.demand);
    }
    let lowered = work.observed.as_ref().is_some_and(|old| {
        old.group != seen.group || old.demand.iter().any(|(k, amount)| seen.demand.get(k) < amount)
    });
    if lowered {
        keep(work, stamp);
    }
    if let Some(open) = &mut work.open {
        let ended = |operation, old| operation == Operation::Create || old < seen.version;
        open.reservations.retain(|r| !ended(r.operation, r.old));
    }
    tidy(work);
    work.group = Some(seen.group);
    work.observed = Some(Box::new(seen));
    work.reviewed = reviewed(work, &covered);
}

/// Of what it really is, what `covered` covers.
pub(super) fn reviewed(work: &Work, covered: &Amounts) -> Option<Arc<Amounts>> {
    if covered.is_zero() {
        return None;
    }
    let mut real = work.members.sum();
    if let Some(observed) = &work.observed {
        real.raise_all(&observed.demand);
    }
    let least = real.iter().map(|(key, amount)| (key, amount.min(covered.get(key))));
    let least: Amounts = least.filter(|(_, amount)| *amount > 0).collect();
    match &work.observed {
        // Nearly always all of it is reviewed: then it takes no memory of its own.
        Some(observed) if *observed.demand == least => Some(Arc::clone(&observed.demand)),
        _ => Some(Arc::new(least)),
    }
}

/// Keeps the charge of what was observed until now.
fn keep(work: &mut Work, stamp: Stamp) {
    let Some(old) = &work.observed else { return };
    let kept = Kept {
        position: stamp.position,
        group: old.group,
        demand: Arc::clone(&old.demand),
        reviewed: work.reviewed.clone(),
    };
    work.open.get_or_insert_default().kept.push(kept);
}

/// Gives back the room of what holds nothing.
pub(super) fn tidy(work: &mut Work) {
    if work.open.as_deref().is_some_and(Open::is_empty) {
        work.open = None;
    }
}

impl Open {
    fn is_empty(&self) -> bool {
        self.reservations.is_empty() && self.resizes.is_empty() && self.kept.is_empty()
    }
}
