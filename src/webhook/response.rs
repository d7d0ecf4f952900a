//! What the API server is told: yes or no, why, and what people and audits should know.

use crate::domain::admission::Reason;
use serde::Serialize;
use std::collections::BTreeMap;

/// An answer to a review. Its JSON is an AdmissionReview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// The review's.
    pub uid: String,
    /// Yes or no.
    pub allowed: bool,
    /// Of a "no": why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Shown by `kubectl`, also of a "yes".
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// For the audit log: group, position and reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<&'static str, String>,
}

/// Why something is refused, as the API server passes it on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// As of HTTP.
    pub code: u16,
    /// As of Kubernetes.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// For programs: bizrq's own reason.
    pub details: Details,
}

/// See [`Status::details`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Details {
    /// One.
    pub causes: [Cause; 1],
}

/// See [`Status::details`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// `QuotaExceeded`.
    pub reason: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview<'r> {
    api_version: &'static str,
    kind: &'static str,
    response: &'r Response,
}

/// The API server cuts what is longer, and the rest of them.
const MAX_WARNING_CHARS: usize = 256;
/// Nobody reads more of them.
const MAX_WARNINGS: usize = 8;
/// A message that names every key of many groups can be long; a client shows it on one line.
const MAX_MESSAGE_CHARS: usize = 4096;

impl Response {
    /// Yes.
    #[must_use]
    pub fn allowed(uid: &str, reason: &str) -> Self {
        let audit_annotations = [("reason", reason.to_owned())].into();
        let uid = uid.to_owned();
        Self { uid, allowed: true, status: None, warnings: Vec::new(), audit_annotations }
    }

    /// No.
    #[must_use]
    pub fn refused(uid: &str, reason: Reason, message: &str) -> Self {
        let (code, of_kubernetes) = match reason {
            Reason::MalformedObject | Reason::InvalidQuantity => (422, "Invalid"),
            Reason::LogUnavailable => (503, "ServiceUnavailable"),
            _ => (403, "Forbidden"),
        };
        let message = cut(message, MAX_MESSAGE_CHARS);
        let details = Details { causes: [Cause { reason: reason.name() }] };
        let status = Some(Status { code, reason: of_kubernetes, message, details });
        Self { allowed: false, status, ..Self::allowed(uid, reason.name()) }
    }

    /// The AdmissionReview that says this.
    ///
    /// # Errors
    /// Never: it has texts and numbers only.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&self.review())
    }

    /// What [`Self::to_json`] writes.
    #[must_use]
    pub fn review(&self) -> impl Serialize + '_ {
        AdmissionReview {
            api_version: "admission.k8s.io/v1",
            kind: "AdmissionReview",
            response: self,
        }
    }

    /// Adds warnings.
    pub fn warn(&mut self, warnings: &[String]) {
        let room = MAX_WARNINGS.saturating_sub(self.warnings.len());
        let warnings = warnings.iter().take(room);
        self.warnings.extend(warnings.map(|warning| cut(warning, MAX_WARNING_CHARS)));
    }

    /// Adds an audit annotation.
    pub fn annotate(&mut self, key: &'static str, value: String) {
        self.audit_annotations.insert(key, value);
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}
