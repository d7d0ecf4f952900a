//! Deciding: may this happen, and if not, which number is in the way.
//!
//! A review is judged by doing it in a [`Trial`](super::book::Trial) of the book and looking at what became of the sums; what is
//! refused is taken back, what must be recorded stays in the trial for those that come after it. What lets
//! nothing grow is allowed without a record. Nothing here appends, waits or asks the time.

mod checks;
mod quotas;
mod refusal;
mod workloads;

pub use quotas::{QuotaReview, decide_quota};
pub use refusal::{Fit, Reason, Refusal, amount};
pub use workloads::{Former, MissingGroup, Review, Undeclared, decide};

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<R> {
    /// Allowed; nothing grows, so nothing is recorded.
    Allowed,
    /// Allowed once this is on the log.
    Record(R),
    /// Refused.
    Refused(Box<Refusal>),
}

/// A decision and what people should know all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict<R> {
    /// The decision.
    pub decision: Decision<R>,
    /// Shown by `kubectl`, also when allowed.
    pub warnings: Vec<String>,
}

impl<R> From<Decision<R>> for Verdict<R> {
    fn from(decision: Decision<R>) -> Self {
        Self { decision, warnings: Vec::new() }
    }
}

impl<R> From<Refusal> for Verdict<R> {
    fn from(refusal: Refusal) -> Self {
        Decision::Refused(Box::new(refusal)).into()
    }
}

impl<R> Verdict<R> {
    /// Whether it was not refused.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        !matches!(self.decision, Decision::Refused(_))
    }

    /// The refusal, if it is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.decision {
            Decision::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}
