//! One workload and what it is charged: the largest of what it was last observed to ask for, of every open
//! reservation, and of what its pods reserve, key by key; the same in every group where it may be.
//!
//! Nothing here touches the tree: charges are computed before and after a change, and the book posts the
//! difference.

use super::{Held, members::Pods, version::Version};
use crate::domain::{
    amounts::{Amounts, Walk},
    event::{Operation, Position},
    names::{GroupId, KeyId, ObjectId, Uid},
    quantity::Milli,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Names an admission: its record, and its place in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket {
    /// The record.
    pub position: Position,
    /// Place in the batch, from 0.
    pub item: u32,
}

/// A workload: what is known of it and what was promised to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::domain) struct Work {
    pub(super) object: ObjectId,
    /// Where it is: as observed, else as its first pod said.
    pub(super) group: Option<GroupId>,
    pub(super) observed: Option<Box<Observed>>,
    pub(super) gone: bool,
    /// Pods of it were seen, so it exists although nobody observed it.
    pub(super) had_pods: bool,
    /// The pods that count where the workload is. (This and `apart` follow from the pods' own rows.)
    #[serde(skip)]
    pub(super) members: Pods,
    /// The pods that were recorded in another group than the workload, by that group.
    #[serde(skip)]
    pub(super) apart: Vec<(GroupId, Pods)>,
    /// What reviews admitted of what it is.
    pub(super) reviewed: Option<Arc<Amounts>>,
    pub(super) open: Option<Box<Open>>,
}

/// A workload as it really is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Observed {
    pub(super) version: Version,
    pub(super) group: GroupId,
    pub(super) demand: Arc<Amounts>,
}

/// What is charged beside what is real.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Open {
    pub(super) reservations: Vec<Reservation>,
    pub(super) resizes: Vec<Resize>,
    pub(super) kept: Vec<Kept>,
}

/// An admission that is neither confirmed nor expired.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reservation {
    pub(super) ticket: Ticket,
    pub(super) operation: Operation,
    pub(super) old: Version,
    pub(super) group: GroupId,
    pub(super) demand: Arc<Amounts>,
    /// Of a create: the object's full name, hashed; several creates of one name count as the largest.
    pub(super) name: Option<Uid>,
}

/// An admitted resize of one pod, neither confirmed nor expired.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Resize {
    pub(super) ticket: Ticket,
    pub(super) pod: ObjectId,
    pub(super) old: Version,
    pub(super) group: GroupId,
    /// What the pod is to reserve.
    pub(super) to: Arc<Amounts>,
    /// By how much that is more than before, key by key.
    pub(super) more: Arc<Amounts>,
    /// The pod is charged in a group of its own.
    pub(super) apart: bool,
}

/// A former charge that stays for a while: pods admitted against it may still come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) position: Position,
    pub(super) group: GroupId,
    pub(super) demand: Arc<Amounts>,
    pub(super) reviewed: Option<Arc<Amounts>>,
}

/// Adds `times` × `other`; every amount is below 2^90 (`book::MOST`), so no sum leaves 128 bits.
fn shift(sum: &mut Amounts, other: &Amounts, times: Milli) {
    for (key, amount) in other.iter() {
        let amount = amount.saturating_mul(times);
        if sum.add(key, amount).is_err() {
            sum.raise(key, Milli::MAX);
        }
    }
}

/// What a workload is charged: the same amounts in each of the groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Charge {
    pub(super) groups: Vec<GroupId>,
    pub(super) amounts: Amounts,
    /// How much of each reviews admitted.
    pub(super) covered: Amounts,
}

/// No charge at all.
pub(super) static NOTHING: Charge =
    Charge { groups: Vec::new(), amounts: Amounts::EMPTY, covered: Amounts::EMPTY };

/// A charge in one group, key by key upwards.
pub(super) struct Inside<'c> {
    amounts: Walk<'c>,
    covered: Walk<'c>,
}

impl Inside<'_> {
    /// What is charged under `key`, and the part of it that no review admitted.
    pub(super) fn at(&mut self, key: KeyId) -> (Milli, Milli) {
        let amount = self.amounts.at(key);
        (amount, amount.saturating_sub(self.covered.at(key)).max(0))
    }
}

impl Charge {
    fn is_in(&mut self, group: GroupId) {
        if !self.groups.contains(&group) {
            self.groups.push(group);
        }
    }

    /// What is charged in `group`, to be looked at key by key.
    pub(super) fn inside(&self, group: GroupId) -> Inside<'_> {
        let charge = if self.groups.contains(&group) { self } else { &NOTHING };
        Inside { amounts: charge.amounts.walk(), covered: charge.covered.walk() }
    }

    fn clear(&mut self) {
        self.groups.clear();
        self.amounts.clear();
        self.covered.clear();
    }
}

impl Work {
    /// Whether it is known to exist, or to have existed.
    pub(super) fn is_real(&self) -> bool {
        self.observed.is_some()
            || self.gone
            || self.had_pods
            || self.open.as_ref().is_some_and(|open| {
                !open.resizes.is_empty()
                    || open.reservations.iter().any(|r| r.operation == Operation::Update)
            })
    }

    /// Whether nothing is known of it any more, so that its row can go.
    pub(super) fn is_blank(&self) -> bool {
        self.observed.is_none()
            && self.members.count() == 0
            && self.apart.is_empty()
            && self.open.is_none()
    }

    /// Names of its unconfirmed creates.
    pub(super) fn create_names(&self) -> impl Iterator<Item = Uid> + '_ {
        self.open.iter().flat_map(|o| &o.reservations).filter_map(|r| r.name)
    }

    /// What it is charged where it is, may be or was a moment ago.
    pub(super) fn held(&self) -> Held {
        let open = self.open.as_deref();
        let promised = open.and_then(|open| open.reservations.first()).map(|r| r.group);
        let seen = self.observed.as_ref().map(|observed| observed.group).or(self.group);
        let apart = self.apart.iter().map(|(_, pods)| pods.count());
        Held {
            object: self.object,
            group: seen.or(promised),
            pods: self.members.count(),
            pods_apart: apart.fold(0, u32::saturating_add),
            seen: self.observed.is_some() || self.had_pods,
            promises: open.map_or(0, |open| open.reservations.len()),
        }
    }

    pub(super) fn charge(&self) -> Charge {
        let mut charge = Charge::default();
        self.charge_into(&mut charge);
        charge
    }

    /// Its charge, and of what nobody saw yet what was promised to its name.
    pub(super) fn shown(&self) -> Charge {
        let mut charge = self.charge();
        let open = self.open.as_deref().filter(|_| !self.is_real());
        for promise in open.into_iter().flat_map(|open| &open.reservations) {
            charge.is_in(promise.group);
            charge.amounts.raise_all(&promise.demand);
        }
        charge
    }

    /// As [`Self::charge`], in the room of another.
    pub(super) fn charge_into(&self, charge: &mut Charge) {
        charge.clear();
        if let Some(reviewed) = &self.reviewed {
            charge.covered.set(reviewed);
        }
        if let Some(observed) = &self.observed {
            charge.is_in(observed.group);
            charge.amounts.set(&observed.demand);
        }
        if let Some(open) = &self.open {
            self.charge_open(open, charge);
        }
        if self.members.count() > 0 {
            charge.is_in(self.group.unwrap_or_default());
            charge.amounts.raise_all(&self.members.sum());
        }
        if let Some(open) = &self.open {
            for resize in open.resizes.iter().filter(|r| !r.apart) {
                charge.is_in(self.group.unwrap_or(resize.group));
            }
            let more = grown(&open.resizes, |r| !r.apart);
            shift(&mut charge.amounts, &more, 1);
            shift(&mut charge.covered, &more, 1);
        }
    }

    /// What of its charge no pod uses yet: neither one that exists nor one that was promised on top.
    pub(super) fn unused(&self) -> (Vec<GroupId>, Amounts) {
        let Charge { groups, amounts, .. } = self.charge();
        let resizes = self.open.as_ref().map_or(&[][..], |open| &open.resizes);
        let on_top = grown(resizes, |r| !r.apart);
        let left = |(key, amount): (KeyId, Milli)| {
            let used = self.members.get(key).saturating_add(on_top.get(key));
            (key, amount.saturating_sub(used).max(0))
        };
        (groups, amounts.iter().map(left).collect())
    }

    fn charge_open(&self, open: &Open, charge: &mut Charge) {
        for kept in &open.kept {
            charge.is_in(kept.group);
            charge.amounts.raise_all(&kept.demand);
            if let Some(reviewed) = &kept.reviewed {
                charge.covered.raise_all(reviewed);
            }
        }
        let real = self.is_real();
        for held in open.reservations.iter().filter(|r| real || r.name.is_none()) {
            charge.is_in(held.group);
            charge.amounts.raise_all(&held.demand);
            charge.covered.raise_all(&held.demand);
        }
    }

    /// What its pods in other groups are charged there.
    pub(super) fn charge_apart(&self) -> Vec<(GroupId, Charge)> {
        let resizes = self.open.as_ref().map_or(&[][..], |o| &o.resizes);
        let mut groups: Vec<_> = self.apart.iter().map(|(g, _)| *g).collect();
        groups.extend(resizes.iter().filter(|r| r.apart).map(|r| r.group));
        groups.sort_unstable();
        groups.dedup();
        let charge = |group| {
            let pods = self.apart.iter().find(|(g, _)| *g == group).map(|(_, pods)| pods.sum());
            let more = grown(resizes, |r| r.apart && r.group == group);
            let mut amounts = pods.unwrap_or_default();
            shift(&mut amounts, &more, 1);
            (group, Charge { groups: vec![group], amounts, covered: more })
        };
        groups.into_iter().map(charge).collect()
    }

    /// Puts a pod among its members or takes one out, while nothing is open; calls `each` with every key of the
    /// pod, and by how much the main charge under it grew, and the part of that that no review admitted.
    pub(super) fn shift_members(
        &mut self,
        pod: &Arc<Amounts>,
        joins: bool,
        mut each: impl FnMut(KeyId, Milli, Milli),
    ) {
        let observed = self.observed.as_ref().map(|observed| &observed.demand);
        if observed.is_none() && self.reviewed.is_none() {
            // The charge is what its pods reserve, and nobody admitted any of it.
            self.members.shift(pod, joins);
            for (key, amount) in pod.iter() {
                let by = if joins { amount } else { amount.wrapping_neg() };
                each(key, by, by);
            }
            return;
        }
        let [mut observed, mut reviewed] = [observed, self.reviewed.as_ref()].map(|amounts| {
            amounts.map_or_else(|| NOTHING.amounts.walk(), |amounts| amounts.walk())
        });
        self.members.shift_each(pod, joins, |key, before, after| {
            let (least, reviewed) = (observed.at(key), reviewed.at(key));
            let (before, after) = (before.max(least), after.max(least));
            let unreviewed = |charge: Milli| charge.wrapping_sub(reviewed).max(0);
            let unreviewed = unreviewed(after).wrapping_sub(unreviewed(before));
            each(key, after.wrapping_sub(before), unreviewed);
        });
    }
}

/// What open resizes add: of those that start from one version of a pod only one can be real, so the largest
/// counts, key by key; later versions come on top.
fn grown(resizes: &[Resize], which: impl Fn(&Resize) -> bool) -> Amounts {
    let mut sum = Amounts::default();
    for (i, resize) in resizes.iter().enumerate().filter(|(_, r)| which(r)) {
        let same = |r: &&Resize| which(r) && r.pod == resize.pod && r.old == resize.old;
        if resizes.iter().take(i).any(|r| same(&r)) {
            continue;
        }
        let mut most = Amounts::default();
        for other in resizes.iter().filter(same) {
            most.raise_all(&other.more);
        }
        shift(&mut sum, &most, 1);
    }
    sum
}
