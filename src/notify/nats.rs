//! Notices on the server that keeps the log: the notices of a topic on a subject of their own, each published on the
//! condition that the one before it is still the last there. So the server takes it once, whoever publishes and
//! however often.

use super::{
    Error,
    notice::{Notice, Told, Topic},
};
use crate::event_log::{codec::message::token, jetstream::JetStreamLog};
use async_nats::{
    HeaderMap,
    jetstream::{
        self,
        consumer::{AckPolicy, DeliverPolicy, push},
        context::PublishErrorKind,
        stream::RawMessageErrorKind,
    },
};
use futures_util::StreamExt;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::timeout;

/// What notices are published to: the group and the topic follow.
const SUBJECT: &str = "bizrq.notice.v1";
const EXPECTED_LAST_OF_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence";
/// While what was told is read, a server that says nothing for so long is away.
const SILENCE: Duration = Duration::from_secs(5);

/// The stream of a log's notices.
#[derive(Debug)]
pub struct Notices {
    jetstream: jetstream::Context,
    stream: String,
    /// Where the last notice of each topic stands.
    last: BTreeMap<Topic, u64>,
}

impl Notices {
    /// The log's stream of notices, made if it is not there, and what it says.
    pub(super) async fn open(log: &JetStreamLog) -> Result<(Self, Told), Error> {
        let (wanted, subject) = (format!("{}_NOTICES", log.stream()), format!("{SUBJECT}.>"));
        let description = "bizrq: what was told; a notice that is deleted is told again";
        let stream = log.side_stream(&wanted, &subject, description).await;
        let stream =
            stream.map_err(|error| Error::Stream { stream: wanted, why: error.to_string() })?;
        let (jetstream, last) = (jetstream::new(log.client()), BTreeMap::new());
        let mut notices = Self { jetstream, stream, last };
        let told = notices.read(log).await?;
        Ok((notices, told))
    }

    /// Reads the last notice of every topic.
    async fn read(&mut self, log: &JetStreamLog) -> Result<Told, Error> {
        let config = push::Config {
            deliver_subject: log.client().new_inbox(),
            deliver_policy: DeliverPolicy::LastPerSubject,
            filter_subject: format!("{SUBJECT}.>"),
            ack_policy: AckPolicy::None,
            max_deliver: 1,
            flow_control: true,
            idle_heartbeat: Duration::from_secs(1),
            memory_storage: true,
            num_replicas: 1,
            ..push::Config::default()
        };
        let made = self.jetstream.create_consumer_on_stream(config, &self.stream).await;
        let consumer = made.map_err(|error| self.failed(&error))?;
        let mut told = Told::default();
        let mut left = consumer.cached_info().num_pending;
        let mut messages = consumer.messages().await.map_err(|error| self.failed(&error))?;
        while left > 0 {
            let next = timeout(SILENCE, messages.next()).await;
            let silent = |_| self.failed(&"what was told cannot be read: no answer");
            let Some(message) = next.map_err(silent)? else {
                return Err(self.failed(&"what was told cannot be read: its reader ended"));
            };
            let message = message.map_err(|error| self.failed(&error))?;
            let info = message.info().map_err(|error| self.failed(&error))?;
            left = info.pending;
            let sequence = info.stream_sequence;
            let notice = self.notice(sequence, &message.payload)?;
            self.last.insert(notice.topic, sequence);
            told.note(notice);
        }
        Ok(told)
    }

    /// Tells `notice`; `None`: it is new. Else the last one of its topic, which may be it.
    pub(super) async fn tell(&mut self, notice: &Notice) -> Result<Option<Notice>, Error> {
        let payload = serde_json::to_vec(notice).map_err(|error| self.failed(&error))?;
        let mut headers = HeaderMap::new();
        let last = self.last.get(&notice.topic).copied().unwrap_or_default();
        headers.insert(EXPECTED_LAST_OF_SUBJECT, last.to_string().as_str());
        let subject = format!("{SUBJECT}.{}.{}", token(&notice.group), notice.topic);
        let sent =
            self.jetstream.publish_with_headers(subject.clone(), headers, payload.into()).await;
        let acknowledged = match sent {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        match acknowledged {
            Ok(acknowledged) => {
                self.last.insert(notice.topic, acknowledged.sequence);
                Ok(None)
            }
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {
                self.look_up(notice.topic, &subject).await
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// The last notice on `subject`.
    async fn look_up(&mut self, topic: Topic, subject: &str) -> Result<Option<Notice>, Error> {
        let stream = self.jetstream.get_stream_no_info(&self.stream).await;
        let stream = stream.map_err(|error| self.failed(&error))?;
        let message = match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => message,
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {
                return Err(self.failed(&format!("the last notice on {subject} was removed")));
            }
            Err(error) => return Err(self.failed(&error)),
        };
        self.last.insert(topic, message.sequence);
        self.notice(message.sequence, &message.payload).map(Some)
    }

    fn notice(&self, sequence: u64, payload: &[u8]) -> Result<Notice, Error> {
        let read = serde_json::from_slice(payload);
        read.map_err(|error| self.failed(&format!("message {sequence} is no notice: {error}")))
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> Error {
        Error::Stream { stream: self.stream.clone(), why: why.to_string() }
    }
}
