//! The life of workloads and pods: observed, created, bound, run, ended, gone; each step a record, each planning the next.

use super::{
    Error, SECOND, cast,
    queue::{Expiry, Happening},
    record::Said,
    world::World,
};
use crate::domain::{
    event::{
        Data, ObjectRef, Period, PodCreated, PodMoved, PodRan, PodResized, PodStarted,
        PodStopWithdrawn, PodStopped, ReservationExpired, ResizeBasis, Role, StartBasis, StopBasis,
        WorkloadGone, WorkloadObserved,
    },
    resources::Resources,
    time::Timestamp,
};
use std::sync::Arc;

/// A workload and what its controller knows.
pub(super) struct Workload {
    pub(super) cluster: usize,
    pub(super) object: ObjectRef<'static>,
    pub(super) group: String,
    pub(super) role: Role<'static>,
    pub(super) version: u64,
    pub(super) generation: i64,
    /// Pods that live or are about to.
    pub(super) alive: u64,
    /// Pods that did their work.
    pub(super) done: u64,
    pub(super) plan: Plan,
    /// What was observed last asks for less than before: the former charge is kept for a while.
    pub(super) lowered: bool,
}

/// What a workload's pods do, and where.
#[derive(Clone)]
pub(super) struct Plan {
    /// How long a pod runs, in seconds, from and to; `None`: until it is told to end.
    pub(super) seconds: Option<(i64, i64)>,
    pub(super) place: Place,
}

/// On which nodes pods run.
#[derive(Clone)]
pub(super) enum Place {
    /// So many on each of these, in turn.
    Nodes(&'static [&'static str], u64),
    /// On any of the nodes of the crowd. Its pods say only when they started and stopped.
    Crowd,
}

/// A pod that lives, or is about to.
pub(super) struct Pod {
    pub(super) work: u64,
    pub(super) uid: String,
    /// `pods/NAMESPACE/NAME`.
    pub(super) subject: String,
    pub(super) node: String,
    held: Arc<Resources>,
    started: Option<Timestamp>,
    ran: Option<Timestamp>,
    /// Milliseconds that it runs; `None`: until it is told to end.
    length: Option<i64>,
}

/// What the API server and the observers need before nothing more can come of a former charge: the request timeout
/// (60 s), its margin (15 s), and the time of a list.
const EXPIRES: i64 = 90 * SECOND;
/// Kubernetes waits so long for a silent kubelet before it says that a node's state is unknown.
const GRACE: i64 = 50 * SECOND;

impl World {
    /// A workload that will be submitted.
    pub(super) fn workload(
        &mut self,
        cluster: usize,
        (api_version, kind): (&'static str, &'static str),
        (namespace, name): (String, String),
        role: Role<'static>,
        plan: Plan,
    ) -> u64 {
        let object = ObjectRef {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: Some(namespace.clone().into()),
            name: name.into(),
            uid: self.random.uuid().into(),
        };
        let version = self.version(cluster);
        let number = self.number();
        let work = Workload {
            cluster,
            object,
            group: namespace,
            role,
            version,
            generation: 1,
            alive: 0,
            done: 0,
            plan,
            lowered: false,
        };
        self.works.insert(number, work);
        number
    }

    /// A workload is seen as it really is; what is missing of its pods is made.
    pub(super) fn observe(&mut self, now: Timestamp, number: u64) -> Result<(), Error> {
        let Some(cluster) = self.works.get(&number).map(|w| w.cluster) else { return Ok(()) };
        let version = self.version(cluster);
        let Some(work) = self.works.get_mut(&number) else { return Ok(()) };
        work.version = version;
        let [east, west] = &self.clusters;
        let source = if cluster == cast::EAST { east.source } else { west.source };
        let subject = work.subject();
        let data = Data::WorkloadObserved(WorkloadObserved {
            workload: work.object.clone(),
            resource_version: version.to_string().into(),
            generation: work.generation,
            group: work.group.as_str().into(),
            roles: vec![work.role.clone()],
        });
        let said = Said { source, subject: &subject, time: now, now, data };
        let position = self.record.tell(said)?;
        if std::mem::take(&mut work.lowered) {
            let workload = work.object.clone();
            let expiry = Expiry { position, workload, cluster };
            self.queue.at(now.shifted(EXPIRES), Happening::Expire(Box::new(expiry)));
        }
        self.fill(now, number);
        Ok(())
    }

    /// Plans the pods that a workload's controller makes.
    pub(super) fn fill(&mut self, now: Timestamp, number: u64) {
        loop {
            let Some(work) = self.works.get(&number) else { return };
            let there = work.alive.saturating_add(work.done);
            if there >= work.role.count {
                return;
            }
            self.make(now, number, there);
        }
    }

    /// Plans one pod.
    pub(super) fn make(&mut self, now: Timestamp, number: u64, ordinal: u64) {
        let (uid, suffix) = (self.random.uuid(), self.random.suffix());
        let pod_number = self.number();
        let Some(work) = self.works.get_mut(&number) else { return };
        let node = match work.plan.place {
            Place::Nodes(nodes, each) => {
                let at = (ordinal / each.max(1)) % (nodes.len() as u64).max(1);
                let node = usize::try_from(at).ok().and_then(|at| nodes.get(at));
                node.map_or_else(String::new, |node| (*node).to_owned())
            }
            Place::Crowd => {
                let [east, west] = &self.clusters;
                let cluster = if work.cluster == cast::EAST { east } else { west };
                let node = self.random.below(cluster.crowd_nodes);
                format!("{}-batch-{:03}", cluster.name, node.saturating_add(1))
            }
        };
        let length = work
            .plan
            .seconds
            .map(|(least, most)| self.random.between(least, most).saturating_mul(SECOND));
        let namespace = work.object.namespace.as_deref().unwrap_or_default();
        let pod = Pod {
            work: number,
            uid,
            subject: format!("pods/{namespace}/{}-{suffix}", &*work.object.name),
            node,
            held: Arc::clone(&work.role.pod),
            started: None,
            ran: None,
            length,
        };
        work.alive = work.alive.saturating_add(1);
        self.made = self.made.saturating_add(1);
        let crowd = matches!(work.plan.place, Place::Crowd);
        let after = self.random.between(1, if crowd { 20 } else { 4 }).saturating_mul(SECOND);
        let what = if crowd { Happening::Start(pod_number) } else { Happening::Create(pod_number) };
        self.pods.insert(pod_number, pod);
        self.queue.at(now.shifted(after), what);
    }

    pub(super) fn create(&mut self, now: Timestamp, number: u64) -> Result<(), Error> {
        self.about(now, number, |pod, work| {
            let data = PodCreated {
                uid: pod.uid.as_str().into(),
                owner: Some(work.owner()),
                group: work.group.as_str().into(),
                models: work.role.models.clone(),
                reserved: Arc::clone(&pod.held),
            };
            (now, Data::PodCreated(data))
        })?;
        let wait = self.random.between(1, 7).saturating_mul(SECOND);
        self.queue.at(now.shifted(wait), Happening::Start(number));
        Ok(())
    }

    pub(super) fn start(&mut self, now: Timestamp, number: u64) -> Result<(), Error> {
        self.about(now, number, |pod, work| {
            let data = PodStarted {
                uid: pod.uid.as_str().into(),
                owner: Some(work.owner()),
                group: work.group.as_str().into(),
                models: work.role.models.clone(),
                node: pod.node.as_str().into(),
                held: Arc::clone(&pod.held),
                reserved: None,
                basis: StartBasis::Bound,
            };
            (now, Data::PodStarted(data))
        })?;
        // An image is pulled; the node's clock is not the API server's, and finer.
        let pull = self.random.between(900, 6_400);
        let Some(pod) = self.pods.get_mut(&number) else { return Ok(()) };
        pod.started = Some(now);
        pod.ran = Some(now.shifted(pull));
        if let Some(length) = pod.length {
            self.queue.at(now.shifted(length), Happening::Stop(number));
        }
        let told = self.works.get(&pod.work).is_some_and(|w| !w.is_crowd());
        if told {
            self.queue.at(now.shifted(pull.saturating_add(SECOND)), Happening::Ran(number));
        }
        Ok(())
    }

    pub(super) fn ran(&mut self, now: Timestamp, number: u64) -> Result<(), Error> {
        self.about(now, number, |pod, _| {
            let from = pod.ran.unwrap_or(now);
            (from, Data::PodRan(PodRan { uid: pod.uid.as_str().into(), from }))
        })
    }

    /// The containers of a pod ended, and its kubelet says so.
    pub(super) fn stop(&mut self, now: Timestamp, number: u64) -> Result<(), Error> {
        let early = self.random.between(120, 1_900);
        let failed = self.random.below(40) == 0;
        self.about(now, number, |pod, _| {
            let (phase, reason) = if failed { ("Failed", "Error") } else { ("Succeeded", "") };
            let ran = pod.ran.map(|from| Period { from, to: now.shifted(-early).max(from) });
            let data = PodStopped {
                uid: pod.uid.as_str().into(),
                earliest: now,
                latest: now,
                basis: StopBasis::TerminalStatus,
                phase: phase.into(),
                reason: reason.into(),
                ran,
            };
            (now, Data::PodStopped(data))
        })?;
        let Some(pod) = self.pods.remove(&number) else { return Ok(()) };
        let wait = self.random.between(5, 30).saturating_mul(SECOND);
        let Some(work) = self.works.get_mut(&pod.work) else { return Ok(()) };
        work.alive = work.alive.saturating_sub(1);
        if pod.length.is_some() {
            work.done = work.done.saturating_add(1);
            if work.done >= work.role.count && work.alive == 0 {
                self.queue.at(now.shifted(wait), Happening::Gone(pod.work));
            }
        }
        Ok(())
    }

    /// A node fell silent: what ran there is taken for stopped when its state became unknown, until the contrary shows.
    pub(super) fn lose(&mut self, now: Timestamp, number: u64) -> Result<(), Error> {
        self.about(now, number, |pod, _| {
            let data = PodStopped {
                uid: pod.uid.as_str().into(),
                earliest: now.shifted(-GRACE),
                latest: now,
                basis: StopBasis::NodeLost,
                phase: "Running".into(),
                reason: "NodeLost".into(),
                ran: None,
            };
            (now, Data::PodStopped(data))
        })
    }

    /// A pod that was taken for stopped is alive.
    pub(super) fn withdraw(&mut self, now: Timestamp, number: u64) -> Result<(), Error> {
        self.about(now, number, |pod, _| {
            let uid = pod.uid.as_str().into();
            (now, Data::PodStopWithdrawn(PodStopWithdrawn { uid, alive_at: now }))
        })
    }

    /// A pod is given other resources while it runs.
    pub(super) fn resize(
        &mut self,
        now: Timestamp,
        number: u64,
        to: &Arc<Resources>,
    ) -> Result<(), Error> {
        if let Some(pod) = self.pods.get_mut(&number) {
            pod.held = Arc::clone(to);
        }
        self.about(now, number, |pod, _| {
            let data = PodResized {
                uid: pod.uid.as_str().into(),
                held: Arc::clone(to),
                reserved: None,
                basis: ResizeBasis::KubeletStatus,
            };
            (now, Data::PodResized(data))
        })
    }

    /// A pod follows its workload into another group.
    pub(super) fn follow(&mut self, now: Timestamp, number: u64) -> Result<(), Error> {
        self.about(now, number, |pod, work| {
            let data = PodMoved {
                uid: pod.uid.as_str().into(),
                owner: Some(work.owner()),
                group: work.group.as_str().into(),
                models: work.role.models.clone(),
            };
            (now, Data::PodMoved(data))
        })
    }

    pub(super) fn gone(&mut self, now: Timestamp, number: u64) -> Result<(), Error> {
        let Some(work) = self.works.remove(&number) else { return Ok(()) };
        let cause = if work.done > 0 { "Finished" } else { "Deleted" };
        let workload = work.object.clone();
        let data = Data::WorkloadGone(WorkloadGone { workload, cause: cause.into() });
        let (source, subject) = (self.cluster(work.cluster).source, work.subject());
        let said = Said { source, subject: &subject, time: now, now, data };
        let position = self.record.tell(said)?;
        let expiry = Expiry { position, workload: work.object, cluster: work.cluster };
        self.queue.at(now.shifted(EXPIRES), Happening::Expire(Box::new(expiry)));
        Ok(())
    }

    pub(super) fn expire(&mut self, now: Timestamp, expiry: Expiry) -> Result<(), Error> {
        let cluster = self.cluster(expiry.cluster);
        let (name, source) = (cluster.name, cluster.source);
        let data = Data::ReservationExpired(ReservationExpired {
            position: expiry.position,
            workload: Some(expiry.workload),
            cluster: name.into(),
        });
        self.record.tell(Said { source, subject: "decisions", time: now, now, data })?;
        Ok(())
    }

    /// The pods of a workload that live, oldest first.
    pub(super) fn pods_of(&self, work: u64) -> Vec<u64> {
        let of = self.pods.iter().filter(|(_, pod)| pod.work == work && pod.started.is_some());
        of.map(|(number, _)| *number).collect()
    }

    /// Records what `say` says of a pod that lives; of one that does not, there is nothing to say.
    fn about(
        &mut self,
        now: Timestamp,
        number: u64,
        say: impl for<'a> FnOnce(&'a Pod, &'a Workload) -> (Timestamp, Data<'a>),
    ) -> Result<(), Error> {
        let Some(pod) = self.pods.get(&number) else { return Ok(()) };
        let Some(work) = self.works.get(&pod.work) else { return Ok(()) };
        let [east, west] = &self.clusters;
        let source = if work.cluster == cast::EAST { east.source } else { west.source };
        let (time, data) = say(pod, work);
        let said = Said { source, subject: &pod.subject, time, now, data };
        // A workload of the crowd is charged from its observation to its end whatever its pods do, and no budget
        // comes near its end by them: what decides needs them not, and would fill the memory with them.
        if work.is_crowd() {
            self.record.pass(said)?
        } else {
            self.record.tell(said)?
        };
        Ok(())
    }
}

impl Workload {
    /// `workloads/GROUP/KIND/NAMESPACE/NAME`.
    pub(super) fn subject(&self) -> String {
        let ObjectRef { api_version, kind, namespace, name, .. } = &self.object;
        let group = api_version.split_once('/').map_or("core", |(group, _)| group);
        format!("workloads/{group}/{kind}/{}/{name}", namespace.as_deref().unwrap_or_default())
    }

    /// `Deployment search/search-api`.
    pub(super) fn title(&self) -> String {
        let ObjectRef { kind, namespace, name, .. } = &self.object;
        format!("{kind} {}/{name}", namespace.as_deref().unwrap_or_default())
    }

    pub(super) fn is_crowd(&self) -> bool {
        matches!(self.plan.place, Place::Crowd)
    }

    /// As a pod names it.
    fn owner(&self) -> ObjectRef<'_> {
        let ObjectRef { api_version, kind, name, uid, .. } = &self.object;
        let (api_version, kind) = (api_version.as_str().into(), kind.as_str().into());
        let (name, uid) = (name.as_str().into(), uid.as_str().into());
        ObjectRef { api_version, kind, namespace: None, name, uid }
    }
}
