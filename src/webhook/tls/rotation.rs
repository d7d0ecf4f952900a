//! When which certificate is made, trusted, used and dropped: pure, by the time that it is given.
//!
//! ```text
//!  CA 1      |=== trusted ==================================|
//!  CA 2                              |=== trusted (a day) ==|=================…   both are in the caBundle
//!  serving   |--- by 1 ---|--- by 1 ---|--- by 1 -|--- by 2 ---|--- by 2 ---|
//!                                                 ^          ^ a day later CA 1 is dropped
//!                                                 the day after which every API server knows CA 2
//! ```
//!
//! At every instant, whoever knows the bundle of a day ago can believe the certificate that is shown.

use crate::domain::time::{HOUR_MS, Timestamp};
use serde::{Deserialize, Serialize};

const DAY: i64 = 24 * HOUR_MS;

/// An authority signs for two years: ten times as long would be ten times as long in a thief's hands.
pub const AUTHORITY_MS: i64 = 730 * DAY;
/// Its successor is made half a year before its end: whatever keeps bizrq from it, there is time to repair it.
pub const AUTHORITY_RENEW_MS: i64 = 180 * DAY;
/// A certificate of the server holds for ninety days …
pub const SERVING_MS: i64 = 90 * DAY;
/// … and is renewed thirty before its end.
pub const SERVING_RENEW_MS: i64 = 30 * DAY;
/// So long everybody has to hear of a change. API servers take seconds and replicas half a minute; the rest is for
/// whoever must repair what keeps them from it.
pub const SETTLE_MS: i64 = DAY;

/// Everything that is kept in the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The oldest first; rarely more than two.
    pub authorities: Vec<Authority>,
    /// What the server shows.
    pub serving: Option<Serving>,
}

/// A certificate authority of our own. It is named by its `from`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// PEM.
    pub certificate: String,
    /// PEM.
    pub key: String,
    /// When it was made.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// Since when both webhook configurations have been known to trust it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<Timestamp>,
}

/// The certificate of the server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// PEM.
    pub certificate: String,
    /// PEM.
    pub key: String,
    /// When it was made.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// The names that it bears.
    pub names: Vec<String>,
    /// The `from` of the authority that signed it.
    pub by: Timestamp,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make an authority.
    MakeAuthority,
    /// Make a certificate of the server, signed by this authority (by its place).
    Issue {
        /// Its place among the authorities.
        by: usize,
    },
    /// Drop this authority: nobody needs it any more.
    Drop {
        /// Its place.
        authority: usize,
    },
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({} to {}, trusted {:?})", self.from, self.until, self.trusted)
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Serving({} to {}, by {}, {:?})", self.from, self.until, self.by, self.names)
    }
}

impl Kept {
    /// What is to be done at `now`, one step at a time; `None`: nothing until something changes.
    #[must_use]
    pub fn next(&self, names: &[String], now: Timestamp) -> Option<Step> {
        if let Some(authority) = self.authorities.iter().position(|a| a.until <= now) {
            return Some(Step::Drop { authority });
        }
        let Some(newest) = self.authorities.last() else { return Some(Step::MakeAuthority) };
        if newest.until.since(now) <= AUTHORITY_RENEW_MS {
            return Some(Step::MakeAuthority);
        }
        let by = self.signer(now);
        let signer = self.authorities.get(by)?;
        let Some(serving) = self.serving.as_ref().filter(|s| s.is_good(names, signer, now)) else {
            return Some(Step::Issue { by });
        };
        let is_settled = now.since(serving.from) >= SETTLE_MS;
        let former = self.authorities.iter().position(|a| a.from < serving.by);
        former.filter(|_| is_settled).map(|authority| Step::Drop { authority })
    }

    /// What API servers are to trust, as PEM.
    #[must_use]
    pub fn bundle(&self) -> String {
        self.authorities.iter().map(|a| a.certificate.as_str()).collect()
    }

    /// Both webhook configurations hold the bundle at `now`; whether that is news.
    pub fn bundle_is_trusted(&mut self, now: Timestamp) -> bool {
        let mut is_news = false;
        for authority in self.authorities.iter_mut().filter(|a| a.trusted.is_none()) {
            authority.trusted = Some(now);
            is_news = true;
        }
        is_news
    }

    /// The newest authority that everybody has heard of; else the oldest, of which most have.
    fn signer(&self, now: Timestamp) -> usize {
        let is_heard_of =
            |a: &Authority| a.trusted.is_some_and(|trusted| now.since(trusted) >= SETTLE_MS);
        self.authorities.iter().rposition(is_heard_of).unwrap_or(0)
    }
}

impl Authority {
    /// When an authority ends that is made at `now`.
    #[must_use]
    pub fn end(now: Timestamp) -> Timestamp {
        now.shifted(AUTHORITY_MS)
    }
}

impl Serving {
    /// When a certificate ends that `by` signs at `now`: never after its signer.
    #[must_use]
    pub fn end(by: &Authority, now: Timestamp) -> Timestamp {
        now.shifted(SERVING_MS).min(by.until)
    }

    /// Whether `by` could make none that is better.
    fn is_good(&self, names: &[String], by: &Authority, now: Timestamp) -> bool {
        let is_long = self.until.since(now) > SERVING_RENEW_MS || Self::end(by, now) <= self.until;
        self.names == names && self.by == by.from && is_long
    }
}
