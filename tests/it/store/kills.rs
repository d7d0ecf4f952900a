//! The projector is killed at any moment, under load: what it left is what one of its commits wrote, and the next
//! start goes on from there. Loss of power is another matter and not tested here.

use super::{caught_up, child, company, log_in};
use crate::oracle::world::Dice;
use bizrq::{
    domain::ledger::Ledger,
    event_log::{EventLog, NewEvent, Reader, file::FileLog},
    projection::{SledStore, Store, checkpoint::Checkpoint, runner::Found},
};
use rand::{RngExt, SeedableRng};
use std::{path::Path, time::Duration};

const KILLS: u64 = 60;

fn append(log: &FileLog, events: &[bizrq::domain::event::Event<'static>]) {
    let events = events.iter().map(|event| NewEvent::new(event).unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(log.append(events)).unwrap();
}

/// What a fold of the log's first `position` records gives, by its own leaves.
fn oracle(log: &Path, position: u64) -> Ledger {
    use bizrq::{domain::merkle::LeafHasher, event_log::codec::Decoder, projection::fold::Read};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut ledger, mut decoder, mut hasher) =
        (Ledger::default(), Decoder::default(), LeafHasher::default());
    runtime.block_on(async {
        let mut reader = log_in(log).read(1).unwrap();
        while let Some(records) = reader.next().await.unwrap() {
            for (at, raw) in records.iter().filter(|(at, _)| *at <= position) {
                let scanned = raw.scan().unwrap();
                let leaf = hasher.leaf(at, &scanned.leaf_input());
                Read::new(&mut decoder, &scanned).apply(&mut ledger, at, leaf).unwrap();
            }
        }
    });
    ledger
}

#[test]
fn after_every_kill_the_store_holds_what_one_commit_wrote() {
    let seed = std::env::var("BIZRQ_SEED").map_or(5, |seed| seed.parse().unwrap());
    println!("BIZRQ_SEED={seed}");
    let mut dice = Dice::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let (log_dir, store_dir) = (dir.path().join("log"), dir.path().join("store"));
    let log = FileLog::open(&log_dir, &Default::default()).unwrap();
    let mut events = company().chunks(company().len().div_ceil(KILLS as usize));
    let (mut last, mut moved, mut checked) = (0, 0, 0);
    for kill in 0..KILLS {
        append(&log, events.next().unwrap_or_default());
        let mut child = child::command("project", dir.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(dice.random_range(5..140)));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = SledStore::open(&store_dir).unwrap();
        let aside = store.moved_aside().filter(|why| *why != "nothing in it was ever committed");
        assert_eq!(aside, None, "a kill damages nothing");
        let Some((mut ledger, _)) = Checkpoint::load(&store, Default::default()).unwrap() else {
            continue;
        };
        assert!(ledger.position() >= last, "what was committed and flushed stays");
        moved += u64::from(ledger.position() > last);
        last = ledger.position();
        if kill % 6 == 0 {
            let mut expected = oracle(&log_dir, last);
            let expected = Checkpoint::whole(&mut expected).unwrap();
            assert_eq!(Checkpoint::whole(&mut ledger).unwrap(), expected, "after kill {kill}");
            checked += 1;
        }
    }
    println!("{KILLS} kills, {moved} of them behind a new commit, {checked} compared; at {last}");
    assert!(moved >= 3 && checked >= 3, "too few commits to have tested anything");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let status = runtime.block_on(caught_up(&log_in(&log_dir), &store_dir));
    assert_eq!((status.store, status.began), (Found::Confirmed, last));
}

#[test]
fn a_second_process_is_kept_out_and_told_by_whom() {
    let dir = tempfile::tempdir().unwrap();
    let _held = SledStore::open(&dir.path().join("store")).unwrap();
    let output = child::command("open", dir.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let holder = format!("is held by another process (process {})", std::process::id());
    assert!(said.contains(&holder), "{said}");
}
