//! Pods: their facts as they come, and where the ledger says something else.

use super::{Changed, View, WAITS};
use crate::{
    domain::{
        event::{
            Data, ObjectRef, PodCreated, PodMoved, PodRan, PodResized, PodStarted,
            PodStopWithdrawn, PodStopped, ResizeBasis, StopBasis, WorkloadGone, WorkloadObserved,
        },
        ledger::Ledger,
        names::{ObjectId, Uid},
        resources::{Models, Resources},
        text::Text,
        time::Timestamp,
    },
    observe::{
        objects::SeenPod,
        owners::{Assignment, Reference, Timeline, Version},
        pods::{Fact, History, State, Stop, Surroundings, What},
    },
};
use std::sync::Arc;

/// What is kept of a pod.
pub(super) struct Kept {
    uid: Arc<str>,
    pub(super) namespace: Arc<str>,
    name: Arc<str>,
    pub(super) node: Arc<str>,
    pub(super) declared: Timeline,
    history: History,
    pub(super) mirrored: bool,
    /// The list of pods that showed it last.
    generation: u64,
    /// What it counted under from its first version on, as it was told.
    base: Option<Arc<Assignment>>,
    /// The creation was told with it.
    waited: bool,
    /// A consistent read does not show it any more.
    absent: bool,
    deleted: bool,
    /// It was compared with the ledger.
    pub(super) compared: bool,
    /// It, or what it counts under, changed since it was looked at.
    pub(super) fresh: bool,
    /// A pod without an owner is a workload: what was told of it as one.
    own: Option<(Arc<str>, Arc<Resources>)>,
    /// Its end was told.
    over: bool,
    /// It is counted among those that nobody is asked about.
    pub(super) uncovered: bool,
}

impl Kept {
    /// Whether it is there, and has not ended.
    pub(super) fn lives(&self) -> bool {
        !self.absent && !self.deleted && self.history.last_version().is_none()
    }
}

/// What surrounds a pod.
struct Around<'v> {
    view: &'v View,
}

impl Surroundings for Around<'_> {
    fn keeps_status_writes(&self) -> bool {
        self.view.keeps_status_writes
    }

    fn next_api_time(&self, _: u64, earliest: Timestamp) -> Timestamp {
        self.view.reached.max(earliest)
    }

    fn node_lost(&self, node: &str) -> Option<Timestamp> {
        self.view.nodes.lost(node)
    }
}

/// What a pod counted under, and from when.
type Assigned = (Timestamp, Arc<Assignment>);

impl View {
    pub(super) fn see_pod(&mut self, seen: &SeenPod, deleted: bool, received: Option<Timestamp>) {
        self.reached = self.reached.max(seen.time);
        self.keeps_status_writes |= seen.keeps_status_writes;
        let text = seen.uid();
        let uid = Uid::of(&text);
        let mut sighting = seen.sighting.clone();
        sighting.received = received;
        self.shared.share(&mut sighting);
        let (version, time, learned) = (sighting.version, seen.time, self.learned(received));
        let declared = Arc::new(self.shared.declared(&seen.meta));
        let node = Arc::clone(&sighting.state.node);
        let shared = &mut self.shared;
        let namespaces = &mut self.namespaces;
        let kept = self.pods.entry(uid).or_insert_with(|| {
            let namespace = shared.text(&seen.meta.namespace);
            namespaces.entry(Arc::clone(&namespace)).or_default().insert(uid);
            Kept {
                uid: text.as_str().into(),
                namespace,
                name: seen.meta.name.as_str().into(),
                node: Arc::clone(&node),
                declared: Timeline::default(),
                history: History::default(),
                mirrored: seen.mirrored,
                generation: 0,
                base: None,
                waited: false,
                absent: false,
                deleted: false,
                compared: false,
                fresh: true,
                own: None,
                over: false,
                uncovered: false,
            }
        });
        if kept.node.is_empty() {
            kept.node = Arc::clone(&node);
        }
        if kept.node != node && !node.is_empty() {
            let (namespace, name, other) = (&kept.namespace, &kept.name, &kept.node);
            (self.cluster.notice)(&format!(
                "pod {namespace}/{name} is on node {node}, but was on {other}; its uid stands for one node only"
            ));
            return;
        }
        (kept.generation, kept.absent, kept.fresh) = (self.generation, false, true);
        kept.declared.see(Version { version, time, learned, declared });
        if deleted {
            kept.deleted = true;
            kept.history.see_deleted(sighting);
        } else {
            kept.history.see(sighting);
        }
        self.changed.push_back(Changed::Pod(uid));
    }

    /// A list is whole: what it did not show is not there any more.
    pub(super) fn find_absent(&mut self) {
        let generation = self.generation;
        for (uid, kept) in self.pods.iter_mut().filter(|(_, kept)| kept.generation < generation) {
            (kept.absent, kept.fresh) = (true, true);
            self.changed.push_back(Changed::Pod(*uid));
        }
    }

    /// What the ledger believes to live here and was not listed, has stopped: nobody saw when. Its last proof of life is
    /// what was told of it, or the last time when everything was known.
    pub(super) fn find_vanished_pods(&mut self, ledger: &Ledger) {
        let Some(cluster) = ledger.names().known_cluster_of(&self.cluster.name) else { return };
        let synced = ledger.cluster(&self.cluster.name).synced;
        let vanished = ledger.living(cluster).filter(|pod| !self.pods.contains_key(&pod.id.uid));
        let vanished: Vec<_> =
            vanished.map(|pod| (pod.id.uid, Some(pod.newest()).max(synced))).collect();
        for (uid, lived) in vanished {
            let earliest = lived.unwrap_or_default();
            let uid = uid.to_string();
            let stopped = PodStopped {
                uid: uid.clone().into(),
                earliest,
                latest: self.ended_by().max(earliest),
                basis: StopBasis::Absent,
                phase: Text::default(),
                reason: Text::default(),
                ran: None,
            };
            // Of one that was not seen since the start nobody here knows the name.
            self.facts.tell(ledger, format!("pods/{uid}"), earliest, Data::PodStopped(stopped));
        }
    }

    /// Whether a pod's owner or node is not known yet.
    pub(super) fn lacks_something(&self, uid: Uid) -> bool {
        let Some(kept) = self.pods.get(&uid) else { return false };
        let owner = kept.declared.last().and_then(|declared| declared.owner.as_deref());
        self.nodes.lacks(&kept.node) || owner.is_some_and(|owner| self.lacks(owner))
    }

    /// Whether an owner of a declared kind is not known yet.
    pub(super) fn lacks(&self, owner: &Reference) -> bool {
        let declared = self.kinds.find_in_group(&owner.api_version, &owner.kind).is_some();
        let uid = Uid::of(&owner.uid);
        declared && self.owners.object(uid).is_none() && !self.pods.contains_key(&uid)
    }

    pub(super) fn look_at_pod(&mut self, uid: Uid, ledger: &Ledger) {
        let lacks = self.lacks_something(uid);
        let Some(kept) = self.pods.get_mut(&uid) else { return };
        if !kept.waited {
            kept.waited = true;
            if lacks && self.ticks > 0 {
                self.waiting.push((self.ticks + WAITS, Changed::Pod(uid)));
                return;
            }
        } else if lacks && self.waiting.iter().any(|(_, waiting)| *waiting == Changed::Pod(uid)) {
            return;
        }
        let Some(mut kept) = self.pods.remove(&uid) else { return };
        let assigned = self.assigned(&kept);
        // What changed a moment ago is no drift, and the ledger may not have read the last of it.
        let fresh = std::mem::take(&mut kept.fresh);
        let mut missing = u64::from(self.tell_pod(&mut kept, &assigned, ledger));
        if !kept.compared && (!fresh || !self.comparing) {
            missing += u64::from(self.compare_pod(&kept, &assigned, ledger, uid));
        }
        kept.compared = true;
        if self.comparing && !fresh {
            self.facts.drift += missing;
        }
        let uncovered = assigned.last().is_some_and(|(_, now)| self.is_uncovered(&kept, now));
        self.count_uncovered(&mut kept, uncovered);
        kept.history.settle();
        if kept.deleted || kept.absent {
            if let Some(inside) = self.namespaces.get_mut(&kept.namespace) {
                inside.remove(&uid);
                if inside.is_empty() {
                    self.namespaces.remove(&kept.namespace);
                }
            }
            return;
        }
        self.pods.insert(uid, kept);
    }

    /// What a pod counts under from its first version on, and each change until its end.
    fn assigned(&self, kept: &Kept) -> Vec<Assigned> {
        let first = kept.history.first_version().unwrap_or_default();
        let (own, namespace, node) = (&kept.declared, &*kept.namespace, &*kept.node);
        let at =
            |version| Arc::new(self.named(self.owners.assignment(own, namespace, node, version)));
        let mut assigned = vec![(Timestamp::MIN, at(first))];
        let end = kept.history.last_version();
        for (version, time) in self.owners.changes(own, namespace, node, first, end, usize::MAX) {
            let next = at(version);
            if let Some((before, last)) = assigned.last()
                && !last.same_as(&next)
            {
                // Of two changes in one second the later one counts, and each is told.
                assigned.push((time.max(before.shifted(1)), next));
            }
        }
        assigned
    }

    /// What names no group is of the default group.
    fn named(&self, mut assignment: Assignment) -> Assignment {
        if assignment.group.is_empty() {
            assignment.group = self.cluster.default_group.as_str().into();
        }
        assignment
    }

    /// Tells what happened to a pod; whether anything was news.
    fn tell_pod(&mut self, kept: &mut Kept, assigned: &[Assigned], ledger: &Ledger) -> bool {
        let Some((_, base)) = assigned.first() else { return false };
        let mut news = false;
        let facts = {
            let mut facts = kept.history.facts(&Around { view: self });
            let ended = facts.iter().any(|fact| matches!(fact.what, What::Stopped(_)));
            if kept.absent && !ended {
                facts.extend(kept.history.absent(self.ended_by()));
            }
            facts
        };
        let virtual_node = self.nodes.is_virtual(&kept.node);
        let at = |time: Timestamp| {
            let last = assigned.iter().rev().find(|(from, _)| *from <= time);
            Arc::clone(last.map_or(base, |(_, assignment)| assignment))
        };
        let mut since = None;
        for Fact { time, what } in &facts {
            let data = match what {
                What::Created(state) => {
                    since = since.max(Some(*time));
                    created(kept, base, state)
                }
                What::Started(..) | What::Ran if virtual_node => continue,
                What::Started(state, basis) => {
                    since = since.max(Some(*time));
                    started(kept, &at(*time), state, *basis)
                }
                What::Ran => Data::PodRan(PodRan { uid: text(&kept.uid), from: *time }),
                What::Resized(state, basis) => resized(kept, state, *basis),
                What::Stopped(stop) => stopped(kept, stop),
            };
            news |= self.tell(kept, ledger, *time, data);
        }
        // What is learnt too late was true from the beginning on.
        let late = kept.base.as_ref().is_some_and(|told| !told.same_as(base));
        if let (true, Some(since)) = (late, since) {
            news |= self.tell(kept, ledger, since, moved(kept, base));
        }
        kept.base = Some(Arc::clone(base));
        for (time, assignment) in assigned.iter().skip(1) {
            // A change before the start is what the start says.
            if since.is_none_or(|since| since < *time) {
                news |= self.tell(kept, ledger, *time, moved(kept, assignment));
            }
        }
        news |= self.tell_own(kept, assigned, &facts, ledger);
        news
    }

    fn tell(&mut self, kept: &Kept, ledger: &Ledger, time: Timestamp, data: Data<'static>) -> bool {
        let subject = format!("pods/{}/{}", kept.namespace, kept.name);
        self.facts.tell(ledger, subject, time, data)
    }

    /// A pod without an owner is a workload of its own, and its admission ends when it is seen.
    fn tell_own(
        &mut self,
        kept: &mut Kept,
        assigned: &[Assigned],
        facts: &[Fact],
        ledger: &Ledger,
    ) -> bool {
        let Some((_, assignment)) = assigned.last() else { return false };
        let Some(last) = kept.history.sightings().last() else { return false };
        if assignment.owner.is_some() || kept.mirrored || kept.over {
            return false;
        }
        let subject = format!("workloads//Pod/{}/{}", kept.namespace, kept.name);
        let workload = ObjectRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some(text(&kept.namespace)),
            name: text(&kept.name),
            uid: text(&kept.uid),
        };
        let stop = facts.iter().find_map(|fact| match &fact.what {
            What::Stopped(_) => Some(fact.time),
            _ => None,
        });
        if let Some(time) = stop {
            kept.over = true;
            let cause = match (kept.absent, kept.deleted) {
                (true, _) => "Absent",
                (_, true) => "Deleted",
                _ => "Finished",
            };
            let gone = WorkloadGone { workload, cause: cause.into() };
            return self.facts.tell(ledger, subject, time, Data::WorkloadGone(gone));
        }
        let reserved = &last.state.reserved;
        let same = |(group, told): &(Arc<str>, Arc<Resources>)| {
            *group == assignment.group && told == reserved
        };
        if kept.own.as_ref().is_some_and(same) {
            return false;
        }
        kept.own = Some((Arc::clone(&assignment.group), Arc::clone(reserved)));
        let role = super::workloads::one_pod(models(assignment), reserved);
        let observed = WorkloadObserved {
            workload,
            resource_version: last.version.to_string().into(),
            generation: 0,
            group: text(&assignment.group),
            roles: vec![role],
        };
        let time = last.proof.unwrap_or(self.reached);
        self.facts.tell(ledger, subject, time, Data::WorkloadObserved(observed))
    }

    /// Where the ledger has something else of a pod than is there, what is there is told, dated after what it has.
    /// Says whether it had.
    fn compare_pod(
        &mut self,
        kept: &Kept,
        assigned: &[Assigned],
        ledger: &Ledger,
        uid: Uid,
    ) -> bool {
        let Some(cluster) = ledger.names().known_cluster_of(&self.cluster.name) else {
            return false;
        };
        let id = ObjectId { cluster, uid };
        let Some(last) = kept.history.sightings().last().cloned() else { return false };
        let proof = last.proof.unwrap_or(self.reached).max(self.reached);
        let Some(pod) = ledger.meter().pod(id).filter(|_| kept.lives()) else { return false };
        if let Some(stop) = pod.ended() {
            // It was given up, and lives.
            if !stop.basis.is_provisional() || stop.time >= proof {
                return false;
            }
            let withdrawn = PodStopWithdrawn { uid: text(&kept.uid), alive_at: proof };
            return self.tell(kept, ledger, proof, Data::PodStopWithdrawn(withdrawn));
        }
        let Some(now) = ledger.pod_now(id) else { return false };
        let mut news = false;
        let state = &last.state;
        let sized =
            *now.reserved == *state.reserved && now.held.is_none_or(|held| *held == *state.held);
        if !sized {
            let time = last.status_write.or(last.proof).unwrap_or(self.reached);
            let time = time.max(pod.newest().shifted(1));
            news |= self.tell(kept, ledger, time, resized(kept, state, ResizeBasis::Received));
        }
        let Some((time, assignment)) = assigned.last() else { return news };
        if now.group != &*assignment.group || *now.models != models(assignment) {
            // Not before it was written, as far as that is known.
            let written = self.owners.newest(&kept.declared, &kept.namespace);
            let written = written.max(self.learned(None)).unwrap_or(self.reached);
            let time = (*time).max(written).max(pod.newest().shifted(1));
            news |= self.tell(kept, ledger, time, moved(kept, assignment));
        }
        news
    }
}

fn text(text: &str) -> Text<'static> {
    Text::from(text.to_owned())
}

fn created(kept: &Kept, under: &Assignment, state: &State) -> Data<'static> {
    Data::PodCreated(PodCreated {
        uid: text(&kept.uid),
        owner: owner(under),
        group: text(&under.group),
        models: models(under),
        reserved: Arc::clone(&state.reserved),
    })
}

fn started(
    kept: &Kept,
    under: &Assignment,
    state: &State,
    basis: crate::domain::event::StartBasis,
) -> Data<'static> {
    Data::PodStarted(PodStarted {
        uid: text(&kept.uid),
        owner: owner(under),
        group: text(&under.group),
        models: models(under),
        node: text(&state.node),
        held: Arc::clone(&state.held),
        reserved: reserved(state),
        basis,
    })
}

fn resized(kept: &Kept, state: &State, basis: ResizeBasis) -> Data<'static> {
    let (uid, held) = (text(&kept.uid), Arc::clone(&state.held));
    Data::PodResized(PodResized { uid, held, reserved: reserved(state), basis })
}

fn moved(kept: &Kept, under: &Assignment) -> Data<'static> {
    let (uid, group) = (text(&kept.uid), text(&under.group));
    Data::PodMoved(PodMoved { uid, owner: owner(under), group, models: models(under) })
}

fn stopped(kept: &Kept, stop: &Stop) -> Data<'static> {
    Data::PodStopped(PodStopped {
        uid: text(&kept.uid),
        earliest: stop.earliest,
        latest: stop.latest,
        basis: stop.basis,
        phase: text(&stop.state.phase),
        reason: text(&stop.state.reason),
        ran: stop.ran,
    })
}

fn reserved(state: &State) -> Option<Arc<Resources>> {
    (state.reserved != state.held).then(|| Arc::clone(&state.reserved))
}

fn owner(under: &Assignment) -> Option<ObjectRef<'static>> {
    under.owner.as_deref().map(|owner| ObjectRef {
        api_version: text(&owner.api_version),
        kind: text(&owner.kind),
        namespace: None,
        name: text(&owner.name),
        uid: text(&owner.uid),
    })
}

fn models(under: &Assignment) -> Models<'static> {
    let [cpu, memory, gpu] = under.models.each_ref().map(|model| model.as_deref().map(text));
    Models { cpu, memory, gpu }
}
