//! One pod's evidence, and the segments that follow from it.
//!
//! The row keeps what was said about the pod, never a running total: its segments are a function of the
//! evidence, so a late, repeated or better record changes the row and the ledger applies the new
//! segments minus the old ones. That is why the order of records cannot matter.

use super::{
    event::{Period, Position, StartBasis, StopBasis},
    few::Few,
    names::{ClusterId, ObjectId, Uid},
    shapes::{PlacementId, ResourcesId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// Everything known of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Which pod.
    pub id: ObjectId,
    /// Its top-level workload in the same cluster, or itself.
    workload: Uid,
    /// The node that it was bound to, by number; 0 is unknown.
    pub node: u32,
    /// Records that said something new so far; dates what was read before what.
    read: u32,
    created: Option<Created>,
    start: Option<Start>,
    /// Every stop that was told, best first.
    stops: Few<Stop>,
    /// First `startedAt` that was told.
    ran_from: Option<Timestamp>,
    /// The newest instant that any record of it was dated, taken or not.
    newest: Timestamp,
    /// What few pods have.
    more: Option<Box<More>>,
}

/// What was said of few pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct More {
    /// What the pod held or was from some instant on, by `(time, read)`.
    changes: Vec<Change>,
    /// Proof of life: provisional stops before it are void.
    alive_at: Option<Timestamp>,
}

/// What `pod.created` said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// Group and models.
    pub placement: PlacementId,
    /// What is charged.
    pub reserved: ResourcesId,
}

/// The best start so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Where the time comes from.
    pub basis: StartBasis,
    /// When.
    pub time: Timestamp,
    /// Group and models.
    pub placement: PlacementId,
    /// What is metered.
    pub held: ResourcesId,
    /// What is charged.
    pub reserved: ResourcesId,
    read: u32,
}

/// What changed at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A resize.
    Holds {
        /// What is metered.
        held: ResourcesId,
        /// What is charged.
        reserved: ResourcesId,
    },
    /// A move.
    Is(PlacementId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    time: Timestamp,
    what: What,
    read: u32,
}

/// A stop that was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Where the time comes from.
    pub basis: StopBasis,
    /// The billed instant.
    pub time: Timestamp,
    /// It held until here at least.
    pub earliest: Timestamp,
    /// It held nothing after this.
    pub latest: Timestamp,
    /// The node's own clock: first start to last end.
    pub ran: Option<Period>,
    /// The record that told it.
    pub position: Position,
}

/// Which of the two clocks is metered; they are never mixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Basis {
    /// From binding to the recorded end, on the API server's clock.
    #[default]
    Held,
    /// From the first container's start to the last one's end, on the node's clock.
    Ran,
}

/// One pod, constant resources, group and models, `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First instant inside.
    pub from: Timestamp,
    /// First instant after it; `None` while the pod runs.
    pub to: Option<Timestamp>,
    /// Group and models.
    pub placement: PlacementId,
    /// What is metered.
    pub held: ResourcesId,
    /// The pod still runs, or its stop may be withdrawn.
    pub provisional: bool,
    /// The stop lies somewhere in here; billed is `to`.
    pub uncertain: Option<Period>,
}

/// What a pod charges against quota now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// Group and models.
    pub placement: PlacementId,
    /// What is charged.
    pub reserved: ResourcesId,
}

/// Whose clock a time was read from; only times of one clock can contradict each other.
#[derive(PartialEq, Eq)]
enum Clock {
    Api,
    Node,
    Observer,
    Import,
}

impl Pod {
    /// A pod of which nothing is known yet.
    #[must_use]
    pub fn new(id: ObjectId) -> Self {
        Self { id, workload: id.uid, ..Self::default() }
    }

    /// Takes its workload's uid; `None`: it is its own.
    pub fn belongs(&mut self, workload: Option<Uid>) {
        self.workload = workload.unwrap_or(self.id.uid);
    }

    /// Its top-level workload, or itself.
    #[must_use]
    pub fn workload(&self) -> ObjectId {
        ObjectId { uid: self.workload, ..self.id }
    }

    /// The cluster that it lives in.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.id.cluster
    }

    /// Takes a creation. Of several the first told counts. Returns whether it said something new.
    pub fn create(&mut self, created: Created) -> bool {
        let new = self.created.is_none();
        if new {
            self.created = Some(created);
        }
        new
    }

    /// Takes a start: the better basis wins, then the earlier time. Returns whether it said something new.
    pub fn start(
        &mut self,
        basis: StartBasis,
        time: Timestamp,
        placement: PlacementId,
        held: ResourcesId,
        reserved: ResourcesId,
    ) -> bool {
        if self.start.is_some_and(|s| (s.basis, s.time) <= (basis, time)) {
            return false;
        }
        let read = self.tick();
        self.start = Some(Start { basis, time, placement, held, reserved, read });
        true
    }

    /// Takes a resize or a move. Returns whether it said something new.
    pub fn change(&mut self, time: Timestamp, what: What) -> bool {
        if self.changes().iter().any(|c| c.time == time && c.what == what) {
            return false;
        }
        let read = self.tick();
        let changes = &mut self.more.get_or_insert_default().changes;
        changes.insert(changes.partition_point(|c| c.time <= time), Change { time, what, read });
        true
    }

    /// Takes a stop. Returns whether it said something new.
    pub fn stop(&mut self, stop: Stop) -> bool {
        if self.stops.iter().any(|s| (s.basis, s.time) == (stop.basis, stop.time)) {
            return false;
        }
        self.stops.insert(stop, |s| (s.basis, s.time) < (stop.basis, stop.time));
        true
    }

    /// Takes a proof of life. Returns whether it said something new.
    pub fn withdraw(&mut self, alive_at: Timestamp) -> bool {
        let known = &mut self.more.get_or_insert_default().alive_at;
        let new = known.is_none_or(|known| known < alive_at);
        if new {
            *known = Some(alive_at);
        }
        new
    }

    /// Takes the first container's start; the earliest counts. Returns whether it said something new.
    pub fn run(&mut self, from: Timestamp) -> bool {
        let new = self.ran_from.is_none_or(|known| from < known);
        if new {
            self.ran_from = Some(from);
        }
        new
    }

    /// Notes that a record of it was dated `time`, whether it says something new or not.
    pub fn told(&mut self, time: Timestamp) {
        self.newest = self.newest.max(time);
    }

    /// The newest instant that any record of it was dated: while a source may still repeat one that
    /// would be taken, the row must not be forgotten.
    #[must_use]
    pub fn newest(&self) -> Timestamp {
        self.newest
    }

    fn tick(&mut self) -> u32 {
        self.read = self.read.saturating_add(1);
        self.read
    }

    /// The stop that counts: neither withdrawn nor contradicted by the start.
    #[must_use]
    pub fn ended(&self) -> Option<&Stop> {
        self.stops.iter().find(|stop| !self.is_void(stop) && !self.contradicts(stop))
    }

    /// Stops that were told but lie before the start on the start's own clock.
    pub fn contradictions(&self) -> impl Iterator<Item = &Stop> {
        self.stops.iter().filter(|stop| self.contradicts(stop))
    }

    /// Whether the stop that counts can never be undone: the row may be forgotten one day.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.ended().is_some_and(|stop| !stop.basis.is_provisional())
    }

    /// Whether a creation was told.
    #[must_use]
    pub fn is_created(&self) -> bool {
        self.created.is_some()
    }

    /// Whether a start this good was told.
    #[must_use]
    pub fn is_started(&self, basis: StartBasis, time: Timestamp) -> bool {
        self.start.is_some_and(|s| (s.basis, s.time) <= (basis, time))
    }

    /// Whether this stop was told, or a proof of life that voids it.
    #[must_use]
    pub fn is_stopped(&self, basis: StopBasis, time: Timestamp) -> bool {
        let told = self.stops.iter().any(|s| (s.basis, s.time) == (basis, time));
        let alive_at = self.more.as_ref().and_then(|more| more.alive_at);
        told || (basis.is_provisional() && alive_at.is_some_and(|alive| time < alive))
    }

    /// The first `startedAt` that was told.
    #[must_use]
    pub fn ran_from(&self) -> Option<Timestamp> {
        self.ran_from
    }

    /// The newest proof of life that was told after a stop that nobody witnessed.
    #[must_use]
    pub fn alive_at(&self) -> Option<Timestamp> {
        self.more.as_ref().and_then(|more| more.alive_at)
    }

    /// What was told to have changed at `time`.
    pub fn changed_at(&self, time: Timestamp) -> impl Iterator<Item = What> + '_ {
        self.changes().iter().filter(move |change| change.time == time).map(|change| change.what)
    }

    /// What is metered by the newest record; `None` before a start.
    #[must_use]
    pub fn held(&self) -> Option<ResourcesId> {
        let start = self.start.as_ref()?;
        let held = |change: &Change| match change.what {
            What::Holds { held, .. } => Some(held),
            What::Is(_) => None,
        };
        let counted = self.changes().iter().rev().filter(|change| self.counts(change));
        Some(counted.filter_map(held).next().unwrap_or(start.held))
    }

    /// Whether a start is known.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.start.is_some()
    }

    fn changes(&self) -> &[Change] {
        self.more.as_ref().map_or(&[], |more| &more.changes)
    }

    fn is_void(&self, stop: &Stop) -> bool {
        let alive_at = self.more.as_ref().and_then(|more| more.alive_at);
        stop.basis.is_provisional() && alive_at.is_some_and(|alive| stop.time < alive)
    }

    fn contradicts(&self, stop: &Stop) -> bool {
        self.start.is_some_and(|s| stop.time < s.time && stop.basis.clock() == s.basis.clock())
    }

    /// Every placement that was ever told of it, in no order, some twice.
    pub fn placements(&self) -> impl Iterator<Item = PlacementId> + '_ {
        let moved = self.changes().iter().filter_map(|change| match change.what {
            What::Is(placement) => Some(placement),
            What::Holds { .. } => None,
        });
        let created = self.created.iter().map(|created| created.placement);
        created.chain(self.start.iter().map(|start| start.placement)).chain(moved)
    }

    /// What it charges against quota: the newest that was said, unless it ended.
    #[must_use]
    pub fn charged(&self) -> Option<Charged> {
        if self.ended().is_some() {
            return None;
        }
        let mut charged = match (&self.start, &self.created) {
            (Some(s), _) => Charged { placement: s.placement, reserved: s.reserved },
            (None, Some(c)) => Charged { placement: c.placement, reserved: c.reserved },
            (None, None) => return None,
        };
        for change in self.changes().iter().filter(|c| self.counts(c)) {
            match change.what {
                What::Holds { reserved, .. } => charged.reserved = reserved,
                What::Is(placement) => charged.placement = placement,
            }
        }
        Some(charged)
    }

    /// A change counts when it is not dated before the start, or was told after it: the start says what
    /// was true when it was told, and a later record dated earlier (by another clock) still comes later.
    fn counts(&self, change: &Change) -> bool {
        self.start.is_none_or(|s| change.time >= s.time || change.read > s.read)
    }

    /// Calls `each` with the pod's segments on `basis`, in order of time.
    pub fn segments(&self, basis: Basis, mut each: impl FnMut(Segment)) {
        let Some(start) = &self.start else { return };
        let stop = self.ended();
        let provisional = stop.is_none_or(|s| s.basis.is_provisional());
        let Some((from, to)) = self.interval(basis, start, stop) else { return };
        let uncertain = stop.filter(|_| basis == Basis::Held).and_then(|s| s.doubt(start));
        let mut segment = Segment {
            from,
            to,
            placement: start.placement,
            held: start.held,
            provisional,
            uncertain: None,
        };
        for change in self.changes().iter().filter(|c| self.counts(c)) {
            if to.is_some_and(|to| change.time >= to) {
                break;
            }
            if change.time > segment.from {
                each(Segment { to: Some(change.time), ..segment });
                segment.from = change.time;
            }
            match change.what {
                What::Holds { held, .. } => segment.held = held,
                What::Is(placement) => segment.placement = placement,
            }
        }
        each(Segment { uncertain, ..segment });
    }

    fn interval(
        &self,
        basis: Basis,
        start: &Start,
        stop: Option<&Stop>,
    ) -> Option<(Timestamp, Option<Timestamp>)> {
        match basis {
            Basis::Held => Some((start.time, stop.map(|s| s.time.max(start.time)))),
            Basis::Ran => {
                let ran = stop.and_then(|s| s.ran);
                let told = [self.ran_from, ran.map(|r| r.from)];
                let from = told.into_iter().flatten().min()?;
                // Without its containers' last word the end is the held one: the only end that is known.
                let to = stop.map(|s| s.ran.map_or(s.time, |r| r.to).max(from));
                Some((from, to))
            }
        }
    }
}

impl Stop {
    /// The interval that the true end lies in, if it is no instant.
    fn doubt(&self, start: &Start) -> Option<Period> {
        let doubt = if self.time < start.time {
            Period { from: self.time, to: start.time }
        } else {
            Period { from: self.earliest, to: self.latest }
        };
        (doubt.from < doubt.to).then_some(doubt)
    }
}

impl StartBasis {
    const fn clock(self) -> Clock {
        match self {
            Self::Bound | Self::Created => Clock::Api,
            Self::KubeletStart => Clock::Node,
            Self::Observed => Clock::Observer,
            Self::Imported => Clock::Import,
        }
    }
}

impl StopBasis {
    /// Nobody witnessed the end: it may be withdrawn.
    #[must_use]
    pub const fn is_provisional(self) -> bool {
        matches!(self, Self::NodeLost | Self::Absent)
    }

    const fn clock(self) -> Clock {
        match self {
            // Of what is absent the last proof of life is billed, which is the API server's.
            Self::TerminalStatus | Self::Deleted | Self::NodeLost | Self::Absent => Clock::Api,
            Self::Received => Clock::Observer,
            Self::ContainersFinished => Clock::Node,
            Self::Imported => Clock::Import,
        }
    }
}
