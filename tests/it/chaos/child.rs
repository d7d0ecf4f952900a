//! Other processes: this test binary again, told by the environment what to do.
//!
//! They say what was acknowledged in lines: `ack POD EVENT FIRST LAST`, `allowed REQUEST POSITION`,
//! `refused REQUEST`; and what they cannot go on from: `said …`. Two flood a server and say what that costs.

use super::{new_events, open, pod};
use crate::decider::replica;
use bizrq::{
    decider::{self, Answer, Decider, transport::Alone},
    domain::{
        event::{ClusterBound, Data, Event, EventId},
        time::ORIGIN,
    },
    event_log::{
        AppendError, EventLog, NewEvent, Reader,
        jetstream::{JetStreamLog, Options},
    },
    projection::{Runner, SledStore, runner},
};
use std::{
    collections::BTreeSet,
    fmt::Display,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;

const TASK: &str = "BIZRQ_TEST_TASK";
const URL: &str = "BIZRQ_TEST_URL";
const DIR: &str = "BIZRQ_TEST_DIR";
const FROM: &str = "BIZRQ_TEST_FROM";
const TO: &str = "BIZRQ_TEST_TO";

/// Tasks that append or ask at once in a process.
const TASKS: u64 = 4;
/// Between attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// The command of a process that does `task` on the log at `url`, from number `from` up to `to`.
pub(super) fn command(task: &str, url: &str, dir: &Path, from: u64, to: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "chaos::child::the_child", "--ignored", "--nocapture", "-q"]);
    command.env(TASK, task).env(URL, url).env(DIR, dir);
    command.env(FROM, from.to_string()).env(TO, to.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null());
    command
}

#[test]
#[ignore = "the child process of the other tests, started by them"]
fn the_child() {
    let text = |name| std::env::var(name).unwrap();
    let (url, dir) = (text(URL), text(DIR));
    let (from, to) = (text(FROM).parse().unwrap(), text(TO).parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match text(TASK).as_str() {
            "append" => append(&url, from, to).await,
            "decide" => decide(&url, Path::new(&dir), from).await,
            "flood" => flood(&url).await,
            "outlast" => outlast(&url).await,
            task => panic!("no such task: {task}"),
        }
    });
}

fn say(line: impl Display) {
    // One write of less than a pipe's atomic size: never half a line.
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn give_up(why: impl Display) -> ! {
    say(format_args!("said {why}"));
    std::process::exit(1)
}

/// Tells of pods, each event until it is acknowledged; a pod's events in their order.
async fn append(url: &str, from: u64, to: u64) {
    let log = Arc::new(open(url).await);
    let tasks = (0..TASKS).map(|task| {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            for number in (from..to).filter(|number| number % TASKS == task) {
                let events = new_events(&pod(number));
                let middle = number as usize % events.len();
                for (first, last) in [(0, middle), (middle, events.len())] {
                    let at = loop {
                        match log.append(events[first..last].to_vec()).await {
                            Ok(at) => break at,
                            Err(AppendError::Unclear { .. } | AppendError::Away { .. }) => {
                                tokio::time::sleep(PAUSE).await;
                            }
                            Err(error) => give_up(error),
                        }
                    };
                    for event in first..last {
                        say(format_args!("ack {number} {event} {} {}", at.first, at.last));
                    }
                }
                // Load, and no more than an unoptimised projector keeps up with.
                tokio::time::sleep(2 * PAUSE).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

/// A projector with its store, and a decider on it that is asked for one core after another.
async fn decide(url: &str, dir: &Path, from: u64) {
    let store = SledStore::open(&dir.join("store")).unwrap();
    let log = Arc::new(open(url).await);
    let commits = runner::Options {
        commit_records: 40,
        commit_every: Duration::from_millis(5),
        ..runner::Options::default()
    };
    let (runner, mut projection) = Runner::new(store, commits);
    let options = decider::Options { append_within: Duration::from_secs(1), ..replica::options() };
    let (decider, worker) = decider::new(Arc::clone(&log), projection.clone(), Alone, options);
    let folding = Arc::clone(&log);
    tokio::spawn(async move {
        match runner.run(&*folding, std::future::pending::<()>()).await {
            Ok(_) => {}
            Err(error) => give_up(error),
        }
    });
    tokio::spawn(worker.run(std::future::pending::<()>()));
    if let Err(error) = projection.caught_up().await {
        give_up(error);
    }
    say(format_args!("store {:?}", projection.status().store));
    let asking = (0..TASKS).map(|task| tokio::spawn(ask_for_ever(decider.clone(), from, task)));
    for task in asking.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

async fn ask_for_ever(decider: Decider, from: u64, task: u64) {
    for request in (from..).filter(|request| request % TASKS == task) {
        let ask = || replica::create(&format!("r{request}"), &format!("w{request}"), "team", 1);
        loop {
            match decider.decide(ask(), Instant::now() + Duration::from_secs(1)).await {
                Answer::Allowed { recorded, .. } => {
                    break say(format_args!("allowed {request} {}", recorded.unwrap_or(0)));
                }
                Answer::Refused(_) => break say(format_args!("refused {request}")),
                Answer::Unavailable(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        tokio::time::sleep(PAUSE / 4).await;
    }
}

/// Two thousand callers append all the time, each an event of 4 KiB: says what memory the process has a second,
/// three and five after the server froze, and how many appends were answered once it thawed.
async fn flood(url: &str) {
    let log = open(url).await;
    let answered = Arc::new(AtomicU64::new(0));
    log.append(vec![large(0)]).await.unwrap();
    for caller in 1..=2000 {
        let (log, answered) = (log.clone(), Arc::clone(&answered));
        tokio::spawn(async move {
            for n in (0..).map(|n| n * 10_000 + caller) {
                match log.append(vec![large(n)]).await {
                    Ok(_) => answered.fetch_add(1, Relaxed),
                    Err(_) => continue,
                };
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    say("ready");
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        say(format_args!("kib {}", resident_kib()));
    }
    let before = answered.load(Relaxed);
    while answered.load(Relaxed) < before + 2000 {
        tokio::time::sleep(PAUSE).await;
    }
    say(format_args!("resumed {}", answered.load(Relaxed) - before));
    std::process::exit(0);
}

/// A thousand callers append all the time, each an event of 4 KiB a second, and one reads. Says every second: its
/// memory in KiB, how many appends failed so far, how long the slowest of that second took in milliseconds, how often
/// the caller with the fewest was answered, and how many records were read; and, once, every error that is new.
async fn outlast(url: &str) {
    const CALLERS: usize = 1000;
    let log = JetStreamLog::open(Options::new(url)).await.unwrap();
    let answered: Arc<Vec<AtomicU64>> = Arc::new((0..CALLERS).map(|_| AtomicU64::new(0)).collect());
    let (failed, slowest, read) = <(Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
    let errors = Arc::new(Mutex::new(BTreeSet::new()));
    for caller in 0..CALLERS {
        let (log, answered) = (log.clone(), Arc::clone(&answered));
        let (failed, slowest, errors) =
            (Arc::clone(&failed), Arc::clone(&slowest), Arc::clone(&errors));
        tokio::spawn(async move {
            for n in 0_u64.. {
                let begun = Instant::now();
                let told = log.append(vec![large(n * 10_000 + caller as u64)]).await;
                slowest.fetch_max(begun.elapsed().as_millis() as u64, Relaxed);
                match told {
                    Ok(_) => drop(answered[caller].fetch_add(1, Relaxed)),
                    Err(error @ (AppendError::Away { .. } | AppendError::Unclear { .. })) => {
                        failed.fetch_add(1, Relaxed);
                        if errors.lock().unwrap().insert(error.to_string()) {
                            say(format_args!("error {error}"));
                        }
                    }
                    Err(error) => give_up(error),
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
    let (mut reader, so_far) = (log.read(1).unwrap(), Arc::clone(&read));
    tokio::spawn(async move {
        loop {
            match reader.tail().await {
                Ok(records) => drop(so_far.fetch_add(records.len() as u64, Relaxed)),
                Err(error) => give_up(error),
            }
        }
    });
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let least = answered.iter().map(|answered| answered.load(Relaxed)).min().unwrap();
        let (failed, slowest) = (failed.load(Relaxed), slowest.swap(0, Relaxed));
        let (kib, read) = (resident_kib(), read.load(Relaxed));
        say(format_args!("second {kib} {failed} {slowest} {least} {read}"));
    }
}

fn large(n: u64) -> NewEvent {
    let uid = format!("{n}{}", "u".repeat(4096));
    let time = ORIGIN;
    let data = Data::ClusterBound(ClusterBound { uid: uid.into() });
    let (source, subject) = ("/clusters/east".into(), "clusters/east".into());
    let event = Event { id: EventId(n.into()), source, subject, time, recorded_at: time, data };
    NewEvent::new(&event).unwrap()
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
