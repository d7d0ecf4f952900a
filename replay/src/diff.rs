//! `bizrq-replay diff`: what the log said at one position, what it said at a later one, and which records made the
//! difference. What merely ran on is told from what records changed.

mod print;

use crate::{
    Basis, Output,
    reading::{Log, Record, instant},
    state::limits,
};
use bizrq::{
    cli::{Answer, Error, out::Out},
    domain::{
        event::{Data, Event, Position},
        ledger::{Applied, Ledger, Options},
        names::GroupId,
        time::Timestamp,
    },
};
use std::{collections::BTreeMap, str::FromStr};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq-replay diff --log ./log 4700 4711
  bizrq-replay diff --log ./log 2026-11-01T00:00:00Z 2026-11-02T00:00:00Z -o json

A number is a position; an instant is the last position that was published by then. Usage is what was known at either
position, up to when its record was published. `ran on` is what pods that ran at the first used since, as was known
then; `by records` is what the records in between added or took away, and the records that did are listed.")]
pub(super) struct Args {
    /// The log to read: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: String,
    /// The earlier position or instant
    #[arg(value_name = "A", value_parser = Place::from_str)]
    a: Place,
    /// The later one
    #[arg(value_name = "B", value_parser = Place::from_str)]
    b: Place,
    /// Whose clock is metered
    #[arg(long, value_enum, default_value_t)]
    basis: Basis,
    /// How the difference is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Where in the log.
#[derive(Clone, Copy, Debug)]
enum Place {
    Position(Position),
    Instant(Timestamp),
}

/// What the log said at a position.
struct Side {
    position: Position,
    root: String,
    /// When its last record was published.
    at: Timestamp,
}

/// What is different.
struct Difference {
    a: Side,
    b: Side,
    usage: Vec<UsageChange>,
    limits: Vec<LimitChange>,
}

/// Usage of a group under a key, milli-units × milliseconds.
#[derive(Default)]
struct UsageChange {
    group: String,
    key: String,
    before: i128,
    ran_on: i128,
    by_records: i128,
    records: Records,
}

/// A group's limit and charge under a key, milli-units.
#[derive(Default)]
struct LimitChange {
    group: String,
    key: String,
    hard: [Option<i128>; 2],
    used: [i128; 2],
    records: Records,
}

/// Records that changed something; of very many the first.
#[derive(Clone, Default)]
struct Records {
    positions: Vec<Position>,
    more: u64,
}

/// More positions than this nobody reads.
const LISTED: usize = 1000;

/// By group and key.
type Sums = BTreeMap<(String, String), i128>;

/// What records of usage and records of quotas changed, by group.
#[derive(Default)]
struct Changed {
    usage: BTreeMap<GroupId, Records>,
    quotas: BTreeMap<GroupId, Records>,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let log = Log::open(&args.log)?;
    let (a, b) = (args.a.position(&log)?, args.b.position(&log)?);
    if b < a {
        return Err(Error::Usage(format!(
            "A is position {a}, which is not before B, position {b}"
        )));
    }
    difference(&log, args.basis, a, b)?.print(args.output, out)?;
    Ok(Answer::Yes)
}

impl FromStr for Place {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(position) => Ok(Self::Position(position)),
            Err(_) => instant(text).map(Self::Instant),
        }
    }
}

impl Place {
    fn position(self, log: &Log) -> Result<Position, Error> {
        match self {
            Self::Position(position) => Ok(position),
            Self::Instant(at) => log.published_up_to(at),
        }
    }
}

fn difference(log: &Log, basis: Basis, a: Position, b: Position) -> Result<Difference, Error> {
    let options = Options { basis: basis.into(), ..Options::default() };
    let (mut ledger, mut last) = (Ledger::new(options), Timestamp::MIN);
    let (mut first, mut changed) = (None, Changed::default());
    if a == 0 {
        first = Some((ledger.clone(), last));
    }
    log.records("comparing", b, &mut ledger, |ledger, record| {
        let applied = log.apply(ledger, record)?;
        if let Some(event) = record.read.event() {
            last = last.max(event.recorded_at);
            if record.position > a && applied == Applied::Changed {
                changed.note(ledger, record, event);
            }
        }
        if record.position == a {
            first = Some((ledger.clone(), last));
        }
        Ok(())
    })?;
    let end = ledger.position();
    let Some((first, then)) = first.filter(|_| end == b) else {
        return Err(Error::Usage(format!("position {b}: the log ends at {end}")));
    };
    let failed = |e: String| Error::log(&log.place, e);
    let sums = |ledger: &Ledger, at| -> Result<Sums, Error> {
        let usage = ledger.usage(at).map_err(|e| failed(e.to_string()))?;
        Ok(usage.into_iter().map(|line| ((line.group, line.key), line.exact)).collect())
    };
    let (before, ran_on, after) = (sums(&first, then)?, sums(&first, last)?, sums(&ledger, last)?);
    let side = |ledger: &Ledger, at| {
        let (position, root) = (ledger.position(), ledger.root().to_string());
        Side { position, root, at }
    };
    Ok(Difference {
        a: side(&first, then),
        b: side(&ledger, last),
        usage: usage_changes(&ledger, &changed, &before, &ran_on, &after),
        limits: limit_changes(&first, &ledger, &changed),
    })
}

impl Changed {
    fn note(&mut self, ledger: &Ledger, record: &Record<'_>, event: &Event<'_>) {
        let position = record.position;
        let group = |prefix| {
            let name = event.subject.strip_prefix(prefix)?;
            ledger.names().known_group(name)
        };
        match &event.data {
            data if data.pod().is_some() => {
                for group in ledger.meter().stepped_groups() {
                    self.usage.entry(group).or_default().push(position);
                    self.quotas.entry(group).or_default().push(position);
                }
            }
            Data::UsageAdjusted(_) => {
                if let Some(group) = group("accounts/") {
                    self.usage.entry(group).or_default().push(position);
                }
            }
            Data::WorkloadObserved(data) => self.charge(ledger, &data.group, position),
            Data::WorkloadsAdmitted(data) => {
                for admission in &data.admissions {
                    self.charge(ledger, &admission.group, position);
                }
            }
            _ => {
                if let Some(group) = group("quotas/") {
                    self.quotas.entry(group).or_default().push(position);
                }
            }
        }
    }

    fn charge(&mut self, ledger: &Ledger, group: &str, position: Position) {
        if let Some(group) = ledger.names().known_group(group) {
            self.quotas.entry(group).or_default().push(position);
        }
    }
}

impl Records {
    fn push(&mut self, position: Position) {
        match self.positions.len() < LISTED {
            _ if self.positions.last() == Some(&position) => {}
            true => self.positions.push(position),
            false => self.more = self.more.saturating_add(1),
        }
    }
}

fn usage_changes(
    ledger: &Ledger,
    changed: &Changed,
    before: &Sums,
    ran_on: &Sums,
    after: &Sums,
) -> Vec<UsageChange> {
    let of = |sums: &Sums, row| sums.get(row).copied().unwrap_or(0);
    let rows = ran_on.keys().chain(after.keys()).collect::<std::collections::BTreeSet<_>>();
    let changes = rows.into_iter().map(|row| {
        let (before, without, after) = (of(before, row), of(ran_on, row), of(after, row));
        let group = ledger.names().known_group(&row.0);
        UsageChange {
            group: row.0.clone(),
            key: row.1.clone(),
            before,
            ran_on: without.saturating_sub(before),
            by_records: after.saturating_sub(without),
            records: group.and_then(|g| changed.usage.get(&g)).cloned().unwrap_or_default(),
        }
    });
    changes.filter(|change| change.ran_on != 0 || change.by_records != 0).collect()
}

fn limit_changes(first: &Ledger, second: &Ledger, changed: &Changed) -> Vec<LimitChange> {
    let mut changes: BTreeMap<(String, String), LimitChange> = BTreeMap::new();
    for (side, ledger) in [first, second].into_iter().enumerate() {
        for limit in ledger.book().map(|book| limits(ledger, book)).unwrap_or_default() {
            let row = (limit.group.clone(), limit.key.clone());
            let change = changes.entry(row).or_insert_with(|| LimitChange {
                group: limit.group,
                key: limit.key,
                ..LimitChange::default()
            });
            let sides = change.hard.get_mut(side).zip(change.used.get_mut(side));
            if let Some((hard, used)) = sides {
                (*hard, *used) = (limit.hard, limit.used);
            }
        }
    }
    let differs = |change: &LimitChange| {
        change.hard.first() != change.hard.last() || change.used.first() != change.used.last()
    };
    let mut changes: Vec<_> = changes.into_values().filter(differs).collect();
    for change in &mut changes {
        let group = second.names().known_group(&change.group);
        let records = group.and_then(|group| changed.quotas.get(&group));
        change.records = records.cloned().unwrap_or_default();
    }
    changes
}
