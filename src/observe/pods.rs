//! Pods: from the versions of one pod to what happened to it, and when. Pure.
//!
//! A [`Sighting`] is what counts of one version. [`History`] keeps the sightings of one pod in the order of their
//! versions, however they come in, and [`History::facts`] reads the facts off: (before, after) pairs for resizes,
//! the first bound version for the start, the first version of the final end for the stop (contract §4, facts 3).

mod ended;
mod past;

use crate::domain::{
    event::{Period, ResizeBasis, StartBasis, StopBasis},
    pod_resources::TooLarge,
    resources::Resources,
    time::Timestamp,
};
use crate::k8s::{
    convert::{self, ResourcesError},
    kinds::MIRROR,
    meta::Time,
    pod::{ContainerStatus, Pod},
};
use ended::Ended;
use past::Past;
use std::sync::Arc;

/// What counts of one version of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Its resourceVersion.
    pub version: u64,
    /// The newest instant of the API server's clock on it: the pod was there then.
    pub proof: Option<Timestamp>,
    /// When the kubelet wrote the status last, where the server keeps that (API server's clock).
    pub status_write: Option<Timestamp>,
    /// When it arrived over an unbroken watch (the observer's clock).
    pub received: Option<Timestamp>,
    /// Everything else: the same in most neighbouring versions.
    pub state: Arc<State>,
}

/// What can change from one version of a pod to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When it began to hold a node, and how that is known; `None` while it has no node.
    pub start: Option<(Timestamp, StartBasis)>,
    /// The node; empty while it has none.
    pub node: Arc<str>,
    /// What the node has given it.
    pub held: Arc<Resources>,
    /// What is reserved for it.
    pub reserved: Arc<Resources>,
    /// `status.phase`.
    pub phase: Arc<str>,
    /// `status.reason`.
    pub reason: Arc<str>,
    /// How far its containers are.
    pub containers: Containers,
    /// First `startedAt` that this version shows (the node's clock).
    pub first_started: Option<Timestamp>,
    /// Whether and when a deletion was asked for.
    pub deletion: Option<Deletion>,
}

/// A deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// When it was asked for (API server's clock).
    pub requested: Timestamp,
    /// `deletionTimestamp`.
    pub due: Timestamp,
    /// Whether no grace is left: a server that keeps the instant of the last step has it in `due`.
    pub final_step: bool,
}

/// How far a pod's containers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Containers {
    /// None has started, as far as the status shows.
    #[default]
    NotStarted,
    /// Some run, or may run again.
    Alive,
    /// Those that started have all ended; the last `finishedAt`, if each has one (the node's clock).
    Ended(Option<Timestamp>),
}

/// Something that happened to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// When.
    pub time: Timestamp,
    /// What.
    pub what: What,
}

/// What happened to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It was created.
    Created(Arc<State>),
    /// It began to hold a node.
    Started(Arc<State>, StartBasis),
    /// Its first container began to run.
    Ran,
    /// It holds or reserves other amounts.
    Resized(Arc<State>, ResizeBasis),
    /// It gave its resources back, or never will hold any.
    Stopped(Stop),
}

/// How a pod ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The state that showed it.
    pub state: Arc<State>,
    /// Where the time comes from.
    pub basis: StopBasis,
    /// It held its resources until here at least.
    pub earliest: Timestamp,
    /// It held none after this.
    pub latest: Timestamp,
    /// First `startedAt` to last `finishedAt` (the node's clock).
    pub ran: Option<Period>,
}

/// What must be known beside the pod's own versions.
pub trait Surroundings {
    /// Whether the server keeps `managedFields` entries of the status apart and moves `deletionTimestamp` to the
    /// last step of a deletion (1.36 does, 1.20 does not).
    fn keeps_status_writes(&self) -> bool;

    /// The first instant later than `earliest` that the API server's clock shows at or after `version`, of any object;
    /// else the last instant known.
    fn next_api_time(&self, version: u64, earliest: Timestamp) -> Timestamp;

    /// Since when nothing was heard of `node`, if it is lost.
    fn node_lost(&self, node: &str) -> Option<Timestamp> {
        let _ = node;
        None
    }
}

/// A node that says nothing for so long is given up (1.36: 50 s; 1.20: 40 s), so it was alive this long before.
const NODE_GRACE_MS: i64 = 50_000;

/// The sightings of one pod.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What those said that were let go of.
    past: Option<Box<Past>>,
    /// In order of version; of a run of equal states the first and the last.
    sightings: Vec<Sighting>,
    /// The version of the deletion.
    gone: Option<Sighting>,
}

impl Sighting {
    /// What counts of `pod`, whose resourceVersion is `version`.
    ///
    /// # Errors
    /// [`ResourcesError`] when an amount is none, naming the container.
    pub fn of(pod: &Pod, version: u64) -> Result<Self, ResourcesError> {
        let resources = convert::pod_resources(pod)?;
        let too_large = |e: TooLarge| ResourcesError::from(e);
        let meta = &pod.metadata;
        let start = start(pod);
        let (containers, first_started) = containers(pod);
        let state = State {
            created: meta.creation_timestamp.map(|t| t.0),
            start,
            node: pod.spec.node_name.as_str().into(),
            held: Arc::new(resources.held().map_err(too_large)?),
            reserved: Arc::new(resources.reserved().map_err(too_large)?),
            phase: pod.status.phase.as_str().into(),
            reason: pod.status.reason.as_str().into(),
            containers,
            first_started,
            deletion: meta.deletion_timestamp.map(|due| Deletion {
                requested: meta.deletion_requested().unwrap_or(due.0),
                due: due.0,
                final_step: meta.deletion_grace_period_seconds.unwrap_or(0) == 0,
            }),
        };
        let bound = start.filter(|(_, basis)| *basis == StartBasis::Bound).map(|(time, _)| time);
        let status = |m: &str, s: &str| m == "kubelet" && s == "status";
        let mut writes = meta.managed_fields.iter();
        let status_write = writes.find(|f| status(&f.manager, &f.subresource)).and_then(|f| f.time);
        Ok(Self {
            version,
            proof: meta.newest_api_time().max(bound),
            status_write: status_write.map(|t| t.0),
            received: None,
            state: Arc::new(state),
        })
    }
}

/// When the pod began to hold its node.
fn start(pod: &Pod) -> Option<(Timestamp, StartBasis)> {
    if pod.spec.node_name.is_empty() {
        return None;
    }
    let meta = &pod.metadata;
    let preset = meta.annotations.contains_key(MIRROR)
        || meta.managed_fields.iter().any(|f| f.fields.spec.node_name.is_some());
    let bound = pod.condition("PodScheduled").filter(|c| c.status == "True" && !preset);
    let at = |time: Option<Time>, basis| time.map(|t| (t.0, basis));
    at(bound.and_then(|c| c.last_transition_time), StartBasis::Bound)
        .or_else(|| at(meta.creation_timestamp, StartBasis::Created))
        .or_else(|| at(pod.status.start_time, StartBasis::KubeletStart))
}

/// How far the containers are, and the first instant that one started.
fn containers(pod: &Pod) -> (Containers, Option<Timestamp>) {
    let all = || pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    let first_started = all().flat_map(runs).filter_map(|r| known(r.started_at)).min();
    if all().any(|c| c.state.running.is_some()) {
        return (Containers::Alive, first_started);
    }
    // A container that waits and has run before waits for its next run: it holds its share all the while.
    let waits =
        |c: &ContainerStatus| c.state.terminated.is_none() && c.last_state.terminated.is_some();
    if !pod.is_terminal() && all().any(waits) {
        return (Containers::Alive, first_started);
    }
    let mut ends = all().filter_map(|c| c.state.terminated.or(c.last_state.terminated)).peekable();
    if ends.peek().is_none() {
        return (Containers::NotStarted, first_started);
    }
    let last = ends.map(|run| known(run.finished_at)).try_fold(None, |last, end| {
        end.map(|end| last.max(Some(end))) //
    });
    (Containers::Ended(last.flatten()), first_started)
}

fn runs(c: &ContainerStatus) -> impl Iterator<Item = crate::k8s::pod::Run> {
    let states = [&c.state, &c.last_state];
    states.into_iter().flat_map(|s| [s.running, s.terminated]).flatten()
}

/// The start of 1970 stands for a time that the runtime did not have.
fn known(time: Option<Time>) -> Option<Timestamp> {
    time.map(|t| t.0).filter(|t| *t > Timestamp::MIN)
}

impl History {
    /// Takes in a version; the same one again changes nothing.
    pub fn see(&mut self, mut sighting: Sighting) {
        if self.past.as_ref().is_some_and(|past| sighting.version <= past.version) {
            return;
        }
        let at = self.sightings.partition_point(|s| s.version < sighting.version);
        if self.sightings.get(at).is_some_and(|s| s.version == sighting.version) {
            return;
        }
        let before = at.checked_sub(1).and_then(|i| self.sightings.get(i));
        let neighbours = [before, self.sightings.get(at)];
        if let Some(same) = neighbours.into_iter().flatten().find(|s| s.state == sighting.state) {
            sighting.state = Arc::clone(&same.state);
        }
        self.sightings.insert(at, sighting);
        for middle in [at.saturating_add(1), at, at.saturating_sub(1)] {
            self.drop_middle(middle);
        }
    }

    /// Takes in the version that the deletion left.
    pub fn see_deleted(&mut self, sighting: Sighting) {
        self.see(sighting.clone());
        if self.gone.as_ref().is_none_or(|g| g.version < sighting.version) {
            self.gone = Some(sighting);
        }
    }

    /// The sightings that are kept, in order of version.
    #[must_use]
    pub fn sightings(&self) -> &[Sighting] {
        &self.sightings
    }

    /// The first version that was seen.
    #[must_use]
    pub fn first_version(&self) -> Option<u64> {
        let past = self.past.as_ref().map(|past| past.first.version);
        past.or_else(|| self.sightings.first().map(|s| s.version))
    }

    /// The version that shows the end or left the pod behind; `None` while it lives.
    #[must_use]
    pub fn last_version(&self) -> Option<u64> {
        let end = self.end().and_then(|i| self.sightings.get(i));
        end.or(self.gone.as_ref()).map(|s| s.version)
    }

    /// Of a run of equal states only the ends tell something.
    fn drop_middle(&mut self, middle: usize) {
        let Some(first) = middle.checked_sub(1) else { return };
        let Some([a, b, c]) = self.sightings.get(first..).and_then(<[_]>::first_chunk) else {
            return;
        };
        if Arc::ptr_eq(&a.state, &b.state) && Arc::ptr_eq(&b.state, &c.state) {
            self.sightings.remove(middle);
        }
    }

    /// Lets go of what was told already: all but the last version that shows it alive, and the end. Memory of a pod
    /// whose containers start again and again stays small.
    pub fn settle(&mut self) {
        let told = self.alive().len().saturating_sub(1);
        for sighting in self.sightings.drain(..told) {
            match &mut self.past {
                Some(past) => past.take(&sighting),
                None => self.past = Some(Box::new(Past::of(sighting))),
            }
        }
    }

    /// The newest proof of life: the newest instant of the API server's clock on a version that shows it alive.
    #[must_use]
    pub fn lived(&self) -> Option<Timestamp> {
        let past = self.past.as_ref().and_then(|past| past.lived);
        past.max(self.alive().iter().filter_map(|s| s.proof).max())
    }

    /// What happened, in no particular order: at most one creation, start, first run and stop, any number of resizes.
    #[must_use]
    pub fn facts(&self, around: &impl Surroundings) -> Vec<Fact> {
        let mut facts = Vec::with_capacity(4);
        let past = self.past.as_deref();
        let Some(first) = past.map(|p| &p.first).or_else(|| self.sightings.first()) else {
            return facts;
        };
        let created = first.state.created;
        if let Some(time) = created.or_else(|| self.sightings.iter().find_map(|s| s.state.created))
        {
            facts.push(Fact { time, what: What::Created(Arc::clone(&first.state)) });
        }
        let mut states = past.and_then(|p| p.bound.as_ref()).into_iter();
        let bound = states.by_ref().chain(self.sightings.iter().map(|s| &s.state));
        if let Some((state, (time, basis))) = bound.filter_map(|s| Some((s, s.start?))).next() {
            facts.push(Fact { time, what: What::Started(Arc::clone(state), basis) });
        }
        facts.extend(self.first_started().map(|time| Fact { time, what: What::Ran }));
        facts.extend(self.alive().windows(2).filter_map(|pair| match pair {
            [before, after] => resize(before, after),
            _ => None,
        }));
        let stop = self.stop(around);
        facts.extend(stop.map(|(time, stop)| Fact { time, what: What::Stopped(stop) }));
        facts
    }

    /// The stop of a pod that a consistent read at `read` does not show, though nobody saw it end.
    #[must_use]
    pub fn absent(&self, read: Timestamp) -> Option<Fact> {
        let last = self.sightings.last()?;
        let earliest = self.lived().or(last.proof)?;
        let state = Arc::clone(&last.state);
        let latest = read.max(earliest);
        let stop = Stop { state, basis: StopBasis::Absent, earliest, latest, ran: None };
        Some(Fact { time: earliest, what: What::Stopped(stop) })
    }

    fn first_started(&self) -> Option<Timestamp> {
        let past = self.past.as_ref().and_then(|past| past.first_started);
        past.into_iter().chain(self.sightings.iter().filter_map(|s| s.state.first_started)).min()
    }

    /// Where the final end begins: the first of the last versions that all show it.
    fn end(&self) -> Option<usize> {
        let ended = |s: &&Sighting| ended(&s.state, self.gone.is_some());
        let run = self.sightings.iter().rev().take_while(ended).count();
        if run == 0 { None } else { self.sightings.len().checked_sub(run) }
    }

    /// The versions before the end.
    fn alive(&self) -> &[Sighting] {
        let end = self.end().unwrap_or(self.sightings.len());
        self.sightings.get(..end).unwrap_or_default()
    }

    /// When and how it ended; `None` while it has not.
    fn stop(&self, around: &impl Surroundings) -> Option<(Timestamp, Stop)> {
        let ended = self.end().and_then(|i| self.sightings.get(i));
        let lived = self.lived();
        let (sighting, Ended { basis, time, earliest, latest }) = match (ended, &self.gone) {
            (Some(end), _) => (end, end_time(end, lived, around)?),
            (None, Some(gone)) => (gone, self.deletion_time(gone, lived, around)?),
            (None, None) => return None,
        };
        let finished = match sighting.state.containers {
            Containers::Ended(finished) => finished,
            _ => None,
        };
        let ran = self.first_started().zip(finished).filter(|(from, to)| from <= to);
        let ran = ran.map(|(from, to)| Period { from, to });
        let state = Arc::clone(&sighting.state);
        Some((time, Stop { state, basis, earliest, latest, ran }))
    }

    /// The instant of a deletion that nothing but the missing object shows.
    fn deletion_time(
        &self,
        gone: &Sighting,
        lived: Option<Timestamp>,
        around: &impl Surroundings,
    ) -> Option<Ended> {
        if let Some(lost) = around.node_lost(&gone.state.node) {
            let earliest = lost.shifted(-NODE_GRACE_MS);
            return Some(Ended { basis: StopBasis::NodeLost, time: lost, earliest, latest: lost });
        }
        let deletion = gone.state.deletion.filter(|d| d.final_step);
        if let Some(Deletion { due, .. }) = deletion.filter(|_| around.keeps_status_writes()) {
            // A server that takes the grace off again goes back to the instant of the request.
            let asked = |s: &Sighting| {
                s.state.deletion.is_some_and(|d| !d.final_step && d.requested == due)
            };
            let asked_before = self.past.as_ref().is_some_and(|past| past.requested == Some(due));
            let asked = asked_before || self.sightings.iter().any(asked);
            if lived.is_none_or(|lived| lived <= due) && !asked {
                return Some(Ended::at(StopBasis::Deleted, due));
            }
        }
        Some(Ended::unsaid(StopBasis::Deleted, gone, lived.max(gone.proof)?, around))
    }
}

/// Whether a version shows the end: a final phase, or a deletion under way, and no container alive.
fn ended(state: &State, gone: bool) -> bool {
    let terminal = matches!(&*state.phase, "Succeeded" | "Failed");
    match state.containers {
        Containers::Alive => false,
        Containers::NotStarted => terminal,
        Containers::Ended(_) => terminal || (gone && state.deletion.is_some()),
    }
}

/// The instant of an end that a version shows.
fn end_time(end: &Sighting, lived: Option<Timestamp>, around: &impl Surroundings) -> Option<Ended> {
    let terminal = matches!(&*end.state.phase, "Succeeded" | "Failed");
    if let Some(written) = end.status_write {
        // A pod whose containers had all ended when its deletion was asked for held its node until then.
        let requested = end.state.deletion.map(|d| d.requested).filter(|_| !terminal);
        let time = requested.map_or(written, |r| r.max(written));
        return Some(Ended::at(StopBasis::TerminalStatus, time));
    }
    if let (None, Containers::Ended(Some(finished))) = (end.received, end.state.containers) {
        return Some(Ended::at(StopBasis::ContainersFinished, finished));
    }
    let earliest = lived.or(end.proof)?;
    Some(Ended::unsaid(StopBasis::Received, end, earliest, around))
}

/// The resize between two neighbouring versions, if there is one.
fn resize(before: &Sighting, after: &Sighting) -> Option<Fact> {
    let (old, new) = (&before.state, &after.state);
    let started_between = old.start.is_none() && new.start.is_some();
    if started_between || (old.held == new.held && old.reserved == new.reserved) {
        return None;
    }
    let written = after.status_write.filter(|t| before.status_write.is_none_or(|b| b < *t));
    let (time, basis) = match written {
        Some(time) if old.held != new.held => (time, ResizeBasis::KubeletStatus),
        _ if old.held != new.held => (after.received.or(after.proof)?, ResizeBasis::Received),
        _ => (after.proof?, ResizeBasis::Received),
    };
    Some(Fact { time, what: What::Resized(Arc::clone(new), basis) })
}
