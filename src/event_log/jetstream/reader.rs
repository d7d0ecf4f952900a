//! Reading in order, by an ordered consumer of the server's that begins where we say and acknowledges nothing.
//!
//! ```text
//!  begin ─▶ consumer from the record before the next ─▶ the same one as was read? ─▶ records … ─▶ handed out
//!    ▲                                                   no: the stream was replaced
//!    └── silence, a message lost on the way, a new connection, a head that moves while nothing comes
//! ```
//!
//! A gap in the stream is an error that names positions. A gap between the server and us is only asked for again.

use super::{
    StreamError,
    rollover::Streams,
    state::{self, Shared},
};
use crate::{
    domain::{
        event::Position,
        merkle::{Hash, LeafHasher},
    },
    event_log::{ReadError, Reader, Records},
};
use async_nats::{
    Message, StatusCode, Subject, Subscriber,
    jetstream::consumer::{AckPolicy, DeliverPolicy, push},
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout_at};

/// Reads a stream in order.
pub struct JetStreamReader {
    streams: Arc<Streams>,
    /// The stream that holds the next record.
    shared: Arc<Shared>,
    /// Position of the next record to be gathered.
    next: Position,
    /// Gathered, not handed out: a call that is dropped loses nothing.
    ready: Records,
    /// Where the consumer was asked to begin.
    from: Position,
    /// The last record that was gathered, to know it again.
    last: Option<(Position, Hash)>,
    consumer: Option<Consumer>,
    /// The head as it was last told.
    head: Position,
    /// When the stream is looked at next.
    look: Instant,
    hasher: LeafHasher,
}

/// One consumer of the server's, and what is expected of it.
struct Consumer {
    messages: Subscriber,
    /// Messages that it has sent.
    delivered: u64,
    /// When something last came.
    heard: Instant,
    /// The next record by its own count; `None` before the first.
    next: Option<Position>,
    /// Wanted by the server before it sends more.
    flow: Option<Subject>,
    /// Whether a record came since the stream was last looked at.
    moved: bool,
}

/// What a message was.
enum Taken {
    /// A record, a heartbeat, or one that is known.
    Fine,
    /// A message is missing that the stream has.
    Lost,
}

/// Records handed out at once, and their bytes: enough to fold for a millisecond.
const RECORDS: usize = 1024;
const BYTES: usize = 1 << 20;
/// How often the server shows that it is there while it has nothing to say.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Without a sign for so long the consumer is made anew.
const SILENCE: Duration = Duration::from_secs(3);
/// How often a waiting reader looks at the stream itself.
const LOOK: Duration = Duration::from_secs(2);
/// Between attempts to begin again.
const RETRY: Duration = Duration::from_millis(200);

impl JetStreamReader {
    pub(super) fn new(streams: Arc<Streams>, from: Position) -> Self {
        let next = from.max(1);
        Self {
            shared: streams.current(),
            streams,
            next,
            ready: Records::of_messages(next),
            from: next,
            last: None,
            consumer: None,
            head: 0,
            look: Instant::now(),
            hasher: LeafHasher::default(),
        }
    }

    /// Gathers records: at least one, unless `until` comes first.
    async fn gather(&mut self, until: Option<Instant>) -> Result<(), StreamError> {
        while self.ready.is_empty() {
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(self.shared.away_because("no record comes, though there are more"));
            }
            if Instant::now() >= self.look {
                self.look_at_the_stream().await?;
            }
            let Some(consumer) = &mut self.consumer else {
                self.begin().await?;
                continue;
            };
            if let Some(subject) = consumer.flow.take() {
                // Without an answer the server would ask again, and say that it waits.
                let answer = self.shared.client.publish(subject, Bytes::new());
                let _ = self.shared.in_time(answer).await;
                continue;
            }
            let silent = consumer.heard + SILENCE;
            let due = silent.min(self.look);
            match timeout_at(due, consumer.messages.next()).await {
                Ok(Some(message)) => self.take_all(message)?,
                Ok(None) => self.consumer = None,
                Err(_) if Instant::now() >= silent => self.consumer = None,
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Takes a message and what else has come.
    fn take_all(&mut self, first: Message) -> Result<(), StreamError> {
        let mut message = Some(first);
        while let Some(this) = message.take() {
            if matches!(self.take(&this)?, Taken::Lost) {
                self.consumer = None;
            }
            let Some(consumer) = &mut self.consumer else { break };
            if self.ready.len() < RECORDS && self.ready.bytes() < BYTES && consumer.flow.is_none() {
                // Unconstrained: what is there is taken at once, and there is not much of it.
                message =
                    tokio::task::unconstrained(consumer.messages.next()).now_or_never().flatten();
            }
        }
        self.remember();
        Ok(())
    }

    fn take(&mut self, message: &Message) -> Result<Taken, StreamError> {
        let Some(consumer) = &mut self.consumer else { return Ok(Taken::Lost) };
        consumer.heard = Instant::now();
        if let Some(status) = message.status {
            return Ok(consumer.control(status, message));
        }
        let (sequence, delivered) = numbers(message).ok_or_else(|| StreamError::Malformed {
            log: self.shared.name.clone(),
            why: format!("a message without sequences ({:?})", message.reply),
        })?;
        if delivered != consumer.delivered.saturating_add(1) {
            return Ok(Taken::Lost);
        }
        let position = self.shared.known_base().saturating_add(sequence);
        // A consumer that is asked to begin behind the end begins at the end: with less than was asked for, never more.
        let from = self.from;
        let expected = consumer.next.unwrap_or_else(|| position.min(from));
        if position != expected {
            let to = position.saturating_sub(1);
            return Err(StreamError::Missing { log: self.shared.name.clone(), from: expected, to });
        }
        (consumer.delivered, consumer.moved) = (delivered, true);
        consumer.next = Some(position.saturating_add(1));
        self.keep(position, message)
    }

    /// Gathers a record that is new; one that was read before must be the same.
    fn keep(&mut self, position: Position, message: &Message) -> Result<Taken, StreamError> {
        let empty = Default::default();
        let headers = message.headers.as_ref().unwrap_or(&empty);
        if position >= self.next {
            state::push(&mut self.ready, headers, &message.payload);
            self.next = position.saturating_add(1);
        } else if let Some((last, leaf)) = self.last.filter(|(last, _)| *last == position) {
            let mut again = Records::of_messages(last);
            state::push(&mut again, headers, &message.payload);
            if self.leaf_of_last(&again) != Some(leaf) {
                return Err(StreamError::Changed { log: self.shared.name.clone(), position });
            }
        }
        Ok(Taken::Fine)
    }

    /// Notes the last record that was gathered.
    fn remember(&mut self) {
        let last = self.ready.next_position().saturating_sub(1);
        self.shared.saw(last);
        let ready = std::mem::replace(&mut self.ready, Records::of_messages(self.next));
        if let Some(leaf) = self.leaf_of_last(&ready) {
            self.last = Some((last, leaf));
        }
        self.ready = ready;
    }

    fn leaf_of_last(&mut self, records: &Records) -> Option<Hash> {
        let (position, raw) = records.last()?;
        Some(self.hasher.leaf(position, &raw.scan().ok()?.leaf_input()))
    }

    /// Asks the server for a consumer that begins with the record that was read last.
    async fn begin(&mut self) -> Result<(), StreamError> {
        self.move_on().await?;
        let base = self.shared.base().await?;
        // The last record of the stream before is not in this one.
        let last = self.last.map(|(last, _)| last).filter(|last| *last > base);
        let from = last.unwrap_or(self.next);
        self.from = from;
        let inbox = self.shared.client.new_inbox();
        let messages = self.shared.in_time(self.shared.client.subscribe(inbox.clone())).await?;
        let messages = messages.map_err(|error| self.shared.away(&error))?;
        let config = push::Config {
            deliver_subject: inbox,
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: from.saturating_sub(base),
            },
            ack_policy: AckPolicy::None,
            max_deliver: 1,
            flow_control: true,
            idle_heartbeat: HEARTBEAT,
            memory_storage: true,
            num_replicas: 1,
            ..push::Config::default()
        };
        let stream = &self.shared.options.stream;
        let made = self.shared.jetstream.create_consumer_on_stream(config, stream);
        self.shared.in_time(made).await?.map_err(|error| self.shared.away(&error))?;
        self.look = Instant::now() + LOOK;
        self.consumer = Some(Consumer {
            messages,
            delivered: 0,
            heard: Instant::now(),
            next: None,
            flow: None,
            moved: false,
        });
        Ok(())
    }

    /// Sees that the stream is what it was, and that its consumer follows it.
    async fn look_at_the_stream(&mut self) -> Result<(), StreamError> {
        self.move_on().await?;
        let stuck = |consumer: &Consumer| !consumer.moved && self.next <= self.head;
        if self.consumer.as_ref().is_some_and(stuck) {
            self.consumer = None;
        }
        if let Some(consumer) = &mut self.consumer {
            consumer.moved = false;
        }
        self.look = Instant::now() + LOOK;
        Ok(())
    }

    /// Finds the end, and the stream that holds the next record: another one before the first, or after a roll-over.
    async fn move_on(&mut self) -> Result<(), StreamError> {
        self.head = self.shared.end().await?;
        let ended = self.next > self.head && self.shared.is_sealed();
        if ended || self.next <= self.shared.base().await? {
            let holding = self.streams.holding(self.next).await?;
            if holding.options.stream != self.shared.options.stream {
                (self.shared, self.consumer) = (holding, None);
                self.head = self.shared.end().await?;
            }
        }
        Ok(())
    }

    fn hand_out(&mut self) -> Records {
        std::mem::replace(&mut self.ready, Records::of_messages(self.next))
    }
}

impl Reader for JetStreamReader {
    async fn next(&mut self) -> Result<Option<Records>, ReadError> {
        if self.ready.is_empty() && self.next > self.head {
            self.move_on().await?;
            if self.next > self.head {
                return Ok(None);
            }
        }
        self.gather(Some(Instant::now() + self.shared.options.deadline)).await?;
        Ok(Some(self.hand_out()))
    }

    async fn tail(&mut self) -> Result<Records, ReadError> {
        loop {
            match self.gather(None).await {
                Ok(()) => return Ok(self.hand_out()),
                // Away comes back: waiting is what a tail does.
                Err(StreamError::Away { .. }) => {
                    self.consumer = None;
                    sleep(RETRY).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Consumer {
    /// A message that is no record.
    fn control(&mut self, status: StatusCode, message: &Message) -> Taken {
        if status != StatusCode::IDLE_HEARTBEAT {
            return Taken::Lost;
        }
        let header = |name: &str| Some(message.headers.as_ref()?.get(name)?.as_str());
        if let Some(subject) = message.reply.clone() {
            self.flow = Some(subject);
        } else if let Some(stalled) = header("Nats-Consumer-Stalled") {
            self.flow = Some(stalled.into());
        }
        let last = header("Nats-Last-Consumer").and_then(|last| last.parse().ok());
        if last.is_none_or(|last: u64| last == self.delivered) { Taken::Fine } else { Taken::Lost }
    }
}

/// Sequence in the stream and number of the delivery, as the address for an acknowledgement has them:
/// `$JS.ACK.stream.consumer.tries.SEQUENCE.NUMBER.time.pending`, with two more behind `ACK` from newer servers.
fn numbers(message: &Message) -> Option<(u64, u64)> {
    let mut tokens = message.reply.as_ref()?.split('.').skip(2);
    let count = tokens.clone().count();
    let mut number = |at| tokens.nth(at)?.parse().ok();
    let sequence = number(if count > 7 { 5 } else { 3 })?;
    Some((sequence, number(0)?))
}

impl std::fmt::Debug for JetStreamReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (log, next) = (&self.shared.name, self.next);
        f.debug_struct("JetStreamReader")
            .field("log", log)
            .field("next", &next)
            .finish_non_exhaustive()
    }
}
