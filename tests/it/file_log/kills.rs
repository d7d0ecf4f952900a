//! A child appends, a parent notes what it was told, and SIGKILL comes at any moment: while opening, writing,
//! rolling over, storing roots. Loss of power is another matter and not tested here.

use super::{child, end, head, open, prove};
use bizrq::event_log::{EventLog, Reader};
use std::{
    collections::{
        BTreeMap,
        hash_map::{DefaultHasher, RandomState},
    },
    hash::{BuildHasher, BuildHasherDefault},
    io::{BufRead, BufReader},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

const KILLS: u64 = 220;

#[test]
fn what_was_acknowledged_survives_every_kill_and_nothing_half_written_is_there() {
    let seed = std::env::var("BIZRQ_SEED").ok().and_then(|s| s.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("BIZRQ_SEED={seed}");
    let random = BuildHasherDefault::<DefaultHasher>::new();
    let dir = tempfile::tempdir().unwrap();
    let mut log = BTreeMap::new();
    let (mut acknowledged, mut torn) = (0, 0);
    for kill in 1..=KILLS {
        let before = log.len();
        let acks = run_and_kill(dir.path(), kill * 1_000_000, random.hash_one((seed, kill)) % 45);
        torn += u32::from(read_new(dir.path(), &mut log));
        acknowledged += acks.len();
        for (position, number) in acks {
            assert_eq!(log.get(&position), Some(&number), "acknowledged at {position} and gone");
        }
        assert!(log.len() >= before);
    }
    let (summary, numbers) = prove(dir.path()).unwrap();
    assert_eq!(numbers, log.into_values().collect::<Vec<_>>());
    assert_eq!(summary.tree.unwrap().root(), end(&open(dir.path()).unwrap()).tree.root());
    println!("{KILLS} kills, {acknowledged} acknowledged, {} found, {torn} torn", numbers.len());
    assert!(acknowledged > 500, "too few acknowledgements to have tested anything: {acknowledged}");
}

/// Starts a child, kills it, and gives what it was told: position and number.
fn run_and_kill(dir: &Path, base: u64, after_ms: u64) -> Vec<(u64, u64)> {
    let mut child = child::command("append", dir, base).spawn().unwrap();
    let acks = Arc::new(Mutex::new(Vec::new()));
    let reader = std::thread::spawn({
        let (output, acks) = (child.stdout.take().unwrap(), Arc::clone(&acks));
        move || {
            for line in BufReader::new(output).lines() {
                let line = line.unwrap();
                let mut numbers = line.strip_prefix("ack ").into_iter().flat_map(|l| l.split(' '));
                if let Some(first) = numbers.next().and_then(|f| f.parse::<u64>().ok()) {
                    let numbers = numbers.map(|n| n.parse().unwrap());
                    acks.lock().unwrap().extend((first..).zip(numbers));
                }
            }
        }
    });
    std::thread::sleep(Duration::from_millis(after_ms));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    Arc::into_inner(acks).unwrap().into_inner().unwrap()
}

/// Opens the log as the next writer would, reads what is new, and says whether half a line was cut off.
fn read_new(dir: &Path, log: &mut BTreeMap<u64, u64>) -> bool {
    let opened = open(dir).unwrap();
    super::block_on(async {
        let mut reader = opened.read(log.len() as u64 + 1).unwrap();
        while let Some(records) = reader.next().await.unwrap() {
            for (position, raw) in records.iter() {
                let id = raw.scan().unwrap().id.to_string();
                assert_eq!(log.insert(position, u64::from_str_radix(&id, 16).unwrap()), None);
            }
        }
    });
    assert_eq!(log.len() as u64, head(&opened).position);
    opened.torn().is_some()
}
