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

#[cfg(test)]
mod tests {
    use super::super::{Former, Missing, Quota, Undeclared, What, Workload};
    use super::*;
    use crate::domain::{
        event::{ObjectRef, Operation, PodResize, QuotaSpec, Role},
        label_keys::LabelKeys,
    };
    use std::sync::Arc;

    fn sender() -> Sender {
        Sender { distance: 2, replica: "b".into() }
    }

    fn roles() -> Vec<Role<'static>> {
        let json = r#"[{"name":"w","count":2,"peak":3,"models":{"gpu":"A30"},
            "pod":{"requests":{"cpu":"1500m"},"limits":{"nvidia.com/gpu":"2"}}}]"#;
        serde_json::from_str(json).unwrap()
    }

    fn asks() -> Vec<Ask> {
        let object = ObjectRef { uid: "u\"1\u{e9}".into(), ..ObjectRef::default() };
        let pod = Arc::clone(&roles()[0].pod);
        let workload = Workload {
            operation: Operation::Update,
            workload: object.clone(),
            old_resource_version: Some("7".into()),
            group: Some("team-a".into()),
            missing: Missing::Default("pool".into()),
            labels: Arc::new(LabelKeys { group: "example.com/team".into(), ..LabelKeys::USUAL }),
            roles: roles(),
            old: Some(Former { group: "team-b".into(), roles: roles() }),
            resize: Some(PodResize {
                uid: "p".into(),
                models: Default::default(),
                from: Arc::clone(&pod),
                to: pod,
            }),
            undeclared: vec![Undeclared { container: "c".into(), key: "limits.cpu".into() }],
            name_is_taken: true,
            draws_on: Some(object),
            makes: roles(),
            invalid: Some("spec: `x`".into()),
        };
        let spec = r#"{"parent":"dept","hard":{"limits.cpu":"10"},"charge":"Peak"}"#;
        let spec: QuotaSpec<'static> = serde_json::from_str(spec).unwrap();
        let quota = Quota {
            operation: Operation::Create,
            name: "team-a".into(),
            uid: "q".into(),
            old_resource_version: None,
            spec: Some(spec),
            allow_orphans: true,
        };
        let whats = [What::Workload(Box::new(workload)), What::Quota(Box::new(quota))];
        let ask = |what| Ask { request: "r".into(), cluster: "east".into(), dry_run: true, what };
        whats.map(ask).into()
    }

    #[test]
    fn a_letter_says_what_was_written_into_it() {
        let bytes = Letter::new(sender(), false, 250, asks()).bytes();
        let letter = Letter::read(&bytes).unwrap();
        assert_eq!((letter.asks, letter.within_ms, letter.from), (asks(), 250, sender()));
    }

    #[test]
    fn an_answer_is_told_as_it_was_given_and_to_nobody_else() {
        let refused = Answer::Refused(Refused {
            reason: Reason::QuotaExceeded,
            message: "exceeded".into(),
            fit: Some(Fit { replicas: 1, of: 3 }),
        });
        let allowed = Answer::recorded(7, vec!["nearly full".into()]);
        for answer in [refused, allowed, Answer::Allowed { recorded: None, warnings: vec![] }] {
            let told = |request: &str| {
                let told = Told::new("r".into(), answer.clone());
                let bytes = Reply::new(sender(), vec![told]).bytes();
                let mut answers = Reply::read(&bytes).unwrap().answers.into_iter();
                answers.next().and_then(|told| told.answer(request))
            };
            assert_eq!(told("r"), Some(answer.clone()));
            assert_eq!(told("other"), None);
        }
        let nothing = Told::new("r".into(), super::super::Unavailable::Late.into());
        assert_eq!(nothing.answer("r"), None, "that nothing was decided is no answer");
    }

    #[test]
    fn what_is_no_letter_of_this_version_is_not_read() {
        let good = String::from_utf8(Letter::new(sender(), false, 1, asks()).bytes()).unwrap();
        let newer = good.replace(r#""version":1"#, r#""version":2"#);
        let credit = good.replace("1500m", "ten");
        let many = Letter::new(sender(), false, 1, vec![asks().remove(1); MOST_ASKS + 1]).bytes();
        let bad = [newer.as_bytes(), credit.as_bytes(), &many, &good.as_bytes()[..40], b"", b"{}"];
        for bytes in bad {
            assert!(Letter::read(bytes).is_none(), "{}", String::from_utf8_lossy(bytes));
        }
        let deep = "[".repeat(100_000);
        assert!(Letter::read(deep.as_bytes()).is_none() && Reply::read(deep.as_bytes()).is_none());
    }
}
