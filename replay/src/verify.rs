//! `bizrq-replay verify`: is this log what was written, from the first record to the last?
//!
//! One fast reading proves every leaf, the order, and every recorded root, and folds the events with their types.
//! Only when something differs is the log examined again, slowly, to name what was done to it.

mod examine;
mod finding;
mod history;
mod manifest;
mod places;
mod report;
mod store;

use crate::{
    Output,
    reading::{Halt, Log},
};
use bizrq::{
    cli::{Answer, Error, out::Out},
    domain::{event::Position, ledger::ahead::TOGETHER, merkle::Hash},
    event_log::{
        OpenError, ReadError,
        bulk::Summary,
        file::{
            roots::{ROOT_EVERY, ROOTS_FILE, Roots},
            segments,
        },
        jetstream::StreamError,
    },
};
use finding::{Finding, What};
use history::History;
pub(crate) use history::trees;
use report::{Given, Report};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq-replay verify --log ./log
  bizrq-replay verify --log ./log --root 4f0a…64 hex digits
  bizrq-replay verify --log ./log -o json
  bizrq-replay verify --log ./log --store ./store

What is checked: segments and positions without holes; the leaf of every record, computed again; every line of
the file `roots`; every event by its type and version; the fold of all of them; roots that closed periods state;
what the manifest of an archive says; that several logs are one history.
Quarantined records and gaps between heartbeats are listed; they are part of an honest history and no fault.
With --root the log must have, or once have had, this root: the one on an invoice, say, at its position.
With --store the log is folded once more, up to where the store stands, and the first row that differs is named.")]
pub(super) struct Args {
    /// The log to read: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: String,
    /// The root that it must have
    #[arg(long, value_name = "HASH")]
    root: Option<Hash>,
    /// A store, whose every row must be what the log says; whoever holds it must be stopped
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// How the report is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let log = Log::open(&args.log)?;
    let mut history = History::new(log.first);
    let read = log.each("verifying", Position::MAX, |batch| {
        batch.events_by(TOGETHER).for_each(|events| history.take_all(events));
        Ok(())
    });
    let (summary, mut findings) = match read {
        Ok(summary) => (summary, beside_records(&log)?),
        Err(Halt::Log(error)) if tells_of_a_change(&error) => {
            (Summary::default(), changes(&log, &error)?)
        }
        Err(Halt::Log(error)) => return Err(Error::log(&log.place, error)),
        Err(Halt::Failed(error)) => return Err(error),
        Err(Halt::Enough) => (Summary::default(), Vec::new()),
    };
    let given = match (&summary.tree, args.root) {
        (Some(tree), root) => {
            findings.extend(history::claims(&log, &history)?);
            root.map(|root| Given::find(&log, root, tree)).transpose()?
        }
        (None, root) => root.map(Given::unknown),
    };
    findings.extend(given.as_ref().and_then(Given::finding));
    // Of a log that is not what was written nothing can be said about a store.
    let sound = summary.tree.is_some();
    let store = args.store.as_ref().filter(|_| sound).map(|dir| store::compare(&log, dir));
    let store = store.transpose()?;
    findings.extend(store.as_ref().and_then(store::Compared::finding));
    let report = Report::new(&log, &summary, &history, given, findings)?.with_store(store);
    report.print(args.output, out)?;
    match &history.stop {
        // The bytes are what was written, but what they say only a newer build knows.
        Some(stop) if report.ok() => Err(Error::log(&log.place, stop)),
        _ => Ok(Answer::of(report.ok())),
    }
}

/// Whether an error says that the log is not what was written, rather than that it cannot be read.
fn tells_of_a_change(error: &OpenError) -> bool {
    match error {
        OpenError::Read(ReadError::Stream(stream)) => !matches!(stream, StreamError::Away { .. }),
        OpenError::Read(read) => !matches!(read, ReadError::Io { .. } | ReadError::NotALog { .. }),
        OpenError::Roots { .. }
        | OpenError::RootDiffers { .. }
        | OpenError::Truncated { .. }
        | OpenError::NotContinued { .. }
        | OpenError::AnotherHistory { .. }
        | OpenError::NoBase { .. } => true,
        OpenError::Io { .. }
        | OpenError::Locked { .. }
        | OpenError::Sealed { .. }
        | OpenError::Opening(_)
        | OpenError::Continues { .. }
        | OpenError::Stream(_)
        | OpenError::Unsupported { .. } => false,
    }
}

/// What was done to the log; at least what the fast reading met.
fn changes(log: &Log, error: &OpenError) -> Result<Vec<Finding>, Error> {
    if let OpenError::Read(ReadError::Stream(stream)) = error {
        return Ok(vec![of_a_stream(stream)]);
    }
    let mut findings = Vec::new();
    for dir in &log.folders {
        findings.extend(examine::examine(log, dir)?);
    }
    if findings.is_empty() {
        findings = match places::differing(log, error)? {
            Some(finding) => vec![finding],
            None => vec![Finding::of(What::Unexplained, 0, 0, error.to_string())],
        };
    }
    Ok(findings)
}

/// What its reader met in a stream: there are no leaves to examine.
fn of_a_stream(error: &StreamError) -> Finding {
    let (what, from, to) = match error {
        StreamError::Missing { from, to, .. } => (What::Removed, *from, *to),
        StreamError::Truncated { known, found, .. } => (What::Truncated, *found, *known),
        StreamError::Changed { position, .. } => (What::Altered, *position, *position),
        _ => (What::Unexplained, 0, 0),
    };
    Finding::of(what, from, to, error.to_string())
}

/// What stands beside the records of each folder, and is not theirs.
fn beside_records(log: &Log) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    for dir in &log.folders {
        findings.extend(absent_roots(log, dir)?);
        findings.extend(manifest::compare(log, dir)?);
    }
    Ok(findings)
}

/// Blocks that lie before a recorded root and have none: a writer leaves no hole in `roots`.
fn absent_roots(log: &Log, dir: &Path) -> Result<Vec<Finding>, Error> {
    let failed = |e: OpenError| Error::log(&log.place, e);
    let roots = Roots::read(dir).map_err(failed)?;
    let first = segments::list(dir).map_err(|e| failed(e.into()))?.first().copied();
    let first = first.unwrap_or(1).next_multiple_of(ROOT_EVERY);
    let due = (first..roots.last_position()).step_by(usize::try_from(ROOT_EVERY).unwrap_or(1));
    let absent = due.filter(|position| roots.get(*position).is_none());
    let finding = |position: Position| {
        let why = format!(
            "the file {} has no line of position {position}, and later ones",
            dir.join(ROOTS_FILE).display()
        );
        let from = position.saturating_sub(ROOT_EVERY).saturating_add(1);
        Finding::of(What::Roots, from, position, why)
    };
    Ok(absent.map(finding).take(finding::LISTED).collect())
}
