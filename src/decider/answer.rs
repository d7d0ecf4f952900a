//! What whoever asked is told.

use crate::domain::{
    admission::{Fit, Reason, Refusal},
    event::Position,
};

/// What whoever asked is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Allowed {
        /// The record that says so; `None` where nothing grows, and of a dry run.
        recorded: Option<Position>,
        /// Shown by `kubectl` all the same. (Found again in the log, a "yes" has none.)
        warnings: Vec<String>,
    },
    /// No.
    Refused(Refused),
    /// Not now: `LogUnavailable`. It may be asked again.
    Unavailable(Unavailable),
}

/// A "no" as it is told: a [`Refusal`] without the numbers by which a ledger knows groups and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// For people.
    pub message: String,
    /// How many replicas would be accepted, where one role grows.
    pub fit: Option<Fit>,
}

/// Why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// No decision came in time. One that is on its way to the log still counts if it lands: the reservation then
    /// stands until it expires, which holds too much for a minute and never too little.
    #[error("the event log did not take the decision in time; try again")]
    Late,
    /// It would be refused now, but was allowed before by a record of which nothing was heard.
    #[error("it is not known whether the event log took the decision; try again")]
    Unclear,
    /// More reviews wait than may wait.
    #[error("{waiting} reviews wait for the event log already; try again in a moment")]
    QueueFull {
        /// How many wait.
        waiting: usize,
    },
    /// The log takes no decisions.
    #[error("the event log takes no decisions ({why}); look at the log of this process")]
    Log {
        /// What it says.
        why: String,
    },
    /// The ledger is not kept up to date any more.
    #[error("the ledger stopped ({why}); decisions would be judged by old numbers")]
    Stopped {
        /// Why.
        why: String,
    },
    /// The process ends.
    #[error("this replica of bizrq shuts down; try again")]
    ShuttingDown,
}

impl From<Unavailable> for Answer {
    fn from(why: Unavailable) -> Self {
        Self::Unavailable(why)
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        let Refusal { reason, message, fit, exceeded: _ } = refusal;
        Self::Refused(Refused { reason, message, fit })
    }
}

impl Answer {
    /// A "yes" that the record at `position` says.
    pub(super) const fn recorded(position: Position, warnings: Vec<String>) -> Self {
        Self::Allowed { recorded: Some(position), warnings }
    }

    /// Whether it is a "yes".
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }
}
