//! The decider: may this happen? Decided on the ledger, then put on the log, then answered.
//!
//! ```text
//!  webhook ─ask─▶ Decider ─▶ [committer] ─decide(expected, event)─▶ event_log
//!                              │   ▲                                   │
//!                      trial on│   │ decisions that are not read yet   ▼
//!                           ledger ◀───────────────────────────── projection
//! ```
//!
//! Nobody hears "allowed" before the decision is on the log, except of what lets nothing grow: that is answered
//! without it. It knows no HTTP and no object of Kubernetes, and it never waits longer than whoever asks.

mod answer;
mod ask;
mod committer;
mod draws;
mod forwarder;
mod metrics;
#[cfg(feature = "jetstream")]
pub mod nats;
mod overlay;
mod queue;
mod recent;
mod role;
mod round;
pub mod transport;
mod wire;

pub use answer::{Answer, Refused, Unavailable};
pub use ask::{Ask, Former, Missing, Quota, Undeclared, What, Workload};
pub use metrics::{APPEND_BOUNDS_US, Counts};

use crate::{
    clock,
    domain::{
        event::{Data, Event, EventId, ObjectRef, Operation, Position, ReservationExpired},
        time::Timestamp,
    },
    event_log::{EventLog, NewEvent},
    projection::Projection,
};
use committer::Committer;
use draws::Draws;
use forwarder::Forwarder;
use metrics::Metrics;
use queue::{Pending, Tale, Work};
use role::Pulse;
use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use transport::Transport;

/// For so long a replica waits for the one that decides, where it can answer itself.
const SOON: Duration = Duration::from_millis(500);

/// Where reviews are brought for their decision. Clones are the same.
#[derive(Clone)]
pub struct Decider {
    committer: mpsc::Sender<Work>,
    forwarder: mpsc::Sender<Pending>,
    /// Whether the committer of this replica decides for all.
    decides: Arc<AtomicBool>,
    projection: Projection,
    draws: Draws,
    options: Options,
    metrics: Arc<Metrics>,
}

/// What answers them: see [`Worker::run`].
pub struct Worker<L, T: Transport> {
    committer: Committer<L>,
    forwarder: Forwarder<L, T>,
}

/// How it is decided.
#[derive(Clone)]
pub struct Options {
    /// The name of this replica among those of one log; no two are alive that have the same.
    pub replica: String,
    /// The time that decisions are dated by.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// So many reviews wait at most; of more each is `LogUnavailable` at once.
    pub queue: usize,
    /// So many admissions are one event at most.
    pub batch_items: usize,
    /// An event is not larger, nor larger than half of what the log takes.
    pub batch_bytes: usize,
    /// An append that is not answered for so long is unclear.
    pub append_within: Duration,
}

/// An admission, a proposal or a kept charge that is over, because a consistent read begun long enough after it
/// does not show what it was for (rules of admission, 7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Its record.
    pub position: Position,
    /// What it was for.
    pub of: Expired,
}

/// What an expiry is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expired {
    /// A workload, or a pod's resize.
    Workload(ObjectRef<'static>),
    /// The proposal of a change of this quota object.
    Quota(String),
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("replica", &self.replica)
            .field("queue", &self.queue)
            .field("batch_items", &self.batch_items)
            .field("batch_bytes", &self.batch_bytes)
            .field("append_within", &self.append_within)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    /// This host's clock. 4,096 reviews are a tenth of a second's work; 512 admissions take about 300 KiB, and half
    /// of what a NATS server takes in one message, as delivered (1 MiB), is 512 KiB.
    fn default() -> Self {
        Self {
            replica: format!("process-{}", std::process::id()),
            now: Arc::new(clock::now),
            queue: 4096,
            batch_items: 512,
            batch_bytes: 512 << 10,
            append_within: Duration::from_secs(5),
        }
    }
}

impl fmt::Debug for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decider").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<L, T: Transport> fmt::Debug for Worker<L, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// A decider on `log`, judging by what `projection` has read of it, and what makes it work. `transport` leads to
/// the other replicas of this log; of a log in a folder there are none: [`transport::Alone`].
#[must_use]
pub fn new<L: EventLog + 'static, T: Transport>(
    log: Arc<L>,
    projection: Projection,
    transport: T,
    options: Options,
) -> (Decider, Worker<L, T>) {
    let (to_committer, queue) = mpsc::channel(options.queue);
    let (to_forwarder, asks) = mpsc::channel(options.queue);
    let (metrics, decides) = (Arc::<Metrics>::default(), Arc::<AtomicBool>::default());
    let (pulse, draws) = (Arc::<Pulse>::default(), Draws::default());
    let forwarder = Forwarder::new(forwarder::Parts {
        log: Arc::clone(&log),
        transport,
        replica: options.replica.clone(),
        metrics: Arc::clone(&metrics),
        pulse: Arc::clone(&pulse),
        committer: to_committer.clone(),
        asks,
        decides: Arc::clone(&decides),
    });
    let committer = Committer::new(
        log,
        projection.clone(),
        options.clone(),
        Arc::clone(&metrics),
        pulse,
        queue,
        draws.clone(),
    );
    let decider = Decider {
        committer: to_committer,
        forwarder: to_forwarder,
        decides,
        projection,
        draws,
        options,
        metrics,
    };
    (decider, Worker { committer, forwarder })
}

impl<L: EventLog + 'static, T: Transport> Worker<L, T> {
    /// Decides what is asked until `end` comes true; an append that has begun is finished, and who still waits is
    /// told [`Unavailable::ShuttingDown`].
    pub async fn run(self, end: impl Future) {
        let forwarder = AbortOnDrop(tokio::spawn(self.forwarder.run()));
        self.committer.run(end).await;
        drop(forwarder);
    }
}

/// A task that ends when nobody holds it any more.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Decider {
    /// Decides `ask` before `deadline`, whatever the log does meanwhile.
    pub async fn decide(&self, ask: Ask, deadline: Instant) -> Answer {
        if self.is_for_whoever_decides(&ask) {
            let soon = deadline.min(Instant::now() + SOON);
            let answer = self.wait(ask.clone(), soon).await;
            if !matches!(answer, Answer::Unavailable(_)) {
                return answer;
            }
        }
        match self.without_the_log(&ask) {
            Some(answer) => answer,
            None => self.wait(ask, deadline).await,
        }
    }

    /// Puts on the log that these are over, and returns where the last stands. What was observed meanwhile is not
    /// touched by it, so it needs no condition and may be said by any replica, and twice.
    ///
    /// # Errors
    /// [`Unavailable`]; it may be on the log all the same, and can be said again.
    pub async fn expire(
        &self,
        cluster: &str,
        expiries: Vec<Expiry>,
    ) -> Result<Position, Unavailable> {
        let now = (self.options.now)();
        let events = expiries.into_iter().map(|expiry| expiry.event(cluster, now));
        let events = events.collect::<Result<_, _>>()?;
        let (reply, told) = oneshot::channel();
        let tale = Tale { events, reply };
        self.committer.send(Work::Tell(tale)).await.map_err(|_| Unavailable::ShuttingDown)?;
        told.await.unwrap_or(Err(Unavailable::ShuttingDown))
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.metrics.read()
    }

    /// `bizrq_decider_queue_length`: how many reviews wait to be taken up.
    #[must_use]
    pub fn queue_length(&self) -> usize {
        let waiting = |most: usize, free: usize| most.saturating_sub(free);
        waiting(self.committer.max_capacity(), self.committer.capacity())
            + waiting(self.forwarder.max_capacity(), self.forwarder.capacity())
    }

    /// `bizrq_decider_decides`: whether this replica decides for all, as it believes.
    #[must_use]
    pub fn decides(&self) -> bool {
        self.decides.load(Ordering::Relaxed)
    }

    /// Of two pods that come to two replicas at once only one may draw on what is left of their workload's promise,
    /// which no record says: whoever decides says it, if it can be asked.
    fn is_for_whoever_decides(&self, ask: &Ask) -> bool {
        let draws = matches!(&ask.what, What::Workload(workload) if workload.draws().is_some());
        draws && !self.decides()
    }

    /// What lets nothing grow is answered here and now. A create of a user's lets something grow: it is not tried
    /// twice.
    fn without_the_log(&self, ask: &Ask) -> Option<Answer> {
        let What::Workload(workload) = &ask.what else { return None };
        let creates = workload.operation == Operation::Create;
        let grows = creates && !workload.name_is_taken && workload.draws_on.is_none();
        let now = (self.options.now)();
        if grows {
            None
        } else {
            round::grows_nothing(self.projection.desk(), ask, &self.draws, now)
        }
    }

    async fn wait(&self, ask: Ask, deadline: Instant) -> Answer {
        let (reply, answer) = oneshot::channel();
        let pending = Pending::new(ask, deadline, reply);
        let queued = if self.decides() {
            self.committer.try_send(Work::Decide(pending)).map_err(|error| error.into())
        } else {
            self.forwarder.try_send(pending).map_err(|error| error.into())
        };
        match queued {
            Ok(()) => {}
            Err(Closed::Full) => {
                self.metrics.count(|counts| counts.queue_full += 1);
                return Unavailable::QueueFull { waiting: self.options.queue }.into();
            }
            Err(Closed::Closed) => return Unavailable::ShuttingDown.into(),
        }
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Unavailable::ShuttingDown.into(),
            Err(_) => Unavailable::Late.into(),
        }
    }
}

/// Why a queue takes nothing.
enum Closed {
    Full,
    Closed,
}

impl<T> From<TrySendError<T>> for Closed {
    fn from(error: TrySendError<T>) -> Self {
        match error {
            TrySendError::Full(_) => Self::Full,
            TrySendError::Closed(_) => Self::Closed,
        }
    }
}

impl Expiry {
    fn event(self, cluster: &str, now: Timestamp) -> Result<NewEvent, Unavailable> {
        let (subject, workload) = match self.of {
            Expired::Workload(workload) => ("decisions".to_owned(), Some(workload)),
            Expired::Quota(name) => (format!("quotas/{name}"), None),
        };
        let expired =
            ReservationExpired { position: self.position, workload, cluster: cluster.into() };
        let event = Event {
            id: EventId::default(),
            source: format!("/clusters/{cluster}").into(),
            subject: subject.into(),
            time: now,
            recorded_at: now,
            data: Data::ReservationExpired(expired),
        };
        NewEvent::decision(&event).map_err(|error| Unavailable::Log { why: error.to_string() })
    }
}
