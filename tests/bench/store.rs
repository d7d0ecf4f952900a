//! The projection onto disk: replay of a file log into ledger and sled, and a restart from what was committed, with
//! 150,000 live pods in 10,000 groups: with nothing else, and with all the dead pods of the replay, which are remembered
//! for 35 days. `cargo bench --bench store` prints medians of five; `BIZRQ_EVENTS` says of how many events.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use bizrq::{
    domain::{event::*, quantity::*, resources::*, time::Timestamp},
    event_log::{
        EventLog, NewEvent,
        file::{FileLog, Options},
    },
    projection::{MemoryStore, Runner, SledStore, Store, checkpoint::Checkpoint, runner},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};
use tokio::sync::oneshot;

const RUNS: usize = 5;
const LIVE: u64 = 150_000;
const GROUPS: u64 = 10_000;
const T0: i64 = 1_796_000_400_000;

fn uid(n: u64) -> String {
    format!("{:08x}-0000-4000-8000-{:012x}", n.wrapping_mul(0x9e37_79b9) as u32, n)
}

fn pick(n: u64, of: u64) -> u64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % of
}

fn held(n: i128) -> Arc<Resources> {
    let mut r = Resources::default();
    for (name, milli) in [("cpu", 500 * n), ("memory", n << 40), ("ephemeral-storage", n << 35)] {
        r.requests.set(name, Quantity::from_milli(milli, Format::DecimalSI));
        r.limits.set(name, Quantity::from_milli(milli * 2, Format::DecimalSI));
    }
    Arc::new(r)
}

fn event(id: u128, subject: String, time: i64, data: Data<'_>) -> NewEvent {
    let time = Timestamp::from_millis(time).unwrap();
    let source = "/clusters/east".into();
    let (id, subject) = (EventId(id), subject.into());
    NewEvent::new(&Event { id, source, subject, time, recorded_at: time, data }).unwrap()
}

fn quota(n: u64) -> NewEvent {
    let parent = if n < 100 { String::new() } else { format!("team-{:05}", n % 100) };
    let cores = if n < 100 { "100000000" } else { "1000" };
    let hard = [("limits.cpu", cores), ("cash/limits.cpu", cores)];
    let hard = hard.map(|(key, q)| (key.into(), Quantity::parse(q).unwrap())).into_iter().collect();
    let spec = QuotaSpec { parent: parent.into(), hard, ..QuotaSpec::default() };
    let data = QuotaDeclared {
        uid: format!("q{n}").into(),
        resource_version: (n + 1).to_string().into(),
        generation: 1,
        spec,
    };
    event(1 << 100 | u128::from(n), format!("quotas/team-{n:05}"), T0, Data::QuotaDeclared(data))
}

fn start(n: u64, time: i64, shapes: &[Arc<Resources>]) -> NewEvent {
    let owner = ObjectRef {
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        namespace: None,
        name: "train".into(),
        uid: uid((1 << 40) + pick(n, GROUPS * 4)).into(),
    };
    let data = PodStarted {
        uid: uid(n).into(),
        owner: Some(owner),
        group: format!("team-{:05}", pick(n, GROUPS)).into(),
        models: Models { cpu: Some("A4".into()), memory: None, gpu: None },
        node: format!("n{}", n % 2000).into(),
        held: Arc::clone(&shapes[pick(n / 7, 8) as usize]),
        reserved: None,
        basis: StartBasis::Bound,
    };
    event(n.into(), format!("pods/ml/p-{n}"), time, Data::PodStarted(data))
}

fn stop(n: u64, time: i64) -> NewEvent {
    let t = Timestamp::from_millis(time).unwrap();
    let data = PodStopped {
        uid: uid(n).into(),
        earliest: t,
        latest: t,
        basis: StopBasis::TerminalStatus,
        phase: "Succeeded".into(),
        reason: "".into(),
        ran: None,
    };
    event(u128::from(n) | 1 << 90, format!("pods/ml/p-{n}"), time, Data::PodStopped(data))
}

/// Quotas, then pods: 150,000 are started, and from then on each start comes with the stop of the oldest.
async fn write_log(dir: &Path, events: u64) {
    let log = FileLog::open(dir, &Options::default()).unwrap();
    let shapes: Vec<_> = (1..=8).map(held).collect();
    let (mut batch, mut n) = (Vec::new(), 0);
    batch.extend((0..GROUPS).map(quota));
    let mut written = GROUPS;
    while written < events {
        let time = T0 + (n * 30) as i64;
        batch.push(start(n, time, &shapes));
        written += 1;
        if n >= LIVE {
            batch.push(stop(n - LIVE, time + 10));
            written += 1;
        }
        n += 1;
        if batch.len() >= 4096 {
            log.append(std::mem::take(&mut batch)).await.unwrap();
        }
    }
    log.append(batch).await.unwrap();
    log.close().unwrap();
}

/// Folds to the end of the log; seconds until all was applied, and until all was committed.
async fn replay<S: Store>(log: &Path, store: S, options: runner::Options) -> (f64, f64, u64) {
    let log = FileLog::open_read(log).unwrap();
    let begun = Instant::now();
    let (runner, mut seen) = Runner::new(store, options);
    let (end, ended) = oneshot::channel::<()>();
    let run = tokio::spawn(async move { runner.run(&log, ended).await.unwrap() });
    seen.caught_up().await.unwrap();
    let applied = begun.elapsed().as_secs_f64();
    drop(end);
    run.await.unwrap();
    let status = seen.status();
    assert_eq!(status.committed, status.position);
    (applied, begun.elapsed().as_secs_f64(), status.position - status.began)
}

fn rss_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let of =
        |path: PathBuf| if path.is_dir() { size(&path) } else { path.metadata().unwrap().len() };
    entries.map(|entry| of(entry.path())).sum()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let Ok(dir) = std::env::var("BIZRQ_RESTART") {
        return runtime.block_on(restart(Path::new(&dir)));
    }
    let events = std::env::var("BIZRQ_EVENTS").map_or(2_000_000, |n| n.parse().unwrap());
    for (name, events) in [("no dead pods", GROUPS + LIVE), ("with dead pods", events)] {
        let dir = tempfile::tempdir().unwrap();
        let (log, store) = (dir.path().join("log"), dir.path().join("store"));
        runtime.block_on(write_log(&log, events));
        println!("{name}, {events} events, medians of {RUNS}:");
        runtime.block_on(replays(&log, &store));
        commits(&store);
        restarts(dir.path());
    }
}

/// Into the ledger alone, and into ledger and sled.
async fn replays(log: &Path, store: &Path) {
    let (mut bare, mut applied, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let quiet = runner::Options {
            commit_records: u64::MAX,
            commit_every: std::time::Duration::from_secs(86_400),
            ..runner::Options::default()
        };
        let (alone, _, events) = replay(log, MemoryStore::default(), quiet).await;
        let _ = std::fs::remove_dir_all(store);
        let sled = SledStore::open(store).unwrap();
        let (until_applied, until_committed, _) =
            replay(log, sled, runner::Options::default()).await;
        bare.push(events as f64 / alone);
        applied.push(events as f64 / until_applied);
        done.push(events as f64 / until_committed);
    }
    println!(
        "  replay: ledger alone {:.0}/s; with sled {:.0}/s applied, {:.0}/s committed; store {} MB",
        median(bare),
        median(applied),
        median(done),
        size(store) >> 20
    );
}

/// Each in a process of its own, whose memory is measured.
fn restarts(dir: &Path) {
    let (mut opened, mut ready, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let itself = std::env::current_exe().unwrap();
        let ran = std::process::Command::new(itself).env("BIZRQ_RESTART", dir).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let said = String::from_utf8(ran.stdout).unwrap();
        let numbers: Vec<f64> = said.split_whitespace().map(|n| n.parse().unwrap()).collect();
        opened.push(numbers[0]);
        ready.push(numbers[1]);
        peaks.push(numbers[2]);
    }
    println!(
        "  restart: opened after {:.2} s, ready after {:.2} s, peak RSS {:.0} MB",
        median(opened),
        median(ready),
        median(peaks)
    );
}

/// Says after how many seconds the store was opened and the fold was ready, and the process's peak in MB.
async fn restart(dir: &Path) {
    let begun = Instant::now();
    let store = SledStore::open(&dir.join("store")).unwrap();
    let opened = begun.elapsed().as_secs_f64();
    let (ready, _, events) = replay(&dir.join("log"), store, runner::Options::default()).await;
    assert_eq!(events, 0, "everything was in the checkpoint");
    println!("{opened} {} {}", opened + ready, rss_mb());
}

/// What a commit of everything takes, and what loading takes.
fn commits(dir: &Path) {
    let store = SledStore::open(dir).unwrap();
    let begun = Instant::now();
    let (mut ledger, _) = Checkpoint::load(&store, Default::default()).unwrap().unwrap();
    let loaded = begun.elapsed();
    let begun = Instant::now();
    let batch = Checkpoint::whole(&mut ledger).unwrap();
    let bytes: usize = batch.rows.iter().map(|(_, bytes)| bytes.len()).sum();
    println!(
        "  load {loaded:.2?}; all {} rows, {} MB, made in {:.2?}; {} live pods, {} groups",
        batch.rows.len(),
        bytes >> 20,
        begun.elapsed(),
        ledger.book().unwrap().pods(),
        ledger.book().unwrap().accounts().count()
    );
}
