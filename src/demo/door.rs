//! The way that a real review takes: what was recorded so far goes to the log, the webhook is asked over HTTPS, and
//! what it recorded is read back from the log.

use super::{Error, record::Recorder};
use crate::domain::{admission::Refusal, time::Timestamp};
use serde_json::Value;

/// Where reviews are asked.
pub(super) trait Door {
    /// Sends what `record` holds, asks `review` at the webhook's `path` at the simulated `now`, and puts what was
    /// recorded of it into `record`.
    fn ask(
        &mut self,
        record: &mut Recorder,
        path: &str,
        review: String,
        now: Timestamp,
    ) -> Result<Told, Error>;

    /// The observers of this cluster see an object.
    fn show(&mut self, cluster: &str, object: &Value) -> Result<(), Error>;

    /// Nothing more is asked.
    fn close(self: Box<Self>);
}

/// What the webhook said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) allowed: bool,
    /// Whether it was recorded.
    pub(super) recorded: bool,
    /// Of a "no".
    pub(super) reason: String,
    /// Of a "no".
    pub(super) message: String,
}

impl Told {
    /// A refusal, as a webhook tells it.
    pub(super) fn no(refusal: Refusal) -> Self {
        let Refusal { reason, message, .. } = refusal;
        let reason = reason.name().to_owned();
        Self { allowed: false, recorded: false, reason, message }
    }

    /// Reads the answer to a review, `None` if it is none.
    #[cfg(feature = "service")]
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(text).ok()?;
        let response = json.get("response")?;
        let text = |at: &str| response.pointer(at).and_then(Value::as_str).unwrap_or_default();
        Some(Self {
            allowed: response.get("allowed")?.as_bool()?,
            recorded: response.pointer("/auditAnnotations/position").is_some(),
            reason: text("/auditAnnotations/reason").to_owned(),
            message: text("/status/message").to_owned(),
        })
    }

    /// `24 of 40 replicas would fit`, as a person reads it.
    pub(super) fn fit(&self) -> u64 {
        let words: Vec<&str> = self.message.split(' ').collect();
        let fit = words.windows(5).find_map(|words| match words {
            [fit, "of", _, "replicas", "would"] => fit.parse().ok(),
            _ => None,
        });
        fit.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_a_person_reads_them() {
        let no = br#"{"response":{"uid":"u","allowed":false,"status":{"message":"exceeded quota: search, requested: limits.cpu=40, used: limits.cpu=6, limited: limits.cpu=24; 24 of 40 replicas would fit"},"auditAnnotations":{"reason":"QuotaExceeded"}}}"#;
        let no = Told::read(no).unwrap();
        assert_eq!(
            (no.allowed, no.recorded, &*no.reason, no.fit()),
            (false, false, "QuotaExceeded", 24)
        );
        let yes = br#"{"response":{"uid":"u","allowed":true,"auditAnnotations":{"position":"7"}}}"#;
        let yes = Told::read(yes).unwrap();
        assert_eq!((yes.allowed, yes.recorded, yes.fit()), (true, true, 0));
        assert_eq!(Told::read(b"{}"), None);
    }
}
