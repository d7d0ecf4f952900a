//! Facts on their way to the log: what the ledger knows is left out, and what was told a moment ago.

use super::Cluster;
use crate::domain::{
    event::{Data, Event, EventId},
    ident,
    ledger::Ledger,
    names::Set,
    text::Text,
    time::Timestamp,
};
use std::collections::VecDeque;

/// Facts that are remembered, since the ledger may not have read them yet.
const REMEMBERED: usize = 65_536;

/// See the head of this file.
pub(in crate::observe) struct Facts {
    source: String,
    ready: Vec<Event<'static>>,
    told: Set<EventId>,
    order: VecDeque<EventId>,
    /// When they are recorded.
    pub(super) now: Timestamp,
    /// Facts that a comparison found missing.
    pub(super) drift: u64,
}

impl Facts {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            source: format!("/clusters/{}", cluster.name),
            ready: Vec::new(),
            told: Set::default(),
            order: VecDeque::new(),
            now: Timestamp::MIN,
            drift: 0,
        }
    }

    /// Takes in a fact, unless it is known. Says whether it was news.
    pub(super) fn tell(
        &mut self,
        ledger: &Ledger,
        subject: String,
        time: Timestamp,
        data: Data<'static>,
    ) -> bool {
        let id = ident::fact(&self.source, time, &data).unwrap_or_default();
        let event = Event {
            id,
            source: Text::from(self.source.clone()),
            subject: subject.into(),
            time,
            recorded_at: self.now,
            data,
        };
        if self.told.contains(&id) || ledger.is_told(&event) {
            return false;
        }
        self.remember(id);
        self.ready.push(event);
        true
    }

    /// Takes in what has no uid: its name comes from its content, when it is encoded.
    pub(super) fn note(&mut self, subject: String, time: Timestamp, data: Data<'static>) {
        self.ready.push(Event {
            id: EventId::default(),
            source: Text::from(self.source.clone()),
            subject: subject.into(),
            time,
            recorded_at: self.now,
            data,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// What there is to tell.
    pub(in crate::observe) fn take(&mut self) -> Vec<Event<'static>> {
        std::mem::take(&mut self.ready)
    }

    /// How many facts comparisons found missing since the last call.
    pub(super) const fn take_drift(&mut self) -> u64 {
        std::mem::replace(&mut self.drift, 0)
    }

    fn remember(&mut self, id: EventId) {
        self.told.insert(id);
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.told.remove(&oldest);
        }
    }
}
