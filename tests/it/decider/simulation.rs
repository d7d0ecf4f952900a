//! Several replicas over one log, for two clusters, in simulated time, in a world that fails: whatever happens, every decision is
//! right when it is made, each request is decided once, and all replicas end with the same ledger.

use super::{
    company::{CLUSTERS, Company},
    faults::{Dice, Faults, FaultyLog, Net, Wire},
    judge::{Verdict, judge},
    replica::{Replica, options},
};
use bizrq::{
    decider::{Answer, Ask, Options},
    event_log::{EventLog, memory::MemoryLog},
};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// One way to the log and to each other, in milliseconds.
const NEAR: Range<u64> = 0..2;
const FAR: Range<u64> = 18..22;

pub(crate) struct Simulation<L> {
    pub(crate) dice: Dice,
    /// Where the observer tells what happened.
    log: L,
    company: Mutex<Company>,
    pub(crate) replicas: Vec<Replica>,
    answers: Mutex<BTreeMap<String, Vec<Answer>>>,
    /// Of how many requests it was told where they stand.
    recorded: AtomicUsize,
    /// How long callers of each replica waited.
    waits: Mutex<[Vec<Duration>; 3]>,
    pauses: Pauses,
}

/// When clients have asked enough.
#[derive(Clone, Copy)]
pub(crate) enum Enough {
    /// Each has asked so often.
    Asks(u32),
    /// So many of all requests stand on the log.
    Recorded(usize),
}

/// How long everybody takes, in milliseconds.
pub(crate) struct Pauses {
    /// Between two asks of a client.
    pub(crate) think: Range<u64>,
    /// Before somebody asks again.
    pub(crate) again: Range<u64>,
    /// Before the observer tells what happened.
    pub(crate) tell: Range<u64>,
    /// Facts that it tells at once, at most.
    pub(crate) facts: u64,
    /// Between two looks of the sweeper.
    pub(crate) sweep: Range<u64>,
    /// Until nothing is late any more.
    pub(crate) settle: u64,
}

impl Simulation<MemoryLog> {
    fn new(seed: u64, wrong: u64) -> Arc<Self> {
        let (dice, log) = (Dice::new(seed), MemoryLog::default());
        let net = Net::new(dice.clone(), wrong);
        let replica = |(name, away): (&str, Range<u64>)| {
            let log = FaultyLog::new(log.clone(), Faults::new(dice.clone(), away.clone(), wrong));
            let wire = Wire { net: Arc::clone(&net), away };
            let append_within = Duration::from_secs(1);
            let options = Options { replica: name.into(), append_within, ..options() };
            Replica::with(Arc::new(log), wire, options)
        };
        let replicas = [("a", NEAR), ("b", NEAR), ("c", FAR)].map(replica).into();
        let pauses = Pauses {
            think: 0..20,
            again: 0..500,
            tell: 0..20,
            facts: 3,
            sweep: 500..1500,
            settle: 5000,
        };
        Self::over(log, dice, replicas, pauses)
    }
}

impl<L: EventLog + 'static> Simulation<L> {
    /// Over replicas that decide already.
    pub(crate) fn over(log: L, dice: Dice, replicas: Vec<Replica>, pauses: Pauses) -> Arc<Self> {
        let company = Mutex::new(Company::new(dice.clone()));
        let (answers, recorded, waits) = Default::default();
        Arc::new(Self { dice, log, company, replicas, answers, recorded, waits, pauses })
    }

    /// Asks one of the replicas, of which it is drawn which.
    fn ask(&self, ask: Ask) -> impl Future<Output = Answer> {
        let replica = self.dice.below(3) as usize;
        let begun = Instant::now();
        let in_time = begun + self.dice.ms(500..8000);
        async move {
            let answer = self.replicas[replica].decider.decide(ask, in_time).await;
            self.waits.lock().unwrap()[replica].push(begun.elapsed());
            answer
        }
    }

    /// Asks, perhaps twice, perhaps again later, and does what is allowed.
    async fn asks(&self) {
        let (ask, wish) = self.company.lock().unwrap().wish();
        let (asked, again) = (self.ask(ask.clone()), self.dice.percent(4));
        let mut told = if again {
            self.dice.note("asked twice at once");
            let (one, other) = tokio::join!(asked, self.ask(ask.clone()));
            vec![one, other]
        } else {
            vec![asked.await]
        };
        if self.dice.percent(6) {
            self.dice.note("asked again");
            sleep(self.dice.ms(self.pauses.again.clone())).await;
            told.push(self.ask(ask.clone()).await);
        }
        for answer in &told {
            self.dice.note(match answer {
                Answer::Allowed { recorded: Some(_), .. } => "recorded",
                Answer::Allowed { .. } if ask.dry_run => "dry run allowed",
                Answer::Allowed { .. } => "allowed without a record",
                Answer::Refused(_) => "refused",
                Answer::Unavailable(_) => "unavailable",
            });
        }
        // The API server takes the last answer.
        self.company.lock().unwrap().done(&ask, &wish, told.last().unwrap());
        if !ask.dry_run {
            let stands =
                |answer: &Answer| matches!(answer, Answer::Allowed { recorded: Some(_), .. });
            self.recorded.fetch_add(told.iter().any(stands).into(), Relaxed);
            self.answers.lock().unwrap().insert(ask.request, told);
        }
    }

    async fn client(&self, enough: Enough) {
        let mut asks = 0;
        while match enough {
            Enough::Asks(most) => asks < most,
            Enough::Recorded(most) => self.recorded.load(Relaxed) < most,
        } {
            asks += 1;
            self.asks().await;
            sleep(self.dice.ms(self.pauses.think.clone())).await;
        }
    }

    /// Tells what happened, sooner or later, for ever.
    async fn observer(&self) {
        loop {
            sleep(self.dice.ms(self.pauses.tell.clone())).await;
            let facts = self.company.lock().unwrap().next_facts(self.pauses.facts);
            let (uids, events): (Vec<_>, Vec<_>) = facts.into_iter().unzip();
            self.log.append(events).await.unwrap();
            uids.into_iter().for_each(|uid| self.company.lock().unwrap().is_idle(uid));
            if self.dice.percent(2) {
                let beat = self.company.lock().unwrap().heartbeat();
                self.log.append(vec![beat]).await.unwrap();
            }
        }
    }

    /// Says what is over, for ever.
    async fn sweeper(&self) {
        loop {
            sleep(self.dice.ms(self.pauses.sweep.clone())).await;
            let replica = &self.replicas[self.dice.below(3) as usize];
            for cluster in CLUSTERS {
                let over = {
                    let company = self.company.lock().unwrap();
                    company.over(cluster, &replica.projection.ledger())
                };
                if !over.is_empty() && replica.decider.expire(cluster, over).await.is_ok() {
                    self.dice.note("expired");
                }
            }
        }
    }

    pub(crate) async fn run(self: Arc<Self>, clients: u32, enough: Enough) -> Verdict {
        let background = [
            tokio::spawn({
                let sim = Arc::clone(&self);
                async move { sim.observer().await }
            }),
            tokio::spawn({
                let sim = Arc::clone(&self);
                async move { sim.sweeper().await }
            }),
        ];
        let clients: Vec<_> = (0..clients)
            .map(|_| {
                let sim = Arc::clone(&self);
                tokio::spawn(async move { sim.client(enough).await })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
        // What was late, lands.
        sleep(Duration::from_millis(self.pauses.settle)).await;
        background.iter().for_each(|task| task.abort());
        sleep(Duration::from_millis(self.pauses.settle)).await;
        self.converged().await;
        judge(&self.log).await
    }

    /// All replicas have read the same.
    async fn converged(&self) {
        let (head, tree) = (self.log.head().await.unwrap(), self.log.tree().await.unwrap());
        for replica in &self.replicas {
            replica.projection.clone().wait_for(head.position).await.unwrap();
            assert_eq!(replica.projection.ledger().root(), tree.root());
        }
    }

    pub(crate) fn check(&self, seed: u64, verdict: &Verdict) {
        let answers = self.answers.lock().unwrap();
        verdict.agrees_with(&answers);
        for replica in &self.replicas {
            verdict.agrees_with_ledger(&replica.projection.ledger());
        }
        println!(
            "seed {seed}: {} asks, {} decisions, {} batches, {} overlaid, {} overtaken, {:?}",
            answers.len(),
            verdict.decisions,
            verdict.batches,
            verdict.overlaid,
            verdict.overtaken,
            self.dice.noted()
        );
        for (n, replica) in self.replicas.iter().enumerate() {
            println!("  {:.1?} {:?}", self.waits(n), replica.decider.counts());
        }
    }

    /// How long callers of a replica waited: the median, the 99th of a hundred, and the longest.
    pub(crate) fn waits(&self, replica: usize) -> [Duration; 3] {
        let mut waits = self.waits.lock().unwrap()[replica].clone();
        waits.sort();
        [50, 99, 100].map(|part| waits[(waits.len() * part / 100).min(waits.len() - 1)])
    }
}

fn simulate(
    seed: u64,
    wrong: u64,
    clients: u32,
    asks: u32,
) -> (Arc<Simulation<MemoryLog>>, Verdict) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let simulation = Simulation::new(seed, wrong);
        for replica in &simulation.replicas {
            replica.projection.clone().caught_up().await.unwrap();
        }
        if wrong == 0 {
            // Until everybody knows who decides.
            sleep(Duration::from_secs(1)).await;
        }
        let verdict = Arc::clone(&simulation).run(clients, Enough::Asks(asks)).await;
        simulation.check(seed, &verdict);
        (simulation, verdict)
    })
}

#[test]
fn whatever_fails_every_decision_is_right_and_made_once() {
    let mut noted = BTreeMap::<&str, u64>::new();
    for seed in seeds(asks().div_ceil(24 * 100)) {
        let (simulation, verdict) = simulate(seed, 4, 24, 100);
        let mut note = |what, n| *noted.entry(what).or_default() += n;
        simulation.dice.noted().into_iter().for_each(|(what, n)| note(what, n));
        for counts in simulation.replicas.iter().map(|replica| replica.decider.counts()) {
            note("conflict", counts.conflicts);
            note("forwarded", counts.forwarded);
            note("ignored", counts.ignored);
            note("repeated", counts.repeated);
        }
        note("batch", verdict.batches);
        note("behind a decision that was not read", verdict.overlaid);
        note("overtaken by a fact", verdict.overtaken);
    }
    for (what, least) in [
        ("recorded", 1000),
        ("refused", 1000),
        ("allowed without a record", 500),
        ("dry run allowed", 20),
        ("unavailable", 20),
        ("conflict", 50),
        ("forwarded", 1000),
        ("ignored", 5),
        ("repeated", 200),
        ("batch", 100),
        ("behind a decision that was not read", 500),
        ("overtaken by a fact", 500),
        ("unclear and written", 5),
        ("unclear and not written", 5),
        ("unclear for now", 5),
        ("written late", 1),
        ("late and refused", 1),
        ("written, never answered", 1),
        ("message lost", 50),
        ("message doubled", 50),
        ("message garbled", 10),
        ("asked again", 200),
        ("asked twice at once", 100),
        ("expired", 20),
        ("asked by the other cluster", 2000),
        ("one uid in both clusters", 50),
        ("conflict in the API server", 50),
        ("lost after allowed", 100),
        ("quota declared", 50),
        ("quota removed", 1),
    ] {
        let seen = noted.get(what).copied().unwrap_or_default();
        assert!(seen >= least, "{what}: {seen}, at least {least} were to be seen in {noted:?}");
    }
}

#[test]
fn where_nothing_fails_one_decides_for_all() {
    let (simulation, _) = simulate(77, 0, 24, 80);
    let counts: Vec<_> = simulation.replicas.iter().map(|r| r.decider.counts()).collect();
    let decide = simulation.replicas.iter().filter(|r| r.decider.decides()).count();
    // Both near ones may begin at once; the first hello ends that.
    let began: u64 = counts.iter().map(|c| c.roles).sum();
    assert!(decide == 1 && began <= 2, "{decide} decide, {counts:#?}");
    assert_eq!(counts[2].roles, 0, "the far one never decides");
    assert!(counts.iter().all(|c| c.unanswered == 0 && c.unclear == 0), "{counts:#?}");
    assert!(counts[2].forwarded > 100, "{counts:#?}");
    // In this time nothing takes any but the ways. The far one's callers wait for one to who decides and back: two
    // would take 72 ms at least.
    let [median, p99, _] = simulation.waits(2);
    assert!(p99 < Duration::from_millis(4 * FAR.start), "{median:?}, p99 {p99:?}");
}

/// So many asks in all; `make soak` asks a million times.
fn asks() -> u64 {
    std::env::var("BIZRQ_ASKS").map_or(9600, |asks| asks.parse().unwrap())
}

/// So many seeds, or those from `BIZRQ_SEED` on.
fn seeds(count: u64) -> Range<u64> {
    let first = std::env::var("BIZRQ_SEED").map_or(1, |seed| seed.parse().unwrap());
    first..first + count
}
