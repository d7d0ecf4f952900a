//! The committer: one task that decides what waits and appends it, one event at a time.
//!
//! ```text
//!  queue ─▶ waiting ─▶ [round: decide on ledger + overlay] ─▶ append if the last decision is still `expected`
//!             ▲                                                 │ yes: overlay, answers
//!             │   all back, asked anew                          ├─ another came first ─▶ read up to it ──┐
//!             └─────────────────────────────────────────────────┴─ unclear ─▶ read up to the log's end ──┤
//!                                                                 ◀──────────────────────────────────────┘
//! ```
//!
//! While an append is in flight the queue fills: that is the group commit. Whoever was decided by an append of
//! which nothing was heard is found in the ledger by its request once that is read. It never decides before.

use super::{
    Answer, Options, Unavailable, What,
    draws::Draws,
    metrics::Metrics,
    overlay::Overlay,
    queue::{Pending, Tale, Work},
    recent::{Recent, RequestId},
    role::Pulse,
    round::{self, Basis, Draft, Hanging},
};
use crate::{
    domain::event::Position,
    event_log::{AppendError, Appended, EventLog},
    projection::Projection,
};
use std::{collections::VecDeque, future::Future, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::{self, error::TryRecvError},
    time::{Instant, sleep, timeout},
};

/// Acknowledged events that are not read yet. More than this means that the projection has fallen behind: then it
/// is waited for.
const OVERLAY_EVENTS: usize = 16;

/// For so long the projection is waited for before late callers are looked for again.
const PATIENCE: Duration = Duration::from_millis(100);

/// Decides and appends.
pub(super) struct Committer<L> {
    log: Arc<L>,
    projection: Projection,
    options: Options,
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
    queue: mpsc::Receiver<Work>,
    waiting: VecDeque<Pending>,
    tales: VecDeque<Tale>,
    overlay: Overlay,
    recent: Recent,
    draws: Draws,
    floor: Position,
    behind: Behind,
}

/// What must be read before anything is decided again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// Nothing.
    No,
    /// Everything that the log held when the projection started.
    Start,
    /// Everything up to this decision record.
    Position(Position),
    /// Everything up to the log's last decision: an append was not answered.
    Unclear,
}

impl<L: EventLog> Committer<L> {
    pub(super) fn new(
        log: Arc<L>,
        projection: Projection,
        options: Options,
        metrics: Arc<Metrics>,
        pulse: Arc<Pulse>,
        queue: mpsc::Receiver<Work>,
        draws: Draws,
    ) -> Self {
        Self {
            log,
            projection,
            options,
            metrics,
            pulse,
            queue,
            waiting: VecDeque::new(),
            tales: VecDeque::new(),
            overlay: Overlay::default(),
            recent: Recent::default(),
            draws,
            floor: 0,
            behind: Behind::Start,
        }
    }

    /// Works until `end` comes true or nobody can ask any more; an append that has begun is finished.
    pub(super) async fn run(mut self, end: impl Future) {
        let mut end = pin!(end);
        loop {
            tokio::select! {
                biased;
                _ = &mut end => break,
                open = self.gather() => if !open { break },
            }
            while let Some(tale) = self.tales.pop_front() {
                self.tell(tale).await;
            }
            self.drop_late();
            if self.catch_up().await && !self.waiting.is_empty() {
                self.round().await;
            }
        }
        for pending in self.waiting {
            pending.answer(Unavailable::ShuttingDown.into());
        }
    }

    /// Waits until there is something to do, and takes what waits; `false` when nothing will ever come. Dropped, it
    /// has lost nothing.
    async fn gather(&mut self) -> bool {
        if self.waiting.is_empty() && self.behind == Behind::No {
            let Some(work) = self.queue.recv().await else { return false };
            self.take(work);
        }
        while self.waiting.len() < 2 * self.options.batch_items {
            match self.queue.try_recv() {
                Ok(work) => self.take(work),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return !self.waiting.is_empty(),
            }
        }
        true
    }

    fn take(&mut self, work: Work) {
        match work {
            Work::Decide(pending) => self.waiting.push_back(pending),
            Work::Tell(tale) => self.tales.push_back(tale),
        }
    }

    /// Nobody waits for these any more: what they would reserve would be of no use.
    fn drop_late(&mut self) {
        let now = Instant::now();
        self.waiting.retain(|pending| !pending.is_late(now));
    }

    /// Reads what must be read; `false`: not yet. It takes no longer than [`PATIENCE`], after an unclear append no
    /// longer than an append may: a server far away needs its time to say where the log ends.
    async fn catch_up(&mut self) -> bool {
        if let Some(why) = self.projection.ended() {
            let unavailable = Unavailable::Stopped { why: why.to_string() };
            self.pulse.waits();
            self.answer_all(&unavailable.into());
            sleep(PATIENCE).await;
            return false;
        }
        if self.behind != Behind::No {
            self.pulse.waits();
        }
        if self.behind == Behind::Unclear {
            match timeout(self.options.append_within, self.log.head()).await {
                Ok(Ok(head)) => self.behind = Behind::Position(head.last_decision),
                Ok(Err(_)) => {
                    // The log is away: callers are told at their deadlines.
                    sleep(PATIENCE).await;
                    return false;
                }
                Err(_) => return false,
            }
        }
        let read = match self.behind {
            Behind::No | Behind::Unclear => true,
            Behind::Start => timeout(PATIENCE, self.projection.caught_up()).await.is_ok(),
            Behind::Position(position) => {
                let read = timeout(PATIENCE, self.projection.wait_for(position)).await.is_ok();
                self.floor = if read { self.floor.max(position) } else { self.floor };
                read
            }
        };
        if read {
            self.behind = Behind::No;
            self.pulse.beats();
        }
        read
    }

    /// Decides a run of what waits, and appends what came of it.
    async fn round(&mut self) {
        let asks = self.next_run();
        let mut basis = Basis {
            overlay: &mut self.overlay,
            recent: &self.recent,
            draws: &self.draws,
            floor: self.floor,
            now: (self.options.now)(),
            // Half of what the log takes, so that what stands around a batch never makes it too large.
            batch_bytes: self.options.batch_bytes.min(self.log.max_event_bytes() / 2),
        };
        let round = round::decide(self.projection.desk(), &mut basis, asks);
        self.metrics.count(|counts| counts.repeated += round.repeated);
        self.put_back(round.left);
        for (pending, answer) in round.settled {
            self.answer(pending, answer, round.known);
        }
        if let Some(draft) = round.draft {
            self.append(round.known, draft).await;
        }
    }

    /// The oldest ask, and behind it others that fit into the same event: it has one source, the cluster that asked.
    fn next_run(&mut self) -> Vec<Pending> {
        let Some(first) = self.waiting.pop_front() else { return Vec::new() };
        if matches!(first.ask.what, What::Quota(_)) {
            return vec![first];
        }
        let fits = |other: &Pending| {
            matches!(other.ask.what, What::Workload(_)) && other.ask.cluster == first.ask.cluster
        };
        let (mut run, mut rest) = (Vec::new(), VecDeque::with_capacity(self.waiting.len()));
        for other in self.waiting.drain(..) {
            if run.len() + 1 < self.options.batch_items && fits(&other) {
                run.push(other);
            } else {
                rest.push_back(other);
            }
        }
        self.waiting = rest;
        run.insert(0, first);
        run
    }

    async fn append(&mut self, expected: Position, draft: Draft) {
        let Draft { encoded, event, callers } = draft;
        let begun = Instant::now();
        self.pulse.waits();
        let appended = self.log.decide(expected, encoded);
        let appended = timeout(self.options.append_within, appended).await;
        self.metrics.appended(begun.elapsed());
        match appended.unwrap_or_else(|_| Err(AppendError::Unclear { why: "no answer".into() })) {
            Ok(Appended { last, .. }) => {
                self.pulse.beats();
                self.overlay.push(last, event);
                self.answer_callers(last, callers);
                if self.overlay.len() >= OVERLAY_EVENTS {
                    self.behind = Behind::Position(last);
                }
            }
            Err(AppendError::Conflict { last_decision, .. }) if last_decision > expected => {
                self.pulse.beats();
                self.metrics.count(|counts| counts.conflicts += 1);
                self.behind = Behind::Position(last_decision);
                self.put_back(callers.into_iter().map(|(pending, _)| pending).collect());
            }
            Err(AppendError::Unclear { .. }) => {
                self.metrics.count(|counts| counts.unclear += 1);
                self.behind = Behind::Unclear;
                // It lands only if nothing else does first.
                let doubtful = |(pending, _): (Pending, _)| Pending {
                    doubt: pending.doubt.max(Some(expected)),
                    ..pending
                };
                self.put_back(callers.into_iter().map(doubtful).collect());
            }
            Err(error) => {
                if !matches!(error, AppendError::Away { .. }) {
                    self.pulse.beats();
                }
                self.fail(callers, &error, expected);
            }
        }
    }

    /// Nothing was written. What was decided behind the draft is decided again without it.
    fn fail(&mut self, callers: Vec<(Pending, Hanging)>, error: &AppendError, known: Position) {
        let mut again = Vec::new();
        for (pending, answer) in callers {
            match answer {
                Hanging::Behind(_) => again.push(pending),
                Hanging::Recorded(_) | Hanging::SameAs(_) => {
                    let why = error.to_string();
                    self.answer(pending, Unavailable::Log { why }.into(), known);
                }
            }
        }
        self.put_back(again);
    }

    /// The event stands at `position`.
    fn answer_callers(&mut self, position: Position, callers: Vec<(Pending, Hanging)>) {
        let mut items = 0;
        for (pending, hanging) in callers {
            let answer = match hanging {
                Hanging::Recorded(warnings) => {
                    items += 1;
                    Answer::recorded(position, warnings)
                }
                Hanging::Behind(answer) => answer,
                // The one before it was remembered a moment ago.
                Hanging::SameAs(id) => match self.recent.get(id) {
                    Some(answer) => answer.clone(),
                    None => Unavailable::Late.into(),
                },
            };
            self.answer(pending, answer, position);
        }
        self.metrics.count(|counts| counts.recorded += items);
    }

    /// `known`: the last decision by which it was judged.
    fn answer(&mut self, pending: Pending, answer: Answer, known: Position) {
        let in_doubt = pending.doubt.is_some_and(|position| known <= position);
        let answer = match answer {
            Answer::Refused(_) if in_doubt => Unavailable::Unclear.into(),
            answer => answer,
        };
        if !pending.ask.dry_run {
            self.recent.remember(RequestId::of(&pending.ask), &answer);
        }
        pending.answer(answer);
    }

    fn answer_all(&mut self, answer: &Answer) {
        for pending in self.waiting.drain(..) {
            pending.answer(answer.clone());
        }
    }

    fn put_back(&mut self, asks: Vec<Pending>) {
        for pending in asks.into_iter().rev() {
            self.waiting.push_front(pending);
        }
    }

    /// Appends what needs no condition. It moves the last decision, so that is read before anything is decided.
    async fn tell(&mut self, Tale { events, reply }: Tale) {
        self.pulse.waits();
        let appended = timeout(self.options.append_within, self.log.append(events)).await;
        let told = match appended {
            Ok(Ok(Appended { last, .. })) => {
                self.behind = Behind::Position(last);
                Ok(last)
            }
            Ok(Err(error)) => {
                self.behind = Behind::Unclear;
                Err(Unavailable::Log { why: error.to_string() })
            }
            Err(_) => {
                self.behind = Behind::Unclear;
                Err(Unavailable::Late)
            }
        };
        let _ = reply.send(told);
    }
}
