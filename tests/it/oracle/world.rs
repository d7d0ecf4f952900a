//! A seeded simulation of a true world: what really happened, and what observers made of it.
//!
//! Observers tell the truth, but late, twice, by other clocks, and sometimes they believe a pod gone that is not.
//! Every case names the classes that it belongs to, so that a test can count whether anything rare is still met.

use super::{
    history::{self, Amounts, Content, Pod, Scale, Stop},
    pod_uid,
};
use bizrq::domain::event::{Data, Event, EventId, ResizeBasis, StartBasis, StopBasis};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus, seq::IndexedRandom};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The random numbers of one case.
pub(crate) type Dice = Xoshiro256PlusPlus;

/// What a case has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Repetition,
    Permutation,
    LateStop,
    WithdrawnStop,
    Resize,
    Move,
    Reparenting,
    Removal,
    Recreation,
    NodeLost,
    TwoObservers,
    StopBeforeStart,
    StopByAnotherClock,
    BetterBasisLater,
    EqualUids,
    Open,
}

impl Class {
    /// Every class.
    pub(crate) const ALL: [Self; 16] = [
        Self::Repetition,
        Self::Permutation,
        Self::LateStop,
        Self::WithdrawnStop,
        Self::Resize,
        Self::Move,
        Self::Reparenting,
        Self::Removal,
        Self::Recreation,
        Self::NodeLost,
        Self::TwoObservers,
        Self::StopBeforeStart,
        Self::StopByAnotherClock,
        Self::BetterBasisLater,
        Self::EqualUids,
        Self::Open,
    ];
}

/// One simulated history.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) scale: Scale,
    /// As a log would hold them.
    pub(crate) events: Vec<Event<'static>>,
    pub(crate) classes: BTreeSet<Class>,
}

/// Nothing happens at this number or later.
pub(crate) const END: i64 = 400;

const SOURCES: [&str; 3] = ["/clusters/east", "/clusters/west", "/imports/old"];
const UIDS: [&str; 4] = ["3e9c", "77a0", "b6c1", "0a0a0a0a-0000-4000-8000-00000000000a"];
const GROUPS: [&str; 5] = ["team-a", "team-b", "team-c", "dept-1", ""];

impl World {
    /// The world that `seed` stands for.
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::seed_from_u64(seed);
        let scale = if dice.random_bool(0.7) { Scale::MILLIS } else { Scale::MINUTES };
        Self::on(seed, scale, dice)
    }

    /// The world that `seed` stands for, stretched to a scale.
    pub(crate) fn at(seed: u64, scale: Scale) -> Self {
        Self::on(seed, scale, Dice::seed_from_u64(seed))
    }

    fn on(seed: u64, scale: Scale, mut dice: Dice) -> Self {
        let mut delivered = quotas(&mut dice, scale);
        let mut names = BTreeSet::new();
        for _ in 0..dice.random_range(1..=6) {
            let (source, uid) = (pick(&mut dice, &SOURCES), pick(&mut dice, &UIDS));
            if names.insert((source, uid)) {
                let life = Life::new(&mut dice, Pod::new(scale, source, uid));
                life.observe(&mut dice, &mut delivered);
            }
        }
        delivered.sort_by_key(|(when, _)| *when); // stable: an observer's own order stays
        let mut events: Vec<_> = delivered.into_iter().map(|(_, event)| event).collect();
        let mut extra = BTreeSet::new();
        if dice.random_bool(0.5) {
            let mixed = permuted(&mut dice, &events);
            if mixed != events {
                extra.insert(Class::Permutation);
                events = mixed;
            }
        }
        if dice.random_bool(0.5) {
            extra.insert(Class::Repetition);
            events = repeated(&mut dice, events);
        }
        extra.extend(classes(&events));
        Self { seed, scale, events, classes: extra }
    }
}

/// The true life of one pod.
struct Life {
    pod: Pod,
    first: Content,
    bound: i64,
    /// Amounts or group and models, from when on.
    changes: Vec<(i64, Change)>,
    end: Option<i64>,
    /// Stops that were believed, and when the pod was seen alive after all.
    errors: Vec<(i64, i64)>,
    /// The node's clock may be behind so far that the end lies before the binding; nobody takes a start from it.
    skewed: bool,
}

/// Observers see a pod at most so long after its binding.
const SIGHT: i64 = 8;

#[derive(Clone)]
enum Change {
    Resize(Amounts),
    Move(Content),
}

impl Life {
    fn new(dice: &mut Dice, pod: Pod) -> Self {
        let bound = dice.random_range(0..200);
        let length = if dice.random_bool(0.2) { 0 } else { 150 };
        let length = dice.random_range(0..=length);
        let mut changes = Vec::new();
        for _ in 0..dice.random_range(0..4) {
            let at = bound + dice.random_range(0..=length.max(1));
            let change = if dice.random_bool(0.5) {
                Change::Resize(amounts(dice))
            } else {
                Change::Move(content(dice))
            };
            changes.push((at, change));
        }
        changes.sort_by_key(|(at, _)| *at);
        let mut errors = Vec::new();
        if dice.random_bool(0.3) {
            for _ in 0..dice.random_range(1..=2) {
                let believed = bound + SIGHT + dice.random_range(0..=length);
                errors.push((believed, believed + dice.random_range(1..20)));
            }
            errors.sort_unstable();
        }
        let end = dice.random_bool(0.75).then_some(bound + length);
        Self {
            pod,
            first: content(dice),
            bound,
            changes,
            end,
            errors,
            skewed: dice.random_bool(0.4),
        }
    }

    /// What one or two observers write about it, each with the number at which it arrives.
    fn observe(&self, dice: &mut Dice, delivered: &mut Vec<(i64, Event<'static>)>) {
        for _ in 0..dice.random_range(1..=2) {
            let mut clock = 0;
            let mut lag = dice.random_range(0..5);
            for (t, event) in self.witnessed(dice) {
                if dice.random_bool(0.1) {
                    lag = dice.random_range(20..200);
                }
                // One observer's records of one pod arrive in the order in which it wrote them.
                clock = (t + lag).max(clock);
                delivered.push((clock, event));
            }
        }
    }

    fn witnessed(&self, dice: &mut Dice) -> Vec<(i64, Event<'static>)> {
        let mut seen = vec![];
        if dice.random_bool(0.3) {
            seen.push((
                self.bound,
                self.pod.created(self.bound.saturating_sub(3).max(0), &self.first),
            ));
        }
        let (begin, basis) = self.start(dice);
        if dice.random_bool(0.9) {
            seen.push((self.bound, self.pod.started(begin, basis, &self.first)));
        }
        let ran = self.bound + 2;
        seen.push((ran, self.pod.ran(ran)));
        for (at, change) in &self.changes {
            let event = match change {
                Change::Resize(amounts) => {
                    self.pod.resized(*at, ResizeBasis::KubeletStatus, *amounts)
                }
                Change::Move(content) => self.pod.moved(*at, content),
            };
            seen.push((*at, event));
        }
        for (believed, alive) in &self.errors {
            let basis = pick(dice, &[StopBasis::Absent, StopBasis::NodeLost]);
            let latest = believed + dice.random_range(0..10);
            let stop = Stop { latest, ..Stop::certain(basis, *believed) };
            seen.push((*believed, self.pod.stopped(stop)));
            seen.push((*alive, self.pod.withdrawn(*alive)));
        }
        if let Some(end) = self.end {
            for _ in 0..dice.random_range(1..=2) {
                seen.push((end, self.pod.stopped(self.stop(dice, end))));
            }
        }
        seen.sort_by_key(|(t, _)| *t); // stable
        seen
    }

    fn start(&self, dice: &mut Dice) -> (i64, StartBasis) {
        if self.pod.source.starts_with("/imports/") {
            return (self.bound, StartBasis::Imported);
        }
        match dice.random_range(0..6) {
            0 => (self.bound + dice.random_range(0..=SIGHT), StartBasis::Observed),
            1 if !self.skewed => (self.bound + dice.random_range(0..4), StartBasis::KubeletStart),
            2 => (self.bound, StartBasis::Created),
            _ => (self.bound, StartBasis::Bound),
        }
    }

    fn stop(&self, dice: &mut Dice, end: i64) -> Stop {
        // First to last second of the containers, by a clock of the node that is a little wrong.
        let ran = Some((self.bound + 2, (end + dice.random_range(-4..=1)).max(self.bound + 2)));
        if self.pod.source.starts_with("/imports/") {
            return Stop { ran, ..Stop::certain(StopBasis::Imported, end) };
        }
        let late = dice.random_range(0..6);
        // No observer and, unless skewed, no node contradicts the start that it reported itself.
        let sure = end.max(self.bound + SIGHT);
        let finished = if self.skewed { (end - late).max(0) } else { sure };
        match dice.random_range(0..6) {
            0 => {
                let (at, basis) = (sure + late, StopBasis::Received);
                Stop { basis, at, earliest: end, latest: at, ran }
            }
            1 => Stop { ran, ..Stop::certain(StopBasis::ContainersFinished, finished) },
            2 => Stop::certain(StopBasis::Deleted, end + late),
            3 => Stop { latest: sure + late, ..Stop::certain(StopBasis::NodeLost, sure) },
            _ => Stop { ran, ..Stop::certain(StopBasis::TerminalStatus, end) },
        }
    }
}

fn amounts(dice: &mut Dice) -> Amounts {
    Amounts {
        cpu: pick(dice, &[0, 250, 500, 1500, 2000]),
        memory: pick(dice, &[0, 1 << 20, 64 << 20]),
        gpu: pick(dice, &[0, 0, 500, 2000]),
    }
}

fn content(dice: &mut Dice) -> Content {
    Content {
        group: pick(dice, &GROUPS),
        cpu_model: pick(dice, &[None, Some("A4"), Some("X-9.1")]),
        gpu_model: pick(dice, &[None, Some("A30"), Some("A100"), Some("V100|T4")]),
        amounts: amounts(dice),
    }
}

/// Quota objects that come, change their parent, go and come again.
fn quotas(dice: &mut Dice, scale: Scale) -> Vec<(i64, Event<'static>)> {
    let mut told = vec![(0, history::declared(scale, 0, ("root", "q-0"), 1, ""))];
    let mut alive: BTreeMap<&str, (String, i64)> = BTreeMap::new();
    for t in (1..360).step_by(23) {
        let group = pick(dice, &GROUPS[..4]);
        let parent = pick(dice, &["root", "dept-1"]);
        let parent = if group == "dept-1" { "root" } else { parent };
        let event = match alive.remove(group) {
            Some((uid, _)) if dice.random_bool(0.3) => history::removed(scale, t, group, &uid),
            known => {
                let (uid, last) = known.unwrap_or_else(|| (format!("q-{group}-{t}"), 0));
                alive.insert(group, (uid.clone(), last + 1));
                history::declared(scale, t, (group, &uid), last + 1, parent)
            }
        };
        told.push((t, event));
    }
    told
}

/// The same records in another order that keeps each object's own.
pub(crate) fn permuted(dice: &mut Dice, events: &[Event<'static>]) -> Vec<Event<'static>> {
    let mut objects: BTreeMap<(String, String), VecDeque<&Event<'static>>> = BTreeMap::new();
    for event in events {
        let object = pod_uid(&event.data).unwrap_or(&event.subject).to_owned();
        objects.entry((event.source.to_string(), object)).or_default().push_back(event);
    }
    let mut queues: Vec<_> = objects.into_values().collect();
    let mut mixed = Vec::with_capacity(events.len());
    while !queues.is_empty() {
        let i = dice.random_range(0..queues.len());
        mixed.extend(queues[i].pop_front().cloned());
        queues.retain(|queue| !queue.is_empty());
    }
    mixed
}

/// The same records, some of them again at later places.
pub(crate) fn repeated(dice: &mut Dice, events: Vec<Event<'static>>) -> Vec<Event<'static>> {
    let mut long = events;
    for _ in 0..dice.random_range(1..=6) {
        let i = dice.random_range(0..long.len());
        let again = long[i].clone();
        let place = dice.random_range(i + 1..=long.len());
        long.insert(place, again);
    }
    long
}

/// What is to be met in a list of records; repetition and permutation cannot be seen in it.
fn classes(events: &[Event<'_>]) -> BTreeSet<Class> {
    let mut found = BTreeSet::new();
    let mut ids: BTreeSet<EventId> = BTreeSet::new();
    let mut newest = i64::MIN;
    let mut pods: BTreeMap<(&str, &str), Seen> = BTreeMap::new();
    let mut quotas: BTreeMap<&str, (Option<&str>, bool)> = BTreeMap::new();
    for event in events {
        if !ids.insert(event.id) {
            continue;
        }
        let time = event.time.millis();
        quota_classes(event, &mut quotas, &mut found);
        if let Some(uid) = pod_uid(&event.data) {
            let pod = pods.entry((&event.source, uid)).or_default();
            pod.classes(event, newest, &mut found);
        }
        newest = newest.max(time);
    }
    let uids: BTreeSet<&str> = pods.keys().map(|(_, uid)| *uid).collect();
    if uids.len() < pods.len() {
        found.insert(Class::EqualUids);
    }
    if pods.values().any(|pod| pod.start.is_some() && pod.stops == 0) {
        found.insert(Class::Open);
    }
    found
}

/// What was read of one pod so far.
#[derive(Default)]
struct Seen {
    start: Option<(StartBasis, i64)>,
    stop: Option<StopBasis>,
    stops: usize,
    provisional: Vec<i64>,
}

impl Seen {
    fn classes(&mut self, event: &Event<'_>, newest: i64, found: &mut BTreeSet<Class>) {
        let time = event.time.millis();
        match &event.data {
            Data::PodStarted(started) => {
                match self.start {
                    Some((basis, _)) => {
                        found.insert(Class::TwoObservers);
                        if started.basis < basis {
                            found.insert(Class::BetterBasisLater);
                        }
                    }
                    None => self.start = Some((started.basis, time)),
                }
                if self.stops > 0 {
                    found.insert(Class::StopBeforeStart);
                }
            }
            Data::PodStopped(stopped) => {
                self.stops += 1;
                if time < newest {
                    found.insert(Class::LateStop);
                }
                if stopped.basis == StopBasis::NodeLost {
                    found.insert(Class::NodeLost);
                }
                if matches!(stopped.basis, StopBasis::NodeLost | StopBasis::Absent) {
                    self.provisional.push(time);
                }
                if self.stop.is_some_and(|known| stopped.basis < known) {
                    found.insert(Class::BetterBasisLater);
                }
                self.stop = Some(self.stop.map_or(stopped.basis, |s| s.min(stopped.basis)));
                if self.start.is_some_and(|(_, start)| time < start) {
                    found.insert(Class::StopByAnotherClock);
                }
            }
            Data::PodStopWithdrawn(_) if self.provisional.iter().any(|stop| *stop < time) => {
                found.insert(Class::WithdrawnStop);
            }
            Data::PodResized(_) => {
                found.insert(Class::Resize);
            }
            Data::PodMoved(_) => {
                found.insert(Class::Move);
            }
            _ => {}
        }
    }
}

fn quota_classes<'e>(
    event: &'e Event<'_>,
    quotas: &mut BTreeMap<&'e str, (Option<&'e str>, bool)>,
    found: &mut BTreeSet<Class>,
) {
    match &event.data {
        Data::QuotaDeclared(declared) => {
            let parent = declared.spec.parent.as_str();
            let (before, gone) =
                quotas.insert(&event.subject, (Some(parent), false)).unwrap_or_default();
            if gone {
                found.insert(Class::Recreation);
            } else if before.is_some_and(|before| before != parent) {
                found.insert(Class::Reparenting);
            }
        }
        Data::QuotaRemoved(_) => {
            quotas.insert(&event.subject, (None, true));
            found.insert(Class::Removal);
        }
        _ => {}
    }
}

/// One of `choices`.
pub(crate) fn pick<T: Copy>(dice: &mut Dice, choices: &[T]) -> T {
    *choices.choose(dice).expect("something to choose from")
}

#[test]
fn the_simulation_meets_every_class_in_one_case_of_a_hundred() {
    let cases = 1000;
    let mut met: BTreeMap<Class, u32> = BTreeMap::new();
    for seed in 0..cases {
        for class in World::new(seed).classes {
            *met.entry(class).or_default() += 1;
        }
    }
    for class in Class::ALL {
        let count = met.get(&class).copied().unwrap_or(0);
        assert!(count >= 10, "{class:?}: {count} of {cases} worlds; all: {met:?}");
    }
}
