//! Files that are not as they were written: whatever is still believed is what one of the commits wrote, all of it.

use super::{caught_up, company_log, held, written};
use crate::oracle::world::Dice;
use bizrq::projection::{
    MemoryStore, SledStore, Store,
    checkpoint::Checkpoint,
    runner::{Found, Status},
};
use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// So many times each kind of damage is done.
const TIMES: u64 = 120;

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target)
        } else {
            fs::copy(&path, &target).map(drop).unwrap()
        }
    }
}

/// Flips a few bits, cuts a piece off, or writes zeros, in one of sled's files; says what it did.
fn damage(dir: &Path, dice: &mut Dice) -> String {
    let files = files(&dir.join("rows"));
    let path = files.choose(dice).unwrap();
    let mut bytes = fs::read(path).unwrap();
    let what = match (dice.random_range(0..8), bytes.len()) {
        (_, 0) => "left alone".to_owned(),
        (0..5, length) => {
            let flips: Vec<usize> =
                (0..dice.random_range(1..4)).map(|_| dice.random_range(0..length * 8)).collect();
            flips.iter().for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
            format!("bits {flips:?} flipped")
        }
        (5, length) => {
            bytes.truncate(dice.random_range(0..length));
            format!("cut at {} of {length}", bytes.len())
        }
        (6, length) => {
            let from = dice.random_range(0..length);
            let to = (from + 4096).min(length);
            bytes[from..to].fill(0);
            format!("zeros at {from}..{to}")
        }
        _ => {
            fs::remove_file(path).unwrap();
            return format!("{} removed", path.display());
        }
    };
    fs::write(path, bytes).unwrap();
    format!("{}: {what}", path.display())
}

#[test]
fn damaged_files_are_noticed_or_do_no_harm() {
    let seed = std::env::var("BIZRQ_SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("BIZRQ_SEED={seed}");
    let (whole, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let states = written(whole.path(), 5);
    let mut dice = Dice::seed_from_u64(seed);
    let (mut believed, mut refused) = (0, 0);
    for time in 0..TIMES {
        let dir = scratch.path().join(time.to_string());
        copy(whole.path(), &dir);
        let what = damage(&dir, &mut dice);
        match held(&dir) {
            Some(mut ledger) => {
                let rows = Checkpoint::whole(&mut ledger).unwrap().rows;
                assert!(states.contains(&rows), "{what}: believed, but no commit wrote it");
                believed += 1;
            }
            None => refused += 1,
        }
        fs::remove_dir_all(&dir).unwrap();
    }
    println!("{believed} did no harm, {refused} were noticed");
    assert!(refused > 10, "hardly anything was damaged: {refused}");
}

#[test]
fn the_damaged_snapshot_is_not_begun_with() {
    use bizrq::projection::{Snapshots, snapshot};
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = bizrq::domain::ledger::Ledger::default();
    super::fold(&mut ledger, super::company());
    let batch = Checkpoint::whole(&mut ledger).unwrap();
    let snapshots = Snapshots::new(dir.path().join("snapshots"), 3);
    let mut store = MemoryStore::default();
    store.commit(batch.clone()).unwrap();
    let written = snapshots.copy(&store).unwrap().unwrap();
    let options = bizrq::domain::ledger::Options::default();
    let mut read = snapshot::read(&written.path, options).unwrap();
    assert_eq!(Checkpoint::whole(&mut read).unwrap(), batch);
    let bytes = fs::read(&written.path).unwrap();
    assert_eq!(bytes.len() as u64, written.bytes);
    let mut dice = Dice::seed_from_u64(3);
    for time in 0..400 {
        let mut other = bytes.clone();
        if time % 5 == 0 {
            other.truncate(dice.random_range(0..bytes.len()));
        } else {
            let bit = dice.random_range(0..bytes.len() * 8);
            other[bit / 8] ^= 1 << (bit % 8);
        }
        fs::write(&written.path, other).unwrap();
        assert!(snapshot::read(&written.path, options).is_err(), "{time}");
        assert!(snapshots.newest(options, |_| true).is_none());
    }
}

fn discarded(status: &Status) -> &str {
    let Found::Discarded { why } = &status.store else { panic!("{status:?}") };
    why
}

#[tokio::test]
async fn a_start_with_a_damaged_store_rebuilds_it_and_says_so() {
    let log = company_log().await;
    let dir = tempfile::tempdir().unwrap();
    let first = caught_up(&log, dir.path()).await;
    let second = caught_up(&log, dir.path()).await;
    assert_eq!((first.store, second.store), (Found::Nothing, Found::Confirmed));
    assert_eq!((first.began, second.began, second.committed), (0, first.position, first.position));
    for n in 1..=5 {
        for file in files(&dir.path().join("rows")) {
            let length = fs::metadata(&file).unwrap().len();
            fs::write(&file, vec![0xa5; usize::try_from(length).unwrap()]).unwrap();
        }
        let status = caught_up(&log, dir.path()).await;
        assert!(!discarded(&status).is_empty(), "{status:?}");
        assert_eq!((status.began, status.committed), (0, first.position));
        let aside = fs::read_dir(dir.path()).unwrap().filter(|entry| {
            entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("rows.damaged-")
        });
        assert_eq!(aside.count(), n.min(3), "a few are kept");
        assert_eq!(caught_up(&log, dir.path()).await.store, Found::Confirmed);
    }
}

#[tokio::test]
async fn a_store_that_is_deleted_is_made_again() {
    let log = company_log().await;
    let dir = tempfile::tempdir().unwrap();
    let first = caught_up(&log, dir.path()).await;
    fs::remove_dir_all(dir.path()).unwrap();
    let second = caught_up(&log, dir.path()).await;
    assert_eq!((second.began, second.position), (0, first.position));
}

#[test]
fn what_is_on_disk_is_what_memory_would_hold() {
    let dir = tempfile::tempdir().unwrap();
    let states = written(dir.path(), 3);
    let store = SledStore::open(dir.path()).unwrap();
    let mut memory = MemoryStore::default();
    let mut rows = Vec::new();
    store
        .rows(&mut |key, bytes| {
            rows.push((key, bytes.to_vec()));
            Ok(())
        })
        .unwrap();
    assert_eq!(Some(&rows), states.last());
    let mark = store.mark().unwrap().unwrap();
    memory.commit(bizrq::projection::Batch { rows, mark }).unwrap();
    assert!(Checkpoint::load(&memory, Default::default()).unwrap().is_some());
}
