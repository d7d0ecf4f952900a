//! What was told of one pod, and the segments that the ledger makes of it.

use bizrq::domain::{
    amounts::Amounts,
    event::{Data, Event, Kind, Position, StopBasis},
    ledger::Applied,
    meter::Meter,
    names::{GroupId, ObjectId},
    time::Timestamp,
};

/// A pod that is followed through the log.
#[derive(Default)]
pub(super) struct Trail {
    name: String,
    told: Vec<Told>,
    /// The record of the stop that counts.
    stop: Option<Position>,
    /// Segments as they are by the last record.
    now: Vec<Held>,
    /// Segments of what the ledger has forgotten since, with their records.
    before: Vec<(Held, Vec<Position>)>,
}

/// A record about the pod that said something new.
struct Told {
    position: Position,
    kind: Kind,
    /// When it happened.
    time: Timestamp,
    /// A stop that nobody witnessed.
    provisional: bool,
}

/// A segment of any group.
pub(super) struct Held {
    pub(super) group: GroupId,
    pub(super) amounts: Amounts,
    pub(super) from: Timestamp,
    pub(super) to: Option<Timestamp>,
    pub(super) provisional: bool,
}

impl Trail {
    /// `NAMESPACE/NAME`, as its records call it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The ledger knows nothing of the pod (any more): what it had is settled.
    pub(super) fn forgotten(&mut self) {
        let settled: Vec<_> = self.now().map(|(i, held)| (i, self.positions(held))).collect();
        let now = std::mem::take(&mut self.now);
        self.before.extend(now.into_iter().zip(settled).map(|(held, (_, made))| (held, made)));
        self.told.clear();
        self.stop = None;
    }

    /// Takes a record about the pod.
    pub(super) fn told(&mut self, position: Position, event: &Event<'_>, applied: Applied) {
        let name = event.subject.strip_prefix("pods/").unwrap_or(event.subject.as_str());
        if self.name.is_empty() {
            name.clone_into(&mut self.name);
        }
        let Some(kind) = event.data.kind().filter(|_| applied == Applied::Changed) else { return };
        let provisional = match &event.data {
            Data::PodStopped(data) => matches!(data.basis, StopBasis::Absent | StopBasis::NodeLost),
            _ => false,
        };
        self.told.push(Told { position, kind, time: event.time, provisional });
    }

    /// Reads the pod's segments off the meter.
    pub(super) fn follow(&mut self, meter: &Meter, id: ObjectId) {
        self.stop = meter.pod(id).and_then(|pod| pod.ended()).map(|stop| stop.position);
        self.now.clear();
        let now = &mut self.now;
        meter.segments_of(id, |group, measure, segment| {
            let (amounts, provisional) = (measure.usage.clone(), segment.provisional);
            let (from, to) = (segment.from, segment.to);
            now.push(Held { group, amounts, from, to, provisional });
        });
    }

    /// Every segment with the positions of the records that made it.
    pub(super) fn held(&self) -> impl Iterator<Item = (&Held, Vec<Position>)> {
        let before = self.before.iter().map(|(held, made)| (held, made.clone()));
        before.chain(self.now().map(|(_, held)| (held, self.positions(held))))
    }

    fn now(&self) -> impl Iterator<Item = (usize, &Held)> {
        self.now.iter().enumerate()
    }

    /// The records that made a segment: the start that counts; the resize and the move in force when it begins;
    /// what ends it; and the proof of life that let it go on.
    fn positions(&self, held: &Held) -> Vec<Position> {
        let of = |kind: Kind| self.told.iter().filter(move |told| told.kind == kind);
        // Each start that said something new was better than those before it.
        let start = of(Kind::PodStarted).next_back();
        let counts = |change: &&Told| {
            start.is_none_or(|s| change.time >= s.time || change.position > s.position)
        };
        let in_force = |kind: Kind| {
            let told = of(kind).filter(counts).filter(|told| told.time <= held.from);
            told.max_by_key(|told| (told.time, told.position))
        };
        let changes = || of(Kind::PodResized).chain(of(Kind::PodMoved)).filter(counts);
        let last = self.now.last().is_some_and(|last| last.from == held.from);
        let mut made: Vec<Position> = start.into_iter().map(|told| told.position).collect();
        made.extend(in_force(Kind::PodResized).map(|told| told.position));
        made.extend(in_force(Kind::PodMoved).map(|told| told.position));
        if let Some(to) = held.to {
            made.extend(changes().filter(|told| told.time == to).map(|told| told.position));
        }
        if last {
            made.extend(self.stop.filter(|_| held.to.is_some()));
            let voided =
                of(Kind::PodStopped).any(|t| t.provisional && Some(t.position) != self.stop);
            let alive = of(Kind::PodStopWithdrawn).next_back().filter(|_| voided);
            made.extend(alive.map(|told| told.position));
        }
        made.extend(of(Kind::PodRan).next_back().map(|told| told.position));
        made.sort_unstable();
        made.dedup();
        made
    }
}
