//! What the ledger knows already: so that an observer that begins anew, or beside another, tells only what is news.

use super::Ledger;
use crate::domain::{
    event::{Data, Event},
    names::{ClusterId, ObjectId, Uid},
    pod::{Pod, What},
    resources::{Models, Resources},
    sources::Cluster,
};

/// A pod as the ledger has it now.
#[derive(Clone, Copy, Debug)]
pub struct PodNow<'l> {
    /// Its evidence.
    pub pod: &'l Pod,
    /// The group that it is charged in; empty for none.
    pub group: &'l str,
    /// Its models.
    pub models: &'l Models<'static>,
    /// What is metered; `None` before its start.
    pub held: Option<&'l Resources>,
    /// What is charged.
    pub reserved: &'l Resources,
}

impl Ledger {
    /// Every source that was ever told of, by name, with what it told of itself.
    pub fn clusters(&self) -> impl Iterator<Item = (&str, &Cluster)> {
        let sources = (0..).zip(self.meter.sources.table.as_slice());
        sources.map(|(id, source)| (self.names.cluster_name(ClusterId(id)), source.cluster()))
    }

    /// Whether this fact would change nothing any more. Of what is no fact of a pod, workload, quota or cluster, no.
    #[must_use]
    pub fn is_told(&self, event: &Event<'_>) -> bool {
        let Some(cluster) = self.names.known_cluster(&event.source) else { return false };
        let object = |uid: &str| ObjectId { cluster, uid: Uid::of(uid) };
        let pod = |uid: &str, told: &dyn Fn(&Pod) -> bool| match self.meter.pod(object(uid)) {
            Some(pod) => told(pod),
            // What lies beyond the horizon would be dropped.
            None => self.meter.horizon(cluster).is_some_and(|horizon| event.time < horizon),
        };
        let (time, book) = (event.time, self.book());
        match &event.data {
            Data::PodCreated(d) => pod(&d.uid, &|pod| pod.is_created()),
            Data::PodStarted(d) => pod(&d.uid, &|pod| pod.is_started(d.basis, time)),
            Data::PodRan(d) => {
                pod(&d.uid, &|pod| pod.ran_from().is_some_and(|from| from <= d.from))
            }
            Data::PodResized(d) => pod(&d.uid, &|pod| {
                let reserved = d.reserved.as_ref().unwrap_or(&d.held);
                pod.changed_at(time).any(|what| self.is_sized(what, &d.held, reserved))
            }),
            Data::PodMoved(d) => pod(&d.uid, &|pod| {
                pod.changed_at(time).any(|what| self.is_placed(what, &d.group, &d.models))
            }),
            Data::PodStopped(d) => pod(&d.uid, &|pod| pod.is_stopped(d.basis, time)),
            Data::PodStopWithdrawn(d) => {
                pod(&d.uid, &|pod| pod.alive_at().is_some_and(|alive| alive >= d.alive_at))
            }
            Data::WorkloadObserved(d) => {
                let object = object(&d.workload.uid);
                book.is_none_or(|book| book.is_observed(object, &d.resource_version))
            }
            Data::WorkloadGone(d) => book.is_none_or(|book| book.is_gone(object(&d.workload.uid))),
            Data::QuotaDeclared(d) => book.is_none_or(|book| {
                let group = event.subject.strip_prefix("quotas/");
                let group = group.and_then(|name| self.names.known_group(name));
                group.is_some_and(|group| book.is_declared(group, &d.resource_version))
            }),
            Data::QuotaRemoved(d) => book.is_none_or(|book| book.is_removed(Uid::of(&d.uid))),
            Data::ClusterBound(d) => self.known(cluster).bound.as_deref() == Some(&*d.uid),
            _ => false,
        }
    }

    /// What was told of a cluster itself, by name.
    #[must_use]
    pub fn cluster(&self, name: &str) -> Cluster {
        self.names.known_cluster_of(name).map(|cluster| self.known(cluster)).unwrap_or_default()
    }

    fn known(&self, cluster: ClusterId) -> Cluster {
        self.meter.sources.cluster(cluster).cloned().unwrap_or_default()
    }

    /// A pod that is neither ended nor forgotten, as it is now.
    #[must_use]
    pub fn pod_now(&self, pod: ObjectId) -> Option<PodNow<'_>> {
        let pod = self.meter.pod(pod)?;
        let charged = pod.charged()?;
        let shapes = &self.meter.shapes;
        let held = pod.held().and_then(|held| shapes.resources_of(held)).map(|held| &**held);
        Some(PodNow {
            pod,
            group: self.names.group_name(shapes.group(charged.placement)),
            models: shapes.models_of(charged.placement)?,
            held,
            reserved: shapes.resources_of(charged.reserved)?,
        })
    }

    /// The pods of a cluster that are believed to live, in no order.
    pub fn living(&self, cluster: ClusterId) -> impl Iterator<Item = &Pod> {
        let lives = move |pod: &&Pod| pod.cluster() == cluster && pod.charged().is_some();
        self.meter.pods().filter(lives)
    }

    fn is_sized(&self, what: What, held: &Resources, reserved: &Resources) -> bool {
        let What::Holds { held: h, reserved: r } = what else { return false };
        let is = |id, other: &Resources| {
            self.meter.shapes.resources_of(id).is_some_and(|known| **known == *other)
        };
        is(h, held) && is(r, reserved)
    }

    fn is_placed(&self, what: What, group: &str, models: &Models<'_>) -> bool {
        let What::Is(placement) = what else { return false };
        let shapes = &self.meter.shapes;
        self.names.group_name(shapes.group(placement)) == group
            && shapes.models_of(placement).is_some_and(|known| known == models)
    }
}
