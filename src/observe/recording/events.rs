//! What a recording says happened: facts in order of time, made into events one by one.

use super::{Kept, Note, Recorder};
use crate::{
    domain::{
        event::{
            Data, Event, ObjectRef, PodCreated, PodMoved, PodRan, PodResized, PodStarted,
            PodStopped,
        },
        ident,
        resources::{Models, Resources, is_model},
        text::Text,
        time::Timestamp,
    },
    observe::{
        owners::{Assignment, Owners},
        pods::{Fact, State, Stop, Surroundings, What},
    },
};
use std::sync::Arc;

/// Most moves that are told: a label that flips over many pods could make any number from a small recording.
const MAX_MOVES: usize = 1 << 18;

/// Everything that a recording says.
#[derive(Debug)]
pub struct Recording {
    /// The newest instant in it, of any clock; `None` of an empty recording.
    pub newest: Option<Timestamp>,
    /// Objects that could not be taken.
    pub quarantined: u64,
    /// Remarks about objects, the first thousand.
    pub notes: Vec<Note>,
    source: String,
    pods: Vec<Named>,
    entries: Vec<Entry>,
    moves: usize,
}

/// What names a pod.
#[derive(Debug)]
struct Named {
    uid: Arc<str>,
    subject: Box<str>,
}

/// A fact in its place.
#[derive(Debug)]
struct Entry {
    time: Timestamp,
    pod: usize,
    what: Happened,
}

/// What happened.
#[derive(Debug)]
enum Happened {
    Created(Arc<State>, Arc<Assignment>),
    Started(Arc<State>, Arc<Assignment>, crate::domain::event::StartBasis),
    Ran,
    Resized(Arc<State>, crate::domain::event::ResizeBasis),
    Moved(Arc<Assignment>),
    Stopped(Box<Stop>),
}

/// What surrounds a pod in a recording.
struct Around {
    keeps_status_writes: bool,
    /// In order of version.
    api_times: Vec<(u64, Timestamp)>,
    /// Beside it: the newest instant up to there.
    reached: Vec<Timestamp>,
    newest: Timestamp,
}

impl Around {
    fn of(mut api_times: Vec<(u64, Timestamp)>, newest: Timestamp, keeps: bool) -> Self {
        api_times.sort_unstable();
        let mut reached = Vec::with_capacity(api_times.len());
        let mut newest_yet = Timestamp::MIN;
        for (_, time) in &api_times {
            newest_yet = newest_yet.max(*time);
            reached.push(newest_yet);
        }
        Self { keeps_status_writes: keeps, api_times, reached, newest }
    }

    /// When `version` was written at the earliest: versions are in order of time, and 1.20 leaves the old instant on
    /// an object whose label only changed its value.
    fn written(&self, version: u64) -> Timestamp {
        let after = self.api_times.partition_point(|(v, _)| *v <= version);
        let last = after.checked_sub(1).and_then(|i| self.reached.get(i));
        last.copied().unwrap_or_default()
    }
}

impl Surroundings for Around {
    fn keeps_status_writes(&self) -> bool {
        self.keeps_status_writes
    }

    fn next_api_time(&self, version: u64, earliest: Timestamp) -> Timestamp {
        let from = self.api_times.partition_point(|(v, _)| *v < version);
        let later = self.api_times.iter().skip(from).map(|(_, time)| *time);
        later.into_iter().find(|t| *t > earliest).unwrap_or_else(|| self.newest.max(earliest))
    }
}

impl Recording {
    pub(super) fn of(recorder: Recorder) -> Self {
        let Recorder { source, pods, owners, api_times, newest, notes, quarantined, .. } = recorder;
        let keeps = recorder.keeps_status_writes;
        let around = Around::of(api_times, newest.unwrap_or_default(), keeps);
        let mut kept: Vec<Kept> = pods.into_values().collect();
        kept.sort_unstable_by(|a, b| a.uid.cmp(&b.uid));
        let mut recording = Self {
            newest,
            quarantined,
            notes,
            source,
            pods: Vec::new(),
            entries: Vec::new(),
            moves: 0,
        };
        for pod in kept {
            let moves = recording.assignments(&owners, &pod, &around);
            recording.add(pod, &moves, &around);
        }
        recording.entries.sort_by_key(|e| (e.time, e.what.rank(), e.pod));
        recording
    }

    /// The events in order of time, each borrowing from the recording.
    pub fn events(&self) -> impl Iterator<Item = Event<'_>> {
        self.entries.iter().filter_map(|entry| self.event(entry, &|text| Text::from(text)))
    }

    /// The events in order of time, independent of the recording.
    #[must_use]
    pub fn into_events(self) -> Vec<Event<'static>> {
        let owned = |text: &str| Text::from(text.to_owned());
        self.entries.iter().filter_map(|entry| self.event(entry, &owned)).collect()
    }

    /// What the pod counted under from its first version on, and each change until its end.
    fn assignments(
        &mut self,
        owners: &Owners,
        pod: &Kept,
        around: &Around,
    ) -> Vec<(u64, Timestamp, Arc<Assignment>)> {
        let Some(first) = pod.history.sightings().first() else { return Vec::new() };
        let at = |version| owners.assignment(&pod.declared, &pod.namespace, "", version);
        let mut current = Arc::new(at(first.version));
        self.remark(pod, &current);
        let mut assignments = vec![(first.version, Timestamp::MIN, Arc::clone(&current))];
        let end = pod.history.last_version();
        // Where no more can be told, it is enough to know that there is one.
        let most = if self.moves < MAX_MOVES { usize::MAX } else { 1 };
        let (own, namespace) = (&pod.declared, &*pod.namespace);
        for (version, time) in owners.changes(own, namespace, "", first.version, end, most) {
            if self.moves >= MAX_MOVES {
                self.quarantined = self.quarantined.saturating_add(1);
                self.note(format!(
                    "Pod {namespace}/{}: there is no room for its moves from {time} on; record a shorter time",
                    pod.name
                ));
                break;
            }
            let next = at(version);
            if !next.same_as(&current) {
                self.moves = self.moves.saturating_add(1);
                current = Arc::new(next);
                // Of two changes in one second the later one counts, and each is told.
                let before =
                    assignments.last().map_or(Timestamp::MIN, |(_, time, _)| time.shifted(1));
                let time = time.max(around.written(version)).max(before);
                assignments.push((version, time, Arc::clone(&current)));
            }
        }
        assignments
    }

    /// Says what people should know about an assignment.
    fn remark(&mut self, pod: &Kept, assignment: &Assignment) {
        let (namespace, name) = (&pod.namespace, &pod.name);
        if let Some(overruled) = &assignment.overruled {
            let group = &assignment.group;
            self.note(format!(
                "Pod {namespace}/{name} is labelled {overruled}, its workload {group}; the workload's label counts"
            ));
        }
        for model in assignment.models.iter().flatten().filter(|m| !is_model(m)) {
            self.note(format!(
                "Pod {namespace}/{name} declares {model}, which is no model; it counts under generic keys only"
            ));
        }
    }

    fn note(&mut self, text: String) {
        if self.notes.len() < super::MAX_NOTES {
            self.notes.push(Note { file: String::new(), line: 0, text });
        }
    }

    fn add(
        &mut self,
        pod: Kept,
        assignments: &[(u64, Timestamp, Arc<Assignment>)],
        around: &Around,
    ) {
        let index = self.pods.len();
        let facts = pod.history.facts(around);
        let Some((_, _, first)) = assignments.first() else { return };
        let at = |time: Timestamp| {
            let last = assignments.iter().rev().find(|(_, from, _)| *from <= time);
            Arc::clone(last.map_or(first, |(_, _, assignment)| assignment))
        };
        for Fact { time, what } in facts {
            let what = match what {
                What::Created(state) => Happened::Created(state, Arc::clone(first)),
                What::Started(state, basis) => Happened::Started(state, at(time), basis),
                What::Ran => Happened::Ran,
                What::Resized(state, basis) => Happened::Resized(state, basis),
                What::Stopped(stop) => Happened::Stopped(Box::new(stop)),
            };
            self.entries.push(Entry { time, pod: index, what });
        }
        for (_, time, assignment) in assignments.iter().skip(1) {
            let what = Happened::Moved(Arc::clone(assignment));
            self.entries.push(Entry { time: *time, pod: index, what });
        }
        let subject = format!("pods/{}/{}", pod.namespace, pod.name).into();
        self.pods.push(Named { uid: pod.uid, subject });
    }

    fn event<'s, 't>(
        &'s self,
        entry: &'s Entry,
        text: &impl Fn(&'s str) -> Text<'t>,
    ) -> Option<Event<'t>> {
        let pod = self.pods.get(entry.pod)?;
        let data = data(entry, text(&pod.uid), text);
        Some(Event {
            id: ident::fact(&self.source, entry.time, &data)?,
            source: text(&self.source),
            subject: text(&pod.subject),
            time: entry.time,
            recorded_at: self.newest.unwrap_or(entry.time),
            data,
        })
    }
}

impl Happened {
    /// Order among the facts of one instant.
    const fn rank(&self) -> u8 {
        match self {
            Self::Created(..) => 0,
            Self::Started(..) => 1,
            Self::Ran => 2,
            Self::Resized(..) => 3,
            Self::Moved(_) => 4,
            Self::Stopped(_) => 5,
        }
    }
}

fn data<'s, 't>(entry: &'s Entry, uid: Text<'t>, text: &impl Fn(&'s str) -> Text<'t>) -> Data<'t> {
    match &entry.what {
        Happened::Created(state, under) => Data::PodCreated(PodCreated {
            uid,
            owner: owner(under, text),
            group: text(&under.group),
            models: models(under, text),
            reserved: Arc::clone(&state.reserved),
        }),
        Happened::Started(state, under, basis) => Data::PodStarted(PodStarted {
            uid,
            owner: owner(under, text),
            group: text(&under.group),
            models: models(under, text),
            node: text(&state.node),
            held: Arc::clone(&state.held),
            reserved: reserved(state),
            basis: *basis,
        }),
        Happened::Ran => Data::PodRan(PodRan { uid, from: entry.time }),
        Happened::Resized(state, basis) => Data::PodResized(PodResized {
            uid,
            held: Arc::clone(&state.held),
            reserved: reserved(state),
            basis: *basis,
        }),
        Happened::Moved(under) => Data::PodMoved(PodMoved {
            uid,
            owner: owner(under, text),
            group: text(&under.group),
            models: models(under, text),
        }),
        Happened::Stopped(stop) => Data::PodStopped(PodStopped {
            uid,
            earliest: stop.earliest,
            latest: stop.latest,
            basis: stop.basis,
            phase: text(&stop.state.phase),
            reason: text(&stop.state.reason),
            ran: stop.ran,
        }),
    }
}

fn reserved(state: &State) -> Option<Arc<Resources>> {
    (state.reserved != state.held).then(|| Arc::clone(&state.reserved))
}

fn owner<'s, 't>(
    under: &'s Assignment,
    text: &impl Fn(&'s str) -> Text<'t>,
) -> Option<ObjectRef<'t>> {
    under.owner.as_deref().map(|owner| ObjectRef {
        api_version: text(&owner.api_version),
        kind: text(&owner.kind),
        namespace: None,
        name: text(&owner.name),
        uid: text(&owner.uid),
    })
}

fn models<'s, 't>(under: &'s Assignment, text: &impl Fn(&'s str) -> Text<'t>) -> Models<'t> {
    let [cpu, memory, gpu] = under.models.each_ref().map(|m| m.as_deref().map(text));
    Models { cpu, memory, gpu }
}
