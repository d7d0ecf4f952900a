//! Replicas reach each other through the NATS server that keeps their log.
//!
//! ```text
//!  bizrq.decide            who decides? · "I do"     every replica that serves
//!  bizrq.decide.<replica>  decide these              that replica
//! ```
//!
//! A log whose stream is not called `BIZRQ` has its name behind: `bizrq.decide-<stream>`. The server says at once when
//! nobody listens.

use super::transport::{Inbox, NoAnswer, Transport};
use crate::event_log::{codec::message::token, jetstream::JetStreamLog};
use async_nats::{Client, Message, RequestErrorKind, Subject, Subscriber, connection::State};
use futures_util::StreamExt;
use std::time::Duration;

/// The usual stream, which needs no name in a subject.
const STREAM: &str = "BIZRQ";

/// A larger message delays those behind it.
const MOST_BYTES: usize = 512 << 10;

/// The other replicas of a log on NATS.
#[derive(Clone, Debug)]
pub struct Nats {
    client: Client,
    subject: String,
    most_bytes: usize,
}

/// What comes in while a replica decides.
#[derive(Debug)]
pub struct Subscriptions {
    everybody: Subscriber,
    own: Subscriber,
}

impl Nats {
    /// Those that share `log`.
    #[must_use]
    pub fn new(log: &JetStreamLog) -> Self {
        let stream = log.stream();
        let subject = match stream {
            STREAM => "bizrq.decide".to_owned(),
            _ => format!("bizrq.decide-{}", token(stream)),
        };
        let client = log.client();
        // Half of what the server takes leaves room for a reply that is longer than its asks.
        let most_bytes = (client.max_payload() / 2).min(MOST_BYTES);
        Self { client, subject, most_bytes }
    }

    /// Without a connection a message would be sent later, when nobody waits for it any more, and fill a queue until
    /// then.
    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    fn to(&self, replica: Option<&str>) -> String {
        match replica {
            None => self.subject.clone(),
            Some(replica) => format!("{}.{}", self.subject, token(replica)),
        }
    }
}

impl Transport for Nats {
    type Inbox = Subscriptions;
    type Address = Subject;

    async fn request(
        &self,
        to: Option<&str>,
        message: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, NoAnswer> {
        if !self.is_connected() {
            return Err(NoAnswer::Nobody);
        }
        let request = async_nats::Request::new().payload(message.into()).timeout(Some(within));
        let answer = self.client.send_request(self.to(to), request).await;
        answer.map(|message| message.payload.to_vec()).map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => NoAnswer::Nobody,
            _ => NoAnswer::Late,
        })
    }

    async fn say(&self, message: Vec<u8>) {
        // Lost, it is said again in half a second.
        if self.is_connected() {
            let _ = self.client.publish(self.to(None), message.into()).await;
        }
    }

    async fn answer(&self, to: Subject, message: Vec<u8>) {
        // Lost, the asks are decided where they came from.
        if self.is_connected() {
            let _ = self.client.publish(to, message.into()).await;
        }
    }

    async fn serve(&self, replica: &str) -> Option<Subscriptions> {
        let everybody = self.client.subscribe(self.to(None)).await.ok()?;
        let own = self.client.subscribe(self.to(Some(replica))).await.ok()?;
        Some(Subscriptions { everybody, own })
    }

    fn most_bytes(&self) -> usize {
        self.most_bytes
    }
}

impl Inbox for Subscriptions {
    type Address = Subject;

    async fn next(&mut self) -> Option<(Vec<u8>, Option<Subject>)> {
        let message: Option<Message> = tokio::select! {
            message = self.own.next() => message,
            message = self.everybody.next() => message,
        };
        message.map(|message| (message.payload.to_vec(), message.reply))
    }
}
