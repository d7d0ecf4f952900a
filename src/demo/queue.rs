//! What is to happen, by time; of one instant in the order in which it was planned. The simulated clock is its head.

use super::{Error, world::World};
use crate::domain::{
    event::{ObjectRef, Position},
    time::Timestamp,
};
use std::{cmp::Reverse, collections::BinaryHeap};

/// One step of the simulation. Workloads and pods are named by their numbers.
pub(super) enum Happening {
    /// A turn of the story.
    Turn(Turn),
    /// So many of the crowd are submitted: the wave's number.
    Wave(u64),
    /// The review of a quota object, by its place in the tree.
    Propose(usize),
    /// The quota object as it really is.
    Declare(usize),
    /// A workload as it really is; what its controller makes of it follows.
    Observe(u64),
    /// A pod came into being.
    Create(u64),
    /// A pod was bound to its node.
    Start(u64),
    /// Its first container runs.
    Ran(u64),
    /// Its containers ended.
    Stop(u64),
    /// A workload is no more.
    Gone(u64),
    /// The former charge of a workload ends.
    Expire(Box<Expiry>),
    /// An observer says that it missed nothing: the cluster's number.
    Heartbeat(usize),
}

/// What happens at a turn of the story.
pub(super) type Turn = Box<dyn FnOnce(&mut World, Timestamp) -> Result<(), Error>>;

/// A former charge that is kept until a consistent read shows that nothing more can come of it.
pub(super) struct Expiry {
    pub(super) position: Position,
    pub(super) workload: ObjectRef<'static>,
    pub(super) cluster: usize,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<Planned>>,
    planned: u64,
}

struct Planned {
    at: Timestamp,
    number: u64,
    what: Happening,
}

impl Queue {
    /// Plans something.
    pub(super) fn at(&mut self, at: Timestamp, what: Happening) {
        self.planned = self.planned.saturating_add(1);
        self.heap.push(Reverse(Planned { at, number: self.planned, what }));
    }

    /// Plans a turn of the story.
    pub(super) fn turn(
        &mut self,
        at: Timestamp,
        turn: impl FnOnce(&mut World, Timestamp) -> Result<(), Error> + 'static,
    ) {
        self.at(at, Happening::Turn(Box::new(turn)));
    }

    /// What is next.
    pub(super) fn pop(&mut self) -> Option<(Timestamp, Happening)> {
        self.heap.pop().map(|Reverse(planned)| (planned.at, planned.what))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
