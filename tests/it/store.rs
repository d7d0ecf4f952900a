//! Rows on disk, by real files and processes: the contract, damage of every kind, a second process, kills.

mod child;
mod damage;
mod kills;

use bizrq::{
    domain::{
        event::Event,
        ledger::{Ledger, Options},
        merkle::Hash,
    },
    event_log::{AnyLog, EventLog, NewEvent, memory::MemoryLog},
    projection::{
        Runner, SledStore,
        checkpoint::Checkpoint,
        conformance,
        runner::{self, Status},
    },
};
use futures_util::FutureExt;
use std::{path::Path, sync::RwLock};
use tokio::sync::oneshot;

#[test]
fn sled_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    conformance::run(|| {
        number.set(number.get() + 1);
        SledStore::open(&dir.path().join(number.get().to_string())).unwrap()
    });
    conformance::reopened(|| SledStore::open(&dir.path().join("again")).unwrap());
}

/// A company's events, and the ledger of the first `count` of them.
fn company() -> &'static [Event<'static>] {
    static EVENTS: std::sync::LazyLock<Vec<Event<'static>>> = std::sync::LazyLock::new(|| {
        // On a thread of its own: who asks may be inside of a runtime.
        std::thread::spawn(|| crate::demo::events_of(1, 100)).join().unwrap()
    });
    &EVENTS
}

fn fold(ledger: &mut Ledger, events: &[Event<'static>]) {
    for event in events {
        let position = ledger.position() + 1;
        let leaf = Hash([u8::try_from(position % 251).unwrap(); 32]);
        ledger.apply(position, leaf, event).unwrap();
    }
}

/// A store that was committed `commits` times, and its rows after each.
fn written(
    dir: &Path,
    commits: usize,
) -> Vec<Vec<(bizrq::domain::ledger::state::RowKey, Vec<u8>)>> {
    use bizrq::projection::Store;
    let mut store = SledStore::open(dir).unwrap();
    let (ledger, mut checkpoint) = (RwLock::new(Ledger::default()), Checkpoint::default());
    let pieces = company().chunks(company().len().div_ceil(commits));
    let states = pieces.map(|events| {
        fold(&mut ledger.write().unwrap(), events);
        store.commit(checkpoint.changes(&ledger).unwrap()).unwrap();
        Checkpoint::whole(&mut ledger.write().unwrap()).unwrap().rows
    });
    states.collect()
}

/// A log in memory that holds a company's events.
async fn company_log() -> MemoryLog {
    let log = MemoryLog::default();
    let events = company().iter().map(|event| NewEvent::new(event).unwrap());
    log.append(events.collect()).await.unwrap();
    log
}

/// Folds `log` to its end with the store in `dir`, and says how that went.
pub(crate) async fn caught_up(log: &impl EventLog, dir: &Path) -> Status {
    let store = SledStore::open(dir).unwrap();
    let (runner, mut seen) = Runner::new(store, runner::Options::default());
    let (end, ended) = oneshot::channel::<()>();
    let watch = async {
        seen.caught_up().await.unwrap();
        drop(end);
    };
    let (ended, ()) = tokio::join!(runner.run(log, ended), watch);
    ended.unwrap().expect("the store takes rows");
    seen.status()
}

/// The log in a folder.
fn log_in(dir: &Path) -> AnyLog {
    // Of a folder that is done at once.
    AnyLog::open_read(dir.to_str().unwrap()).now_or_never().unwrap().unwrap()
}

/// What the store in `dir` holds, if that is to be believed.
pub(crate) fn held(dir: &Path) -> Option<Ledger> {
    let store = SledStore::open(dir).unwrap();
    Checkpoint::load(&store, Options::default()).ok().flatten().map(|(ledger, _)| ledger)
}
