//! Names of events: 128 bits of BLAKE3 over length-prefixed parts, so that whoever observes the same fact again,
//! after a restart or beside another observer, gives it the same name. Nothing here is random.
//!
//! Which parts name an event: once-only facts of pods never by a resourceVersion, since two observers see different
//! versions; workloads and quotas by it; what has no uid by source, subject, time and content; decisions by content.

use super::{
    event::{Data, EventId, Kind, ObjectRef, PodMoved, PodResized, StartBasis, StopBasis},
    resources::{ResourceList, Resources},
    text::Text,
    time::Timestamp,
};

/// The parts of a name, in order.
#[derive(Clone, Debug)]
pub struct Parts(blake3::Hasher);

impl Parts {
    /// Begins with what kind of event it is.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        Self(blake3::Hasher::new()).text(kind.name())
    }

    /// Begins with what kind of thing it is that is no event of the log.
    #[must_use]
    pub fn named(kind: &str) -> Self {
        Self(blake3::Hasher::new()).text(kind)
    }

    /// One more part.
    #[must_use]
    pub fn bytes(mut self, part: &[u8]) -> Self {
        // usize is at most 64 bits wide wherever this compiles.
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        self.0.update(&length.to_be_bytes());
        self.0.update(part);
        self
    }

    /// One more part, a text.
    #[must_use]
    pub fn text(self, part: &str) -> Self {
        self.bytes(part.as_bytes())
    }

    /// One more part, an instant.
    #[must_use]
    pub fn time(self, part: Timestamp) -> Self {
        self.bytes(&part.millis().to_be_bytes())
    }

    /// The name.
    #[must_use]
    pub fn id(&self) -> EventId {
        let mut bits = [0; 16];
        self.0.finalize_xof().fill(&mut bits);
        EventId(u128::from_be_bytes(bits))
    }

    fn optional(self, part: Option<&Text<'_>>) -> Self {
        match part {
            Some(text) => self.text("1").text(text),
            None => self.text("0"),
        }
    }

    fn object(self, object: &ObjectRef<'_>) -> Self {
        self.text(&object.api_version).text(&object.kind).text(&object.name).text(&object.uid)
    }

    fn list(self, list: &ResourceList) -> Self {
        let count = u64::try_from(list.iter().count()).unwrap_or(u64::MAX);
        let begun = self.bytes(&count.to_be_bytes());
        list.iter().fold(begun, |p, (name, q)| p.text(name).bytes(&q.milli().to_be_bytes()))
    }

    fn resources(self, resources: &Resources) -> Self {
        self.list(&resources.requests).list(&resources.limits)
    }
}

/// The name of a fact about a pod, a workload or a quota, said by `source` and dated `time`.
///
/// `None` for every other type: see [`note`] and [`decision`].
#[must_use]
pub fn fact(source: &str, time: Timestamp, data: &Data<'_>) -> Option<EventId> {
    let of = |uid: &str| data.kind().map(|kind| Parts::of(kind).text(source).text(uid));
    let parts = match data {
        Data::PodCreated(d) => of(&d.uid)?.time(time),
        Data::PodStarted(d) => of(&d.uid)?.text(start_basis(d.basis)).time(time),
        Data::PodRan(d) => of(&d.uid)?.time(time),
        Data::PodResized(d) => resized(of(&d.uid)?.time(time), d),
        Data::PodMoved(d) => moved(of(&d.uid)?.time(time), d),
        Data::PodStopped(d) => of(&d.uid)?.text(stop_basis(d.basis)).time(time),
        Data::PodStopWithdrawn(d) => of(&d.uid)?.time(time),
        Data::WorkloadObserved(d) => of(&d.workload.uid)?.text(&d.resource_version),
        // What is gone has no version of its own, and goes once for each cause.
        Data::WorkloadGone(d) => of(&d.workload.uid)?.text(&d.cause),
        Data::QuotaDeclared(d) => of(&d.uid)?.text(&d.resource_version),
        Data::QuotaRemoved(d) => of(&d.uid)?,
        _ => return None,
    };
    Some(parts.id())
}

/// The name of what has no uid (nodes, observers, clusters, refusals, the log itself); `data` is its JSON.
#[must_use]
pub fn note(kind: Kind, source: &str, subject: &str, time: Timestamp, data: &[u8]) -> EventId {
    Parts::of(kind).text(source).text(subject).time(time).bytes(data).id()
}

/// The name of a decision; `data` is its JSON.
#[must_use]
pub fn decision(kind: Kind, data: &[u8]) -> EventId {
    Parts::of(kind).bytes(data).id()
}

fn resized(parts: Parts, data: &PodResized<'_>) -> Parts {
    parts.resources(&data.held).resources(data.reserved.as_deref().unwrap_or(&data.held))
}

fn moved(parts: Parts, data: &PodMoved<'_>) -> Parts {
    let parts = match &data.owner {
        Some(owner) => parts.object(owner),
        None => parts.text(""),
    };
    let models = &data.models;
    parts
        .text(&data.group)
        .optional(models.cpu.as_ref())
        .optional(models.memory.as_ref())
        .optional(models.gpu.as_ref())
}

const fn start_basis(basis: StartBasis) -> &'static str {
    match basis {
        StartBasis::Bound => "Bound",
        StartBasis::Created => "Created",
        StartBasis::KubeletStart => "KubeletStart",
        StartBasis::Observed => "Observed",
        StartBasis::Imported => "Imported",
    }
}

const fn stop_basis(basis: StopBasis) -> &'static str {
    match basis {
        StopBasis::TerminalStatus => "TerminalStatus",
        StopBasis::Received => "Received",
        StopBasis::ContainersFinished => "ContainersFinished",
        StopBasis::Imported => "Imported",
        StopBasis::Deleted => "Deleted",
        StopBasis::NodeLost => "NodeLost",
        StopBasis::Absent => "Absent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{event::PodRan, resources::Models};
    use std::sync::Arc;

    fn ran(uid: &'static str) -> Data<'static> {
        Data::PodRan(PodRan { uid: uid.into(), from: Timestamp::MIN })
    }

    #[test]
    fn the_same_fact_has_the_same_name_for_ever() {
        let id = fact("/clusters/east", Timestamp::MAX, &ran("3e9c")).unwrap();
        assert_eq!(id.to_string(), "6edd9c62bdd680fd5c8e0e050f8edbce");
    }

    #[test]
    fn source_uid_and_time_each_make_another_name() {
        let names = [
            fact("/clusters/east", Timestamp::MAX, &ran("3e9c")),
            fact("/clusters/west", Timestamp::MAX, &ran("3e9c")),
            fact("/clusters/east", Timestamp::MAX, &ran("3e9d")),
            fact("/clusters/east", Timestamp::MIN, &ran("3e9c")),
            fact("/clusters/east3", Timestamp::MAX, &ran("e9c")),
        ];
        let distinct: std::collections::BTreeSet<_> = names.iter().flatten().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn a_resize_is_named_by_what_is_held_and_reserved() {
        let resources = |cpu: i64| {
            let requests = serde_json::from_str(&format!(r#"{{"cpu":{cpu}}}"#)).unwrap();
            Arc::new(Resources { requests, limits: ResourceList::default() })
        };
        let resized = |held, reserved: Option<i64>| {
            let data = PodResized {
                uid: "3e9c".into(),
                held: resources(held),
                reserved: reserved.map(resources),
                basis: crate::domain::event::ResizeBasis::KubeletStatus,
            };
            fact("/clusters/east", Timestamp::MIN, &Data::PodResized(data)).unwrap()
        };
        assert_eq!(resized(2, None), resized(2, Some(2)), "written out or not");
        assert_ne!(resized(2, None), resized(3, None));
        assert_ne!(resized(2, None), resized(2, Some(4)));
    }

    #[test]
    fn a_move_is_named_by_where_to() {
        let moved = |group: &'static str, gpu: Option<&'static str>| {
            let models = Models { gpu: gpu.map(Text::from), ..Models::default() };
            let data = PodMoved { uid: "3e9c".into(), owner: None, group: group.into(), models };
            fact("/clusters/east", Timestamp::MIN, &Data::PodMoved(data)).unwrap()
        };
        assert_ne!(moved("a", None), moved("b", None));
        assert_ne!(moved("a", None), moved("a", Some("")));
        assert_ne!(moved("a", Some("A30")), moved("a", Some("A100")));
    }

    #[test]
    fn decisions_are_named_by_content_alone_and_notes_by_all() {
        assert_ne!(decision(Kind::QuotaProposed, b"{}"), decision(Kind::WorkloadsAdmitted, b"{}"));
        let note = |subject| note(Kind::NodeObserved, "/clusters/e", subject, Timestamp::MIN, b"");
        assert_ne!(note("nodes/a"), note("nodes/b"));
        let none =
            Data::ClusterRetired(crate::domain::event::ClusterRetired { at: Timestamp::MIN });
        assert_eq!(fact("/clusters/e", Timestamp::MIN, &none), None);
    }
}
