//! The ledger: the fold over the log. Position by position, one record at a time; pure.
//!
//! ```text
//!  record ──▶ meter (usage)  ┐
//!         ──▶ book (quota)   ├─ one position, one root
//!         ──▶ Merkle tree    ┘
//! ```
//!
//! It never skips silently: a record that contradicts what is known is quarantined and counted, a newer
//! version of a known type stops it, an unknown type is kept and ignored.

use super::{
    event::{Data, Event, Position},
    merkle::{Frontier, Hash},
    meter::{Contradiction, Meter, Outcome, Retain, Window, recount::Unanswerable},
    names::Names,
    pod::Basis,
    time::Timestamp,
};

/// What a ledger keeps, and of which part of time.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which clock is metered.
    pub basis: Basis,
    /// The part of time that is metered.
    pub window: Window,
    /// Keep hourly differences.
    pub history: bool,
    /// How long a pod that ended is remembered.
    pub retain: Retain,
}

impl Default for Options {
    /// Held time, all of it, with hourly differences; ended pods for 35 days of heartbeats.
    fn default() -> Self {
        Self {
            basis: Basis::Held,
            window: Window::default(),
            history: true,
            retain: Retain::Heartbeats,
        }
    }
}

/// The state that follows from the log up to a position.
#[derive(Clone, Debug)]
pub struct Ledger {
    names: Names,
    meter: Meter,
    frontier: Frontier,
    position: Position,
    quarantined: Vec<Quarantined>,
    counts: Counts,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It said something new.
    Changed,
    /// It repeats what is known.
    Repeated,
    /// It is for people, or of a type that this build does not know.
    Ignored,
    /// It repeats what was forgotten.
    Dropped,
    /// It contradicts what is known.
    Quarantined,
}

/// How many records became what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Said something new.
    pub changed: u64,
    /// Repeated what is known.
    pub repeated: u64,
    /// Notes, and types that this build does not know.
    pub ignored: u64,
    /// Repeated what was forgotten.
    pub dropped: u64,
}

/// A record that was not taken, or a stop that a later record contradicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The record.
    pub position: Position,
    /// What is wrong with it.
    pub reason: String,
}

/// Why the ledger cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Positions have no holes.
    #[error("position {found} follows {position}: a record is missing or comes twice")]
    NotNext {
        /// The ledger's position.
        position: Position,
        /// The record's.
        found: Position,
    },
    /// Only a newer build understands this.
    #[error(
        "position {position} is `{type_name}` version {version}; this build reads up to version {reads}: upgrade bizrq"
    )]
    NewerVersion {
        /// The record.
        position: Position,
        /// Its type.
        type_name: &'static str,
        /// Its version.
        version: u32,
        /// What this build reads.
        reads: u32,
    },
}

/// Usage of one group under one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The group; empty for none.
    pub group: String,
    /// The key.
    pub key: String,
    /// Milli-units × milliseconds.
    pub exact: i128,
    /// Milli-units that run.
    pub running: i128,
    /// A contributing pod still runs, or its stop may be withdrawn.
    pub provisional: bool,
    /// Σ amount × (latest − earliest), milli-units × milliseconds.
    pub uncertain: i128,
}

/// What a record is for the ledger: decoded, or not.
#[derive(Clone, Debug)]
pub enum Record<'a> {
    /// An event.
    Event(&'a Event<'a>),
    /// A type that this build does not know.
    Unknown,
    /// A known type in a version that only a newer build reads.
    Newer {
        /// The type.
        kind: super::event::Kind,
        /// The version.
        version: u32,
    },
    /// Bytes that are no event, and why.
    Undecodable(String),
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Ledger {
    /// The ledger of an empty log.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let Options { basis, window, history, retain } = options;
        Self {
            names: Names::default(),
            meter: Meter::new(basis, window, history, retain),
            frontier: Frontier::default(),
            position: 0,
            quarantined: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Takes the event at `position`, whose leaf in the log's Merkle tree is `leaf`.
    ///
    /// # Errors
    /// [`Stop`]; the ledger is unchanged.
    pub fn apply(
        &mut self,
        position: Position,
        leaf: Hash,
        event: &Event<'_>,
    ) -> Result<Applied, Stop> {
        self.advance(position, leaf)?;
        let applied = match self.take(position, event) {
            Ok(applied) => applied,
            Err(contradiction) => self.quarantine(position, contradiction.to_string()),
        };
        match applied {
            Applied::Changed => bump(&mut self.counts.changed),
            Applied::Repeated => bump(&mut self.counts.repeated),
            Applied::Ignored => bump(&mut self.counts.ignored),
            Applied::Dropped => bump(&mut self.counts.dropped),
            Applied::Quarantined => {}
        }
        Ok(applied)
    }

    /// Takes whatever stands at `position`.
    ///
    /// # Errors
    /// [`Stop`]; the ledger is unchanged.
    pub fn apply_record(
        &mut self,
        position: Position,
        leaf: Hash,
        record: &Record<'_>,
    ) -> Result<Applied, Stop> {
        match record {
            Record::Event(event) => self.apply(position, leaf, event),
            Record::Newer { kind, version } => Err(Stop::NewerVersion {
                position,
                type_name: kind.name(),
                version: *version,
                reads: kind.version(),
            }),
            Record::Unknown => {
                self.advance(position, leaf)?;
                bump(&mut self.counts.ignored);
                Ok(Applied::Ignored)
            }
            Record::Undecodable(why) => {
                self.advance(position, leaf)?;
                Ok(self.quarantine(position, why.clone()))
            }
        }
    }

    fn advance(&mut self, position: Position, leaf: Hash) -> Result<(), Stop> {
        if Some(position) != self.position.checked_add(1) {
            return Err(Stop::NotNext { position: self.position, found: position });
        }
        self.position = position;
        self.frontier.append(leaf);
        Ok(())
    }

    fn quarantine(&mut self, position: Position, reason: String) -> Applied {
        self.quarantined.push(Quarantined { position, reason });
        Applied::Quarantined
    }

    fn take(&mut self, position: Position, event: &Event<'_>) -> Result<Applied, Contradiction> {
        let (meter, names) = (&mut self.meter, &mut self.names);
        let outcome = match &event.data {
            Data::PodCreated(data) => meter.created(names, event, data)?,
            Data::PodStarted(data) => meter.started(names, event, data)?,
            Data::PodRan(data) => meter.ran(names, event, &data.uid, data.from)?,
            Data::PodResized(data) => meter.resized(names, event, data)?,
            Data::PodMoved(data) => meter.moved(names, event, data)?,
            Data::PodStopped(data) => meter.stopped(names, position, event, data)?,
            Data::PodStopWithdrawn(data) => {
                meter.stop_withdrawn(names, event, &data.uid, data.alive_at)?
            }
            _ => return self.take_other(position, event),
        };
        match outcome {
            Outcome::Repeated => Ok(Applied::Repeated),
            Outcome::Dropped => Ok(Applied::Dropped),
            Outcome::Changed { contradicted, .. } => {
                let mut applied = Applied::Changed;
                for (told, stop) in contradicted {
                    let reason = Contradiction::StopBeforeStart { stop }.to_string();
                    let quarantined = self.quarantine(told, reason);
                    if told == position {
                        applied = quarantined;
                    }
                }
                Ok(applied)
            }
        }
    }

    fn take_other(
        &mut self,
        _position: Position,
        event: &Event<'_>,
    ) -> Result<Applied, Contradiction> {
        match &event.data {
            Data::ObserverSynced(data) => {
                self.meter.synced(&mut self.names, event, data.since);
                Ok(Applied::Changed)
            }
            Data::UsageAdjusted(data) => {
                let Some(account) = event.subject.strip_prefix("accounts/") else {
                    return Err(Contradiction::Subject { wanted: "accounts/GROUP" });
                };
                let (group, key) = (self.names.group(account), self.names.key(&data.key));
                let at = data.period.from;
                let new = self.meter.adjusted(event.id, group, key, at, data.exact)?;
                Ok(if new { Applied::Changed } else { Applied::Repeated })
            }
            _ => Ok(Applied::Ignored),
        }
    }

    /// The last position that was applied; 0 before the first.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Root of the log's Merkle tree at [`Self::position`].
    #[must_use]
    pub fn root(&self) -> Hash {
        self.frontier.root()
    }

    /// The Merkle tree so far.
    #[must_use]
    pub fn frontier(&self) -> &Frontier {
        &self.frontier
    }

    /// Records that were not taken, in the order in which that was found out.
    #[must_use]
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// How many records became what.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Every name that the log has used.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Usage, pods and hours.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Usage of every group under every key that was used, up to `at`, by the best knowledge now; sorted by group
    /// and key.
    ///
    /// # Errors
    /// [`Unanswerable`].
    pub fn usage(&self, at: Timestamp) -> Result<Vec<Usage>, Unanswerable> {
        let mut lines: Vec<Usage> = self
            .meter
            .usage(at)?
            .into_iter()
            .map(|(group, line)| Usage {
                group: self.names.group_name(group).to_owned(),
                key: self.names.key_name(line.key).to_owned(),
                exact: line.exact,
                running: line.running,
                provisional: line.provisional,
                uncertain: line.uncertain,
            })
            .collect();
        lines.sort_by(|a, b| (&a.group, &a.key).cmp(&(&b.group, &b.key)));
        Ok(lines)
    }
}

/// Counters stop at their end rather than wrap.
fn bump(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

#[cfg(test)]
mod tests;
