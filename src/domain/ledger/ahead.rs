//! What the next events will touch is looked at beforehand, of many events together.
//!
//! ```text
//!  one by one    e1 ─wait─wait─wait─ apply   e2 ─wait─wait─wait─ apply   …
//!  together      e1 e2 e3 … ─wait─wait─wait─ apply apply apply …
//! ```
//!
//! In a large ledger an event touches some fifty lines of memory that no cache holds, each found by what stood in the one
//! before: applied alone it mostly waits. Here the events of a batch go that way side by side, a step each, so that they
//! wait at once. Nothing is changed and nothing is said by it: a ledger that was looked at is the ledger that it was.

use super::Ledger;
use crate::domain::{
    event::{Data, Event},
    names::{GroupId, ObjectId, Uid},
};

/// So many events are best looked at together: more than a core can wait for at once, and what they touch fits into its
/// second cache.
pub const TOGETHER: usize = 32;

/// How far it goes from a group to its newest hour, or to its cells in the tree.
const STEPS: u8 = 3;

/// The way of one event.
struct Way<'e> {
    pod: ObjectId,
    workload: Option<Uid>,
    group: Option<&'e str>,
    found: Found,
}

/// What was found on it so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    pod: Option<u32>,
    workload: Option<u32>,
    group: Option<GroupId>,
}

impl Ledger {
    /// Looks at what `events`, which come next, will touch; best [`TOGETHER`] of them.
    pub fn look_ahead<'e>(&self, events: impl Iterator<Item = &'e Event<'e>>) {
        let ways = self.ways(events);
        let mut seen = 0;
        for step in 0..STEPS {
            for Way { group, found, .. } in &ways {
                let Some(id) = found.group else { continue };
                if step == 0 && group.is_some() {
                    seen ^= self.meter.shapes.look(id);
                }
                let sums = self.meter.groups.get(id.index());
                seen ^= sums.map_or(0, |sums| sums.look(step));
                let book = self.book.as_deref();
                seen ^= book.map_or(0, |book| book.look(id, found.workload, step));
            }
        }
        // Else the compiler would find that nobody wants to know.
        std::hint::black_box(seen);
    }

    /// The ways of `events` up to where their numbers are known.
    fn ways<'e>(&self, events: impl Iterator<Item = &'e Event<'e>>) -> Vec<Way<'e>> {
        let mut ways: Vec<_> = events.filter_map(|event| self.way(event)).collect();
        for way in &mut ways {
            way.found.pod = self.meter.slot(way.pod);
        }
        for way in &mut ways {
            way.found.group = way.group.and_then(|group| self.names.known_group(group));
        }
        if let Some(book) = self.book.as_deref() {
            for Way { pod, workload, found, .. } in &mut ways {
                let owner = workload.map(|uid| ObjectId { uid, ..*pod });
                found.workload = book.slot(*pod, owner);
            }
        }
        for Way { found, .. } in &mut ways {
            let pod = found.pod.and_then(|slot| self.meter.pods.get(slot));
            let charged = pod.and_then(|pod| pod.charged());
            let group = charged.map(|charged| self.meter.shapes.group(charged.placement));
            found.group = found.group.or(group);
        }
        ways
    }

    /// Where the way of an event begins; events that are not about pods are few.
    fn way<'e>(&self, event: &'e Event<'e>) -> Option<Way<'e>> {
        let (uid, group, owner) = match &event.data {
            Data::PodCreated(data) => (&data.uid, Some(&data.group), data.owner.as_ref()),
            Data::PodStarted(data) => (&data.uid, Some(&data.group), data.owner.as_ref()),
            Data::PodMoved(data) => (&data.uid, Some(&data.group), data.owner.as_ref()),
            Data::PodStopped(data) => (&data.uid, None, None),
            Data::PodRan(data) => (&data.uid, None, None),
            Data::PodResized(data) => (&data.uid, None, None),
            _ => return None,
        };
        let cluster = self.names.known_cluster(&event.source)?;
        Some(Way {
            pod: ObjectId { cluster, uid: Uid::of(uid) },
            workload: owner.map(|owner| Uid::of(&owner.uid)),
            group: group.map(|group| &**group),
            found: Found::default(),
        })
    }
}

#[cfg(test)]
// Tests may index: that fails them.
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::domain::{
        event::{EventId, ObjectRef, PodStarted, PodStopped, StartBasis, StopBasis},
        merkle::Hash,
        resources::Models,
        time::ORIGIN,
    };
    use std::sync::Arc;

    fn event(n: u128, data: Data<'static>) -> Event<'static> {
        let (source, subject) = ("/clusters/east".into(), "pods/ns/p".into());
        Event { id: EventId(n), source, subject, time: ORIGIN, recorded_at: ORIGIN, data }
    }

    fn start(n: u128, uid: &'static str, owner: &'static str) -> Event<'static> {
        let owner = ObjectRef {
            api_version: "batch/v1".into(),
            kind: "Job".into(),
            namespace: None,
            name: owner.into(),
            uid: owner.into(),
        };
        let data = PodStarted {
            uid: uid.into(),
            owner: Some(owner),
            group: "a".into(),
            models: Models::default(),
            node: "n".into(),
            held: Arc::default(),
            reserved: None,
            basis: StartBasis::Bound,
        };
        event(n, Data::PodStarted(data))
    }

    fn stop(n: u128, uid: &'static str) -> Event<'static> {
        let data = PodStopped {
            uid: uid.into(),
            earliest: ORIGIN,
            latest: ORIGIN,
            basis: StopBasis::TerminalStatus,
            phase: "".into(),
            reason: "".into(),
            ran: None,
        };
        event(n, Data::PodStopped(data))
    }

    #[test]
    fn the_way_leads_to_what_the_event_will_touch() {
        let mut ledger = Ledger::default();
        let first = [start(1, "p", "train"), start(2, "q", "serve")];
        assert!(ledger.ways(first.iter()).is_empty(), "a source that is not known yet");
        for (position, event) in (1..).zip(&first) {
            ledger.apply(position, Hash::default(), event).unwrap();
        }
        let group = ledger.names.known_group("a");
        let [p, q] = [0, 1].map(|n| Found { pod: Some(n), workload: Some(n), group });
        let next = [stop(3, "q"), stop(4, "p"), start(5, "r", "serve"), stop(6, "nobody")];
        let found = ledger.ways(next.iter()).into_iter().map(|way| way.found);
        let new = Found { pod: None, ..q };
        assert_eq!(found.collect::<Vec<_>>(), [q, p, new, Found::default()]);
        let before = format!("{ledger:?}");
        ledger.look_ahead(next.iter());
        assert_eq!(format!("{ledger:?}"), before);
    }
}
