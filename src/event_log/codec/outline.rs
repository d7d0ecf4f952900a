//! An event as numbers and places in its text: all that its bytes alone tell. An event borrows from its text and so
//! cannot move between threads beside it; an outline can. The thread that reads makes it, the thread that folds
//! puts the event together, which is a tenth of the work.

use super::part::Part;
use crate::domain::{
    event::{Data, EventId, ObjectRef, Period, PodStarted, PodStopped, StartBasis, StopBasis},
    resources::{Models, Resources},
    time::Timestamp,
};
use std::sync::Arc;

/// What the attributes and the data of one event say.
#[derive(Debug)]
pub(in crate::event_log) struct Outline {
    pub(in crate::event_log) id: EventId,
    pub(in crate::event_log) time: Timestamp,
    pub(in crate::event_log) recorded_at: Timestamp,
    pub(in crate::event_log) data: DataOutline,
}

/// Data of the types that nearly all of a long history is made of.
#[derive(Debug)]
pub(in crate::event_log) enum DataOutline {
    Started(Started),
    Stopped(Stopped),
}

/// [`PodStarted`]; resources by their place in a table.
#[derive(Debug)]
pub(in crate::event_log) struct Started {
    pub(super) uid: Part,
    pub(super) owner: Option<Owner>,
    pub(super) group: Part,
    pub(super) cpu: Option<Part>,
    pub(super) memory: Option<Part>,
    pub(super) gpu: Option<Part>,
    pub(super) node: Part,
    pub(super) held: u32,
    pub(super) reserved: Option<u32>,
    pub(super) basis: StartBasis,
}

/// [`ObjectRef`].
#[derive(Debug)]
pub(in crate::event_log) struct Owner {
    pub(super) api_version: Part,
    pub(super) kind: Part,
    pub(super) namespace: Option<Part>,
    pub(super) name: Part,
    pub(super) uid: Part,
}

/// [`PodStopped`].
#[derive(Debug)]
pub(in crate::event_log) struct Stopped {
    pub(super) uid: Part,
    pub(super) earliest: Timestamp,
    pub(super) latest: Timestamp,
    pub(super) basis: StopBasis,
    pub(super) phase: Part,
    pub(super) reason: Part,
    pub(super) ran: Option<Period>,
}

impl DataOutline {
    /// The data, put together from its text and the table of its resources; `None` where the table is another's.
    pub(in crate::event_log) fn data<'a>(
        &self,
        text: &'a str,
        table: &[Arc<Resources>],
    ) -> Option<Data<'a>> {
        match self {
            Self::Started(started) => started.data(text, table).map(Data::PodStarted),
            Self::Stopped(stopped) => Some(Data::PodStopped(stopped.data(text))),
        }
    }
}

impl Started {
    fn data<'a>(&self, text: &'a str, table: &[Arc<Resources>]) -> Option<PodStarted<'a>> {
        let resources = |place: u32| table.get(place as usize).cloned();
        let piece = |part: Option<Part>| part.map(|part| part.of(text).into());
        let models =
            Models { cpu: piece(self.cpu), memory: piece(self.memory), gpu: piece(self.gpu) };
        let reserved = match self.reserved {
            Some(place) => Some(resources(place)?),
            None => None,
        };
        Some(PodStarted {
            uid: self.uid.of(text).into(),
            owner: self.owner.as_ref().map(|owner| owner.object(text)),
            group: self.group.of(text).into(),
            models,
            node: self.node.of(text).into(),
            held: resources(self.held)?,
            reserved,
            basis: self.basis,
        })
    }
}

impl Owner {
    fn object<'a>(&self, text: &'a str) -> ObjectRef<'a> {
        ObjectRef {
            api_version: self.api_version.of(text).into(),
            kind: self.kind.of(text).into(),
            namespace: self.namespace.map(|part| part.of(text).into()),
            name: self.name.of(text).into(),
            uid: self.uid.of(text).into(),
        }
    }
}

impl Stopped {
    fn data<'a>(&self, text: &'a str) -> PodStopped<'a> {
        PodStopped {
            uid: self.uid.of(text).into(),
            earliest: self.earliest,
            latest: self.latest,
            basis: self.basis,
            phase: self.phase.of(text).into(),
            reason: self.reason.of(text).into(),
            ran: self.ran,
        }
    }
}
