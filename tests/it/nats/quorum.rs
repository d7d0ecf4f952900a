//! What a reader was told stands, whichever server led and was killed or stood still: a record is shown to nobody before
//! a majority has it. So a record that is another one later is a loss, and whoever had read it stops.

use super::{
    cluster::Cluster,
    clustered::{open, patiently},
    server::{PATIENCE, Version, ask, scratch},
};
use crate::{
    log_cli::{Said, bizrq, said},
    oracle::world::Dice,
    shared,
};
use bizrq::{
    domain::{event::Position, merkle::Hash},
    event_log::{
        AppendError, EventLog, ReadError, Reader, Records,
        conformance::{decision, fact},
        jetstream::JetStreamLog,
    },
    projection::{MemoryStore, Projection, Runner, runner},
};
use rand::{RngExt, SeedableRng};
use std::{
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{oneshot, watch},
    task::{JoinHandle, spawn_blocking},
    time::{sleep, timeout},
};

/// At least so many leaders go, and as many more as fit into the time.
const ROUNDS: u32 = 3;
const TIME: Duration = Duration::from_secs(25);
/// Facts of one append, on their way at once: of those that a dying leader has some are nowhere else.
const BATCHES: [u64; 3] = [1, 20, 200];

/// What was acknowledged: position and number.
type Acknowledged = Arc<Mutex<Vec<(Position, u64)>>>;

/// Tells facts, each once, whatever becomes of it.
async fn tell(log: JetStreamLog, batch: u64, end: Arc<AtomicBool>, told: Acknowledged) {
    let mut next = batch << 32;
    while !end.load(Relaxed) {
        let facts = (next..next + batch).map(fact).collect();
        if let Ok(at) = log.append(facts).await {
            told.lock().unwrap().extend([(at.first, next), (at.last, next + batch - 1)]);
        }
        next += batch;
    }
}

/// Decides one thing after another, each behind the last.
async fn decide(log: JetStreamLog, end: Arc<AtomicBool>, told: Acknowledged) {
    let (mut next, mut last) = (2 << 32, 0);
    while !end.load(Relaxed) {
        match log.decide(last, decision(next)).await {
            Ok(at) => {
                told.lock().unwrap().push((at.last, next));
                last = at.last;
            }
            Err(AppendError::Conflict { last_decision, .. }) => last = last_decision,
            Err(_) => last = log.head().await.map_or(last, |head| head.last_decision),
        }
        next += 1;
    }
}

fn keep(records: &Records, numbers: &mut Vec<u64>) {
    for (position, raw) in records.iter() {
        assert_eq!(position, numbers.len() as u64 + 1, "no hole, nothing twice");
        let id = raw.scan().unwrap().id.to_string();
        numbers.push(u64::from_str_radix(&id, 16).unwrap());
    }
}

/// Reads on until everything up to `end` was told.
async fn follow(log: JetStreamLog, mut end: watch::Receiver<Position>) -> Result<Vec<u64>, String> {
    let (mut reader, mut numbers) = (log.read(1).unwrap(), Vec::new());
    while (numbers.len() as u64) < *end.borrow() {
        tokio::select! {
            _ = end.changed() => {}
            records = reader.tail() => {
                let at = numbers.len();
                keep(&records.map_err(|error| format!("behind {at}: {error}"))?, &mut numbers);
            }
        }
    }
    Ok(numbers)
}

/// All that is there, as whoever comes now reads it: of a copy by chance.
async fn all(cluster: &Cluster) -> Vec<u64> {
    let log = open(cluster).await;
    patiently(async || {
        let (mut reader, mut numbers) = (log.read(1)?, Vec::new());
        while let Some(records) = reader.next().await? {
            keep(&records, &mut numbers);
        }
        Ok::<_, ReadError>(numbers)
    })
    .await
}

/// The member that leads the stream, as the others say.
fn leader(cluster: &Cluster, not: Option<usize>) -> usize {
    let begun = Instant::now();
    loop {
        for other in (0..cluster.servers.len()).filter(|n| Some(*n) != not) {
            let said = ask(cluster.servers[other].port(), "$JS.API.STREAM.INFO.BIZRQ");
            let said = said.unwrap_or_default();
            let leads = |n: &usize| said.contains(&format!("\"leader\":\"s{n}\""));
            if let Some(found) = (0..cluster.servers.len()).find(leads).filter(|n| Some(*n) != not)
            {
                return found;
            }
        }
        assert!(begun.elapsed() < PATIENCE, "nobody leads the stream");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The leader dies, or stands still; another one leads; it comes back.
pub(crate) fn lose_the_leader(cluster: &mut Cluster, dice: &mut Dice, round: u32) {
    let led = leader(cluster, None);
    let dies = dice.random_range(0..4) > 0;
    if dies {
        cluster.servers[led].kill();
    } else {
        cluster.servers[led].freeze();
    }
    let leads = leader(cluster, Some(led));
    // Sometimes it comes back while the others are still about what it left.
    std::thread::sleep(Duration::from_millis(dice.random_range(0..1500)));
    if dies {
        cluster.servers[led].restart();
    } else {
        cluster.servers[led].thaw();
    }
    cluster.wait();
    println!("round {round}: s{led} {}, s{leads} leads", if dies { "died" } else { "froze" });
}

/// Projects until it is told to end, or cannot go on.
type Projecting = (Projection, oneshot::Sender<()>, JoinHandle<Result<(), String>>);

fn project(log: JetStreamLog) -> Projecting {
    let (runner, seen) = Runner::new(MemoryStore::default(), runner::Options::default());
    let (end, ended) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        runner.run(&log, ended).await.map(drop).map_err(|error| error.to_string())
    });
    (seen, end, task)
}

/// Runs a command again and again until it comes through. It may find the log away, and nothing else.
fn in_the_end(mut command: impl FnMut() -> Said) -> Said {
    let begun = Instant::now();
    loop {
        let said = command();
        if said.code == 0 {
            return said;
        }
        assert!(said.code == 4 && begun.elapsed() < PATIENCE, "{}: {}", said.code, said.stderr);
    }
}

/// An export and an audit, as the log is read all the time.
fn archive(url: &str, dir: &Path) -> Said {
    in_the_end(|| bizrq(&["log", "export", "--log", url, dir.to_str().unwrap(), "-o", "json"]))
}

fn audit(log: &str) -> Option<Said> {
    let replay = shared::replay("an audit while leaders change")?;
    Some(in_the_end(|| {
        said(&Command::new(&replay).args(["verify", "--log", log]).output().unwrap())
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_reader_was_told_stands_whoever_led_and_is_gone() {
    let seed = std::env::var("BIZRQ_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    println!("BIZRQ_SEED={seed}");
    let (mut dice, mut cluster) = (Dice::seed_from_u64(seed), Cluster::start(Version::New));
    let (end, told) = (Arc::new(AtomicBool::new(false)), Acknowledged::default());
    let mut writers = vec![tokio::spawn(decide(open(&cluster).await, end.clone(), told.clone()))];
    for batch in BATCHES {
        let log = open(&cluster).await;
        writers.push(tokio::spawn(tell(log, batch, end.clone(), told.clone())));
    }
    let (upto, read_to) = watch::channel(Position::MAX);
    let mut readers = Vec::new();
    for _ in 0..2 {
        readers.push(tokio::spawn(follow(open(&cluster).await, read_to.clone())));
    }
    let (mut projection, stop, projecting) = project(open(&cluster).await);

    let (url, dir, begun) = (cluster.url(), scratch(), Instant::now());
    let archived = dir.path().join("archive");
    let (to, at) = (archived.clone(), url.clone());
    let reading = spawn_blocking(move || (archive(&at, &to), audit(&at)));
    let (mut round, cluster) = (0, &mut cluster);
    while round < ROUNDS || begun.elapsed() < TIME {
        sleep(Duration::from_millis(dice.random_range(300..1500))).await;
        round += 1;
        tokio::task::block_in_place(|| lose_the_leader(cluster, &mut dice, round));
        let gone = readers.iter().any(JoinHandle::is_finished);
        assert!(!gone && !projecting.is_finished(), "seed {seed}: a reader has stopped");
    }
    end.store(true, Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }

    let log = open(cluster).await;
    // What nobody was answered may still come, and then does so for everybody.
    let head = patiently(async || log.head().await).await.position;
    upto.send(head).unwrap();
    let expected = all(cluster).await;
    for reader in readers {
        let read = timeout(PATIENCE, reader).await.expect("it reads on").unwrap();
        let read = read.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let differs = read.iter().zip(&expected).position(|(read, is)| read != is);
        assert_eq!(differs, None, "seed {seed}: index of what was read and is another record");
        assert!(read.len() as u64 >= head && expected.len() >= read.len(), "seed {seed}");
    }
    let told = Arc::into_inner(told).unwrap().into_inner().unwrap();
    let stands = |(at, n): &&(Position, u64)| expected.get(*at as usize - 1) == Some(n);
    let lost: Vec<_> = told.iter().filter(|told| !stands(told)).collect();
    assert!(lost.is_empty(), "seed {seed}: acknowledged and gone: {lost:?}");
    println!("{round} leaders, {} records, {} acknowledged", expected.len(), told.len());

    let tree = patiently(async || log.tree().await).await;
    timeout(PATIENCE, projection.wait_for(tree.position())).await.unwrap().unwrap();
    assert_eq!(projection.ledger().root(), tree.root(), "seed {seed}: the fold");
    drop(stop);
    projecting.await.unwrap().unwrap();
    tokio::task::block_in_place(|| {
        // What was read while leaders changed is the beginning of the log as it is.
        let root = archive(&url, &archived).report()["root"].as_str().map(str::parse::<Hash>);
        assert_eq!(root.unwrap().unwrap(), tree.root(), "seed {seed}: the archive");
        audit(archived.to_str().unwrap());
    });
    reading.await.unwrap();
}
