//! Which records are about one business group: those that name it, and what is told later of what it holds.

use crate::domain::event::{Data, Event};
use std::collections::HashSet;

/// A group and what is known to belong to it.
pub(super) struct Group {
    name: String,
    /// Uids of its pods and workloads: the records of their ends do not name a group.
    members: HashSet<String>,
}

impl Group {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), members: HashSet::new() }
    }

    /// Whether a record is about the group.
    pub(super) fn concerns(&mut self, event: &Event<'_>) -> bool {
        match &event.data {
            Data::PodCreated(pod) => self.belongs(&pod.uid, &pod.group),
            Data::PodStarted(pod) => self.belongs(&pod.uid, &pod.group),
            Data::PodMoved(pod) => self.belongs(&pod.uid, &pod.group),
            Data::PodRan(pod) => self.members.contains(&*pod.uid),
            Data::PodResized(pod) => self.members.contains(&*pod.uid),
            // A pod that is over may still be withdrawn: it is kept.
            Data::PodStopped(pod) => self.members.contains(&*pod.uid),
            Data::PodStopWithdrawn(pod) => self.members.contains(&*pod.uid),
            Data::WorkloadObserved(seen) => self.belongs(&seen.workload.uid, &seen.group),
            Data::WorkloadGone(gone) => self.members.contains(&*gone.workload.uid),
            Data::WorkloadsAdmitted(batch) => {
                let mut any = false;
                for admission in &batch.admissions {
                    any |= self.belongs(&admission.workload.uid, &admission.group);
                }
                any
            }
            Data::WorkloadsRefused(batch) => batch.refusals.iter().any(|r| *r.group == *self.name),
            Data::ReservationExpired(expired) => match &expired.workload {
                Some(workload) => self.members.contains(&*workload.uid),
                None => self.is_subject(event),
            },
            Data::QuotaDeclared(_)
            | Data::QuotaRemoved(_)
            | Data::QuotaProposed(_)
            | Data::UsageAdjusted(_) => self.is_subject(event),
            Data::NodeObserved(_)
            | Data::ClusterBound(_)
            | Data::ClusterRetired(_)
            | Data::ObserverSynced(_)
            | Data::PeriodClosed(_)
            | Data::LogOpened(_)
            | Data::LogVersionRaised(_)
            | Data::Unknown => false,
        }
    }

    /// Notes where something belongs now. Its leaving concerns the group, too.
    fn belongs(&mut self, uid: &str, group: &str) -> bool {
        if group == self.name {
            self.members.insert(uid.to_owned());
            return true;
        }
        self.members.remove(uid)
    }

    /// Whether the event's subject is the group's quota or account.
    fn is_subject(&self, event: &Event<'_>) -> bool {
        let subject = &event.subject;
        let name = subject.strip_prefix("quotas/").or_else(|| subject.strip_prefix("accounts/"));
        name == Some(self.name.as_str())
    }
}
