//! Billing: the fold that makes invoices. It follows the meter record by record and keeps, for each workload and each
//! kind of thing that its pods held, how long that was held in each part of the billed time. Amounts come last.
//!
//! ```text
//!  ──┤ closed ├──┤ closed ├────────── open ───────▶ time
//!      stays as billed     ▲ what is learned later about the closed time is booked here, as corrections
//! ```
//!
//! What is billed for two periods that meet is billed for both together, and all that is billed up to now is what the
//! ledger says now. It knows neither files nor money.

mod axis;
mod bill;
mod closings;
mod course;
mod workloads;

use super::{
    amounts::product,
    event::{Data, Event, Period, Position, UsageAdjusted},
    history::Unit,
    ledger::{Applied, Ledger, Options, Record, Stop},
    meter::{recount::Stepped, seals::Seals},
    names::{Map, ObjectId, Set},
    pod::{Basis, Segment},
    resources::{Models, Resources, usage_by_model},
    shapes::{PlacementId, ResourcesId, Shapes},
    time::Timestamp,
};
use axis::Axis;
pub use bill::{Bill, Correction, Line, Status};
use closings::Closings;
pub use closings::{Closing, NotClosed};
use course::Course;
use std::sync::Arc;
pub use workloads::Workload;
use workloads::Workloads;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The billed time.
    pub period: Period,
    /// Which clock is metered.
    pub basis: Basis,
    /// Lines by the hour or the day (UTC).
    pub every: Option<Unit>,
    /// Lines by workload; otherwise a line is all of a group, key and model.
    pub workloads: bool,
    /// Only this group.
    pub group: Option<String>,
    /// Keep the quotas too, so that a bill knows which groups are below which.
    pub quotas: bool,
    /// Instants at which a line must end.
    pub cuts: Vec<Timestamp>,
    /// Extended resources that are known beforehand; others are learned from pods.
    pub resources: Vec<String>,
}

/// The fold.
#[derive(Clone, Debug)]
pub struct Billing {
    terms: Terms,
    axis: Axis,
    ledger: Ledger,
    closings: Closings,
    workloads: Workloads,
    held: Map<Held, Course>,
    /// Learned about closed time and billed here: pods × milliseconds.
    late: Map<Late, i128>,
    adjusted: Vec<Adjusted>,
}

/// Pods of one workload that held the same, on the same models, for the same group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    workload: ObjectId,
    placement: PlacementId,
    held: ResourcesId,
}

/// The same in a piece of the closed time, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Late {
    held: Held,
    piece: usize,
}

/// A signed correction that somebody made.
#[derive(Clone, Debug)]
struct Adjusted {
    position: Position,
    group: String,
    key: String,
    exact: i128,
    period: Period,
    why: String,
    by: String,
}

/// A line, as somebody else knows it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// The group; empty for none.
    pub group: &'w str,
    /// The generic key.
    pub key: &'w str,
    /// The model; empty for none.
    pub model: &'w str,
    /// When it was held.
    pub period: Period,
    /// It corrects closed time.
    pub late: bool,
}

/// Whether there is more to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The next record.
    More,
    /// The billed time was closed as known before this record, which was not read: nothing changes the bill any more.
    Closed,
}

/// Why billing cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The ledger cannot.
    #[error(transparent)]
    Stop(#[from] Stop),
    /// A period was closed as known at a position that was passed without knowing it: begin again, with all
    /// closings known beforehand.
    #[error("position {at} closes a period as known earlier, at {position}")]
    Unforeseen {
        /// The record.
        at: Position,
        /// What it was closed by.
        position: Position,
    },
}

impl Billing {
    /// A bill of nothing yet. `closings` are those that are known beforehand, in the log's order; others are found on
    /// the way, if they close a period as it is known then.
    #[must_use]
    pub fn new(terms: Terms, closings: Vec<Closing>) -> Self {
        let options = Options {
            basis: terms.basis,
            history: false,
            quotas: terms.quotas,
            ..Options::default()
        };
        Self {
            axis: Axis::new(terms.period, terms.every, &terms.cuts),
            ledger: Ledger::new(options),
            closings: Closings::known(closings, &terms.cuts),
            terms,
            workloads: Workloads::default(),
            held: Map::default(),
            late: Map::default(),
            adjusted: Vec::new(),
        }
    }

    /// Forgets pods that ended as `seals` says, before any record is taken: memory then follows the pods that run, and the
    /// bill lacks records about pods that are [`Self::late`]. Quotas need what ended: with them all are remembered.
    #[must_use]
    pub fn sealing(mut self, seals: Seals) -> Self {
        self.ledger.seal(seals);
        self
    }

    /// Pods whose records are lacking: the bill is to be made once more, with their rows kept.
    #[must_use]
    pub fn late(&self) -> Option<&Set<ObjectId>> {
        let late = self.ledger.meter().seals()?.late();
        (!late.is_empty()).then_some(late)
    }

    /// Where a bill of this period ends whatever comes later, if that is known already.
    #[must_use]
    pub fn limit(&self) -> Option<Position> {
        self.closing().map(|closing| closing.position)
    }

    /// Takes the record at `position`. Positions grow; what is left out has no effect on the bill.
    ///
    /// # Errors
    /// [`Error`].
    pub fn take(&mut self, position: Position, record: &Record<'_>) -> Result<Told, Error> {
        if let Record::Event(Event { data: Data::PeriodClosed(data), .. }) = record
            && !self.closings.has(position)
            && let Ok(closing) = Closing::new(self.closings.last(), position, data)
        {
            if closing.position.saturating_add(1) != position {
                return Err(Error::Unforeseen { at: position, position: closing.position });
            }
            self.closings.push(closing);
        }
        if self.limit().is_some_and(|limit| limit < position) {
            return Ok(Told::Closed);
        }
        self.closings.reach(position);
        let applied = self.ledger.fold(self.ledger.position().saturating_add(1), record)?;
        if let Record::Event(event) = record {
            match &event.data {
                Data::UsageAdjusted(data) if applied == Applied::Changed => {
                    self.adjust(position, event, data);
                }
                data if data.pod().is_some() => self.follow(event),
                Data::ObserverSynced(_) if self.workloads.is_full() => self.forget_names(),
                _ => {}
            }
        }
        Ok(Told::More)
    }

    /// Adds what the meter added, and takes away what it took away.
    fn follow(&mut self, event: &Event<'_>) {
        let Some(Stepped { workloads, segments: [gone, come] }) = self.ledger.meter().stepped()
        else {
            return;
        };
        let [before, after] = match self.terms.workloads {
            true => workloads,
            false => Default::default(),
        };
        if self.terms.workloads {
            self.workloads.learn(after, event);
        }
        let mut noted = Noted {
            axis: &self.axis,
            closings: &self.closings,
            held: &mut self.held,
            late: &mut self.late,
        };
        let (shapes, names) = (&self.ledger.meter().shapes, self.ledger.names());
        let only = self.terms.group.as_deref();
        let billed = |segment: &Segment| {
            let group = only.map(|_| names.group_name(shapes.group(segment.placement)));
            group == only
        };
        let same = |at: usize| before == after && gone.get(at) == come.get(at);
        // What comes first: a row that is nothing for a moment would be given up and made again.
        for (segments, workload, pods) in [(come, after, 1), (gone, before, -1)] {
            let changed =
                segments.iter().enumerate().filter(|(at, segment)| !same(*at) && billed(segment));
            changed.for_each(|(_, segment)| noted.note(workload, segment, pods));
        }
    }

    fn adjust(&mut self, position: Position, event: &Event<'_>, data: &UsageAdjusted<'_>) {
        let at = data.period.from;
        let closed = self.closings.closed().filter(|closed| closed.from <= at && at < closed.to);
        let booked = closed.map_or(at, |closed| closed.to);
        let group = event.subject.strip_prefix("accounts/").unwrap_or_default();
        let billed = self.terms.group.as_deref().is_none_or(|only| only == group);
        if billed && self.axis.clip(booked, booked.shifted(1)).is_some() {
            self.adjusted.push(Adjusted {
                position,
                group: group.to_owned(),
                key: data.key.to_string(),
                exact: data.exact,
                period: data.period,
                why: data.why.to_string(),
                by: data.by.to_string(),
            });
        }
    }

    /// Forgets names of workloads of which no pod can be billed any more.
    fn forget_names(&mut self) {
        let mut needed: Set<ObjectId> = self.held.keys().map(|held| held.workload).collect();
        needed.extend(self.late.keys().map(|late| late.held.workload));
        needed.extend(self.ledger.meter().pods().map(super::pod::Pod::workload));
        self.workloads.keep(&needed);
    }

    /// Whether the last record changed what a line of `wanted` says, for a workload that `is` one of it.
    #[must_use]
    pub fn touched(&self, wanted: &Wanted<'_>, is: impl Fn(Workload<'_>) -> bool) -> bool {
        let (meter, names) = (self.ledger.meter(), self.ledger.names());
        let Some(Stepped { workloads, segments }) = meter.stepped() else { return false };
        let Period { from, to } = wanted.period;
        let closed = |t: Timestamp| {
            self.closings.closed().is_some_and(|closed| closed.from <= t && t < closed.to)
        };
        // What is learned about closed time changes corrections alone, about other time anything else.
        let counts =
            if wanted.late { closed(from) } else { !closed(from) || !closed(to.shifted(-1)) };
        if !counts {
            return false;
        }
        let touches = |segment: &Segment| {
            let meets = segment.from < to && segment.to.is_none_or(|end| from < end);
            let group = meter.shapes.group(segment.placement);
            meets && names.group_name(group) == wanted.group && self.counts(segment, wanted)
        };
        workloads.into_iter().zip(segments).any(|(workload, segments)| {
            segments.iter().any(touches) && is(self.workloads.get(workload, names))
        })
    }

    /// Whether a segment counts under the key, on the model.
    fn counts(&self, segment: &Segment, wanted: &Wanted<'_>) -> bool {
        let shapes = &self.ledger.meter().shapes;
        let Some((resources, models)) = parts(shapes, segment.placement, segment.held) else {
            return false;
        };
        let mut counts = false;
        usage_by_model(resources, models, |key, model, _| {
            counts |= (key, model.unwrap_or_default()) == (wanted.key, wanted.model);
        });
        counts
    }

    /// The ledger that was folded; its positions and root are its own, not the log's.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What closed the last of the billed time.
    #[must_use]
    pub fn closing(&self) -> Option<&Closing> {
        self.closings.of(self.axis.period())
    }
}

/// The resources and models that these numbers stand for.
fn parts(
    shapes: &Shapes,
    placement: PlacementId,
    held: ResourcesId,
) -> Option<(&Arc<Resources>, &Models<'static>)> {
    shapes.resources_of(held).zip(shapes.models_of(placement))
}

/// Where segments are noted.
struct Noted<'b> {
    axis: &'b Axis,
    closings: &'b Closings,
    held: &'b mut Map<Held, Course>,
    late: &'b mut Map<Late, i128>,
}

impl Noted<'_> {
    /// Adds a segment of a pod, or takes it away.
    fn note(&mut self, workload: ObjectId, segment: &Segment, pods: i128) {
        let Segment { from, placement, held, provisional, .. } = *segment;
        let (held, to) = (Held { workload, placement, held }, segment.to.unwrap_or(Timestamp::MAX));
        let parts = match self.closings.closed() {
            None => [Some((from, to)), None],
            Some(closed) => {
                self.note_late(held, Period { from, to }, closed, pods);
                [Some((from, to.min(closed.from))), Some((from.max(closed.to), to))]
            }
        };
        for part in parts.into_iter().flatten().filter_map(|(from, to)| self.axis.clip(from, to)) {
            let course = self.held.entry(held).or_default();
            course.add(self.axis, part, pods, provisional);
            if course.is_empty() {
                self.held.remove(&held);
            }
        }
    }

    /// The part of it in each piece of the closed time, if what is learned about that now is billed in this period.
    fn note_late(&mut self, held: Held, part: Period, closed: Period, pods: i128) {
        let here = self.axis.clip(closed.to, closed.to.shifted(1)).is_some();
        if !here || part.from >= closed.to || part.to <= closed.from {
            return;
        }
        let pieces = self.closings.pieces().take_while(|piece| piece.to <= closed.to);
        for (piece, period) in pieces.enumerate() {
            let (from, to) = (part.from.max(period.from), part.to.min(period.to));
            if from < to {
                let late = Late { held, piece };
                let sum = self.late.entry(late).or_default();
                // Pods and milliseconds are 64-bit numbers.
                *sum = sum.saturating_add(product(pods, to.since(from)).unwrap_or_default());
                if *sum == 0 {
                    self.late.remove(&late);
                }
            }
        }
    }
}
