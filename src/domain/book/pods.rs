//! Pods: what each reserves, and whether it counts with its workload.
//!
//! A pod counts where its workload is, also while the two are told apart by a move that is under way. It is
//! *apart*, charged in its own group and no part of its workload's maximum, if its group was not its
//! workload's when the record that gave it that group was read, until either joins the other.

use super::{Book, Error, fits, members::Pods, workload::Work};
use crate::domain::{
    amounts::Amounts,
    names::{GroupId, ObjectId},
};
use std::sync::Arc;

/// A pod that is charged.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) slot: u32,
    pub(super) group: GroupId,
    pub(super) apart: bool,
    pub(super) reserved: Arc<Amounts>,
}

impl Book {
    /// A pod exists, or changed: from now on `workload` is charged `reserved` for it (every key, `pods` and
    /// `count/pods` among them, as `quota::pod_demand` gives them), and it is recorded in `group`. A pod of
    /// its own is its own workload. Pods that reserve the same should share one `reserved`.
    ///
    /// # Errors
    /// An amount is larger than any that can be kept.
    pub fn pod_charged(
        &mut self,
        pod: ObjectId,
        workload: ObjectId,
        group: GroupId,
        reserved: &Arc<Amounts>,
    ) -> Result<(), Error> {
        let Some(known) = self.pods.get(&pod) else {
            fits(reserved)?;
            self.join(pod, workload, group, reserved);
            return Ok(());
        };
        let same_work = self.works.row(known.slot).is_some_and(|w| w.object == workload);
        let same_place = same_work && known.group == group;
        if same_place && (Arc::ptr_eq(&known.reserved, reserved) || known.reserved == *reserved) {
            return Ok(());
        }
        fits(reserved)?;
        let apart = same_place.then_some(known.apart);
        let slot = known.slot;
        if same_work {
            let covered = self.confirm_resizes(slot, pod, reserved);
            self.replace(pod, slot, group, apart, reserved);
            self.cover(slot, covered);
        } else {
            self.pod_ended(pod);
            self.join(pod, workload, group, reserved);
        }
        Ok(())
    }

    /// A pod is no more, or terminal: it reserves nothing. Of a pod that is not charged this says nothing.
    pub fn pod_ended(&mut self, pod: ObjectId) {
        let Some(known) = self.pods.remove(&pod) else { return };
        self.shift(&known, false);
        self.drop_blank(known.slot);
    }

    /// Whether a pod is charged in a group that is not its workload's.
    #[must_use]
    pub fn is_apart(&self, pod: ObjectId) -> bool {
        self.pods.get(&pod).is_some_and(|p| p.apart)
    }

    fn join(&mut self, pod: ObjectId, workload: ObjectId, group: GroupId, reserved: &Arc<Amounts>) {
        let (slot, _) = self.row(workload);
        let covered = self.confirm_resizes(slot, pod, reserved);
        if self.works.row(slot).is_some_and(|w| !w.had_pods) {
            // Now it is known to exist: its creates count as its own.
            if self.works.row(slot).is_some_and(|w| w.open.is_some()) {
                self.change(slot, None, |work| work.had_pods = true);
            } else if let Some(work) = self.works.row_mut(slot) {
                work.had_pods = true;
            }
        }
        let apart = self.is_elsewhere(slot, group);
        let pod_row = Pod { slot, group, apart, reserved: Arc::clone(reserved) };
        self.shift(&pod_row, true);
        self.pods.insert(pod, pod_row);
        self.cover(slot, covered);
    }

    /// The same pod of the same workload, elsewhere or larger.
    fn replace(
        &mut self,
        pod: ObjectId,
        slot: u32,
        group: GroupId,
        apart: Option<bool>,
        reserved: &Arc<Amounts>,
    ) {
        let Some(old) = self.pods.remove(&pod) else { return };
        self.shift(&old, false);
        let apart = apart.unwrap_or_else(|| self.is_elsewhere(slot, group));
        let pod_row = Pod { slot, group, apart, reserved: Arc::clone(reserved) };
        self.shift(&pod_row, true);
        self.pods.insert(pod, pod_row);
    }

    /// Whether a pod that is recorded in `group` now is apart from its workload. What nobody observed is where
    /// its first pod is.
    fn is_elsewhere(&mut self, slot: u32, group: GroupId) -> bool {
        let Some(work) = self.works.row(slot) else { return false };
        let undecided = work.observed.is_none() && work.members.count() == 0;
        if work.group.is_none() || (undecided && work.apart.is_empty() && work.group != Some(group))
        {
            self.change(slot, None, |work| work.group = Some(group));
            return false;
        }
        work.group != Some(group)
    }

    /// Adds a pod to what its workload is charged for, or takes it out.
    fn shift(&mut self, pod: &Pod, joins: bool) {
        let Some(work) = self.works.sums_mut(pod.slot) else { return };
        if pod.apart || work.open.is_some() {
            self.change(pod.slot, None, |work| {
                let pods = if pod.apart { work.apart_in(pod.group) } else { &mut work.members };
                if joins {
                    pods.put(&pod.reserved)
                } else {
                    pods.take(&pod.reserved)
                }
                work.apart.retain(|(_, pods)| pods.count() > 0);
            });
            return;
        }
        // The way of nearly every record: nothing is open, so only the pod's own keys can change, in one group.
        let group = work.group.unwrap_or_default();
        let mut charging = self.tree.charging(group);
        work.shift_members(&pod.reserved, joins, |key, own, unreviewed| {
            charging.add(key, own, unreviewed);
        });
        charging.carry();
    }

    /// The pods that the last observation set apart, or joined.
    pub(in crate::domain) fn turned(&mut self) -> impl Iterator<Item = ObjectId> {
        self.turned.drain(..)
    }

    /// A workload was observed in `group`. At its first observation every pod is compared with it; at a move
    /// the pods come along, and those that were apart because they are where it goes now are joined.
    pub(super) fn regroup(&mut self, slot: u32, group: GroupId, first: bool) {
        let Some(work) = self.works.row(slot) else { return };
        let nothing = if first {
            (work.members.count() == 0 || work.group == Some(group)) && work.apart.is_empty()
        } else {
            work.apart.iter().all(|(g, _)| *g != group)
        };
        if nothing {
            return;
        }
        let mut turned: Vec<(ObjectId, Pod)> = Vec::new();
        self.turned.clear();
        for (id, pod) in self.pods.iter_mut().filter(|(_, p)| p.slot == slot) {
            let apart = if first { pod.group != group } else { pod.apart && pod.group != group };
            if apart != pod.apart {
                self.turned.push(*id);
                turned.push((*id, pod.clone()));
                pod.apart = apart;
            }
        }
        self.change(slot, None, |work| {
            for (_, pod) in &turned {
                if pod.apart {
                    work.apart_in(pod.group).take(&pod.reserved);
                    work.members.put(&pod.reserved);
                } else {
                    work.members.take(&pod.reserved);
                    work.apart_in(pod.group).put(&pod.reserved);
                }
            }
            work.apart.retain(|(_, pods)| pods.count() > 0);
        });
    }
}

impl Work {
    pub(super) fn apart_in(&mut self, group: GroupId) -> &mut Pods {
        let at = self.apart.iter().position(|(g, _)| *g == group).unwrap_or_else(|| {
            self.apart.push((group, Pods::default()));
            self.apart.len().saturating_sub(1)
        });
        // Just found or pushed.
        #[allow(clippy::indexing_slicing)]
        &mut self.apart[at].1
    }
}
