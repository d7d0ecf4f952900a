//! What waits for the committer.

use super::{Answer, Ask, Unavailable};
use crate::{domain::event::Position, event_log::NewEvent};
use tokio::{sync::oneshot, time::Instant};

/// A review, until when it is to be answered, and where to.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ask: Ask,
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Answer>,
    /// It may be allowed by a record that is still on its way, until a decision behind this position is known: ours,
    /// of which nothing was heard, or another replica's ([`Position::MAX`]). Until then it is not refused.
    pub(super) doubt: Option<Position>,
}

impl Pending {
    pub(super) fn new(ask: Ask, deadline: Instant, reply: oneshot::Sender<Answer>) -> Self {
        Self { ask, deadline, reply, doubt: None }
    }

    /// Tells whoever still listens.
    pub(super) fn answer(self, answer: Answer) {
        let _ = self.reply.send(answer);
    }

    /// Whether nobody waits any more.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.reply.is_closed() || now >= self.deadline
    }
}

/// What the committer is given to do.
#[derive(Debug)]
pub(super) enum Work {
    /// To be decided.
    Decide(Pending),
    /// To be appended as it is.
    Tell(Tale),
}

/// What is true of the past, whatever was decided since.
#[derive(Debug)]
pub(super) struct Tale {
    pub(super) events: Vec<NewEvent>,
    pub(super) reply: oneshot::Sender<Result<Position, Unavailable>>,
}
