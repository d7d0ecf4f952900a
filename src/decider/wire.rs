//! What replicas say to each other, as bytes: asks, answers, and who decides. Versioned; what cannot be read is
//! nobody's business but a counter's.

use super::{Answer, Ask, Refused};
use crate::domain::{
    admission::{Fit, Reason},
    event::Position,
};
use serde::{Deserialize, Serialize};

/// The version that is written, and the only one that is read: a replica of another version decides itself.
const VERSION: u32 = 1;

/// A letter holds no more asks. (It is bounded in bytes by the transport.)
pub(super) const MOST_ASKS: usize = 512;

/// Who writes, and how far from the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Sender {
    /// See [`super::role::Distance`]. Compared first.
    pub(super) distance: u32,
    /// The replica.
    pub(super) replica: String,
}

/// What goes to whoever decides.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Letter {
    version: u32,
    pub(super) from: Sender,
    /// The sender decides, too, as it believes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) decides: bool,
    /// The answer is of use for so long.
    #[serde(default)]
    pub(super) within_ms: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) asks: Vec<Ask>,
}

/// What comes back: an answer to each ask, in order.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reply {
    version: u32,
    pub(super) from: Sender,
    pub(super) answers: Vec<Told>,
}

/// The answer to one request.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    request: String,
    /// Neither this nor `refused`: it could not be decided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    allowed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recorded: Option<Position>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<No>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct No {
    reason: String,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fit: Option<(u64, u64)>,
}

impl Letter {
    pub(super) fn new(from: Sender, decides: bool, within_ms: u64, asks: Vec<Ask>) -> Self {
        Self { version: VERSION, from, decides, within_ms, asks }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        bytes(self)
    }

    /// Reads a letter; `None` if it is none, or of another version.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let letter: Self = serde_json::from_slice(bytes).ok()?;
        (letter.version == VERSION && letter.asks.len() <= MOST_ASKS).then_some(letter)
    }
}

impl Reply {
    pub(super) fn new(from: Sender, answers: Vec<Told>) -> Self {
        Self { version: VERSION, from, answers }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        bytes(self)
    }

    /// Reads a reply; `None` if it is none, or of another version.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let reply: Self = serde_json::from_slice(bytes).ok()?;
        (reply.version == VERSION).then_some(reply)
    }
}

impl Told {
    pub(super) fn new(request: String, answer: Answer) -> Self {
        let told = Self { request, ..Self::default() };
        match answer {
            Answer::Allowed { recorded, warnings } => {
                Self { allowed: true, recorded, warnings, ..told }
            }
            Answer::Refused(Refused { reason, message, fit }) => {
                let fit = fit.map(|fit| (fit.replicas, fit.of));
                let no = No { reason: reason.name().to_owned(), message, fit };
                Self { refused: Some(no), ..told }
            }
            Answer::Unavailable(_) => told,
        }
    }

    /// The answer to `request`; `None` if it is another's, or if nothing was decided.
    pub(super) fn answer(self, request: &str) -> Option<Answer> {
        if self.request != request {
            return None;
        }
        match self.refused {
            None if self.allowed => {
                Some(Answer::Allowed { recorded: self.recorded, warnings: self.warnings })
            }
            None => None,
            Some(No { reason, message, fit }) => Some(Answer::Refused(Refused {
                reason: Reason::named(&reason)?,
                message,
                fit: fit.map(|(replicas, of)| Fit { replicas, of }),
            })),
        }
    }
}

/// Every type here has a JSON form: maps have texts as keys.
fn bytes(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}
