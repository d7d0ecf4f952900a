//! How replicas reach the one that decides: a request to whoever serves, and its answer. Messages may be lost, late,
//! twice, or out of order; nothing here or above relies on more.

use std::{convert::Infallible, future::Future, time::Duration};

/// A way from replica to replica.
///
/// ```text
///  replica a ──request(anybody: who decides?)──▶ everybody who serves; the first answer counts
///  replica c ──request(b: decide these)────────▶ b, if it serves
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Where messages come in.
    type Inbox: Inbox<Address = Self::Address>;
    /// Where the answer to a message goes.
    type Address: Send + 'static;

    /// Sends a message to the replica `to`, or to everybody who serves, and waits for the first answer.
    fn request(
        &self,
        to: Option<&str>,
        message: Vec<u8>,
        within: Duration,
    ) -> impl Future<Output = Result<Vec<u8>, NoAnswer>> + Send;

    /// Sends a message that wants no answer to everybody who serves.
    fn say(&self, message: Vec<u8>) -> impl Future<Output = ()> + Send;

    /// Answers a message.
    fn answer(&self, to: Self::Address, message: Vec<u8>) -> impl Future<Output = ()> + Send;

    /// From now on until the inbox is dropped, messages to `replica` and to everybody come in here; `None`: not now.
    fn serve(&self, replica: &str) -> impl Future<Output = Option<Self::Inbox>> + Send;

    /// No message is larger.
    fn most_bytes(&self) -> usize;
}

/// Messages that come in.
pub trait Inbox: Send + 'static {
    /// Where the answer to a message goes.
    type Address;

    /// The next message, and where its answer goes if it wants one; `None` when there will be no more. A call that
    /// is dropped loses no message.
    fn next(&mut self) -> impl Future<Output = Option<(Vec<u8>, Option<Self::Address>)>> + Send;
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Nobody there serves: the message reached nobody.
    Nobody,
    /// None came in time.
    Late,
}

/// No other replica: the log is this process's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Transport for Alone {
    type Inbox = Alone;
    type Address = Infallible;

    async fn request(&self, _: Option<&str>, _: Vec<u8>, _: Duration) -> Result<Vec<u8>, NoAnswer> {
        Err(NoAnswer::Nobody)
    }

    async fn say(&self, _: Vec<u8>) {}

    async fn answer(&self, to: Infallible, _: Vec<u8>) {
        match to {}
    }

    async fn serve(&self, _: &str) -> Option<Alone> {
        Some(Self)
    }

    fn most_bytes(&self) -> usize {
        usize::MAX
    }
}

impl Inbox for Alone {
    type Address = Infallible;

    async fn next(&mut self) -> Option<(Vec<u8>, Option<Infallible>)> {
        std::future::pending().await
    }
}
