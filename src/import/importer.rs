//! From rows to events: each run once, whether it stands twice in a file or was imported before.

use super::rows::{Cause, Row, RowError};
use crate::domain::{
    event::{Data, Event, PodStarted, PodStopped, StartBasis, StopBasis},
    ident,
    names::{Map, Uid},
    quota::ambiguous_models,
    resources::{Models, Resources, is_extended},
    text::Text,
    time::Timestamp,
};
use std::collections::BTreeMap;

/// What was found in a file so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows below the header.
    pub rows: u64,
    /// Rows without a start.
    pub never_ran: u64,
    /// Runs that the log did not hold.
    pub started: u64,
    /// Ends that the log did not hold.
    pub stopped: u64,
    /// Runs that the log holds already, as they stand in the file.
    pub known: u64,
    /// Rows that say again what an earlier row said.
    pub repeated: u64,
    /// Runs without an end.
    pub running: u64,
    /// Rows that were not taken.
    pub rejected: u64,
    /// Runs with a text that is no model (`V100|T4`): they count under the generic key only.
    pub ambiguous: u64,
    /// Those texts, and how often; the first [`MAX_TEXTS`] of them.
    pub ambiguous_texts: BTreeMap<String, u64>,
}

/// Distinct texts that are remembered for the report; a free-text column must not fill the memory.
const MAX_TEXTS: usize = 1000;

/// Turns rows into the events that a log lacks.
#[derive(Debug)]
pub struct Importer {
    source: String,
    known: Map<Uid, Seen>,
    counts: Counts,
}

/// What is known of one run: 64 bytes a run.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Line of the file; 0: the log.
    line: u64,
    /// Start, and a hash of group, models and amounts; of what never ran none.
    run: Option<(Timestamp, u64)>,
    stop: Option<Timestamp>,
}

impl Importer {
    /// An import under the name of a cluster: source `/imports/NAME`.
    #[must_use]
    pub fn new(cluster: &str) -> Self {
        let source = format!("/imports/{cluster}");
        Self { source, known: Map::default(), counts: Counts::default() }
    }

    /// What was found so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Counts a row that could not be read.
    pub fn reject(&mut self) {
        self.counts.rows = self.counts.rows.saturating_add(1);
        self.counts.rejected = self.counts.rejected.saturating_add(1);
    }

    /// Learns what the log holds already; events of other sources do not matter.
    pub fn learn(&mut self, event: &Event<'_>) {
        if event.source != *self.source {
            return;
        }
        match &event.data {
            Data::PodStarted(pod) => {
                let run = Some((event.time, digest(&pod.group, &pod.models, &pod.held)));
                self.seen(&pod.uid).run = run;
            }
            Data::PodStopped(pod) => self.seen(&pod.uid).stop = Some(event.time),
            _ => {}
        }
    }

    fn seen(&mut self, uid: &str) -> &mut Seen {
        self.known.entry(Uid::of(uid)).or_insert(Seen { line: 0, run: None, stop: None })
    }

    /// The events that say what `row` says and the log does not: none, a start, a stop, or both.
    ///
    /// # Errors
    /// [`RowError`] where the row contradicts an earlier one or the log; it is counted as rejected.
    pub fn take(
        &mut self,
        row: &Row,
        recorded_at: Timestamp,
    ) -> Result<Vec<Event<'static>>, RowError> {
        let before = self.known.get(&Uid::of(&row.uid)).copied();
        if let Some(cause) = before.and_then(|seen| contradiction(&seen, row)) {
            self.reject();
            return Err(RowError { line: row.line, cause });
        }
        self.counts.rows = self.counts.rows.saturating_add(1);
        let stop = row.stop.or_else(|| before.and_then(|seen| seen.stop));
        let now = Seen { line: row.line, run: run(row), stop: row.start.and(stop) };
        self.known.insert(Uid::of(&row.uid), now);
        self.count(row, before);
        let mut events = Vec::new();
        let Some(start) = row.start else { return Ok(events) };
        if before.is_none() {
            events.push(self.event(row, start, recorded_at, started(row)));
        }
        if let Some(stop) = row.stop
            && before.is_none_or(|seen| seen.stop.is_none())
        {
            events.push(self.event(row, stop, recorded_at, stopped(row, stop)));
        }
        Ok(events)
    }

    fn count(&mut self, row: &Row, before: Option<Seen>) {
        let add = |count: &mut u64, yes: bool| *count = count.saturating_add(u64::from(yes));
        let counts = &mut self.counts;
        if row.start.is_none() {
            add(&mut counts.never_ran, true);
            return;
        }
        let closes = row.stop.is_some() && before.is_none_or(|seen| seen.stop.is_none());
        add(&mut counts.started, before.is_none());
        add(&mut counts.stopped, closes);
        add(&mut counts.running, row.stop.is_none());
        add(&mut counts.known, before.is_some_and(|seen| seen.line == 0));
        add(&mut counts.repeated, before.is_some_and(|seen| seen.line != 0));
        let models = models(row);
        let mut ambiguous =
            ambiguous_models(&models).filter(|(what, _)| holds(&row.held, what)).peekable();
        add(&mut counts.ambiguous, ambiguous.peek().is_some());
        for (_, text) in ambiguous {
            let full = counts.ambiguous_texts.len() >= MAX_TEXTS;
            if !full || counts.ambiguous_texts.contains_key(text) {
                add(counts.ambiguous_texts.entry(text.to_owned()).or_default(), true);
            }
        }
    }

    fn event(
        &self,
        row: &Row,
        time: Timestamp,
        recorded_at: Timestamp,
        data: Data<'static>,
    ) -> Event<'static> {
        Event {
            // Starts and stops of pods always have a name.
            id: ident::fact(&self.source, time, &data).unwrap_or_default(),
            source: Text::from(self.source.clone()),
            // A namespace is what an export does not have.
            subject: Text::from(format!("pods//{}", row.name)),
            time,
            recorded_at,
            data,
        }
    }
}

/// Whether `row` says something else than what is known of its identity.
fn contradiction(seen: &Seen, row: &Row) -> Option<Cause> {
    let what = match (seen.run, run(row)) {
        (None, None) => return None,
        (Some((before, _)), Some((now, _))) if before != now => "start",
        (Some((_, before)), Some((_, now))) if before != now => "content",
        (Some(_), Some(_)) => match (seen.stop, row.stop) {
            (before, now) if before == now => return None,
            // What ran when it was imported has ended since; or this is the older export.
            (None, Some(_)) | (Some(_), None) if seen.line == 0 => return None,
            _ => "stop",
        },
        _ => "start",
    };
    let uid = row.uid.clone();
    Some(match seen.line {
        0 => Cause::Contradicts { uid, what },
        line => Cause::Repeated { uid, line, what },
    })
}

fn run(row: &Row) -> Option<(Timestamp, u64)> {
    row.start.map(|start| (start, digest(&row.group, &models(row), &row.held)))
}

/// 64 bits that tell one content from another.
fn digest(group: &str, models: &Models<'_>, held: &Resources) -> u64 {
    // Values that serialise to memory always do.
    let bytes = serde_json::to_vec(&(group, models, held)).unwrap_or_default();
    let hash = blake3::hash(&bytes);
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn models(row: &Row) -> Models<'static> {
    let [cpu, memory, gpu] = row.models.clone().map(|model| model.map(Text::from));
    Models { cpu, memory, gpu }
}

/// Whether there is something that a model of `what` could type.
fn holds(held: &Resources, what: &str) -> bool {
    match what {
        "gpu" => held.limits.iter().any(|(resource, _)| is_extended(resource)),
        resource => held.requests.get(resource).is_some(),
    }
}

fn started(row: &Row) -> Data<'static> {
    Data::PodStarted(PodStarted {
        uid: Text::from(row.uid.clone()),
        owner: None,
        group: Text::from(row.group.clone()),
        models: models(row),
        node: Text::EMPTY,
        held: row.held.clone(),
        reserved: None,
        basis: StartBasis::Imported,
    })
}

fn stopped(row: &Row, stop: Timestamp) -> Data<'static> {
    Data::PodStopped(PodStopped {
        uid: Text::from(row.uid.clone()),
        earliest: stop,
        latest: stop,
        basis: StopBasis::Imported,
        phase: Text::EMPTY,
        reason: Text::EMPTY,
        ran: None,
    })
}
