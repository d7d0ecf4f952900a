//! The newest decisions: by their ids, and by the requests that they answer.

use crate::domain::{
    event::{Data, Event, EventId, Position},
    names::{Map, Names, ObjectId, Set, Uid},
    table::Ring,
};
use std::collections::hash_map::Entry;

/// So many decisions are known by their ids: minutes of the busiest log.
const DECISIONS_REMEMBERED: usize = 65_536;

/// So many requests are known by their uids: two minutes at a thousand recorded reviews a second, longer than an
/// API server waits for a webhook and tries again. About 10 MB.
const REQUESTS_REMEMBERED: usize = 131_072;

/// The newest decisions: a repeated append or request comes soon or, being refused, never.
#[derive(Clone, Debug, Default)]
pub(super) struct Decided {
    pub(super) ids: Set<EventId>,
    pub(super) ring: Ring<EventId, 256>,
    /// By cluster and uid of the request: the record that answers it.
    pub(super) requests: Map<ObjectId, Position>,
    pub(super) asked: Ring<(ObjectId, Position), 256>,
}

impl Decided {
    pub(super) fn remember(&mut self, id: EventId) {
        self.ids.insert(id);
        if let Some(oldest) = self.ring.put(id, DECISIONS_REMEMBERED) {
            self.ids.remove(&oldest);
        }
    }

    fn answer(&mut self, request: ObjectId, position: Position) {
        // Of a request that was recorded twice the first record counts, as it does for whoever asked.
        let Entry::Vacant(place) = self.requests.entry(request) else { return };
        place.insert(position);
        if let Some((oldest, _)) = self.asked.put((request, position), REQUESTS_REMEMBERED) {
            self.requests.remove(&oldest);
        }
    }

    /// Remembers the requests that a decision answers.
    pub(super) fn remember_requests(
        &mut self,
        names: &mut Names,
        position: Position,
        event: &Event<'_>,
    ) {
        match &event.data {
            Data::WorkloadsAdmitted(data) => {
                for admission in &data.admissions {
                    let cluster = names.cluster_of(&admission.cluster);
                    let uid = Uid::of(&admission.request);
                    self.answer(ObjectId { cluster, uid }, position);
                }
            }
            Data::QuotaProposed(data) => {
                if let Some(request) = &data.request {
                    let cluster = names.cluster(&event.source);
                    self.answer(ObjectId { cluster, uid: Uid::of(request) }, position);
                }
            }
            _ => {}
        }
    }
}
