//! The file log under everything that can happen to a folder: kills, truncation, two writers, lies.

mod child;
mod conformance;
mod damage;
mod kills;
mod truncation;
mod writers;

use crate::nats::server::scratch;
use bizrq::{
    domain::{event::Position, merkle::Frontier},
    event_log::{
        Appended, EventLog, Head, NewEvent, OpenError,
        bulk::{self, Batch, Source, Summary},
        conformance::{decision, fact},
        file::{FileLog, Options},
    },
};
use std::{fs, path::Path};

/// Segments so small that every test has several.
const SMALL: Options = Options { segment_bytes: 20_000 };

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn open(dir: &Path) -> Result<FileLog, OpenError> {
    FileLog::open(dir, &SMALL)
}

fn append(log: &FileLog, events: Vec<NewEvent>) -> Appended {
    block_on(log.append(events)).unwrap()
}

/// Where a log ends, with its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    head: Head,
    tree: Frontier,
}

fn end(log: &FileLog) -> End {
    block_on(async { End { head: log.head().await.unwrap(), tree: log.tree().await.unwrap() } })
}

fn head(log: &FileLog) -> Head {
    end(log).head
}

/// A closed log of `events` events; every tenth is a decision.
fn closed_log(dir: &Path, events: u64) -> End {
    let log = open(dir).unwrap();
    for batch in (1..=events).collect::<Vec<_>>().chunks(100) {
        let event = |n: &u64| if n.is_multiple_of(10) { decision(*n) } else { fact(*n) };
        append(&log, batch.iter().map(event).collect());
    }
    let end = end(&log);
    log.close().unwrap();
    end
}

/// The folder as a writer that was killed just now leaves it.
fn copy_as_killed(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Reads and proves the whole log; gives the number in each event's id.
fn prove(dir: &Path) -> Result<(Summary, Vec<u64>), OpenError> {
    let mut numbers = Vec::new();
    let source = Source::Log { dir, limit: Position::MAX };
    let summary = bulk::read(source, |batch: &Batch| {
        let ids = batch.iter().map(|(_, scanned)| scanned.unwrap().id.to_string());
        numbers.extend(ids.map(|id| u64::from_str_radix(&id, 16).unwrap()));
        Ok::<_, OpenError>(())
    })?;
    Ok((summary, numbers))
}

/// The segments of a log, in order.
fn segments(dir: &Path) -> Vec<std::path::PathBuf> {
    let firsts = bizrq::event_log::file::segments::list(dir).unwrap();
    firsts.iter().map(|f| dir.join(bizrq::event_log::file::segments::name(*f))).collect()
}
