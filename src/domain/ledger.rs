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

pub mod ahead;
mod decided;
mod options;
mod record;
pub mod state;
pub mod told;

use super::{
    book::{Book, Stamp, Trial},
    event::{Data, Event, Kind, LOG_VERSION, Position},
    merkle::{Frontier, Hash},
    meter::{Change, Contradiction, Meter, Outcome, recount::Unanswerable, seals::Seals},
    names::{GroupId, Learning, Names, ObjectId, Uid},
    table::Table,
    time::Timestamp,
};
use decided::Decided;

pub use options::Options;
pub use record::{Applied, Counts, Quarantined, Record, Stop};

/// Positions between two roots that are kept, so that who compares finds the block that differs.
pub const ROOT_EVERY: u64 = 1024;

/// The state that follows from the log up to a position.
#[derive(Clone, Debug)]
pub struct Ledger {
    names: Names,
    meter: Meter,
    book: Option<Box<Book>>,
    decided: Decided,
    last_decision: Position,
    frontier: Frontier,
    /// The last record's.
    leaf: Hash,
    /// The tree's root at every multiple of [`ROOT_EVERY`].
    roots: Table<Hash, 256>,
    position: Position,
    quarantined: Table<Quarantined, 64>,
    counts: Counts,
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

impl Default for Ledger {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Ledger {
    /// The ledger of an empty log.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let Options { basis, window, history, retain, quotas } = options;
        Self {
            names: Names::default(),
            meter: Meter::new(basis, window, history, retain),
            book: quotas.then(Box::default),
            decided: Decided::default(),
            last_decision: 0,
            frontier: Frontier::default(),
            leaf: Hash::default(),
            roots: Table::default(),
            position: 0,
            quarantined: Table::default(),
            counts: Counts::default(),
        }
    }

    /// The same without quotas and hourly differences, from here on: usage alone.
    #[must_use]
    pub(super) fn usage_alone(mut self) -> Self {
        self.book = None;
        self.meter.drop_history();
        self
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
        self.apply_record(position, leaf, &Record::Event(event))
    }

    /// Holds what was applied so far for known beforehand: a log follows from its first record on, at its own
    /// positions. Records name each other by position, so a log must not be told at others.
    pub fn begin_log(&mut self) {
        (self.position, self.last_decision) = (0, 0);
        self.frontier = Frontier::default();
        self.roots = Table::default();
    }

    /// Pods that ended are forgotten as `seals` says, before anything was taken. Only of usage: what the book says of
    /// the past needs their rows.
    pub fn seal(&mut self, seals: Seals) {
        if self.book.is_none() {
            self.meter.seal(seals);
        }
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
        let applied = self.fold(position, record)?;
        self.frontier.append(leaf);
        self.leaf = leaf;
        if position.is_multiple_of(ROOT_EVERY) {
            self.roots.push(self.frontier.root());
        }
        Ok(applied)
    }

    /// Takes whatever stands at `position`, for a reader that grows the Merkle tree itself: this ledger's
    /// [`Self::root`] then says nothing.
    ///
    /// # Errors
    /// [`Stop`]; the ledger is unchanged.
    pub fn fold(&mut self, position: Position, record: &Record<'_>) -> Result<Applied, Stop> {
        if Some(position) != self.position.checked_add(1) {
            return Err(Stop::NotNext { position: self.position, found: position });
        }
        if let Record::Event(event) = record
            && let Some(version) = event.data.newer_log()
        {
            return Err(Stop::NewerLog { position, version, reads: LOG_VERSION });
        }
        let applied = match record {
            Record::Event(event) => match self.take(position, event) {
                Ok(applied) => applied,
                Err(contradiction) => self.quarantine(position, contradiction.to_string()),
            },
            Record::Unknown => Applied::Ignored,
            Record::Undecodable(why) => self.quarantine(position, why.clone()),
            Record::Newer { kind, version } => {
                return Err(Stop::NewerVersion {
                    position,
                    type_name: kind.name(),
                    version: *version,
                    reads: kind.version(),
                });
            }
        };
        if let Record::Event(event) = record
            && event.data.kind().is_some_and(Kind::is_decision)
        {
            // Whatever became of it: a conditional append is compared with where it stands.
            self.last_decision = position;
        }
        self.tell_paces();
        if let (Some(book), Record::Event(event)) = (&mut self.book, record) {
            book.close_periods(position, event.time, &self.meter);
        }
        self.position = position;
        match applied {
            Applied::Changed => bump(&mut self.counts.changed),
            Applied::Repeated => bump(&mut self.counts.repeated),
            Applied::Ignored => bump(&mut self.counts.ignored),
            Applied::Dropped => bump(&mut self.counts.dropped),
            Applied::Quarantined => {}
        }
        Ok(applied)
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
            Outcome::Changed(change) => {
                let mut applied = Applied::Changed;
                for (told, stop) in &change.contradicted {
                    let reason = Contradiction::StopBeforeStart { stop: *stop }.to_string();
                    let quarantined = self.quarantine(*told, reason);
                    if *told == position {
                        applied = quarantined;
                    }
                }
                self.charge(&change)?;
                Ok(applied)
            }
        }
    }

    /// Tells the book whose spend goes on otherwise from now on.
    fn tell_paces(&mut self) {
        let Some(book) = &mut self.book else { return };
        while let Some((group, since)) = self.meter.next_changed() {
            book.paced(group, &self.meter);
            book.spent_late(group, since);
        }
    }

    /// Tells the book what a pod charges from now on.
    fn charge(&mut self, change: &Change) -> Result<(), Contradiction> {
        let Some(book) = &mut self.book else { return Ok(()) };
        match change.after {
            Some(charged) => {
                let (group, reserved) = self.meter.charge(&mut self.names, charged)?;
                book.pod_charged(change.pod, change.workload, group, &reserved)?;
            }
            None if change.before.is_some() => book.pod_ended(change.pod),
            None => {}
        }
        Ok(())
    }

    fn take_other(
        &mut self,
        position: Position,
        event: &Event<'_>,
    ) -> Result<Applied, Contradiction> {
        let decides = event.data.kind().is_some_and(Kind::is_decision);
        if decides && self.decided.ids.contains(&event.id) {
            return Ok(Applied::Repeated);
        }
        let applied = match &event.data {
            Data::ObserverSynced(data) => {
                self.synced(event, data.since);
                let cluster = self.names.cluster(&event.source);
                self.meter.sources.reached(cluster, &data.resource_versions, event.time);
                Applied::Changed
            }
            Data::ClusterBound(data) => {
                let cluster = self.names.cluster(&event.source);
                news(self.meter.sources.bound(cluster, &data.uid))
            }
            Data::ClusterRetired(data) => {
                let cluster = named(event, "clusters/", "clusters/NAME")?;
                let cluster = self.names.cluster_of(cluster);
                let is_news = self.meter.sources.retired(cluster, data.at);
                if let Some(book) = self.book.as_mut().filter(|_| is_news) {
                    book.retire(Stamp { position, time: data.at, cluster });
                }
                news(is_news)
            }
            Data::UsageAdjusted(data) => {
                let account = named(event, "accounts/", "accounts/GROUP")?;
                let (group, key) = (self.names.group(account), self.names.key(&data.key));
                let at = data.period.from;
                news(self.meter.adjusted(event.id, group, key, at, data.exact)?)
            }
            _ => self.take_quota(position, event)?,
        };
        if decides {
            self.decided.remember(event.id);
            self.decided.remember_requests(&mut self.names, position, event);
        }
        Ok(applied)
    }

    fn synced(&mut self, event: &Event<'_>, since: Timestamp) {
        self.meter.synced(&mut self.names, event, since);
        let cluster = self.names.cluster(&event.source);
        if let (Some(book), Some(horizon)) = (&mut self.book, self.meter.horizon(cluster)) {
            book.forget(cluster, horizon);
        }
    }

    /// Quotas, workloads and reservations: the book's part.
    fn take_quota(
        &mut self,
        position: Position,
        event: &Event<'_>,
    ) -> Result<Applied, Contradiction> {
        let Some(book) = &mut self.book else { return Ok(Applied::Ignored) };
        let (meter, names) = (&mut self.meter, &mut self.names);
        let stamp = Stamp { position, time: event.time, cluster: names.cluster(&event.source) };
        match &event.data {
            Data::WorkloadObserved(data) => {
                book.workload_observed(names, stamp, data)?;
                book.turned().for_each(|pod| meter.note(pod));
            }
            Data::WorkloadGone(data) => book.workload_gone(stamp, data),
            Data::WorkloadsAdmitted(data) => book.admitted(names, stamp, data)?,
            Data::QuotaDeclared(data) => {
                let group = names.group(named(event, "quotas/", "quotas/NAME")?);
                if let Some(period) = &data.spec.cash_period {
                    meter.keep_dates(&period.calendar.zone)?;
                }
                let declared = book.quota_declared(names, stamp, group, data, meter)?;
                if declared.opened {
                    meter.open_account(group, event.time)?;
                }
            }
            Data::QuotaRemoved(data) => {
                let group = names.group(named(event, "quotas/", "quotas/NAME")?);
                book.quota_removed(stamp, group, data, meter);
            }
            Data::QuotaProposed(data) => {
                let group = names.group(named(event, "quotas/", "quotas/NAME")?);
                book.proposed(names, stamp, group, data)?;
            }
            Data::ReservationExpired(data) => {
                let quota = match data.workload {
                    Some(_) => GroupId::NONE,
                    None => names.group(named(event, "quotas/", "quotas/NAME")?),
                };
                book.expired(names, stamp, quota, data);
            }
            _ => return Ok(Applied::Ignored),
        }
        Ok(Applied::Changed)
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

    /// The last record's leaf.
    #[must_use]
    pub const fn leaf(&self) -> Hash {
        self.leaf
    }

    /// The log's roots at 1,024, 2,048 and so on, as far as they were met.
    #[must_use]
    pub fn roots(&self) -> &[Hash] {
        self.roots.as_slice()
    }

    /// The Merkle tree so far.
    #[must_use]
    pub fn frontier(&self) -> &Frontier {
        &self.frontier
    }

    /// Records that were not taken, in the order in which that was found out.
    #[must_use]
    pub fn quarantined(&self) -> &[Quarantined] {
        self.quarantined.as_slice()
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

    /// The position of the last decision: what a conditional append is compared with. 0: none.
    #[must_use]
    pub fn last_decision(&self) -> Position {
        self.last_decision
    }

    /// The record that allowed the request `uid` of `cluster` (by name), if it is among the newest 131,072.
    #[must_use]
    pub fn recorded(&self, cluster: &str, uid: &str) -> Option<Position> {
        let cluster = self.names.known_cluster_of(cluster)?;
        self.decided.requests.get(&ObjectId { cluster, uid: Uid::of(uid) }).copied()
    }

    /// Quota state, unless [`Options::quotas`] is off.
    #[must_use]
    pub fn book(&self) -> Option<&Book> {
        self.book.as_deref()
    }

    /// Decides on this ledger: `decide` gets a trial of the book, the names and the meter. The ledger is what it
    /// was afterwards, its names too; `None` where there is no book.
    pub fn decide<T>(
        &mut self,
        decide: impl FnOnce(&mut Trial<'_>, &mut Names, &Meter) -> T,
    ) -> Option<T> {
        let book = self.book.as_deref_mut()?;
        let mut names = Learning::new(&mut self.names);
        Some(decide(&mut Trial::new(book), &mut names, &self.meter))
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

/// What stands behind `prefix` in the subject.
fn named<'e>(
    event: &'e Event<'_>,
    prefix: &str,
    wanted: &'static str,
) -> Result<&'e str, Contradiction> {
    let name = event.subject.strip_prefix(prefix).filter(|name| !name.is_empty());
    name.ok_or(Contradiction::Subject { wanted })
}

const fn news(is: bool) -> Applied {
    if is { Applied::Changed } else { Applied::Repeated }
}

/// Counters stop at their end rather than wrap.
fn bump(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

#[cfg(test)]
mod tests;
