//! SIGKILL in any order, under load: of who appends, of who projects and decides, of the server. Afterwards nothing
//! that was acknowledged is missing, and nothing is counted twice. Loss of power is another matter.

use super::{child, folded, new_events, open, pod, server};
use crate::{
    decider::replica::{CPU, declared},
    nats::server::{Server, Version},
    oracle::{
        Oracle,
        fold::{Fold, differences},
        history::Scale,
        walk::Basis,
        world::{Dice, END},
    },
    store::{caught_up, held},
};
use bizrq::{
    event_log::{
        EventLog, Reader,
        codec::{Decoded, Decoder},
        jetstream::JetStreamLog,
    },
    projection::{checkpoint::Checkpoint, runner::Found},
};
use rand::{RngExt, SeedableRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader},
    path::Path,
    process::Child,
    sync::{Arc, Mutex},
    thread::{JoinHandle, sleep},
    time::{Duration, Instant},
};

const KILLS: u32 = 100;
/// Cores that may be given away: fewer than are asked for.
const CORES: u64 = 1500;

/// How long a decider may take to answer before it is killed.
const LOAD: Duration = Duration::from_millis(800);

/// What was acknowledged, by all processes so far.
#[derive(Default)]
struct Told {
    /// By pod and event: first and last position of the append.
    facts: BTreeMap<(u64, u64), (u64, u64)>,
    /// By request: where it was allowed; `None` where it was refused.
    decisions: BTreeMap<u64, Option<u64>>,
    /// Stores that a start found and the log bore out.
    confirmed: u32,
    /// Why processes ended by themselves.
    said: Vec<String>,
}

/// A process, and who listens to it.
struct Running {
    process: Child,
    listener: Option<JoinHandle<()>>,
}

impl Told {
    fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        let word = words.next();
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        match word {
            Some("ack") => {
                let (pod, event) = (number(), number());
                self.facts.insert((pod, event), (number(), number()));
            }
            Some("allowed") => self.decided(number(), Some(number())),
            Some("refused") => self.decided(number(), None),
            Some("store") => {
                self.confirmed += u32::from(line == "store Confirmed");
                assert!(!line.contains("Discarded"), "a kill damages nothing: {line}");
            }
            Some("said") => self.said.push(line.to_owned()),
            _ => {}
        }
    }

    /// Whoever asks again hears the same.
    fn decided(&mut self, request: u64, answer: Option<u64>) {
        let before = *self.decisions.entry(request).or_insert(answer);
        assert_eq!(before, answer, "request {request} was told otherwise before");
    }

    /// The first pod of which not everything was acknowledged.
    fn next_pod(&self) -> u64 {
        let all = |pod: &u64| (0..super::pod(*pod).len()).all(|e| self.has(*pod, e as u64));
        (0..).find(|pod| !all(pod)).unwrap()
    }

    fn has(&self, pod: u64, event: u64) -> bool {
        self.facts.contains_key(&(pod, event))
    }

    fn next_request(&self) -> u64 {
        (0..).find(|request| !self.decisions.contains_key(request)).unwrap()
    }
}

impl Running {
    fn start(
        task: &str,
        url: &str,
        dir: &Path,
        (from, to): (u64, u64),
        told: &Arc<Mutex<Told>>,
    ) -> Self {
        let mut process = child::command(task, url, dir, from, to).spawn().unwrap();
        let (output, told) = (process.stdout.take().unwrap(), Arc::clone(told));
        let listener = std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                told.lock().unwrap().hear(&line.unwrap());
            }
        });
        Self { process, listener: Some(listener) }
    }

    /// Whether it still runs; one that ended is heard to its end.
    fn is_alive(&mut self) -> bool {
        let alive = self.process.try_wait().unwrap().is_none();
        if !alive {
            self.listen();
        }
        alive
    }

    fn listen(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        self.process.wait().unwrap();
        self.listen();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn whatever_is_killed_nothing_acknowledged_is_lost_or_counted_twice() {
    let seed = std::env::var("BIZRQ_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    println!("BIZRQ_SEED={seed}");
    let (mut server, dir) = (server(Version::New), tempfile::tempdir().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cores = i64::try_from(CORES).unwrap();
        open(&server.url()).await.append(vec![declared("team", "", cores)]).await.unwrap();
    });
    let told = Arc::new(Mutex::new(Told::default()));
    kill_all_the_time(&mut server, dir.path(), &told, seed);
    let log = runtime.block_on(open(&server.url()));
    // Who comes last tells everything that may not be there yet.
    let last = told.lock().unwrap().facts.keys().map(|(pod, _)| pod + 8).max().unwrap();
    let first = told.lock().unwrap().next_pod();
    let mut writer = Running::start("append", &server.url(), dir.path(), (first, last), &told);
    assert!(writer.process.wait().unwrap().success());
    writer.listen();
    let told = Arc::into_inner(told).unwrap().into_inner().unwrap();
    let facts = told.facts.len();
    println!(
        "{facts} facts, {} answers, {} ends: {:?}",
        told.decisions.len(),
        told.said.len(),
        told.said.first()
    );
    assert!(told.confirmed > 5, "hardly a store was begun with: {}", told.confirmed);
    runtime.block_on(check(&log, dir.path(), &told, last));
}

/// Kills one, two or all three, and starts again what does not run.
fn kill_all_the_time(server: &mut Server, dir: &Path, told: &Arc<Mutex<Told>>, seed: u64) {
    let mut dice = Dice::seed_from_u64(seed);
    let url = server.url();
    let tasks = ["append", "decide"];
    let start = |task: &str| {
        let (pod, request) = {
            let told = told.lock().unwrap();
            (told.next_pod(), told.next_request())
        };
        let from = if task == "append" { pod } else { request };
        Running::start(task, &url, dir, (from, u64::MAX), told)
    };
    let mut running = tasks.map(start);
    let mut kills = [0; 3];
    while kills.iter().sum::<u32>() < KILLS {
        let answers = || told.lock().unwrap().decisions.len();
        let (before, begun) = (answers(), Instant::now());
        // Of three rounds two let the decider come so far that it answers, on a machine that has the time.
        let patience = dice.random_range(0..3_u32) * LOAD;
        while answers() <= before && begun.elapsed() < patience {
            sleep(Duration::from_millis(5));
        }
        sleep(Duration::from_millis(dice.random_range(0..250)));
        let victims = dice.random_range(1..8_u32);
        (0..3).for_each(|victim| kills[victim] += victims >> victim & 1);
        for (task, process) in running.iter_mut().enumerate() {
            if victims >> task & 1 == 1 {
                process.kill();
            }
        }
        if victims & 4 == 4 {
            server.kill();
            sleep(Duration::from_millis(dice.random_range(0..30)));
            server.restart();
        }
        for (task, process) in tasks.iter().zip(&mut running) {
            if !process.is_alive() {
                *process = start(task);
            }
        }
    }
    running.iter_mut().for_each(Running::kill);
    println!("kills of the writer, the projector and the server: {kills:?}");
    assert!(kills.iter().all(|kills| *kills > 10), "seed {seed}: somebody was hardly killed");
}

async fn check(log: &JetStreamLog, dir: &Path, told: &Told, last: u64) {
    let (mut expected, ids) = folded(log).await;
    let at = |position: u64| ids.get(position as usize - 1).map(String::as_str);
    for ((number, event), (first, last)) in &told.facts {
        let id = new_events(&pod(*number))[*event as usize].id().to_owned();
        let found = (*first..=*last).any(|position| at(position) == Some(&id));
        assert!(found, "event {event} of pod {number} was acknowledged at {first}..{last}");
    }
    let repeated = ids.len() - ids.iter().collect::<BTreeSet<_>>().len();
    println!("{} records, {repeated} of them told again", ids.len());
    let given = decisions(log).await;
    for (request, answer) in &told.decisions {
        let recorded = given.get(&format!("r{request}"));
        assert_eq!(recorded, answer.as_ref(), "request {request}: log and answer");
    }
    // The projector, from the store that was killed so often.
    let status = caught_up(log, &dir.join("store")).await;
    assert_eq!(status.store, Found::Confirmed, "{status:?}");
    let mut ledger = held(&dir.join("store")).unwrap();
    assert_eq!(Checkpoint::whole(&mut ledger).unwrap(), Checkpoint::whole(&mut expected).unwrap());
    assert_eq!((ledger.root(), ledger.quarantined()), (expected.root(), expected.quarantined()));
    let names = ledger.names();
    let (team, cpu) = (names.known_group("team").unwrap(), names.known_key(CPU).unwrap());
    let used = ledger.book().unwrap().line(team, cpu).used;
    assert_eq!(used, given.len() as i128 * 1000, "each decision counts once");
    assert!(given.len() as u64 <= CORES);
    let events: Vec<_> = (0..last).flat_map(pod).collect();
    let end = Scale::MILLIS.millis(END);
    let tally = Oracle::read(1, &events).tally(Basis::Held, Scale::MILLIS.millis(-1), end);
    let differ = differences(&Fold::from(ledger).lines(end), &tally, true);
    assert!(differ.is_empty(), "{differ:#?}");
    // Whether anything had to be told again is chance; what that does has tests of its own (nats/faults.rs).
    assert!(!tally.is_empty() && given.len() > 20, "too little was tried");
}

/// Where each request stands on the log: once.
pub(crate) async fn decisions(log: &JetStreamLog) -> BTreeMap<String, u64> {
    let (mut found, mut reader) = (BTreeMap::new(), log.read(1).unwrap());
    let mut decoder = Decoder::default();
    while let Some(records) = reader.next().await.unwrap() {
        for (position, raw) in records.iter() {
            let Decoded::Event(event) = decoder.decode(&raw.scan().unwrap()).unwrap() else {
                continue;
            };
            let bizrq::domain::event::Data::WorkloadsAdmitted(batch) = event.data else { continue };
            for admission in batch.admissions.iter() {
                let before = found.insert(admission.request.to_string(), position);
                assert_eq!(before, None, "{} was decided twice", admission.request);
            }
        }
    }
    found
}
