//! Usage events on the server that keeps the log: one stream, each event on the condition that the one before it is the
//! last there. So the server takes none twice and none before its turn, whoever publishes.

use super::{
    Error, SUBJECT,
    event::UsageMetered,
    tenant::{Durable, Tenant},
};
use crate::event_log::{codec::message::token, jetstream::JetStreamLog};
use async_nats::{
    HeaderMap,
    jetstream::{
        self,
        consumer::{AckPolicy, pull},
        context::GetStreamByNameErrorKind,
        stream::RawMessageErrorKind,
    },
};
use std::{fmt::Display, time::Duration};
use tokio::time::timeout;

const EXPECTED_LAST: &str = "Nats-Expected-Last-Sequence";
/// Events that are under way at once: about a tenth of a megabyte.
const WINDOW: usize = 256;
/// A server that takes longer for a window is away.
const PATIENCE: Duration = Duration::from_secs(10);

/// The name of the stream of a log's usage; of one that is not there yet, the name that it will have.
///
/// # Errors
/// [`Error::Stream`]: the server does not say.
pub async fn stream_name(log: &JetStreamLog) -> Result<String, Error> {
    let wanted = wanted(log);
    let found = jetstream::new(log.client()).stream_by_subject(format!("{SUBJECT}.*")).await;
    match found {
        Ok(name) => Ok(name),
        Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => Ok(wanted),
        Err(error) => Err(Error::Stream { stream: wanted, why: error.to_string() }),
    }
}

/// Makes the durable consumers of `tenants`, with an administrator's credentials; what is there already is kept. Says how
/// many there are.
///
/// # Errors
/// [`Error::Stream`]: one cannot be made, or is another than it should be.
pub async fn make_consumers(log: &JetStreamLog, tenants: &[Tenant]) -> Result<usize, Error> {
    let (stream, jetstream) = (stream_name(log).await?, jetstream::new(log.client()));
    let mut made = 0_usize;
    for Durable { name, subject } in tenants.iter().flat_map(Tenant::durables) {
        let config = pull::Config {
            durable_name: Some(name.clone()),
            filter_subject: subject,
            ack_policy: AckPolicy::Explicit,
            ..pull::Config::default()
        };
        let answer = jetstream.create_consumer_on_stream(config, &stream).await;
        answer.map_err(|error| Error::Stream {
            stream: stream.clone(),
            why: format!("the consumer {name} cannot be made: {error}"),
        })?;
        made = made.saturating_add(1);
    }
    Ok(made)
}

fn wanted(log: &JetStreamLog) -> String {
    format!("{}_USAGE", log.stream())
}

/// The stream of a log's usage.
#[derive(Debug)]
pub(super) struct Published {
    jetstream: jetstream::Context,
    stream: String,
    /// Where the last event stands.
    last: u64,
}

impl Published {
    /// The log's stream of usage, made if it is not there, and its last event.
    pub(super) async fn open(log: &JetStreamLog) -> Result<(Self, Option<UsageMetered>), Error> {
        let (wanted, subject) = (wanted(log), format!("{SUBJECT}.*"));
        let description = "bizrq: what groups used, told once; never delete from it";
        let stream = log.side_stream(&wanted, &subject, description).await;
        let stream =
            stream.map_err(|error| Error::Stream { stream: wanted, why: error.to_string() })?;
        let mut place = Self { jetstream: jetstream::new(log.client()), stream, last: 0 };
        let last = place.last().await?;
        Ok((place, last))
    }

    /// The stream's name.
    pub(super) fn stream(&self) -> &str {
        &self.stream
    }

    async fn last(&mut self) -> Result<Option<UsageMetered>, Error> {
        let stream = self.jetstream.get_stream(&self.stream).await;
        let stream = stream.map_err(|error| self.failed(&error))?;
        self.last = stream.cached_info().state.last_sequence;
        if self.last == 0 {
            return Ok(None);
        }
        let message = match stream.get_raw_message(self.last).await {
            Ok(message) => message,
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {
                return Err(self.failed(&"its last event was removed"));
            }
            Err(error) => return Err(self.failed(&error)),
        };
        let read = serde_json::from_slice(&message.payload);
        let no_event = |error| self.failed(&format!("message {} is no event: {error}", self.last));
        read.map(Some).map_err(no_event)
    }

    /// Publishes `events` in their order, behind what is there.
    pub(super) async fn publish(&mut self, events: &[UsageMetered]) -> Result<(), Error> {
        for window in events.chunks(WINDOW) {
            let published = timeout(PATIENCE, self.publish_window(window)).await;
            published.unwrap_or_else(|_| Err(self.failed(&"no answer within 10 s")))?;
        }
        Ok(())
    }

    /// The server takes messages of one connection in their order, so that all of them can be under way: where one is
    /// not taken, none behind it is.
    async fn publish_window(&mut self, window: &[UsageMetered]) -> Result<(), Error> {
        let mut sent = Vec::with_capacity(window.len());
        for (expected, event) in (self.last..).zip(window) {
            let payload = serde_json::to_vec(event).map_err(|error| self.failed(&error))?;
            let mut headers = HeaderMap::new();
            headers.insert(EXPECTED_LAST, expected.to_string().as_str());
            headers.insert("Content-Type", "application/cloudevents+json; charset=utf-8");
            let subject = format!("{SUBJECT}.{}", token(&event.data.group));
            let publishing = self.jetstream.publish_with_headers(subject, headers, payload.into());
            sent.push(publishing.await.map_err(|error| self.failed(&error))?);
        }
        for acknowledged in sent {
            let acknowledged = acknowledged.await.map_err(|error| self.failed(&error))?;
            self.last = acknowledged.sequence;
        }
        Ok(())
    }

    fn failed(&self, why: &dyn Display) -> Error {
        Error::Stream { stream: self.stream.clone(), why: why.to_string() }
    }
}
