//! A slow, obvious second reading of the metering rules, and the histories to try it on.
//!
//! The oracle keeps every record, settles for each pod what it held when (contract §4), and walks the time grain by
//! grain. It shares no cleverness with the ledger: no sums of starts, no differences, no state between records.

pub(crate) mod arbitrary;
pub(crate) mod fold;
pub(crate) mod history;
pub(crate) mod holding;
mod known;
pub(crate) mod walk;
pub(crate) mod world;

use bizrq::domain::event::{Data, Event, EventId};
use holding::Holding;
use std::collections::{BTreeMap, BTreeSet};

/// A pod's identity: the source that speaks of it, and its uid.
pub(crate) type PodName = (String, String);

/// Everything that a list of records says about who held what when.
pub(crate) struct Oracle {
    /// Milliseconds of one step; every instant of the history is a multiple of it.
    pub(crate) grain: i64,
    /// What each pod held, in order of name.
    pub(crate) pods: BTreeMap<PodName, Holding>,
}

impl Oracle {
    /// Reads `events` in order, the second one of an id never.
    pub(crate) fn read<'e>(grain: i64, events: impl IntoIterator<Item = &'e Event<'e>>) -> Self {
        let mut ids: BTreeSet<EventId> = BTreeSet::new();
        let mut records: BTreeMap<PodName, Vec<&Event<'_>>> = BTreeMap::new();
        for event in events {
            if let Some(uid) = pod_uid(&event.data)
                && ids.insert(event.id)
            {
                let pod = (event.source.to_string(), uid.to_owned());
                records.entry(pod).or_default().push(event);
            }
        }
        let pods = records.into_iter().map(|(pod, events)| (pod, Holding::settle(&events)));
        Self { grain, pods: pods.collect() }
    }
}

/// The pod that a record is about, if it is about a pod.
pub(crate) fn pod_uid<'e>(data: &'e Data<'_>) -> Option<&'e str> {
    Some(match data {
        Data::PodCreated(d) => d.uid.as_str(),
        Data::PodStarted(d) => d.uid.as_str(),
        Data::PodRan(d) => d.uid.as_str(),
        Data::PodResized(d) => d.uid.as_str(),
        Data::PodMoved(d) => d.uid.as_str(),
        Data::PodStopped(d) => d.uid.as_str(),
        Data::PodStopWithdrawn(d) => d.uid.as_str(),
        _ => return None,
    })
}
