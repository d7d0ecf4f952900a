//! Decisions about workloads: admissions, and their end without effect.
//!
//! An "allowed" is a reservation. It ends when the object is observed as it was to become or later, or with
//! an expiry that says that this never happened.

use super::{
    Book, Error, MOST, Stamp,
    facts::{reviewed, tidy, version},
    fits, shared,
    trial::Undo,
    version::Version,
    workload::{Reservation, Resize, Ticket},
};
use crate::domain::{
    amounts::{Amounts, Overflow},
    event::{
        Admission, ObjectRef, Operation, PodResize, ReservationExpired, Role, WorkloadsAdmitted,
    },
    names::{ClusterId, GroupId, Names, ObjectId, Uid},
    quota::{demand, pod_demand},
};
use std::sync::Arc;

/// What an admission asks the book for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The workload.
    pub workload: ObjectId,
    /// What is done to it.
    pub operation: Operation,
    /// The version of the object that is changed.
    pub(super) old: Version,
    /// The group that is asked.
    pub group: GroupId,
    /// What it is to ask for; of a change of group at least what it asked for before. Of a resize, nothing.
    pub demand: Arc<Amounts>,
    name: Option<Uid>,
    resize: Option<Larger>,
}

impl Asked {
    /// Of a resize: what the pod is to reserve on top of the present, key by key.
    pub(crate) fn resized(&self) -> Option<&Amounts> {
        self.resize.as_ref().map(|larger| &*larger.more)
    }
}

/// A pod that is to reserve something else.
#[derive(Clone, Debug)]
struct Larger {
    pod: ObjectId,
    to: Arc<Amounts>,
    more: Arc<Amounts>,
}

impl Book {
    /// What roles of `object` demand in `group`.
    ///
    /// # Errors
    /// An amount is too large.
    pub(crate) fn demand_in(
        &self,
        group: GroupId,
        object: &ObjectRef<'_>,
        roles: &[Role<'_>],
        names: &mut Names,
    ) -> Result<Amounts, Error> {
        Ok(demand(object, roles, self.policy(group), names)?)
    }

    /// What an admission asks for, in numbers.
    ///
    /// # Errors
    /// An amount is too large; the version is no number.
    pub fn asked(&self, names: &mut Names, admission: &Admission<'_>) -> Result<Asked, Error> {
        let cluster = names.cluster_of(&admission.cluster);
        let workload = ObjectId { cluster, uid: Uid::of(&admission.workload.uid) };
        let old = version(admission.old_resource_version.as_deref().unwrap_or_default(), 0)?;
        let group = names.group(&admission.group);
        let asked = Asked {
            workload,
            operation: admission.operation,
            old,
            group,
            demand: Arc::default(),
            name: None,
            resize: None,
        };
        if let Some(resize) = &admission.resize {
            // A pod that is new comes with all that it reserves, and as one pod more.
            let new = admission.operation == Operation::Create;
            return Ok(Asked { resize: Some(larger(names, cluster, resize, new)?), ..asked });
        }
        let demand_of = |roles: &[Role<'_>], names: &mut Names| {
            demand(&admission.workload, roles, self.policy(group), names)
        };
        let mut amounts = demand_of(&admission.roles, names)?;
        if let Some(old_roles) = &admission.old_roles {
            amounts.raise_all(&demand_of(old_roles, names)?);
        }
        let create = admission.operation == Operation::Create;
        let name = create.then(|| full_name(cluster, &admission.workload));
        Ok(Asked { demand: shared(amounts)?, name, ..asked })
    }

    /// A batch of admissions, each judged with those before it in force.
    ///
    /// # Errors
    /// As [`Self::asked`], of any of them; then none is taken.
    pub fn admitted(
        &mut self,
        names: &mut Names,
        stamp: Stamp,
        batch: &WorkloadsAdmitted<'_>,
    ) -> Result<(), Error> {
        let asked = batch.admissions.iter().map(|a| self.asked(names, a));
        let asked: Vec<_> = asked.collect::<Result<_, _>>()?;
        for (item, asked) in (0..).zip(&asked) {
            self.reserve(Ticket { position: stamp.position, item }, asked);
        }
        Ok(())
    }

    /// Reserves what was asked for, unless it is already real or already lost.
    pub(crate) fn reserve(&mut self, ticket: Ticket, asked: &Asked) {
        if let Some(larger) = &asked.resize {
            self.reserve_resize(ticket, asked, larger);
            return;
        }
        let create = asked.operation == Operation::Create;
        let known = self.works.slots.get(&asked.workload).and_then(|s| self.works.row(*s));
        let newest = known.and_then(|w| w.observed.as_ref()).map(|o| o.version);
        let over = newest.is_some_and(|newest| create || newest > asked.old);
        if over || self.ended.contains(asked.workload) {
            return;
        }
        let held = Reservation {
            ticket,
            operation: asked.operation,
            old: asked.old,
            group: asked.group,
            demand: Arc::clone(&asked.demand),
            name: asked.name,
        };
        let slot = self.open_row(asked.workload);
        self.change(slot, asked.name, |work| {
            work.open.get_or_insert_default().reservations.push(held);
        });
    }

    /// A resize reserves inside its workload, as a change of the sum over its pods.
    fn reserve_resize(&mut self, ticket: Ticket, asked: &Asked, larger: &Larger) {
        let known = self.pods.get(&larger.pod);
        if known.is_some_and(|pod| *pod.reserved == *larger.to) {
            return;
        }
        let apart = known.is_some_and(|pod| pod.apart);
        let workload =
            known.and_then(|p| self.works.row(p.slot)).map_or(asked.workload, |w| w.object);
        let resize = Resize {
            ticket,
            pod: larger.pod,
            old: asked.old,
            group: known.filter(|p| p.apart).map_or(asked.group, |p| p.group),
            to: Arc::clone(&larger.to),
            more: Arc::clone(&larger.more),
            apart,
        };
        let slot = self.open_row(workload);
        self.change(slot, None, |work| work.open.get_or_insert_default().resizes.push(resize));
    }

    /// An admission never became real, or the time is over for which a former charge was kept. What was
    /// observed meanwhile has ended already: then this says nothing.
    pub fn expired(
        &mut self,
        names: &mut Names,
        stamp: Stamp,
        quota: GroupId,
        fact: &ReservationExpired<'_>,
    ) {
        let _ = stamp;
        let Some(workload) = &fact.workload else {
            self.proposal_expired(quota, fact.position);
            return;
        };
        let cluster = names.cluster_of(&fact.cluster);
        let object = ObjectId { cluster, uid: Uid::of(&workload.uid) };
        // Of a resize the record may name the pod: then only that pod's.
        let pod = self.pods.get(&object).filter(|pod| {
            let is_own = self.works.row(pod.slot).is_some_and(|w| w.object == object);
            !is_own
        });
        let (slot, pod) = match (pod, self.works.slots.get(&object)) {
            (Some(pod), _) => (pod.slot, Some(object)),
            (None, Some(slot)) => (*slot, None),
            (None, None) => return,
        };
        self.note_open(slot);
        let is = |ticket: Ticket| ticket.position == fact.position;
        self.change(slot, None, |work| {
            if let Some(open) = &mut work.open {
                open.resizes.retain(|r| !is(r.ticket) || pod.is_some_and(|p| p != r.pod));
                if pod.is_none() {
                    open.reservations.retain(|r| !is(r.ticket));
                    open.kept.retain(|k| k.position != fact.position);
                }
            }
            tidy(work);
        });
        self.drop_blank(slot);
    }

    /// A pod reserves `reserved` now: the resize that asked for this is real, and older ones of that pod were
    /// overtaken. Returns what was covered by reviews until now, if there was such a resize. (The record carries
    /// no resourceVersion: what asked for something else waits for its expiry.)
    pub(super) fn confirm_resizes(
        &mut self,
        slot: u32,
        pod: ObjectId,
        reserved: &Amounts,
    ) -> Option<Amounts> {
        let work = self.works.row(slot)?;
        let resizes = &work.open.as_ref()?.resizes;
        let real = resizes.iter().filter(|r| r.pod == pod && *r.to == *reserved);
        let real = real.map(|r| r.old).max()?;
        let covered = work.charge().covered;
        self.change(slot, None, |work| {
            if let Some(open) = &mut work.open {
                open.resizes.retain(|r| r.pod != pod || r.old > real);
            }
            tidy(work);
        });
        Some(covered)
    }

    /// What a resize added was reviewed.
    pub(super) fn cover(&mut self, slot: u32, covered: Option<Amounts>) {
        if let Some(covered) = covered {
            self.change(slot, None, |work| work.reviewed = reviewed(work, &covered));
        }
    }

    /// The row of a workload that is promised something; in a trial, how it was before is noted.
    fn open_row(&mut self, workload: ObjectId) -> u32 {
        let (slot, new) = self.row(workload);
        if self.trying && new {
            self.undo.push(Undo::NewRow(slot));
        }
        self.note_open(slot);
        slot
    }

    fn note_open(&mut self, slot: u32) {
        if self.trying {
            let open = self.works.row(slot).and_then(|w| w.open.clone());
            self.undo.push(Undo::Open(slot, open));
        }
    }
}

fn larger(
    names: &mut Names,
    cluster: ClusterId,
    resize: &PodResize<'_>,
    new: bool,
) -> Result<Larger, Error> {
    let to = pod_demand(&resize.to, &resize.models, names)?;
    let from = match new {
        true => Amounts::default(),
        false => pod_demand(&resize.from, &resize.models, names)?,
    };
    fits(&from)?;
    let mut more = Amounts::default();
    for (key, amount) in to.iter() {
        more.add(key, amount.checked_sub(from.get(key)).ok_or(Overflow)?.clamp(0, MOST))?;
    }
    let pod = ObjectId { cluster, uid: Uid::of(&resize.uid) };
    Ok(Larger { pod, to: shared(to)?, more: shared(more)? })
}

/// The name that only one object can have, hashed: kind and group of the API, whatever its version.
fn full_name(cluster: ClusterId, object: &ObjectRef<'_>) -> Uid {
    let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
    let namespace = object.namespace.as_deref().unwrap_or_default();
    // No part contains a `/`, so that no two names are one text.
    Uid::of(&format!("{}/{group}/{}/{namespace}/{}", cluster.0, object.kind, object.name))
}
