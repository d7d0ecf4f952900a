//! A book as it is written, and read again.
//!
//! Written are accounts, workloads and who is charged for which pod. Every sum of the tree follows from them, and so
//! do the lists of what waits; they are made anew.

use super::{
    Book, Works,
    pace::Paces,
    pods::Pod,
    posting::post,
    rules::Fault,
    workload::{NOTHING, Work},
};
use crate::domain::{
    amounts::Amounts,
    meter::Meter,
    names::{GroupId, KeyId, ObjectId},
    pod,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is said once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::domain) struct Head {
    free_work: Option<u32>,
    free_ended: Option<u32>,
    arrivals: u64,
    budgets: Vec<Option<KeyId>>,
    paces: Paces,
}

/// What the book knows of a pod that is charged, beside what the pod's own row says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::domain) enum Booked {
    /// It is charged as its row says; in a group of its own, or with its workload.
    AsSaid {
        /// In a group of its own.
        apart: bool,
    },
    /// It is charged as before: what its row says now is more than can be charged.
    AsBefore {
        /// The workload's slot.
        slot: u32,
        /// Where.
        group: GroupId,
        /// In a group of its own.
        apart: bool,
        /// How much.
        reserved: Amounts,
    },
}

impl Book {
    pub(in crate::domain) fn head(&self) -> Head {
        let (arrivals, paces) = (self.arrivals, self.paces.clone());
        let (free_work, free_ended) = (self.works.rows.free(), self.ended.rows.free());
        Head { free_work, free_ended, arrivals, budgets: self.budgets.clone(), paces }
    }

    /// What is to be written beside a pod's row; `None` where it is not charged.
    pub(in crate::domain) fn booked(&self, meter: &Meter, row: &pod::Pod) -> Option<Booked> {
        // What ended is not charged: nearly every row of a long history.
        let charged = row.charged()?;
        let Pod { slot, group, apart, reserved } = self.pods.get(&row.id)?;
        let measure = meter.shapes.known(charged.placement, charged.reserved);
        let said = measure
            .is_some_and(|m| Arc::ptr_eq(&m.charge, reserved) || m.charge == *reserved)
            && meter.shapes.group(charged.placement) == *group
            && self.works.row(*slot).is_some_and(|work| work.object == row.workload());
        Some(match said {
            true => Booked::AsSaid { apart: *apart },
            false => {
                let reserved = Amounts::clone(reserved);
                Booked::AsBefore { slot: *slot, group: *group, apart: *apart, reserved }
            }
        })
    }

    /// Takes in what is said once and who is charged for which pod (by the meter's slot), and finds again what
    /// follows from the tables that were read.
    pub(in crate::domain) fn resume(
        &mut self,
        head: Head,
        booked: impl IntoIterator<Item = (u32, Booked)>,
        meter: &Meter,
    ) {
        self.gone_quotas.learn();
        self.ended.rows.set_free(head.free_ended);
        self.ended.slots = self.ended.rows.iter().map(|(slot, (id, _))| (*id, slot)).collect();
        self.works.resume(head.free_work);
        (self.arrivals, self.budgets) = (head.arrivals, head.budgets);
        for (slot, booked) in booked {
            let row = meter.pods.get(slot);
            if let Some((id, pod)) =
                row.and_then(|row| Some((row.id, self.pod(meter, row, booked)?)))
            {
                self.count(id, pod);
            }
        }
        self.resume_accounts();
        self.resume_charges();
        self.resume_paces(head.paces, meter);
    }

    fn pod(&self, meter: &Meter, row: &pod::Pod, booked: Booked) -> Option<Pod> {
        match booked {
            Booked::AsBefore { slot, group, apart, reserved } => {
                Some(Pod { slot, group, apart, reserved: Arc::new(reserved) })
            }
            Booked::AsSaid { apart } => {
                let charged = row.charged()?;
                let measure = meter.shapes.known(charged.placement, charged.reserved)?;
                let slot = *self.works.slots.get(&row.workload())?;
                let group = meter.shapes.group(charged.placement);
                Some(Pod { slot, group, apart, reserved: Arc::clone(&measure.charge) })
            }
        }
    }

    fn count(&mut self, id: ObjectId, pod: Pod) {
        if let Some(work) = self.works.sums_mut(pod.slot) {
            let pods = if pod.apart { work.apart_in(pod.group) } else { &mut work.members };
            pods.put(&pod.reserved);
        }
        self.pods.insert(id, pod);
    }

    /// What is declared and proposed, in the tree; what is not in force, in its list.
    fn resume_accounts(&mut self) {
        let groups = (0..).zip(self.accounts.as_slice()).map(|(id, _)| GroupId(id));
        for group in groups.collect::<Vec<_>>() {
            self.settle(group);
            self.note_terms(group);
            match self.invalid(group).map(|invalid| invalid.fault.clone()) {
                Some(Fault::ParentNotFound(parent)) => {
                    self.waiting.entry(parent).or_default().push(group);
                }
                Some(_) => self.invalid.push(group),
                None => {}
            }
        }
    }

    /// What workloads are charged, in the tree, and who waits under which name.
    fn resume_charges(&mut self) {
        for (slot, work) in self.works.rows.iter() {
            post(&mut self.tree, &NOTHING, &work.charge());
            for (_, apart) in work.charge_apart() {
                post(&mut self.tree, &NOTHING, &apart);
            }
            if work.is_real() {
                continue;
            }
            let mut names: Vec<_> = work.create_names().collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                self.creates.entry(name).or_default().push(slot);
            }
        }
        for name in self.creates.keys().copied().collect::<Vec<_>>() {
            for (_, charge) in self.create_charge(name) {
                post(&mut self.tree, &NOTHING, &charge);
            }
        }
    }

    fn resume_paces(&mut self, paces: Paces, meter: &Meter) {
        self.paces = paces.clone();
        for group in self.accounts().collect::<Vec<_>>() {
            self.paced(group, meter);
        }
        // Since when they are exact was learned from what the meter said then.
        self.paces = paces;
    }
}

impl Works {
    fn resume(&mut self, free: Option<u32>) {
        self.rows.set_free(free);
        self.slots = self.rows.iter().map(|(slot, work)| (work.object, slot)).collect();
        for slot in 0..self.rows.count() {
            self.rows.derived_mut(slot).map(Work::share);
        }
    }
}

impl Work {
    /// What is reviewed mostly is what was observed: then it takes no memory of its own.
    fn share(&mut self) {
        if let Some(observed) = &self.observed
            && self.reviewed.as_ref() == Some(&observed.demand)
        {
            self.reviewed = Some(Arc::clone(&observed.demand));
        }
    }
}
