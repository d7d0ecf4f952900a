//! Appending: publish, wait for the server's answer, say what it means.
//!
//! ```text
//!  append [a b c] ─▶ lane: publish a, b, c, each with an answer address of its own ─▶ answers in any order ─▶ Appended
//!                    └ a subscription of ours, used again by the next append; its addresses never are
//! ```
//!
//! Servers that start again may answer a second time what they have answered before: an answer counts only at the
//! address of something that still waits for it.
//!
//! At most [`IN_FLIGHT`] bytes wait for answers; nothing is published while the connection is down. Nothing is sent a
//! second time by itself: that is for who reads the log first.

use super::{
    StreamError,
    connect::reason,
    lane::{self, Lane},
    state::{self, DECISIONS, FACTS, NOTES, Shared},
};
use crate::{
    domain::event::{Position, Room, TypeName},
    event_log::{
        AppendError, Appended, NewEvent,
        codec::message::{ATTRIBUTES, SPECVERSION, token},
    },
};
use async_nats::{
    HeaderMap, Message, StatusCode,
    client::PublishErrorKind,
    connection::State,
    jetstream::{ErrorCode, publish::PublishAck, response::Response},
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{MutexGuard, Semaphore, watch},
    time::{Instant, timeout_at},
};

/// Appends to the stream.
pub(super) struct Appender {
    shared: Arc<Shared>,
    /// Lanes that nobody uses. A plain mutex: held for a push or a pop, never across an await.
    lanes: Mutex<Vec<Lane>>,
    /// Who may publish: appends go to the server whole, in the order in which they were begun.
    turn: tokio::sync::Mutex<()>,
    /// Room for what waits for answers, in units of [`UNIT`].
    room: Semaphore,
}

/// Room that an append holds; given back when it ends, however it does.
struct Held<'a> {
    room: &'a Semaphore,
    units: usize,
}

/// The condition of an append.
#[derive(Clone, Copy)]
pub(super) enum Guard {
    /// None.
    Free,
    /// The last decision is at this position.
    LastDecision(Position),
    /// The first of the events goes to this position, the others behind it. It is a copy of what was written long ago:
    /// the server's memory of ids must not swallow it, so it is told none.
    Copy(Position),
}

/// Why events were not taken, or not surely.
enum Failure {
    /// Nothing was written; of the last decision the server said this.
    WrongLast,
    /// Nothing was written.
    Refused(String),
    /// Nothing was sent.
    Away(String),
    /// Nobody knows.
    Unclear(String),
}

/// Bytes that may wait for answers, over all appends: 10 ms of a fast network, and little memory.
const IN_FLIGHT: usize = 16 << 20;
/// What room is counted in, so that many small messages are bounded, too: at most 8,192 wait.
const UNIT: usize = 2 << 10;
/// Events of one append that wait at once: enough to keep a server busy, few enough to stop soon after a failure.
const WINDOW: usize = 512;
/// What is added to an event's attributes and data: header names, our own headers, the answer address.
const FRAME: usize = 1 << 10;

const MESSAGE_ID: &str = "Nats-Msg-Id";
const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
const EXPECTED_LAST: &str = "Nats-Expected-Last-Sequence";
const EXPECTED_LAST_OF_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence";

/// What the largest message of the server leaves for an event.
pub(super) fn max_event_bytes(shared: &Shared) -> usize {
    shared.client.max_payload().saturating_sub(FRAME)
}

impl Appender {
    /// The stream that it appends to.
    pub(super) const fn stream(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (lanes, turn) = Default::default();
        Self { shared, lanes, turn, room: Semaphore::new(IN_FLIGHT / UNIT) }
    }

    /// Appends the first record of a stream that continues another.
    pub(super) async fn append_first(&self, event: NewEvent) -> Result<(), AppendError> {
        self.append(Guard::Copy(1), &[event]).await.map(drop)
    }

    /// Appends events in their order; of one decision alone the last decision can be the condition. Whatever it has to
    /// wait for, the deadline is one, until the first acknowledgement and from each to the next.
    pub(super) async fn append(
        &self,
        guard: Guard,
        events: &[NewEvent],
    ) -> Result<Appended, AppendError> {
        let away = |error: StreamError| AppendError::Away { why: error.to_string() };
        let busy = |_| AppendError::Away { why: "those before it are not answered".to_owned() };
        let due = self.due();
        let turn = timeout_at(due, self.turn.lock()).await.map_err(busy)?;
        if events.is_empty() {
            let last = self.shared.end().await.map_err(away)?;
            return Ok(Appended { first: last.saturating_add(1), last });
        }
        let limit = self.shared.client.max_payload();
        if let Some(event) = events.iter().find(|event| size(event) > limit) {
            return Err(too_large(event, limit));
        }
        let base = self.shared.base().await.map_err(away)?;
        let guard_in_stream = guard.in_stream(base);
        let mut lane = match self.lane(due).await {
            Ok(lane) => lane,
            Err(failure) => return self.failed(failure, guard, events, &[]).await,
        };
        let mut sequences = vec![None; events.len()];
        let sent =
            self.exchange(turn, &mut lane, guard_in_stream, events, &mut sequences, due).await;
        if lane.waiting == 0 {
            self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
        }
        match sent {
            Ok(()) => self.appended(&sequences).await,
            Err(failure) => self.failed(failure, guard, events, &sequences).await,
        }
    }

    /// A lane that nobody uses, or a new one: without a connection the client would let us wait for it for ever.
    async fn lane(&self, due: Instant) -> Result<Lane, Failure> {
        let spare = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(lane) = spare {
            return Ok(lane);
        }
        self.connected(due).await?;
        let inbox = self.shared.client.new_inbox();
        match timeout_at(due, self.shared.client.subscribe(format!("{inbox}.*"))).await {
            Ok(Ok(answers)) => Ok(Lane::new(inbox, answers)),
            Ok(Err(error)) => Err(Failure::Away(reason(&error))),
            Err(_) => Err(Failure::Away("the connection takes nothing more".to_owned())),
        }
    }

    /// Publishes events and takes their answers, until all are answered or one failed and no answer is missing.
    async fn exchange(
        &self,
        turn: MutexGuard<'_, ()>,
        lane: &mut Lane,
        guard: Guard,
        events: &[NewEvent],
        sequences: &mut [Option<u64>],
        mut due: Instant,
    ) -> Result<(), Failure> {
        let mut turn = Some(turn);
        let mut held = Held { room: &self.room, units: 0 };
        let (mut sent, mut failed) = (0_usize, Ok(()));
        let (first, mut answered) = (lane.next, vec![false; events.len()]);
        let mut trouble = self.shared.trouble.clone();
        trouble.mark_unchanged();
        loop {
            let waiting = lane.waiting;
            drop(turn.take_if(|_| sent == events.len() || failed.is_err()));
            let next = events.get(sent).filter(|_| failed.is_ok() && waiting < WINDOW);
            if let Some(event) = next
                && held.take(event, waiting == 0, due).await?
            {
                let reply = lane.address();
                match self.publish(reply, guard, event, sent, due).await {
                    Ok(()) => {
                        sent = sent.saturating_add(1);
                        lane.waiting = waiting.saturating_add(1);
                    }
                    Err(failure) => failed = Err(failure),
                }
                continue;
            }
            if waiting == 0 {
                return failed;
            }
            let message = self.answer(lane, events, &mut trouble, due).await?;
            let mut message = Some(message);
            while let Some(answer) = message.take() {
                message = lane.answers.next().now_or_never().flatten();
                let index = lane::number(&answer).and_then(|number| number.checked_sub(first));
                let index = index.and_then(|index| usize::try_from(index).ok());
                let Some(index) = index.filter(|i| answered.get(*i) == Some(&false)) else {
                    continue;
                };
                answered[index] = true;
                due = self.due();
                lane.waiting = lane.waiting.saturating_sub(1);
                held.give_back(&events[index]);
                match self.understand(&answer, &events[index]).await {
                    Ok(sequence) => sequences[index] = Some(sequence),
                    Err(failure) if failed.is_ok() => failed = Err(failure),
                    Err(_) => {}
                }
            }
        }
    }

    /// The next answer, unless the server says that none will come.
    async fn answer(
        &self,
        lane: &mut Lane,
        events: &[NewEvent],
        trouble: &mut watch::Receiver<Option<String>>,
        due: Instant,
    ) -> Result<Message, Failure> {
        loop {
            tokio::select! {
                biased;
                answer = timeout_at(due, lane.answers.next()) => {
                    let Ok(Some(answer)) = answer else { break };
                    return Ok(answer);
                }
                Ok(()) = trouble.changed() => {
                    if let Some(denied) = denied(&trouble.borrow_and_update(), events) {
                        return Err(denied);
                    }
                }
            }
        }
        let (why, seconds) = (self.shared.trouble(), self.shared.options.deadline.as_secs());
        Err(Failure::Unclear(format!("no answer within {seconds} s{why}")))
    }

    fn due(&self) -> Instant {
        Instant::now() + self.shared.options.deadline
    }

    async fn publish(
        &self,
        reply: String,
        guard: Guard,
        event: &NewEvent,
        index: usize,
        due: Instant,
    ) -> Result<(), Failure> {
        self.connected(due).await?;
        let payload = Bytes::copy_from_slice(event.leaf_input().data);
        let headers = self.headers(guard, event, index);
        let client = &self.shared.client;
        let publish =
            client.publish_with_reply_and_headers(subject(event), reply, headers, payload);
        match timeout_at(due, publish).await {
            Ok(Ok(())) => Ok(()),
            // It went nowhere: the queue to the server is full.
            Err(_) => Err(Failure::Away("the connection takes nothing more".to_owned())),
            Ok(Err(error)) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                Err(Failure::Refused(reason(&error)))
            }
            Ok(Err(error)) => Err(Failure::Away(reason(&error))),
        }
    }

    /// Waits for a connection: what is published without one would be sent later, when nobody waits for it any more.
    async fn connected(&self, due: Instant) -> Result<(), Failure> {
        while self.shared.client.connection_state() != State::Connected {
            if Instant::now() >= due {
                let why = self.shared.trouble();
                return Err(Failure::Away(format!("no connection to {}{why}", self.shared.name)));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    fn headers(&self, guard: Guard, event: &NewEvent, index: usize) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_STREAM, self.shared.options.stream.as_str());
        if let Guard::Copy(first) = guard {
            let before = first.saturating_sub(1).saturating_add(index as u64);
            headers.insert(EXPECTED_LAST, before.to_string().as_str());
        } else {
            headers.insert(MESSAGE_ID, event.id());
        }
        if let Guard::LastDecision(last) = guard {
            headers.insert(EXPECTED_LAST_OF_SUBJECT, last.to_string().as_str());
        }
        headers.insert(SPECVERSION.0, SPECVERSION.1);
        for (name, value) in ATTRIBUTES.into_iter().zip(event.header_values()) {
            headers.insert(name, &*value);
        }
        headers
    }

    /// The sequence that an answer gives to an event.
    async fn understand(&self, answer: &Message, event: &NewEvent) -> Result<u64, Failure> {
        if answer.status == Some(StatusCode::NO_RESPONDERS) {
            let why = "no stream takes its subject: was it deleted, renamed or rolled over?";
            return Err(Failure::Refused(why.to_owned()));
        }
        match serde_json::from_slice::<Response<PublishAck>>(&answer.payload) {
            Ok(Response::Ok(ack)) if !ack.duplicate => Ok(ack.sequence),
            // The server remembers the id. That the record is there, too, is for the stream to say.
            Ok(Response::Ok(ack)) => match self.shared.message(ack.sequence).await {
                Ok(Some(held)) if state::id(&held.headers) == Some(event.id()) => Ok(ack.sequence),
                Ok(_) => Err(Failure::Unclear(format!(
                    "the server remembers the id {}, and its stream has no such record",
                    event.id()
                ))),
                Err(error) => Err(Failure::Unclear(error.to_string())),
            },
            Ok(Response::Err { error }) => match error.error_code() {
                ErrorCode::STREAM_WRONG_LAST_SEQUENCE => Err(Failure::WrongLast),
                _ => Err(Failure::Refused(error.to_string())),
            },
            Err(_) => Err(Failure::Unclear("the server's answer is none".to_owned())),
        }
    }

    async fn appended(&self, sequences: &[Option<u64>]) -> Result<Appended, AppendError> {
        // Of an empty stream the base was not known before.
        let base = self.shared.base().await;
        let base = base.map_err(|error| AppendError::Unclear { why: error.to_string() })?;
        let position = |sequence: Option<&Option<u64>>| {
            base.saturating_add(sequence.copied().flatten().unwrap_or_default())
        };
        let appended =
            Appended { first: position(sequences.first()), last: position(sequences.last()) };
        self.shared.saw(appended.last);
        Ok(appended)
    }

    /// What to say of an append that failed.
    async fn failed(
        &self,
        failure: Failure,
        guard: Guard,
        events: &[NewEvent],
        sequences: &[Option<u64>],
    ) -> Result<Appended, AppendError> {
        let written = sequences.iter().flatten().count();
        let why = match (failure, guard) {
            (Failure::WrongLast, Guard::LastDecision(expected)) => {
                return self.conflict(expected, events).await;
            }
            (Failure::WrongLast, Guard::Copy(first)) if written == 0 => {
                let last = self.shared.end().await;
                let last = last.map_err(|error| AppendError::Unclear { why: error.to_string() })?;
                return Err(AppendError::Elsewhere { first, last });
            }
            (failure, _) => failure,
        };
        let why = match why {
            Failure::WrongLast => "somebody else appended".to_owned(),
            Failure::Unclear(why) => why,
            Failure::Refused(why) if written == 0 => return Err(AppendError::Refused { why }),
            Failure::Away(why) if written == 0 => return Err(AppendError::Away { why }),
            Failure::Refused(why) | Failure::Away(why) => why,
        };
        let all = events.len();
        let why = if written > 0 { format!("{why}; {written} of {all} were written") } else { why };
        Err(AppendError::Unclear { why })
    }

    /// Another decision came first, or this very one did, when it was sent before and its answer was lost: that can
    /// only be the first one behind the condition.
    async fn conflict(
        &self,
        expected: Position,
        events: &[NewEvent],
    ) -> Result<Appended, AppendError> {
        let unclear = |error: StreamError| AppendError::Unclear { why: error.to_string() };
        let base = self.shared.base().await.map_err(unclear)?;
        let after = self.shared.decision_after(expected.saturating_sub(base)).await;
        if let Some(first) = after.map_err(unclear)?
            && state::id(&first.headers) == events.first().map(NewEvent::id)
        {
            let position = base.saturating_add(first.sequence);
            self.shared.saw(position);
            return Ok(Appended { first: position, last: position });
        }
        let last_decision = self.shared.last_decision().await.map_err(unclear)?;
        Err(AppendError::Conflict { expected, last_decision })
    }
}

impl Guard {
    /// The same in the stream's own sequences.
    fn in_stream(self, base: Position) -> Self {
        match self {
            Self::Free => Self::Free,
            Self::LastDecision(last) => Self::LastDecision(last.saturating_sub(base)),
            Self::Copy(first) => Self::Copy(first.saturating_sub(base)),
        }
    }
}

impl Held<'_> {
    /// Takes room for an event. Without `must` it does not wait: answers that come meanwhile make room.
    async fn take(&mut self, event: &NewEvent, must: bool, due: Instant) -> Result<bool, Failure> {
        let units = units(event);
        let permit = if must {
            let full = |_| Failure::Away("too much waits for answers".to_owned());
            timeout_at(due, self.room.acquire_many(units)).await.map_err(full)?
        } else {
            let Ok(permit) = self.room.try_acquire_many(units) else { return Ok(false) };
            Ok(permit)
        };
        let Ok(permit) = permit else { return Ok(false) };
        permit.forget();
        self.units = self.units.saturating_add(units as usize);
        Ok(true)
    }

    fn give_back(&mut self, event: &NewEvent) {
        let units = (units(event) as usize).min(self.units);
        self.units = self.units.saturating_sub(units);
        self.room.add_permits(units);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.room.add_permits(self.units);
    }
}

/// Bytes of an event's message at most: every attribute's byte may become three.
fn size(event: &NewEvent) -> usize {
    let data = event.leaf_input().data.len();
    event.bytes().saturating_sub(data).saturating_mul(3).saturating_add(data).saturating_add(FRAME)
}

fn units(event: &NewEvent) -> u32 {
    // One event alone may be larger than everything that may be under way.
    u32::try_from(size(event).div_ceil(UNIT).min(IN_FLIGHT / UNIT)).unwrap_or(u32::MAX)
}

fn too_large(event: &NewEvent, limit: usize) -> AppendError {
    let (id, bytes) = (event.id(), size(event));
    let why = format!(
        "event {id} may take {bytes} bytes and the server takes {limit}; make the batch smaller, or raise max_payload"
    );
    AppendError::Refused { why }
}

/// Whether the server said that we may not publish what these events are published to.
fn denied(said: &Option<String>, events: &[NewEvent]) -> Option<Failure> {
    let said = said.as_ref()?;
    let is_denied = |subject: &String| {
        said.contains("Permissions Violation for Publish")
            && said.contains(&format!("\"{subject}\""))
    };
    let subjects: BTreeSet<String> = events.iter().map(subject).collect();
    let denied = subjects.iter().find(|subject| is_denied(subject))?;
    let why = format!("this user may not publish to {denied}; give it the permission");
    // Of several subjects others may have been let through.
    Some(if subjects.len() == 1 { Failure::Refused(why) } else { Failure::Unclear(why) })
}

/// Decisions share a subject; facts and notes have one for each cluster. What was imported of a cluster goes with it.
fn subject(event: &NewEvent) -> String {
    if event.is_decision() {
        return DECISIONS.to_owned();
    }
    let of = event.leaf_input();
    let is_note = match TypeName::parse(of.type_name) {
        TypeName::Known(kind) | TypeName::Newer { kind, .. } => kind.room() == Room::Note,
        TypeName::Unknown => false,
    };
    let cluster =
        of.source.strip_prefix("/clusters/").or_else(|| of.source.strip_prefix("/imports/"));
    let origin = cluster.unwrap_or_else(|| of.source.trim_start_matches('/'));
    format!("{}.{}", if is_note { NOTES } else { FACTS }, token(origin))
}
