//! What the events of a log say, folded as bizrq folds them: quarantine, gaps between heartbeats, stated roots.

use super::finding::{Finding, What};
use crate::reading::{Halt, Log};
use bizrq::{
    cli::Error,
    domain::{
        event::{Data, Event, Position},
        ledger::{Ledger, Stop},
        merkle::{Frontier, LeafHasher},
        time::Timestamp,
    },
    event_log::{bulk::Numbered, codec::Decoded},
    projection::fold::{Read, ahead},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The fold of a log.
pub(super) struct History {
    pub(super) ledger: Ledger,
    /// `false` for a log that continues another: what came before is not here.
    pub(super) folds: bool,
    /// Why the fold ended before the log.
    pub(super) stop: Option<Stop>,
    /// Events of types that this build does not know.
    pub(super) unknown: u64,
    pub(super) gaps: Vec<Gap>,
    /// The last heartbeat of each source.
    beats: BTreeMap<String, Timestamp>,
    claims: Vec<Claim>,
}

/// Time of one source in which something may have been missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Gap {
    /// Who watched.
    source: String,
    /// The last heartbeat before it.
    from: Timestamp,
    /// Nothing was missed again from here on.
    to: Timestamp,
    /// The heartbeat that says so.
    position: Position,
}

/// A record says which root the log had.
struct Claim {
    by: Position,
    position: Position,
    root: String,
}

impl History {
    /// Of a log that begins at `first`.
    pub(super) fn new(first: Position) -> Self {
        Self {
            ledger: Ledger::default(),
            folds: first == 1,
            stop: None,
            unknown: 0,
            gaps: Vec::new(),
            beats: BTreeMap::new(),
            claims: Vec::new(),
        }
    }

    /// Takes records in their order.
    pub(super) fn take_all(&mut self, events: Vec<Numbered<'_>>) {
        for (position, read) in ahead(self.folds.then_some(&self.ledger), events) {
            self.take(position, &read);
        }
    }

    /// Takes the record at `position`; behind a newer version nothing is taken any more.
    fn take(&mut self, position: Position, read: &Read<'_>) {
        if self.stop.is_some() {
            return;
        }
        if matches!(read, Read::Decoded(Decoded::Unknown)) {
            self.unknown = self.unknown.saturating_add(1);
        }
        if let Some(event) = read.event() {
            self.note(position, event);
        }
        if self.folds {
            // The reader grows the tree and proves it.
            self.stop = self.ledger.fold(position, &read.record()).err();
        }
    }

    fn note(&mut self, position: Position, event: &Event<'_>) {
        match &event.data {
            Data::ObserverSynced(beat) => self.beat(position, event, beat.since),
            Data::PeriodClosed(closed) => {
                let (by, root) = (position, closed.root.to_string());
                self.claims.push(Claim { by, position: closed.position, root });
            }
            Data::LogOpened(opened) => {
                let root = opened.root.to_string();
                self.claims.push(Claim { by: position, position: opened.base, root });
            }
            _ => {}
        }
    }

    fn beat(&mut self, position: Position, event: &Event<'_>, since: Timestamp) {
        let Some(last) = self.beats.get_mut(event.source.as_str()) else {
            self.beats.insert(event.source.to_string(), event.time);
            return;
        };
        if *last < since && since <= event.time {
            let source = event.source.to_string();
            self.gaps.push(Gap { source, from: *last, to: since, position });
        }
        *last = event.time.max(*last);
    }
}

impl Gap {
    /// For people.
    pub(super) fn text(&self) -> String {
        let Self { source, from, to, position } = self;
        format!("{source} says nothing of {from} to {to} (heartbeat at position {position})")
    }
}

/// Compares the roots that records state with those that the log had.
pub(super) fn claims(log: &Log, history: &History) -> Result<Vec<Finding>, Error> {
    let claims = history.claims.iter().filter(|claim| history.folds || claim.position > 0);
    let mut open: Vec<_> = claims.collect();
    open.sort_by_key(|claim| claim.position);
    let Some(last) = open.last().map(|claim| claim.position).filter(|_| history.folds) else {
        return Ok(Vec::new());
    };
    let mut findings = Vec::new();
    let mut open = open.into_iter().peekable();
    let mut compare = |tree: &Frontier| {
        while let Some(claim) = open.next_if(|claim| claim.position == tree.position()) {
            let root = tree.root().to_string();
            if claim.root != root || claim.position >= claim.by {
                let Claim { by, position, root: stated } = claim;
                let why = format!(
                    "the record states root {stated} at position {position}; the log had {root}"
                );
                findings.push(Finding::of(What::Claim, *by, *by, why));
            }
        }
        Ok(())
    };
    trees(log, last, &mut compare)?;
    // What is stated of a position that the log has not reached.
    findings.extend(open.map(|Claim { by, position, .. }| {
        let why = format!("the record states the root at position {position}, which never was");
        Finding::of(What::Claim, *by, *by, why)
    }));
    Ok(findings)
}

/// Hands out the tree after every record up to `last`, beginning with that of none.
pub(crate) fn trees(
    log: &Log,
    last: Position,
    each: &mut dyn FnMut(&Frontier) -> Result<(), Halt>,
) -> Result<(), Error> {
    let (mut tree, mut hasher) = (Frontier::default(), LeafHasher::default());
    let failed = |halt| match halt {
        Halt::Enough => Ok(()),
        Halt::Failed(error) => Err(error),
        Halt::Log(error) => Err(Error::log(&log.place, error)),
    };
    if let Err(halt) = each(&tree) {
        return failed(halt);
    }
    let read = log.each("comparing roots", last, |batch| {
        batch.iter().try_for_each(|(position, line)| {
            if let Ok(scanned) = line {
                tree.append(hasher.leaf(position, &scanned.leaf_input()));
            }
            each(&tree)
        })
    });
    read.map(|_| ()).or_else(failed)
}
