//! What is known of one cluster by its lists and watches, and the facts that follow from it. Pure: it asks nobody what
//! time it is, and appends nothing.
//!
//! ```text
//!  updates of kinds ─▶ apply ─▶ pods, owners, nodes, workloads, quotas ─┐ what changed
//!                                                                       ▼
//!  ledger (what is told already), context ────────────────────────▶ drain ─▶ facts
//! ```
//!
//! A pod waits a moment for its owner and its node, if these are not known yet; what is learnt too late becomes a
//! move that is dated when it was true.

mod coverage;
mod facts;
mod nodes;
mod pods;
mod quotas;
mod workloads;

pub(super) use facts::Facts;

use super::{
    Cluster,
    inventory::Named,
    objects::{Object, Topic},
    owners::{Owners, Timeline, Version},
    shared::Shared,
    watch::{Sent, Update},
};
use crate::{
    domain::{
        event::Data,
        label_keys::LabelKeys,
        ledger::Ledger,
        names::{Map, Set, Uid},
        time::Timestamp,
    },
    k8s::{context::Context, kinds::Kinds, meta::ObjectMeta},
};
use coverage::Coverage;
use nodes::Nodes;
use pods::Kept;
use quotas::Quotas;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use workloads::Workload;

/// Ticks (of 250 ms) that a pod or a workload waits for what it refers to.
const WAITS: u64 = 20;
/// Ticks for which an owner that was deleted is remembered at least: pods outlive their owners by their grace.
const REMEMBERED: u64 = 2400;
/// An instant in whole seconds lies up to so much before what it stands for.
const SECOND_MS: i64 = 1000;
/// Things that are looked at in one go, so that others get their turn at the ledger.
const CHUNK: usize = 256;

/// See the head of this file.
pub(super) struct View {
    cluster: Cluster,
    kinds: Arc<Kinds>,
    owners: Owners,
    shared: Shared,
    pods: Map<Uid, Kept>,
    /// Pods by namespace: whom a change of an owner or of the namespace may concern.
    namespaces: Map<Arc<str>, Set<Uid>>,
    /// Of each list of pods one more.
    generation: u64,
    nodes: Nodes,
    coverage: Coverage,
    workloads: Map<Uid, Workload>,
    quotas: Quotas,
    /// What is to be looked at, in order.
    changed: VecDeque<Changed>,
    /// What waits, and until which tick.
    waiting: Vec<(u64, Changed)>,
    /// What follows from objects by themselves: subject, time, and what is to be told.
    pending: Vec<(String, Timestamp, Data<'static>)>,
    /// Owners that were deleted, and when they may be forgotten.
    graves: VecDeque<(u64, Arc<str>, Uid)>,
    facts: Facts,
    /// The newest instant of the API server's clock on any object.
    reached: Timestamp,
    /// When the newest list of pods began to be sent (the API server's clock, in whole seconds).
    listed: Option<Timestamp>,
    keeps_status_writes: bool,
    ticks: u64,
    /// Everything that was there has been listed: until then nothing follows.
    synced: bool,
    /// Everything is compared with the ledger again; what differs is drift.
    comparing: bool,
}

/// Something that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    Pod(Uid),
    Workload(Uid),
}

impl View {
    /// A view of `cluster` that knows nothing yet.
    pub(super) fn new(cluster: Cluster, kinds: Arc<Kinds>, labels: Arc<LabelKeys>) -> Self {
        let (nodes, facts) = (Nodes::new(&cluster), Facts::new(&cluster));
        Self {
            cluster,
            kinds,
            owners: Owners::default(),
            shared: Shared::new(labels),
            pods: Map::default(),
            namespaces: Map::default(),
            generation: 0,
            nodes,
            coverage: Coverage::default(),
            workloads: Map::default(),
            quotas: Quotas::default(),
            changed: VecDeque::new(),
            waiting: Vec::new(),
            pending: Vec::new(),
            graves: VecDeque::new(),
            facts,
            reached: Timestamp::MIN,
            listed: None,
            keeps_status_writes: false,
            ticks: 0,
            synced: false,
            comparing: false,
        }
    }

    /// Takes in what was told of a kind, and what is gone by it. Objects that cannot be read say nothing here.
    pub(super) fn apply(&mut self, topic: &Topic, update: &Update<Object>, gone: &[Named]) {
        for named in gone {
            self.lose(topic, named, true);
        }
        match update {
            Update::Begins(_) if matches!(topic, Topic::Pods) => self.generation += 1,
            Update::Listed { at, .. } if matches!(topic, Topic::Pods) => {
                self.listed = self.listed.max(*at);
                self.find_absent();
            }
            Update::Objects(objects) => objects.iter().for_each(|sent| self.see(topic, sent)),
            _ => {}
        }
    }

    /// A moment has passed: what has waited long enough is to be looked at, also where nothing else happens.
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
        self.wake();
        if self.ticks.is_multiple_of(WAITS) {
            self.forget_owners();
        }
    }

    /// Everything that was there has been listed. What the ledger believes to be there and is not, has gone.
    /// `complete` of pods, of workloads and of quotas: no list of them failed.
    pub(super) fn sync(&mut self, ledger: &Ledger, complete: Complete) {
        self.synced = true;
        if complete.pods {
            self.find_vanished_pods(ledger);
        }
        if complete.workloads {
            self.find_vanished_workloads(ledger);
        }
        if complete.quotas {
            self.find_vanished_quotas(ledger);
        }
    }

    /// Looks at everything once more, to find where the ledger says something else.
    pub(super) fn compare(&mut self) {
        self.comparing = true;
        for pod in self.pods.values_mut() {
            pod.compared = false;
        }
        for workload in self.workloads.values_mut() {
            workload.compared = false;
        }
        self.changed.extend(self.workloads.keys().map(|uid| Changed::Workload(*uid)));
        self.changed.extend(self.pods.keys().map(|uid| Changed::Pod(*uid)));
    }

    /// What was there at this instant is known: the newest on any object, or that of the newest list of pods.
    pub(super) fn known_since(&self) -> Timestamp {
        self.reached.max(self.listed.unwrap_or(Timestamp::MIN))
    }

    /// What the newest list of pods does not show had ended by then.
    fn ended_by(&self) -> Timestamp {
        let listed = self.listed.map_or(Timestamp::MIN, |at| at.shifted(SECOND_MS));
        self.reached.max(listed)
    }

    /// Whether a comparison is under way.
    pub(super) const fn is_comparing(&self) -> bool {
        self.comparing
    }

    /// Whether there is something to look at.
    pub(super) fn is_idle(&self) -> bool {
        !self.comparing
            && self.changed.is_empty()
            && self.facts.is_empty()
            && self.pending.is_empty()
    }

    /// Some of the facts that follow from what changed and that `ledger` does not know; `now` they are recorded.
    pub(super) fn drain(
        &mut self,
        context: &Context,
        ledger: &Ledger,
        now: Timestamp,
    ) -> &mut Facts {
        if self.synced {
            self.facts.now = now;
            self.wake();
            for (subject, time, data) in std::mem::take(&mut self.pending) {
                self.facts.tell(ledger, subject, time, data);
            }
            for _ in 0..CHUNK {
                let Some(changed) = self.changed.pop_front() else {
                    self.comparing = false;
                    break;
                };
                match changed {
                    Changed::Pod(uid) => self.look_at_pod(uid, ledger),
                    Changed::Workload(uid) => self.look_at_workload(uid, context, ledger),
                }
            }
        }
        &mut self.facts
    }

    /// How many facts comparisons found missing since the last call.
    pub(super) const fn take_drift(&mut self) -> u64 {
        self.facts.take_drift()
    }

    /// What waited long enough, or need not wait any more.
    fn wake(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        for (until, changed) in std::mem::take(&mut self.waiting) {
            let waits = self.ticks < until
                && match changed {
                    Changed::Pod(uid) => self.lacks_something(uid),
                    Changed::Workload(uid) => self.lacks_owner(uid),
                };
            match waits {
                true => self.waiting.push((until, changed)),
                false => self.changed.push_back(changed),
            }
        }
    }

    fn see(&mut self, topic: &Topic, sent: &Sent<Object>) {
        let Ok(object) = &sent.object else { return };
        match object {
            Object::Pod(pod) => return self.see_pod(pod, sent.deleted, sent.received),
            _ if sent.deleted => return self.lose(topic, &Named::of(object.meta()), false),
            Object::Kind(kind, object) => self.see_object(kind, object, sent.received),
            Object::Text(meta, _) if matches!(topic, Topic::Namespaces) => {
                self.see_namespace(meta, sent.received);
            }
            Object::Text(..) => {}
            Object::Node(node) => self.see_node(node),
            Object::Quota(quota) => self.see_quota(quota, sent.received),
        }
        if let Some(time) = object.meta().newest_api_time() {
            self.reached = self.reached.max(time);
        }
    }

    /// An object was deleted, or vanished while nobody watched.
    fn lose(&mut self, topic: &Topic, named: &Named, absent: bool) {
        match topic {
            Topic::Kind(_) => self.lose_object(named, absent),
            Topic::Quotas => self.lose_quota(named),
            Topic::Nodes => self.nodes.lose(&named.name),
            Topic::Namespaces => self.coverage.lose(&named.name),
            _ => {}
        }
    }

    fn see_namespace(&mut self, meta: &ObjectMeta, received: Option<Timestamp>) {
        let Some(version) = self.version(meta, received) else { return };
        let name = self.shared.text(&meta.name);
        self.see_coverage(&name, meta);
        let last = |owners: &Owners| owners.namespace(&name).and_then(Timeline::last).cloned();
        let before = last(&self.owners);
        self.owners.see_namespace(Arc::clone(&name), version);
        if before != last(&self.owners) {
            self.touch_namespace(&name);
            let inside = self.workloads.iter().filter(|(_, work)| work.namespace == name);
            self.changed.extend(inside.map(|(uid, _)| Changed::Workload(*uid)));
        }
    }

    /// Whatever is in this namespace may count elsewhere now.
    fn touch_namespace(&mut self, name: &str) {
        for uid in self.namespaces.get(name).into_iter().flatten() {
            self.changed.push_back(Changed::Pod(*uid));
            if let Some(pod) = self.pods.get_mut(uid) {
                pod.fresh = true;
            }
        }
    }

    /// What an object's metadata declares, and as of when.
    fn version(&mut self, meta: &ObjectMeta, received: Option<Timestamp>) -> Option<Version> {
        let version = meta.resource_version.parse().ok()?;
        let time = meta.newest_api_time()?;
        let learned = self.learned(received);
        let declared = Arc::new(self.shared.declared(meta));
        // Of what was listed, versions between are not known: others say how late it is.
        let time = learned.filter(|_| received.is_none()).map_or(time, |late| time.max(late));
        Some(Version { version, time, learned, declared })
    }

    /// When something was learned, if the server may not say when it was written.
    fn learned(&self, received: Option<Timestamp>) -> Option<Timestamp> {
        let late = received.map_or(self.reached, |received| received.max(self.reached));
        (!self.keeps_status_writes).then_some(late)
    }

    /// Forgets owners that are gone and have no pods left.
    fn forget_owners(&mut self) {
        let mut due: BTreeMap<Arc<str>, Vec<Uid>> = BTreeMap::new();
        while let Some((until, _, _)) = self.graves.front() {
            if *until > self.ticks {
                break;
            }
            if let Some((_, namespace, uid)) = self.graves.pop_front() {
                due.entry(namespace).or_default().push(uid);
            }
        }
        for (namespace, uids) in due {
            let pods = self.namespaces.get(&namespace).into_iter().flatten();
            let pods = pods.filter_map(|uid| self.pods.get(uid));
            let mut needed: Set<Uid> = Set::default();
            for pod in pods {
                self.owners.above(&pod.declared, &namespace, |uid| {
                    needed.insert(uid);
                });
            }
            for uid in uids {
                match needed.contains(&uid) {
                    true => self.graves.push_back((
                        self.ticks + REMEMBERED,
                        Arc::clone(&namespace),
                        uid,
                    )),
                    false => self.owners.forget(uid),
                }
            }
        }
    }
}

/// Of what everything was listed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Complete {
    pub(super) pods: bool,
    pub(super) workloads: bool,
    pub(super) quotas: bool,
}

impl Complete {
    /// What of this is not in `other`.
    pub(super) const fn without(self, other: Self) -> Self {
        Self {
            pods: self.pods && !other.pods,
            workloads: self.workloads && !other.workloads,
            quotas: self.quotas && !other.quotas,
        }
    }

    /// Both together.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            pods: self.pods || other.pods,
            workloads: self.workloads || other.workloads,
            quotas: self.quotas || other.quotas,
        }
    }

    /// Whether it is anything.
    pub(super) const fn any(self) -> bool {
        self.pods || self.workloads || self.quotas
    }
}
