//! What one pod held when, settled from all of its records at once.
//!
//! The rules are contract §4's, read like this where it leaves a choice:
//! * A start states group, models and amounts; a resize states amounts, a move group and models; each holds from
//!   its own instant until the next. At one instant the start speaks first, then whoever was read earlier. A change that is dated before
//!   the (best) start is superseded by it if it was read before it (the start knew better), and holds from the
//!   start on if it was read after it (some clock was wrong).
//! * Stops are judged against the best start that is known, so a better start may acquit or convict a stop.
//! * A stop that is dated before the start counts as uncertain by the difference, instead of `latest − earliest`.
//! * What a stop leaves uncertain belongs to what the pod held last before it.
//! * `ran` ends with the `ran` of the stop that is billed; where that has none, at the billed instant.

use bizrq::domain::{
    event::{Data, Event, PodStarted, PodStopped, StartBasis, StopBasis},
    resources::{Models, Resources},
};
use std::collections::BTreeMap;

/// Whose clock a basis speaks by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The API server's.
    Api,
    /// The node's.
    Node,
    /// The observer's.
    Observer,
    /// Of whoever wrote the imported rows.
    Importer,
}

/// Milli-units by group and key.
pub(crate) type Held = BTreeMap<(String, String), i128>;

/// The end of a holding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The first millisecond at which nothing is held.
    pub(crate) at: i64,
    /// Nobody witnessed it.
    pub(crate) provisional: bool,
    /// Milliseconds that may be wrong.
    pub(crate) uncertain: i64,
}

/// What one pod held when; nothing at all without a start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holding {
    /// What it held from each instant on: first what it started with, then the changes in order of their dates
    /// (which may lie before the start); of equal instants the last counts.
    states: Vec<(i64, Held)>,
    /// Where its held time begins.
    pub(crate) start: Option<i64>,
    /// Where it ends, if it has ended.
    pub(crate) end: Option<End>,
    /// Begin and end on the node's clock.
    pub(crate) ran: Option<(i64, Option<i64>)>,
    /// A stop contradicts the start by one and the same clock.
    pub(crate) contradicted: bool,
}

impl Holding {
    /// Settles one pod's records, given in the order in which they were read, no id twice.
    pub(crate) fn settle(records: &[&Event<'_>]) -> Self {
        let Some((start, started)) = best_start(records) else { return Self::default() };
        let (stop, contradicted) = best_stop(records, start, started.basis);
        let end = stop.map(|(at, stop)| End {
            at: at.max(start),
            provisional: is_provisional(stop.basis),
            uncertain: if at < start {
                start - at
            } else {
                stop.latest.millis() - stop.earliest.millis()
            },
        });
        Self {
            states: states(records, start, started),
            start: Some(start),
            ran: ran(records, stop),
            end,
            contradicted,
        }
    }

    /// What it holds in the millisecond that begins at `t`.
    pub(crate) fn at(&self, t: i64) -> Option<&Held> {
        let begun = self.start.is_some_and(|start| start <= t);
        let ended = self.end.as_ref().is_some_and(|end| end.at <= t);
        if begun && !ended { self.state(t) } else { None }
    }

    /// What it holds while it runs, in the millisecond that begins at `t`, by the node's clock.
    pub(crate) fn ran_at(&self, t: i64) -> Option<&Held> {
        let (from, to) = self.ran?;
        if from <= t && to.is_none_or(|to| t < to) { self.state(t) } else { None }
    }

    /// Every instant at which something changes.
    pub(crate) fn instants(&self) -> impl Iterator<Item = i64> {
        let ends = self.start.into_iter().chain(self.end.as_ref().map(|end| end.at));
        let ran = self.ran.into_iter().flat_map(|(from, to)| [Some(from), to]).flatten();
        self.states.iter().skip(1).map(|(at, _)| *at).chain(ends).chain(ran)
    }

    /// What it held when it ended: by what is dated before the end, else what it started with.
    pub(crate) fn last(&self) -> Option<&Held> {
        self.state(self.end.as_ref()?.at - 1)
    }

    /// The newest state that is dated not after `t`; before the first, what it started with.
    fn state(&self, t: i64) -> Option<&Held> {
        let newest = self.states.iter().rev().find(|(from, _)| *from <= t);
        newest.or_else(|| self.states.first()).map(|(_, held)| held)
    }
}

/// The start by the best basis, then the earliest; a start on another node than the first one's is no start.
fn best_start<'e, 'a>(records: &[&'e Event<'a>]) -> Option<(i64, &'e PodStarted<'a>)> {
    let starts = records.iter().filter_map(|event| match &event.data {
        Data::PodStarted(started) => Some((event.time.millis(), started)),
        _ => None,
    });
    let node = starts.clone().next()?.1.node.clone();
    starts.filter(|(_, s)| s.node == node).min_by_key(|(at, s)| (start_rank(s.basis), *at))
}

/// The stop that is billed, and whether another one contradicts the start.
fn best_stop<'e, 'a>(
    records: &[&'e Event<'a>],
    start: i64,
    basis: StartBasis,
) -> (Option<(i64, &'e PodStopped<'a>)>, bool) {
    let alive: Vec<i64> = records
        .iter()
        .filter_map(|event| match &event.data {
            Data::PodStopWithdrawn(w) => Some(w.alive_at.millis()),
            _ => None,
        })
        .collect();
    let mut contradicted = false;
    let mut standing = Vec::new();
    for event in records {
        let Data::PodStopped(stop) = &event.data else { continue };
        let at = event.time.millis();
        if is_provisional(stop.basis) && alive.iter().any(|alive_at| at < *alive_at) {
            continue;
        }
        if at < start && stop_clock(stop.basis) == start_clock(basis) {
            contradicted = true;
            continue;
        }
        standing.push((at, stop));
    }
    (standing.into_iter().min_by_key(|(at, s)| (stop_rank(s.basis), *at)), contradicted)
}

/// Everything that the pod ever held, from when on.
fn states(records: &[&Event<'_>], start: i64, started: &PodStarted<'_>) -> Vec<(i64, Held)> {
    let read = |e: &Event<'_>| matches!(&e.data, Data::PodStarted(s) if std::ptr::eq(s, started));
    let start_read = records.iter().position(|e| read(e)).expect("the start is a record");
    let mut changes: Vec<&Event<'_>> = records
        .iter()
        .enumerate()
        .filter(|(_, e)| matches!(e.data, Data::PodResized(_) | Data::PodMoved(_)))
        .filter(|(i, e)| e.time.millis() >= start || *i > start_read)
        .map(|(_, e)| *e)
        .collect();
    changes.sort_by_key(|e| e.time); // stable: what was read earlier stays in front
    let (mut group, mut models) = (started.group.clone().into_owned(), started.models.clone());
    let mut resources = started.held.clone();
    let mut states = vec![(i64::MIN, held(&group, &models, &resources))];
    for change in changes {
        match &change.data {
            Data::PodResized(resized) => resources = resized.held.clone(),
            Data::PodMoved(moved) => {
                group = moved.group.clone().into_owned();
                models = moved.models.clone();
            }
            _ => {}
        }
        states.push((change.time.millis(), held(&group, &models, &resources)));
    }
    states
}

/// Begin and end by the node's clock.
fn ran(records: &[&Event<'_>], stop: Option<(i64, &PodStopped<'_>)>) -> Option<(i64, Option<i64>)> {
    let noted = records.iter().filter_map(|event| match &event.data {
        Data::PodRan(ran) => Some(ran.from.millis()),
        _ => None,
    });
    let period = stop.and_then(|(_, stop)| stop.ran);
    let from = noted.chain(period.map(|p| p.from.millis())).min()?;
    Some((from, stop.map(|(at, _)| period.map_or(at, |p| p.to.millis()))))
}

/// Contract §2: the keys that resources count under.
fn held(group: &str, models: &Models<'_>, resources: &Resources) -> Held {
    let mut held = Held::new();
    let mut put = |side: &str, resource: &str, milli: i128| {
        let key = format!("{side}.{resource}");
        let model = match resource {
            "cpu" => models.cpu.as_ref(),
            "memory" => models.memory.as_ref(),
            other if other.contains('/') => models.gpu.as_ref(),
            _ => None,
        };
        if let Some(model) = model.filter(|m| !m.contains('|') && !m.is_empty()) {
            held.insert((group.to_owned(), format!("{key}.{model}")), milli);
        }
        held.insert((group.to_owned(), key), milli);
    };
    for (resource, amount) in resources.requests.iter() {
        if resource.contains('/') {
            put("limits", resource, amount.milli());
        } else {
            put("requests", resource, amount.milli());
        }
    }
    for (resource, amount) in resources.limits.iter() {
        put("limits", resource, amount.milli());
    }
    held
}

/// Nobody witnessed such a stop.
pub(crate) fn is_provisional(basis: StopBasis) -> bool {
    matches!(basis, StopBasis::Absent | StopBasis::NodeLost)
}

fn start_rank(basis: StartBasis) -> u8 {
    match basis {
        StartBasis::Bound => 1,
        StartBasis::Created => 2,
        StartBasis::KubeletStart => 3,
        StartBasis::Observed => 4,
        StartBasis::Imported => 5,
    }
}

fn stop_rank(basis: StopBasis) -> u8 {
    match basis {
        StopBasis::TerminalStatus => 1,
        StopBasis::Received => 2,
        StopBasis::ContainersFinished => 3,
        StopBasis::Imported => 4,
        StopBasis::Deleted => 5,
        StopBasis::NodeLost => 6,
        StopBasis::Absent => 7,
    }
}

/// Whose clock a start is dated by.
pub(crate) fn start_clock(basis: StartBasis) -> Clock {
    match basis {
        StartBasis::Bound | StartBasis::Created => Clock::Api,
        StartBasis::KubeletStart => Clock::Node,
        StartBasis::Observed => Clock::Observer,
        StartBasis::Imported => Clock::Importer,
    }
}

/// Whose clock a stop is dated by: a node's loss is a condition's transition, an absence is billed at the last
/// proof of life, and both are API times.
pub(crate) fn stop_clock(basis: StopBasis) -> Clock {
    match basis {
        StopBasis::TerminalStatus
        | StopBasis::Deleted
        | StopBasis::NodeLost
        | StopBasis::Absent => Clock::Api,
        StopBasis::Received => Clock::Observer,
        StopBasis::ContainersFinished => Clock::Node,
        StopBasis::Imported => Clock::Importer,
    }
}
