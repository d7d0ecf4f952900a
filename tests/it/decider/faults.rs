//! A world that fails: a log that delays, forgets to answer, writes late or not at all, and a network that loses,
//! doubles, delays, reorders and garbles. Everything is drawn from one seed.

use crate::through::{Between, Through};
use bizrq::{
    decider::transport::{Inbox, NoAnswer, Transport},
    domain::event::Position,
    event_log::{
        AppendError, Appended, EventLog, Head, NewEvent, ReadError, Reader, Records,
        memory::{MemoryLog, MemoryReader},
    },
};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::{
    collections::BTreeMap,
    ops::Range,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// Chance, shared by everybody, and how often each kind of thing happened: a run that shows nothing fails.
#[derive(Clone)]
pub(crate) struct Dice(Arc<Mutex<(Xoshiro256PlusPlus, BTreeMap<&'static str, u64>)>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new((Xoshiro256PlusPlus::seed_from_u64(seed), BTreeMap::new()))))
    }

    pub(crate) fn below(&self, end: u64) -> u64 {
        self.0.lock().unwrap().0.random_range(0..end)
    }

    pub(crate) fn choose<T: Clone>(&self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len() as u64) as usize].clone())
    }

    /// One time in a hundred, if `percent` is 1.
    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn ms(&self, ms: Range<u64>) -> Duration {
        Duration::from_micros(ms.start * 1000 + self.below((ms.end - ms.start) * 1000))
    }

    pub(crate) fn note(&self, what: &'static str) {
        *self.0.lock().unwrap().1.entry(what).or_default() += 1;
    }

    pub(crate) fn noted(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap().1.clone()
    }
}

/// A memory log, some way off.
pub(crate) type FaultyLog = Through<Faults>;

/// What goes wrong on the way to a log.
pub(crate) struct Faults {
    dice: Dice,
    /// One way.
    away: Range<u64>,
    /// Of a hundred appends, so many go wrong.
    wrong: u64,
    /// How often the end was asked for.
    heads: AtomicU32,
}

impl Faults {
    pub(crate) fn new(dice: Dice, away: Range<u64>, wrong: u64) -> Self {
        Self { dice, away, wrong, heads: AtomicU32::new(0) }
    }

    async fn way(&self) {
        sleep(self.dice.ms(self.away.clone())).await;
    }

    fn unclear(&self, what: &'static str) -> Result<Appended, AppendError> {
        self.dice.note(what);
        Err(AppendError::Unclear { why: what.into() })
    }
}

impl Between for Faults {
    async fn append(
        &self,
        log: &MemoryLog,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        self.way().await;
        let appended = log.append(events).await;
        self.way().await;
        if self.dice.percent(self.wrong) {
            return self.unclear("a fact's answer was lost");
        }
        appended
    }

    async fn decide(
        &self,
        log: &MemoryLog,
        expected: Position,
        decision: NewEvent,
    ) -> Result<Appended, AppendError> {
        self.way().await;
        if !self.dice.percent(self.wrong) {
            let appended = log.decide(expected, decision).await;
            self.way().await;
            return appended;
        }
        match self.dice.below(4) {
            0 => self.unclear("unclear and not written"),
            1 => {
                let written = log.decide(expected, decision).await.is_ok();
                self.way().await;
                self.unclear(if written { "unclear and written" } else { "unclear and refused" })
            }
            2 => {
                let (log, dice) = (log.clone(), self.dice.clone());
                let late = dice.ms(if dice.percent(60) { 0..2 } else { 1..600 });
                tokio::spawn(async move {
                    sleep(late).await;
                    let written = log.decide(expected, decision).await.is_ok();
                    dice.note(if written { "written late" } else { "late and refused" });
                });
                self.unclear("unclear for now")
            }
            _ => {
                let written = log.decide(expected, decision).await.is_ok();
                self.dice.note(if written { "written, never answered" } else { "never answered" });
                std::future::pending().await
            }
        }
    }

    async fn head(&self, log: &MemoryLog) -> Result<Head, ReadError> {
        self.way().await;
        self.way().await;
        // A projection that cannot begin is another test's.
        let began = self.heads.fetch_add(1, Ordering::Relaxed) > 2;
        if began && self.dice.percent(self.wrong) {
            self.dice.note("the end was not told");
            let (path, why) = (PathBuf::from("memory"), "it is away".to_owned());
            return Err(ReadError::NotALog { path, why });
        }
        log.head().await
    }

    async fn tail(&self, reader: &mut MemoryReader) -> Result<Records, ReadError> {
        let slow = self.wrong > 0 && self.dice.percent(5);
        sleep(if slow { self.dice.ms(20..200) } else { self.dice.ms(self.away.clone()) }).await;
        reader.tail().await
    }
}

type Message = (Vec<u8>, Option<Address>);

/// Where an answer goes, and how far away that is.
type Address = (mpsc::Sender<Vec<u8>>, Range<u64>);

/// The network between all replicas.
pub(crate) struct Net {
    dice: Dice,
    /// Of a hundred messages, so many go wrong.
    wrong: u64,
    /// A replica that left may stand there for a while.
    serving: Mutex<Vec<Served>>,
}

/// Where letters to a replica go, and how far away that is.
struct Served {
    replica: String,
    inbox: mpsc::Sender<Message>,
    away: Range<u64>,
}

/// One replica's end of it. Messages go through the middle, where the log is.
pub(crate) struct Wire {
    pub(crate) net: Arc<Net>,
    /// One way, from here to there.
    pub(crate) away: Range<u64>,
}

pub(crate) struct Letters(mpsc::Receiver<Message>);

impl Net {
    pub(crate) fn new(dice: Dice, wrong: u64) -> Arc<Self> {
        Arc::new(Self { dice, wrong, serving: Mutex::default() })
    }

    fn serving(&self, to: Option<&str>) -> Vec<(mpsc::Sender<Message>, Range<u64>)> {
        let mut serving = self.serving.lock().unwrap();
        serving.retain(|served| !served.inbox.is_closed());
        let there = serving.iter().filter(|served| to.is_none_or(|to| to == served.replica));
        there.map(|served| (served.inbox.clone(), served.away.clone())).collect()
    }

    /// Delivers once, twice, garbled, late or never; one message may overtake another.
    fn carry<M: Clone + Send + 'static>(
        &self,
        from: &Range<u64>,
        message: M,
        garble: fn(&mut M),
        (to, away): (mpsc::Sender<M>, Range<u64>),
    ) {
        let copies = if self.dice.percent(self.wrong) {
            let lost = self.dice.percent(50);
            self.dice.note(if lost { "message lost" } else { "message doubled" });
            if lost { 0 } else { 2 }
        } else {
            1
        };
        for _ in 0..copies {
            let (mut message, to) = (message.clone(), to.clone());
            if self.dice.percent(self.wrong) && self.dice.percent(20) {
                self.dice.note("message garbled");
                garble(&mut message);
            }
            let late = if self.dice.percent(self.wrong) { 400 } else { 0 };
            let way = self.dice.ms(from.clone()) + self.dice.ms(away.start..away.end + late);
            tokio::spawn(async move {
                sleep(way).await;
                let _ = to.send(message).await;
            });
        }
    }
}

fn garble(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len() / 2);
}

impl Transport for Wire {
    type Inbox = Letters;
    type Address = Address;

    async fn request(
        &self,
        to: Option<&str>,
        message: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, NoAnswer> {
        let serving = self.net.serving(to);
        if serving.is_empty() {
            sleep(self.net.dice.ms(self.away.clone())).await;
            return Err(NoAnswer::Nobody);
        }
        let (reply, mut replies) = mpsc::channel(16);
        for inbox in serving {
            let message = (message.clone(), Some((reply.clone(), self.away.clone())));
            self.net.carry(&self.away, message, |(bytes, _)| garble(bytes), inbox);
        }
        drop(reply);
        match timeout(within, replies.recv()).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => {
                sleep(within).await;
                Err(NoAnswer::Late)
            }
            Err(_) => Err(NoAnswer::Late),
        }
    }

    async fn say(&self, message: Vec<u8>) {
        for inbox in self.net.serving(None) {
            self.net.carry(&self.away, (message.clone(), None), |(bytes, _)| garble(bytes), inbox);
        }
    }

    async fn answer(&self, to: Address, message: Vec<u8>) {
        self.net.carry(&self.away, message, garble, to);
    }

    async fn serve(&self, replica: &str) -> Option<Letters> {
        let (inbox, letters) = mpsc::channel(1024);
        let (replica, away) = (replica.to_owned(), self.away.clone());
        let served = Served { replica, inbox, away };
        self.net.serving.lock().unwrap().push(served);
        Some(Letters(letters))
    }

    fn most_bytes(&self) -> usize {
        512 << 10
    }
}

impl Inbox for Letters {
    type Address = Address;

    async fn next(&mut self) -> Option<Message> {
        self.0.recv().await
    }
}
