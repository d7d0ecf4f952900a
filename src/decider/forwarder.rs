//! The forwarder: one task that takes asks to whoever decides, and serves those of others while it decides itself.
//!
//! ```text
//!  asks ─▶ gathered for 5 ms, many in one letter ─▶ to whoever decides ─┬─ answered ─▶ told
//!                                          nobody there, no answer in time └─▶ own committer
//!  letters of others ─▶ own committer ─▶ reply
//! ```
//!
//! An answer that is lost on the way costs time and nothing else: the asks are then decided here, and those that
//! the other has decided are found in the log. See [`super::role`] for who decides.

use super::{
    Answer, Ask, Unavailable,
    metrics::Metrics,
    queue::{Pending, Work},
    role::{Distance, Pulse, is_much_nearer},
    transport::{Inbox, NoAnswer, Transport},
    wire::{Letter, MOST_ASKS, Reply, Sender, Told},
};
use crate::{domain::event::Position, event_log::EventLog};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout},
};

/// Asks that come within this time of a letter travel in the next one.
const GATHER: Duration = Duration::from_millis(5);

/// So many letters are on their way at most: at 5 ms each, enough for a log 160 ms away.
const LETTERS: usize = 32;

/// So many letters of others are answered at once; more are ignored, and their senders decide themselves.
const SERVED: usize = 64;

/// After so many letters without an answer the sender decides for all.
const MISSES: u32 = 3;

/// Whoever decides says so this often.
const HELLO: Duration = Duration::from_millis(500);

/// The way to the log is measured this often.
const MEASURE: Duration = Duration::from_secs(5);

/// Takes asks to whoever decides.
pub(super) struct Forwarder<L, T: Transport> {
    log: Arc<L>,
    transport: Arc<T>,
    replica: String,
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
    /// The own committer.
    committer: mpsc::Sender<Work>,
    asks: mpsc::Receiver<Pending>,
    /// Whether the own committer decides for all: then asks go to it at once.
    decides: Arc<AtomicBool>,
    inbox: Option<T::Inbox>,
    /// Who decides, as far as is known.
    holder: Option<String>,
    distance: Distance,
    measuring: JoinSet<Duration>,
    /// Letters without an answer in a row.
    misses: u32,
    gathered: Vec<Pending>,
    letters: JoinSet<Landed>,
    /// The next letter leaves no sooner.
    next_letter: Instant,
    serving: Arc<Semaphore>,
}

/// What became of a letter.
struct Landed {
    asks: Vec<Pending>,
    reply: Result<Reply, NoAnswer>,
    /// Somebody may have got it.
    was_sent: bool,
}

/// What a forwarder is made of.
pub(super) struct Parts<L, T> {
    pub(super) log: Arc<L>,
    pub(super) transport: T,
    pub(super) replica: String,
    pub(super) metrics: Arc<Metrics>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) committer: mpsc::Sender<Work>,
    pub(super) asks: mpsc::Receiver<Pending>,
    pub(super) decides: Arc<AtomicBool>,
}

impl<L: EventLog + 'static, T: Transport> Forwarder<L, T> {
    pub(super) fn new(parts: Parts<L, T>) -> Self {
        let Parts { log, transport, replica, metrics, pulse, committer, asks, decides } = parts;
        Self {
            log,
            transport: Arc::new(transport),
            replica,
            metrics,
            pulse,
            committer,
            asks,
            decides,
            inbox: None,
            holder: None,
            distance: Distance::default(),
            measuring: JoinSet::new(),
            misses: 0,
            gathered: Vec::new(),
            letters: JoinSet::new(),
            next_letter: Instant::now(),
            serving: Arc::new(Semaphore::new(SERVED)),
        }
    }

    /// Works until it is dropped.
    pub(super) async fn run(mut self) {
        self.distance.measured(round_trip(Arc::clone(&self.log)).await);
        // An empty letter asks who decides.
        self.send(Vec::new());
        let (mut hello, mut measure) = (interval(HELLO), interval(MEASURE));
        hello.set_missed_tick_behavior(MissedTickBehavior::Delay);
        measure.set_missed_tick_behavior(MissedTickBehavior::Delay);
        measure.reset();
        loop {
            let has_room = self.gathered.len() < MOST_ASKS;
            let is_ready = !self.gathered.is_empty() && self.letters.len() < LETTERS;
            tokio::select! {
                // In this order, so that a simulation can be repeated; nothing above comes without end.
                biased;
                letter = next(&mut self.inbox) => self.received(letter).await,
                Some(landed) = self.letters.join_next() => {
                    // A letter's task ends with its outcome; it does not panic.
                    if let Ok(landed) = landed {
                        self.landed(landed).await;
                    }
                }
                Some(pending) = self.asks.recv(), if has_room => self.gathered.push(pending),
                () = sleep_until(self.next_letter), if is_ready => self.send_gathered(),
                _ = hello.tick() => self.say_hello().await,
                _ = measure.tick() => {
                    if self.measuring.is_empty() {
                        self.measuring.spawn(round_trip(Arc::clone(&self.log)));
                    }
                }
                Some(took) = self.measuring.join_next() => {
                    self.distance.measured(took.unwrap_or(MEASURE));
                }
            }
        }
    }

    fn sender(&self) -> Sender {
        Sender { distance: self.distance.class(), replica: self.replica.clone() }
    }

    /// Longer than an answer takes while everybody is well: the others' batch, and four ways to the log and back.
    fn answer_within(&self) -> Duration {
        Duration::from_millis(200) + 4 * self.distance.round_trip()
    }
}

/// Forwarding.
impl<L: EventLog + 'static, T: Transport> Forwarder<L, T> {
    fn send_gathered(&mut self) {
        while self.gathered.len() < MOST_ASKS {
            let Ok(pending) = self.asks.try_recv() else { break };
            self.gathered.push(pending);
        }
        let asks = std::mem::take(&mut self.gathered);
        self.next_letter = Instant::now() + GATHER;
        self.send(asks);
    }

    /// Sends a letter, in halves if it is too large.
    fn send(&mut self, mut asks: Vec<Pending>) {
        if self.decides.load(Ordering::Relaxed) {
            self.decide_here(asks);
            return;
        }
        let within = self.answer_within();
        let copies: Vec<Ask> = asks.iter().map(|pending| pending.ask.clone()).collect();
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let bytes = Letter::new(self.sender(), false, within_ms, copies).bytes();
        if bytes.len() > self.transport.most_bytes() {
            if asks.len() < 2 {
                self.decide_here(asks);
                return;
            }
            let half = asks.split_off(asks.len() / 2);
            self.send(asks);
            self.send(half);
            return;
        }
        let way = Way {
            transport: Arc::clone(&self.transport),
            query: Letter::new(self.sender(), false, 0, Vec::new()).bytes(),
            within,
            // The nearer, the sooner: of several who find nobody the nearest takes the role.
            pause: Duration::from_millis(10) * self.distance.class(),
        };
        let holder = self.holder.clone();
        self.letters.spawn(async move {
            let letter = (!asks.is_empty()).then_some(bytes);
            let mut was_sent = false;
            let reply = way.deliver(holder, letter, &mut was_sent).await;
            Landed { asks, reply, was_sent }
        });
    }

    async fn landed(&mut self, Landed { asks, reply, was_sent }: Landed) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => {
                self.holder = None;
                self.misses += u32::from(self.misses < MISSES);
                if why == NoAnswer::Nobody || self.misses >= MISSES {
                    self.take_the_role().await;
                }
                let unanswered = if why == NoAnswer::Late { asks.len() as u64 } else { 0 };
                self.metrics.count(|counts| counts.unanswered += unanswered);
                self.decide_here(asks.into_iter().map(|p| in_doubt(p, was_sent)).collect());
                return;
            }
        };
        self.misses = 0;
        let theirs = reply.from.distance;
        self.holder = Some(reply.from.replica.clone());
        self.tell(asks, reply);
        if is_much_nearer(self.distance.class(), theirs) {
            self.take_the_role().await;
        }
    }

    /// Tells what the reply says; what it does not is decided here.
    fn tell(&self, asks: Vec<Pending>, reply: Reply) {
        let mut answers = reply.answers.into_iter();
        let (mut left, mut told) = (Vec::new(), 0);
        for pending in asks {
            match answers.next().and_then(|told| told.answer(&pending.ask.request)) {
                Some(answer) => {
                    told += 1;
                    pending.answer(answer);
                }
                None => left.push(in_doubt(pending, true)),
            }
        }
        self.metrics.count(|counts| counts.forwarded += told);
        self.decide_here(left);
    }

    fn decide_here(&self, asks: Vec<Pending>) {
        for pending in asks {
            if let Err(error) = self.committer.try_send(Work::Decide(pending)) {
                self.refuse(error);
            }
        }
    }

    fn refuse(&self, error: mpsc::error::TrySendError<Work>) {
        let (work, why) = match error {
            mpsc::error::TrySendError::Full(work) => {
                self.metrics.count(|counts| counts.queue_full += 1);
                (work, Unavailable::QueueFull { waiting: self.committer.max_capacity() })
            }
            mpsc::error::TrySendError::Closed(work) => (work, Unavailable::ShuttingDown),
        };
        if let Work::Decide(pending) = work {
            pending.answer(why.into());
        }
    }
}

/// Deciding for others.
impl<L: EventLog + 'static, T: Transport> Forwarder<L, T> {
    async fn take_the_role(&mut self) {
        if self.inbox.is_some() || self.pulse.is_stuck() {
            return;
        }
        let inbox = timeout(Duration::from_secs(1), self.transport.serve(&self.replica)).await;
        if let Ok(Some(inbox)) = inbox {
            self.inbox = Some(inbox);
            self.misses = 0;
            self.decides.store(true, Ordering::Relaxed);
            self.metrics.count(|counts| counts.roles += 1);
            self.say_hello().await;
        }
    }

    fn leave_the_role(&mut self) {
        self.inbox = None;
        self.decides.store(false, Ordering::Relaxed);
    }

    async fn say_hello(&mut self) {
        if self.pulse.is_stuck() {
            self.leave_the_role();
        }
        if self.inbox.is_some() {
            let hello = Letter::new(self.sender(), true, 0, Vec::new());
            self.transport.say(hello.bytes()).await;
        }
    }

    async fn received(&mut self, letter: Option<(Vec<u8>, Option<T::Address>)>) {
        let Some((bytes, address)) = letter else {
            self.leave_the_role();
            return;
        };
        let Some(letter) = Letter::read(&bytes) else {
            self.metrics.count(|counts| counts.ignored += 1);
            return;
        };
        if letter.decides && letter.from.replica != self.replica {
            if letter.from < self.sender() {
                self.leave_the_role();
            } else {
                // It is to hear at once that we do.
                self.say_hello().await;
            }
        }
        if let Some(address) = address {
            self.serve(letter, address);
        }
    }

    /// Decides for another replica, and answers when all is decided.
    fn serve(&self, letter: Letter, address: T::Address) {
        let Ok(permit) = Arc::clone(&self.serving).try_acquire_owned() else {
            self.metrics.count(|counts| counts.ignored += 1);
            return;
        };
        let within = Duration::from_millis(letter.within_ms).min(Duration::from_secs(30));
        let deadline = Instant::now() + within;
        let mut waiting = Vec::with_capacity(letter.asks.len());
        for ask in letter.asks {
            let request = ask.request.clone();
            let (reply, answer) = oneshot::channel();
            if let Err(error) =
                self.committer.try_send(Work::Decide(Pending::new(ask, deadline, reply)))
            {
                self.refuse(error);
            }
            waiting.push((request, answer));
        }
        let (transport, from) = (Arc::clone(&self.transport), self.sender());
        let metrics = Arc::clone(&self.metrics);
        tokio::spawn(async move {
            let mut answers = Vec::with_capacity(waiting.len());
            for (request, answer) in waiting {
                let answer = answer.await.unwrap_or(Answer::Unavailable(Unavailable::Late));
                answers.push(Told::new(request, answer));
            }
            let served = answers.len() as u64;
            transport.answer(address, Reply::new(from, answers).bytes()).await;
            metrics.count(|counts| counts.served += served);
            drop(permit);
        });
    }
}

/// How long it takes to ask the log something; of one that is away, a second.
async fn round_trip<L: EventLog>(log: Arc<L>) -> Duration {
    let begun = Instant::now();
    let _ = timeout(Duration::from_secs(1), log.head()).await;
    begun.elapsed()
}

/// If `was_sent`, another replica may yet decide it.
fn in_doubt(pending: Pending, was_sent: bool) -> Pending {
    let doubt = if was_sent { Some(Position::MAX) } else { pending.doubt };
    Pending { doubt, ..pending }
}

/// How a letter finds whoever decides.
struct Way<T> {
    transport: Arc<T>,
    /// Asks who decides.
    query: Vec<u8>,
    within: Duration,
    /// Between two times that nobody is found.
    pause: Duration,
}

impl<T: Transport> Way<T> {
    /// Takes the letter to `holder`, or to whoever says that it decides; without a letter it only asks who does.
    async fn deliver(
        &self,
        mut holder: Option<String>,
        letter: Option<Vec<u8>>,
        was_sent: &mut bool,
    ) -> Result<Reply, NoAnswer> {
        for first in [true, false] {
            let found = match holder.take() {
                Some(replica) => Ok(replica),
                None => match self.request(None, self.query.clone()).await {
                    Ok(reply) if letter.is_none() => return Ok(reply),
                    reply => reply.map(|reply| reply.from.replica),
                },
            };
            let answer = match (found, &letter) {
                (Ok(replica), Some(letter)) => self.request(Some(&replica), letter.clone()).await,
                (Ok(_), None) => continue,
                (Err(why), _) => Err(why),
            };
            match answer {
                Err(NoAnswer::Nobody) if first => sleep(self.pause).await,
                answer => {
                    *was_sent = answer != Err(NoAnswer::Nobody);
                    return answer;
                }
            }
        }
        Err(NoAnswer::Nobody)
    }

    async fn request(&self, to: Option<&str>, bytes: Vec<u8>) -> Result<Reply, NoAnswer> {
        let bytes = self.transport.request(to, bytes, self.within).await?;
        Reply::read(&bytes).ok_or(NoAnswer::Late)
    }
}

/// The next letter of an inbox; of none, none ever.
async fn next<I: Inbox>(inbox: &mut Option<I>) -> Option<(Vec<u8>, Option<I::Address>)> {
    match inbox {
        Some(inbox) => inbox.next().await,
        None => std::future::pending().await,
    }
}
