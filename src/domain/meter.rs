//! Metering: who held how much, when. Rows of pods, sums of groups, and the way from one to the other.
//!
//! A record changes one pod's row; the segments that follow from the row before are taken away and those that
//! follow from it after are added. Nothing else ever touches a sum, except a signed correction.

mod dates;
mod records;
pub mod recount;
pub mod seals;
pub(super) mod state;
mod window;

use super::{
    amounts::{Amounts, Overflow},
    book,
    event::{Event, EventId, Position},
    history::splits::Splits,
    names::{ClusterId, GroupId, Interner, KeyId, Map, Names, ObjectId, Uid},
    pod::{Basis, Charged, Pod, Segment},
    quantity::Milli,
    resources::{Models, Resources},
    shapes::{PlacementId, ResourcesId, Shapes},
    sources::Sources,
    sums::{Step, Sums},
    table::{Listed, Slots, Table},
    time::Timestamp,
};
use seals::Seals;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use window::Window;

/// How long a pod that ended is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retain {
    /// 35 days of its source's heartbeats.
    #[default]
    Heartbeats,
    /// For ever: needed for breakdowns by pod or workload over long histories.
    Forever,
}

/// Rows of pods and sums of groups.
#[derive(Clone, Debug)]
pub struct Meter {
    pub(super) basis: Basis,
    pub(super) window: Window,
    pub(super) history: bool,
    pub(super) retain: Retain,
    pub(super) shapes: Shapes,
    pub(super) groups: Table<Sums, GROUPS>,
    index: Map<ObjectId, u32>,
    pub(super) pods: Slots<Pod, PODS>,
    pub(super) nodes: Interner,
    pub(super) sources: Sources,
    pub(super) adjusted: Table<Adjusted, 256>,
    pub(super) adjusted_ids: Listed<EventId, 256>,
    /// What forgotten pods had used, by group.
    pub(super) settled: Table<Sums, GROUPS>,
    /// The last instant of any forgotten pod.
    forgotten_until: Option<Timestamp>,
    newest: Option<Timestamp>,
    /// Which hours are kept in parts.
    splits: Splits,
    /// What the last record about a pod took away and what it added, if it said something new; else space to work in.
    segments: [Vec<Segment>; 2],
    /// The workloads that these belonged to before and after it.
    stepped: Option<[ObjectId; 2]>,
    /// The same: keys' slots and amounts.
    slots: Vec<(usize, Milli)>,
    /// Groups with an account whose sums changed since somebody asked, and from which instant on.
    changed: Vec<(GroupId, Timestamp)>,
    /// Pods that were forgotten before their time.
    seals: Option<Box<Seals>>,
}

/// Pods that are written together: a record touches one of them, and a store takes rows of a kilobyte or two as
/// fast as small ones.
pub(super) const PODS: usize = 16;
/// Groups whose sums, or one period of them, are written together.
pub(super) const GROUPS: usize = 32;

/// An exbibyte for a century, in milli-units × milliseconds: 2^60 × 1000 × 3.2 × 10^12 is below 2^112, and 2^15
/// corrections of that size fit.
pub const MOST_ADJUSTED: u128 = 1 << 112;

/// A signed correction that was applied.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Adjusted {
    group: GroupId,
    key: KeyId,
    at: Timestamp,
    exact: i128,
}

/// Why a record was not taken; it is quarantined, the ledger unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// A sum left 128 bits.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// One uid on two nodes.
    #[error("pod {uid} is known on another node than `{node}`")]
    TwoNodes {
        /// The pod.
        uid: String,
        /// The node that is said now.
        node: String,
    },
    /// A stop before the start, both told by the same clock.
    #[error("the stop at {stop} lies before the pod's start, by the same clock")]
    StopBeforeStart {
        /// The stop.
        stop: Timestamp,
    },
    /// The book does not take it.
    #[error(transparent)]
    Book(#[from] book::Error),
    /// The meter cannot say what was used before.
    #[error(transparent)]
    Unanswerable(#[from] recount::Unanswerable),
    /// The subject does not name what the event is about.
    #[error("the subject must be `{wanted}`")]
    Subject {
        /// What it must look like.
        wanted: &'static str,
    },
    /// A correction beyond any account: believed, it would silence every report of its group.
    #[error("a correction of {exact} is beyond any account; at most 2^112 either way is taken")]
    AbsurdCorrection {
        /// Milli-units × milliseconds.
        exact: i128,
    },
    /// `latest` before `earliest`, or a period that ends before it begins.
    #[error("`{field}` ends before it begins")]
    Backwards {
        /// The field.
        field: &'static str,
    },
}

/// What became of a record about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It said something new.
    Changed(Change),
    /// It said nothing new.
    Repeated,
    /// It repeats what was forgotten.
    Dropped,
}

/// What a record changed about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The pod.
    pub pod: ObjectId,
    /// Its workload.
    pub workload: ObjectId,
    /// What it charged before the record.
    pub before: Option<Charged>,
    /// What it charges after it.
    pub after: Option<Charged>,
    /// Positions and times of stops that are contradicted from now on.
    pub contradicted: Vec<(Position, Timestamp)>,
}

impl Meter {
    /// A meter of nothing.
    #[must_use]
    pub fn new(basis: Basis, window: Window, history: bool, retain: Retain) -> Self {
        Self {
            basis,
            window,
            history,
            retain,
            shapes: Shapes::default(),
            groups: Table::default(),
            index: Map::default(),
            pods: Slots::default(),
            nodes: Interner::default(),
            sources: Sources::default(),
            adjusted: Table::default(),
            adjusted_ids: Listed::default(),
            settled: Table::default(),
            forgotten_until: None,
            newest: None,
            splits: Splits::default(),
            segments: Default::default(),
            stepped: None,
            slots: Vec::new(),
            changed: Vec::new(),
            seals: None,
        }
    }

    /// Pods are forgotten as `seals` says.
    pub(super) fn seal(&mut self, seals: Seals) {
        self.seals = Some(Box::new(seals));
    }

    /// Which pods were forgotten before their time, if any are.
    #[must_use]
    pub fn seals(&self) -> Option<&Seals> {
        self.seals.as_deref()
    }

    /// A group with an account whose spend changed since the last call that returned it, and from which instant on.
    pub fn next_changed(&mut self) -> Option<(GroupId, Timestamp)> {
        self.changed.pop()
    }

    /// No hourly differences are kept from here on, and those that are there go.
    pub(super) fn drop_history(&mut self) {
        self.history = false;
        for group in 0..self.groups.len() {
            self.groups.derived_mut(group).map(Sums::drop_history);
        }
    }

    /// Nothing of this source that lies before is remembered; `None` while everything is.
    #[must_use]
    pub fn horizon(&self, cluster: ClusterId) -> Option<Timestamp> {
        self.sources.horizon(cluster)
    }

    fn place(
        &mut self,
        names: &mut Names,
        event: &Event<'_>,
        group: &str,
        models: &Models<'_>,
    ) -> (ClusterId, PlacementId) {
        let group = names.group(group);
        (names.cluster(&event.source), self.shapes.placement(group, models))
    }

    fn reserved(&mut self, held: ResourcesId, reserved: Option<&Arc<Resources>>) -> ResourcesId {
        reserved.map_or(held, |r| self.shapes.resources(r))
    }

    /// The book says something else of this pod: its row is to be written.
    pub(super) fn note(&mut self, pod: ObjectId) {
        if let Some(slot) = self.index.get(&pod) {
            self.pods.table.note(*slot as usize);
        }
    }

    /// Where a pod's row is.
    pub(super) fn slot(&self, pod: ObjectId) -> Option<u32> {
        self.index.get(&pod).copied()
    }

    fn node(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        self.nodes.intern(name).saturating_add(1)
    }

    /// Changes one pod's row by `change` (which returns whether it said something new) and the sums with it.
    fn record(
        &mut self,
        names: &mut Names,
        cluster: ClusterId,
        uid: &str,
        time: Timestamp,
        change: impl FnOnce(&mut Pod) -> Result<bool, Contradiction>,
    ) -> Result<Outcome, Contradiction> {
        self.stepped = None;
        self.seal_ended();
        let id = ObjectId { cluster, uid: Uid::of(uid) };
        let slot = self.index.get(&id).copied();
        let known = slot.and_then(|slot| self.pods.get(slot));
        if known.is_none() && self.seals.as_mut().is_some_and(|seals| seals.is_sealed(id)) {
            return Ok(Outcome::Dropped);
        }
        if known.is_none() && self.sources.horizon(cluster).is_some_and(|horizon| time < horizon) {
            return Ok(Outcome::Dropped);
        }
        let old = known.cloned().unwrap_or_else(|| Pod::new(id));
        let mut new = old.clone();
        new.told(time);
        if !change(&mut new)? {
            if new.newest() > old.newest() {
                self.keep(slot, new);
            }
            return Ok(Outcome::Repeated);
        }
        self.replace(names, &old, &new)?;
        self.stepped = Some([old.workload(), new.workload()]);
        let known: Vec<_> = old.contradictions().map(|s| s.position).collect();
        let contradicted = new.contradictions().map(|s| (s.position, s.time));
        let contradicted = contradicted.filter(|(p, _)| !known.contains(p)).collect();
        let (before, after) = (old.charged(), new.charged());
        let workload = new.workload();
        if let Some(seals) = self.seals.as_mut().filter(|_| new.is_final() && !old.is_final()) {
            seals.end(id);
        }
        self.keep(slot, new);
        Ok(Outcome::Changed(Change { pod: id, workload, before, after, contradicted }))
    }

    fn keep(&mut self, slot: Option<u32>, pod: Pod) {
        if let Some(row) = slot.and_then(|slot| self.pods.get_mut(slot)) {
            *row = pod;
            return;
        }
        let id = pod.id;
        let (slot, _) = self.pods.add(pod);
        self.index.insert(id, slot);
    }

    /// Takes the old row's segments away and adds the new row's.
    fn replace(&mut self, names: &mut Names, old: &Pod, new: &Pod) -> Result<(), Overflow> {
        let [mut gone, mut come] = std::mem::take(&mut self.segments);
        gone.clear();
        come.clear();
        let window = self.window;
        old.segments(self.basis, |segment| gone.extend(window.cut(segment)));
        new.segments(self.basis, |segment| come.extend(window.cut(segment)));
        let result = self.step_through(names, &gone, &come);
        self.segments = [gone, come];
        result
    }

    /// From the segments that were believed to those that are; all of it or nothing.
    fn step_through(
        &mut self,
        names: &mut Names,
        gone: &[Segment],
        come: &[Segment],
    ) -> Result<(), Overflow> {
        let count = gone.len().max(come.len());
        let mut done: usize = 0;
        for i in 0..count {
            for step in steps(gone.get(i), come.get(i)) {
                if let Some(step) = step
                    && let Err(overflow) = self.apply(names, step)
                {
                    let all = (0..count).flat_map(|i| steps(gone.get(i), come.get(i)));
                    for step in all.take(done).flatten() {
                        // Stepping back restores sums that were in range.
                        let _ = self.apply(names, step.reversed());
                    }
                    return Err(overflow);
                }
                done = done.saturating_add(1);
            }
        }
        Ok(())
    }

    fn apply(&mut self, names: &mut Names, step: Step<'_>) -> Result<(), Overflow> {
        let Some(segment) = step.come.or(step.gone) else { return Ok(()) };
        let group = self.shapes.group(segment.placement);
        let history = self.history;
        let measure = self.shapes.measure(names, segment.placement, segment.held)?;
        let Some(sums) = sums_of(&mut self.groups, group, history) else { return Ok(()) };
        sums.apply(step, measure, &mut self.splits, &mut self.slots)?;
        if sums.opened().is_some() {
            let since = step.boundaries().iter().map(|(at, _)| at).min().unwrap_or(Timestamp::MAX);
            match self.changed.last_mut().filter(|(last, _)| *last == group) {
                Some((_, earlier)) => *earlier = since.min(*earlier),
                None => self.changed.push((group, since)),
            }
        }
        self.newest = self.newest.max(Some(segment.to.unwrap_or(segment.from)));
        Ok(())
    }

    /// Forgets pods of `cluster` whose final stop, and every other record, lies beyond its horizon: a start dated
    /// after the billed stop (a worse basis, another clock) would else be taken again and open a ghost.
    fn forget(&mut self, cluster: ClusterId) {
        let Some(horizon) = self.sources.horizon(cluster) else { return };
        if let Some(seals) = &mut self.seals {
            seals.passed(cluster, horizon);
        }
        let old = |pod: &Pod| {
            let ended = pod.ended().filter(|stop| !stop.basis.is_provisional());
            pod.cluster() == cluster
                && ended.is_some_and(|stop| stop.time < horizon)
                && pod.newest() < horizon
        };
        for slot in 0..self.pods.count() {
            if self.pods.get(slot).is_some_and(old)
                && let Some(pod) = self.pods.remove(slot)
            {
                self.index.remove(&pod.id);
                self.settle(&pod);
            }
        }
    }

    /// Before the next record about a pod: forgets those whose time has come.
    fn seal_ended(&mut self) {
        let Some(mut seals) = self.seals.take() else { return };
        seals.tick();
        while let Some(id) = seals.due() {
            let slot = self.index.get(&id).copied();
            // A better start may have voided the stop, and one that is told twice is sealed once.
            if let Some(slot) = slot.filter(|slot| self.pods.get(*slot).is_some_and(Pod::is_final))
                && let Some(pod) = self.pods.remove(slot)
            {
                self.index.remove(&id);
                self.settle(&pod);
                seals.seal(id, pod.newest());
            }
        }
        self.seals = Some(seals);
    }

    /// Keeps what a pod that is forgotten had used, summed with others of its group.
    fn settle(&mut self, pod: &Pod) {
        let mut segments = Vec::new();
        pod.segments(self.basis, |segment| segments.extend(self.window.cut(segment)));
        for segment in segments {
            // Not the stop's time: by the node's clock it may have run beyond it.
            self.forgotten_until = self.forgotten_until.max(segment.to);
            let Some(measure) = self.shapes.known(segment.placement, segment.held) else {
                continue;
            };
            let group = self.shapes.group(segment.placement);
            if let Some(sums) = sums_of(&mut self.settled, group, false) {
                // A part of sums that are in range is in range.
                let step = Step { gone: None, come: Some(&segment) };
                let _ = sums.apply(step, measure, &mut self.splits, &mut self.slots);
            }
        }
    }

    /// The group that `charged` charges, and how much: its resources, `pods` and `count/pods`.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn charge(
        &mut self,
        names: &mut Names,
        charged: Charged,
    ) -> Result<(GroupId, Arc<Amounts>), Overflow> {
        let group = self.shapes.group(charged.placement);
        let measure = self.shapes.measure(names, charged.placement, charged.reserved)?;
        Ok((group, Arc::clone(&measure.charge)))
    }
}

/// The steps from a segment that was believed to the one in its place.
fn steps<'s>(gone: Option<&'s Segment>, come: Option<&'s Segment>) -> [Option<Step<'s>>; 2] {
    let alike = |(g, c): (&Segment, &Segment)| (g.placement, g.held) == (c.placement, c.held);
    match gone.zip(come) {
        Some((g, c)) if g == c => [None, None],
        Some(pair) if !alike(pair) => {
            [Some(Step { gone, come: None }), Some(Step { gone: None, come })]
        }
        _ => [Some(Step { gone, come }), None],
    }
}

/// A group's sums, which exist from now on.
fn sums_of<const N: usize>(
    groups: &mut Table<Sums, N>,
    group: GroupId,
    history: bool,
) -> Option<&mut Sums> {
    groups.extend_to(group.index().saturating_add(1), || Sums::new(history));
    groups.get_mut(group.index())
}
