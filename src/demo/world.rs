//! Everything that exists at the simulated moment, and what each happening does to it.

use super::{
    Error, Options, Played, Refused, Scene,
    cast::{self, Cluster, Group},
    crowd,
    door::Door,
    life::{Pod, Workload},
    queue::{Happening, Queue},
    random::Random,
    record::{Recorder, Said},
};
use crate::domain::{
    event::{ClusterBound, Data, NodeObserved, ObserverSynced, Position},
    time::Timestamp,
};
use std::collections::BTreeMap;

/// See the head of this file.
pub(super) struct World {
    pub(super) options: Options,
    pub(super) queue: Queue,
    pub(super) record: Recorder,
    /// Where the story's reviews are asked; `None`: they are decided here, by the rules.
    pub(super) door: Option<Box<dyn Door>>,
    pub(super) random: Random,
    pub(super) clusters: [Cluster; 2],
    pub(super) groups: Vec<Group>,
    pub(super) crowd: crowd::Crowd,
    /// Workloads by number; those that are gone are not here.
    pub(super) works: BTreeMap<u64, Workload>,
    /// Pods by number; those that ended are not here.
    pub(super) pods: BTreeMap<u64, Pod>,
    /// Workloads that the story speaks of.
    pub(super) known: BTreeMap<&'static str, u64>,
    /// Pods that were ever made, or are about to be.
    pub(super) made: u64,
    numbers: u64,
    scenes: Vec<Scene>,
    pub(super) refusals: Vec<Refused>,
}

/// Milliseconds between two heartbeats of an observer: an hour. (A real one speaks every five minutes.)
const HEARTBEAT: i64 = crate::domain::time::HOUR_MS;

impl World {
    pub(super) fn new(options: Options) -> Result<Self, Error> {
        let mut random = Random::new(options.seed);
        let record = Recorder::new(random.bits());
        let mut cluster = |name, source| Cluster::new(name, source, random.uuid(), options.pods);
        let clusters = [cluster("east", "/clusters/east"), cluster("west", "/clusters/west")];
        let crowd = crowd::Crowd::new(options.pods);
        let groups = cast::groups(crowd.needs(), || random.uuid())?;
        Ok(Self {
            options,
            queue: Queue::default(),
            record,
            door: None,
            random,
            clusters,
            groups,
            crowd,
            works: BTreeMap::new(),
            pods: BTreeMap::new(),
            known: BTreeMap::new(),
            made: 0,
            numbers: 0,
            scenes: Vec::new(),
            refusals: Vec::new(),
        })
    }

    pub(super) fn into_played(self) -> Played {
        let main = self.groups.iter().filter(|group| !cast::is_one_of_many(&group.name));
        let groups = main.map(|group| group.name.clone()).collect();
        Played {
            groups,
            records: self.record.ledger.position(),
            pods: self.made,
            scenes: self.scenes,
            refusals: self.refusals,
            ledger: self.record.ledger,
        }
    }

    /// Does what is due.
    pub(super) fn happen(&mut self, now: Timestamp, what: Happening) -> Result<(), Error> {
        match what {
            Happening::Turn(turn) => turn(self, now),
            Happening::Wave(number) => self.wave(now, number),
            Happening::Propose(group) => self.propose(now, group),
            Happening::Declare(group) => self.declare(now, group),
            Happening::Observe(work) => self.observe(now, work),
            Happening::Create(pod) => self.create(now, pod),
            Happening::Start(pod) => self.start(now, pod),
            Happening::Ran(pod) => self.ran(now, pod),
            Happening::Stop(pod) => self.stop(now, pod),
            Happening::Gone(work) => self.gone(now, work),
            Happening::Expire(expiry) => self.expire(now, *expiry),
            Happening::Heartbeat(cluster) => self.heartbeat(now, cluster),
        }
    }

    /// A number for something new.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers = self.numbers.saturating_add(1);
        self.numbers
    }

    /// Notes what happened, for people.
    pub(super) fn scene(&mut self, time: Timestamp, text: impl Into<String>) {
        self.scenes.push(Scene { time, text: text.into() });
    }

    /// A cluster, by its number.
    pub(super) fn cluster(&mut self, number: usize) -> &mut Cluster {
        let [east, west] = &mut self.clusters;
        if number == cast::EAST { east } else { west }
    }

    /// The next resourceVersion of a cluster.
    pub(super) fn version(&mut self, cluster: usize) -> u64 {
        let others = self.random.below(9);
        self.cluster(cluster).next_version(others)
    }

    /// The cluster and its nodes become known; from now on its observer speaks every hour.
    pub(super) fn bind(&mut self, now: Timestamp, cluster: usize) -> Result<(), Error> {
        let Cluster { name, source, uid, .. } = self.cluster(cluster);
        let (name, source, uid) = (*name, *source, uid.clone());
        let subject = format!("clusters/{name}");
        let data = Data::ClusterBound(ClusterBound { uid: uid.into() });
        self.record.tell(Said { source, subject: &subject, time: now, now, data })?;
        for (of, node, _) in cast::NODES {
            if of == cluster {
                self.node(now, node, "True")?;
            }
        }
        self.queue.at(now.shifted(HEARTBEAT), Happening::Heartbeat(cluster));
        Ok(())
    }

    /// A node of the story is ready, or not.
    pub(super) fn node(
        &mut self,
        now: Timestamp,
        name: &'static str,
        ready: &'static str,
    ) -> Result<Position, Error> {
        let known = cast::NODES.into_iter().find(|(_, node, _)| *node == name);
        let (cluster, _, model) = known.unwrap_or((cast::EAST, name, None));
        let source = self.cluster(cluster).source;
        let data = Data::NodeObserved(NodeObserved {
            models: cast::on(model),
            ready: ready.into(),
            clock: None,
        });
        let subject = format!("nodes/{name}");
        self.record.tell(Said { source, subject: &subject, time: now, now, data })
    }

    fn heartbeat(&mut self, now: Timestamp, number: usize) -> Result<(), Error> {
        let version = self.version(number).to_string();
        let cluster = self.cluster(number);
        let since = std::mem::replace(&mut cluster.synced, now);
        let (source, subject) = (cluster.source, format!("observers/{}", cluster.name));
        let kinds = ["deployments", "jobs", "pods", "statefulsets"];
        let resource_versions =
            kinds.into_iter().map(|kind| (kind.into(), version.as_str().into())).collect();
        let data = Data::ObserverSynced(ObserverSynced { resource_versions, since });
        self.record.tell(Said { source, subject: &subject, time: now, now, data })?;
        self.queue.at(now.shifted(HEARTBEAT), Happening::Heartbeat(number));
        Ok(())
    }
}
