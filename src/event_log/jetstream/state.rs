//! What all parts of an open log share: the connection, what is known of the stream, and the questions to the server.

use super::{
    OpenError, StreamError,
    connect::{Options, reason},
    rollover,
    stream::Settings,
};
use crate::{
    domain::{event::Kind, event::Position, merkle::Frontier},
    event_log::{
        Head,
        chain::continued,
        codec::message::{self, ATTRIBUTES},
        records::Records,
    },
};
use async_nats::{
    HeaderMap,
    jetstream::{
        self, ErrorCode,
        context::RequestErrorKind,
        message::StreamMessage,
        stream::{Info, RawMessageErrorKind, Stream},
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

/// The subject of all decisions of all trees: one subject, one order.
pub(super) const DECISIONS: &str = "bizrq.v1.decision";
/// Facts, by cluster.
pub(super) const FACTS: &str = "bizrq.v1.fact";
/// Notes, by cluster.
pub(super) const NOTES: &str = "bizrq.v1.note";

/// An open log.
pub(super) struct Shared {
    pub(super) options: Options,
    /// Server and stream, for people.
    pub(super) name: String,
    pub(super) client: async_nats::Client,
    pub(super) jetstream: jetstream::Context,
    /// The tree before the stream's first record; known once there is one.
    beginning: OnceLock<Frontier>,
    /// The last position that was seen, by whatever way: the log never ends before it again.
    known: AtomicU64,
    /// Whether the stream was ended for ever.
    sealed: AtomicBool,
    /// Whether the stream was there when it was asked for.
    met: AtomicBool,
    /// Since when the servers say that it is not there, and that it ends before what is known.
    absent: Since,
    behind: Since,
    /// What the server last complained about.
    pub(super) trouble: watch::Receiver<Option<String>>,
}

/// What the server says of a stream, of which the settings are wanted.
#[derive(Deserialize)]
struct Described {
    config: Settings,
}

/// When something was first seen that may still pass.
#[derive(Default)]
struct Since(Mutex<Option<Instant>>);

/// How long a stream may say that it ends before what is known: to whoever asks.
const SETTLING: Duration = Duration::from_secs(5);
/// In a cluster it may say so for longer, or that it is not there, and is waited for: members that start again elect
/// leaders, and these apply what was acknowledged before, which took up to ten seconds on a busy machine.
const SETTLING_OF_A_CLUSTER: Duration = Duration::from_secs(30);

impl Shared {
    pub(super) async fn connect(options: Options) -> Result<Self, OpenError> {
        let (client, trouble) = options.connect().await?;
        let jetstream =
            jetstream::ContextBuilder::new().timeout(options.deadline).build(client.clone());
        Ok(Self::over(options, client, jetstream, trouble))
    }

    /// Another stream, by the same connection.
    pub(super) fn beside(&self, stream: &str) -> Self {
        let options = Options { stream: stream.to_owned(), ..self.options.clone() };
        let (client, jetstream) = (self.client.clone(), self.jetstream.clone());
        Self::over(options, client, jetstream, self.trouble.clone())
    }

    /// A stream of which nothing is known yet.
    fn over(
        options: Options,
        client: async_nats::Client,
        jetstream: jetstream::Context,
        trouble: watch::Receiver<Option<String>>,
    ) -> Self {
        let name = format!("{} ({})", options.location, options.stream);
        let (beginning, known, sealed, met, absent, behind) = Default::default();
        Self {
            options,
            name,
            client,
            jetstream,
            beginning,
            known,
            sealed,
            met,
            absent,
            behind,
            trouble,
        }
    }

    /// Whether the stream was ended for ever, or is gone, as far as its end was asked for.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(SeqCst)
    }

    /// Gives a stream that is not there the time that one of a cluster may need to come back.
    pub(super) async fn settle(&self) -> Result<(), StreamError> {
        let begun = Instant::now();
        while begun.elapsed() < SETTLING.min(self.options.deadline) && self.may_come_back().await {
            match self.info().await {
                Err(StreamError::Gone { .. }) => sleep(Duration::from_millis(100)).await,
                other => return other.map(drop),
            }
        }
        Ok(())
    }

    /// A handle for questions; none is asked for it.
    pub(super) async fn stream(&self) -> Result<Stream<()>, StreamError> {
        let got = self.jetstream.get_stream_no_info(&self.options.stream).await;
        got.map_err(|error| self.away(&error))
    }

    /// The stream as it is set up.
    pub(super) async fn settings(&self) -> Result<Settings, StreamError> {
        self.ask_of_the_stream::<Described>().await.map(|described| described.config)
    }

    /// What the server says of the stream and its state.
    pub(super) async fn info(&self) -> Result<Info, StreamError> {
        self.ask_of_the_stream().await
    }

    async fn ask_of_the_stream<T: DeserializeOwned>(&self) -> Result<T, StreamError> {
        let begun = Instant::now();
        loop {
            let told = self.ask_once().await;
            match told {
                Ok(_) => {
                    self.met.store(true, SeqCst);
                    self.absent.is_over();
                    return told;
                }
                Err(StreamError::Gone { .. }) => {}
                Err(_) => {
                    // Whoever answers next may know more, and gets the whole time for it.
                    self.absent.is_over();
                    self.behind.is_over();
                    return told;
                }
            }
            let may_come_back = self.met.load(SeqCst) && self.may_come_back().await;
            if !may_come_back || self.has_settled(&self.absent) {
                // What was ended may be deleted: another one may go on.
                self.sealed.store(true, SeqCst);
                return told;
            }
            if begun.elapsed() >= SETTLING.min(self.options.deadline) {
                return Err(self.away_because("the cluster does not know the stream yet"));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Whether what is seen since then will not pass any more.
    fn has_settled(&self, since: &Since) -> bool {
        since.elapsed() >= self.settling()
    }

    fn settling(&self) -> Duration {
        let is_cluster = self.client.server_info().cluster.is_some();
        if is_cluster { SETTLING_OF_A_CLUSTER } else { Duration::ZERO }
    }

    async fn ask_once<T: DeserializeOwned>(&self) -> Result<T, StreamError> {
        let subject = format!("STREAM.INFO.{}", self.options.stream);
        match self.in_time(self.jetstream.request(subject, &())).await? {
            Ok(jetstream::response::Response::Ok(info)) => Ok(info),
            Ok(jetstream::response::Response::Err { error })
                if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Err(StreamError::Gone { log: self.name.clone() })
            }
            Ok(jetstream::response::Response::Err { error }) => Err(self.away(&error)),
            Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                Err(self.away_because("JetStream is not enabled there, or has no leader"))
            }
            Err(error) => Err(self.away(&error)),
        }
    }

    /// Whether a stream that is not there may be there in a moment: members of a cluster that start again do not know
    /// all of their streams at once. Where another one takes the log's records it was ended, and deleted.
    pub(super) async fn may_come_back(&self) -> bool {
        if self.settling().is_zero() {
            return false;
        }
        match rollover::names(self, DECISIONS).await {
            Ok(names) => names.iter().all(|name| *name == self.options.stream),
            Err(_) => true,
        }
    }

    /// The stream's end, once it is not before what is known; every record up to it is there.
    pub(super) async fn end(&self) -> Result<Position, StreamError> {
        let begun = Instant::now();
        loop {
            let known = self.known.load(SeqCst);
            let Info { state, config, .. } = self.info().await?;
            self.sealed.store(config.sealed, SeqCst);
            let base = self.base().await?;
            let found = base.saturating_add(state.last_sequence);
            if found >= known {
                let missing = |from, to| StreamError::Missing { log: self.name.clone(), from, to };
                if state.messages == 0 && state.last_sequence > 0 {
                    return Err(missing(base.saturating_add(1), found));
                }
                if state.first_sequence > 1 {
                    let to = base.saturating_add(state.first_sequence.saturating_sub(1));
                    return Err(missing(base.saturating_add(1), to));
                }
                if state.deleted_count.unwrap_or(0) > 0 {
                    return Err(self.hole(base).await?);
                }
                self.saw(found);
                self.behind.is_over();
                return Ok(found);
            }
            let has_settled = self.has_settled(&self.behind);
            if begun.elapsed() >= SETTLING.min(self.options.deadline) {
                return Err(if has_settled {
                    StreamError::Truncated { log: self.name.clone(), known, found }
                } else {
                    self.away_because(&format!(
                        "the cluster has records up to {found} of {known} so far"
                    ))
                });
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Names the first records that were deleted.
    async fn hole(&self, base: Position) -> Result<StreamError, StreamError> {
        let stream = self.stream().await?;
        let info = self.in_time(stream.info_builder().with_deleted(true).fetch()).await?;
        let deleted =
            info.map_err(|error| self.away(&error))?.info.state.deleted.unwrap_or_default();
        let first = deleted.first().copied().unwrap_or_default();
        let run =
            (first..).zip(&deleted).take_while(|(expected, found)| expected == *found).count();
        let to = base.saturating_add(first).saturating_add((run as u64).saturating_sub(1));
        Ok(StreamError::Missing { log: self.name.clone(), from: base.saturating_add(first), to })
    }

    /// Where the log ends, and where its last decision is.
    pub(super) async fn head(&self) -> Result<Head, StreamError> {
        // In this order: the last decision of a moment ago is not behind the end of now.
        let last_decision = self.last_decision().await?;
        Ok(Head { position: self.end().await?, last_decision })
    }

    /// Position of the last decision; 0 for none.
    pub(super) async fn last_decision(&self) -> Result<Position, StreamError> {
        let stream = self.stream().await?;
        let last = self.found(stream.get_last_raw_message_by_subject(DECISIONS)).await?;
        let Some(message) = last else { return Ok(0) };
        Ok(self.base().await?.saturating_add(message.sequence))
    }

    /// The first decision behind `sequence`.
    pub(super) async fn decision_after(
        &self,
        sequence: u64,
    ) -> Result<Option<StreamMessage>, StreamError> {
        let stream = self.stream().await?;
        let from = sequence.saturating_add(1);
        self.found(stream.get_first_raw_message_by_subject(DECISIONS, from)).await
    }

    /// The message at `sequence`.
    pub(super) async fn message(
        &self,
        sequence: u64,
    ) -> Result<Option<StreamMessage>, StreamError> {
        let stream = self.stream().await?;
        self.found(stream.get_raw_message(sequence)).await
    }

    async fn found(
        &self,
        asked: impl Future<Output = Result<StreamMessage, jetstream::stream::RawMessageError>>,
    ) -> Result<Option<StreamMessage>, StreamError> {
        match self.in_time(asked).await? {
            Ok(message) => Ok(Some(message)),
            Err(error) => match error.kind() {
                RawMessageErrorKind::NoMessageFound => Ok(None),
                RawMessageErrorKind::JetStream(said)
                    if said.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                {
                    self.info().await?;
                    Err(self.away_because("the stream was not there for a moment"))
                }
                _ => Err(self.away(&error)),
            },
        }
    }

    /// Position of the last record before the stream's first.
    pub(super) async fn base(&self) -> Result<Position, StreamError> {
        Ok(self.beginning().await?.position())
    }

    /// The tree before the stream's first record: what that says, if it is a `log.opened`.
    pub(super) async fn beginning(&self) -> Result<Frontier, StreamError> {
        if let Some(known) = self.beginning.get() {
            return Ok(known.clone());
        }
        let Some(first) = self.message(1).await? else {
            // Empty, or its first record is gone, which `end` finds out.
            return Ok(Frontier::default());
        };
        let mut records = Records::of_messages(1);
        push(&mut records, &first.headers, &first.payload);
        let Some(Ok(scanned)) = records.last().map(|(_, raw)| raw.scan()) else {
            return Ok(Frontier::default());
        };
        let tree = match continued(&scanned) {
            Some(tree) => tree,
            None if *scanned.type_name == *Kind::LogOpened.type_name() => {
                return Err(self.no_base());
            }
            None => Frontier::default(),
        };
        Ok(self.beginning.get_or_init(|| tree).clone())
    }

    /// Waits for an answer until the deadline: the client does not count the time that a question waits in its queue,
    /// which nobody empties while there is no connection.
    pub(super) async fn in_time<T>(
        &self,
        question: impl Future<Output = T>,
    ) -> Result<T, StreamError> {
        let answer = timeout(self.options.deadline, question).await;
        answer.map_err(|_| self.away_because(&format!("no answer in time{}", self.trouble())))
    }

    /// The base, where records were seen already.
    pub(super) fn known_base(&self) -> Position {
        self.beginning.get().map_or(0, Frontier::position)
    }

    /// Notes that the log reaches `position`.
    pub(super) fn saw(&self, position: Position) {
        self.known.fetch_max(position, SeqCst);
    }

    pub(super) fn away(&self, error: &dyn std::error::Error) -> StreamError {
        self.away_because(&reason(error))
    }

    pub(super) fn away_because(&self, why: &str) -> StreamError {
        StreamError::Away { log: self.name.clone(), why: why.to_owned() }
    }

    /// What the server last complained about, to be added to what happened.
    pub(super) fn trouble(&self) -> String {
        self.trouble.borrow().as_ref().map_or_else(String::new, |why| format!(" ({why})"))
    }

    fn no_base(&self) -> StreamError {
        let why = "its first record continues another log, but root and tree in it do not agree"
            .to_owned();
        StreamError::Malformed { log: self.name.clone(), why }
    }
}

impl Since {
    /// How long it is seen, from the first time that this is asked.
    fn elapsed(&self) -> Duration {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.get_or_insert_with(Instant::now).elapsed()
    }

    fn is_over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Adds a message to records.
pub(super) fn push(records: &mut Records, headers: &HeaderMap, payload: &[u8]) {
    records.push(|text| message::parts(|name| Some(headers.get(name)?.as_str()), payload, text));
}

/// The id that a message says it has.
pub(super) fn id(headers: &HeaderMap) -> Option<&str> {
    headers.get(ATTRIBUTES[0]).map(|value| value.as_str())
}
