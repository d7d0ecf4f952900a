//! A subscription of ours on which the answers to what we publish come in.
//!
//! Every message has an address of its own, `<inbox>.<number>`, which is never used again: servers that start again
//! answer a second time what they answered before, and that must not be taken for the answer to something else.

use async_nats::{Message, Subscriber};

pub(super) struct Lane {
    inbox: String,
    pub(super) answers: Subscriber,
    /// The number in the next address.
    pub(super) next: u64,
    /// Answers that are still to come.
    pub(super) waiting: usize,
}

impl Lane {
    /// `answers` is subscribed to `<inbox>.*`.
    pub(super) fn new(inbox: String, answers: Subscriber) -> Self {
        Self { inbox, answers, next: 0, waiting: 0 }
    }

    /// Where the answer to the next message goes.
    pub(super) fn address(&mut self) -> String {
        let address = format!("{}.{}", self.inbox, self.next);
        self.next = self.next.saturating_add(1);
        address
    }
}

/// The number in the address that an answer came to.
pub(super) fn number(answer: &Message) -> Option<u64> {
    answer.subject.rsplit('.').next()?.parse().ok()
}
