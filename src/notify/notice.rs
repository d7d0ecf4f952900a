//! A notice, and what was told so far. Notices of one topic are numbered: each says that something holds now, or that
//! it holds no more, and follows the one before it. So an id is never used twice, and the last one tells how things stand.
//!
//! ```text
//!  topic 5f…e3.cash-80    1: 80 % is used ─▶ 2: no more, the budget was raised ─▶ 3: 80 % is used
//! ```

use crate::domain::{event::Position, time::Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// What somebody is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Made of topic and number: the same for whoever finds it.
    pub id: String,
    /// What it is about.
    pub topic: Topic,
    /// Its place among the notices of its topic, from 1.
    pub number: u64,
    /// `cash.threshold`, `cash.exhausted`, … as README lists them.
    pub kind: String,
    /// Whether it holds from now on; else what the notice before it said is over.
    pub stands: bool,
    /// The group; empty for the log itself.
    pub group: String,
    /// The key; of a cluster its name.
    pub key: String,
    /// The quota object's uid, in the form of a UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u16>,
    /// The generation of the quota object that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Since when it holds, by the best knowledge; of an end, when that was seen.
    pub at: Timestamp,
    /// Whether `at` is the millisecond.
    pub exact: bool,
    /// When it is expected to come to its end, if all goes on as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Timestamp>,
    /// The limit, as refusals write it.
    pub hard: String,
    /// What percentages are of, exactly: the limit, or what it leaves to the group itself. Of records, how many.
    pub of: String,
    /// In words, for people.
    pub message: String,
    /// What the ledger had read.
    pub position: Position,
}

/// What a series of notices is about: `SCOPE.WHAT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Topic {
    /// A hash of quota object and key.
    pub scope: Scope,
    /// Which of its marks.
    pub what: What,
}

/// A quota object's uid and a key of it, in 128 bits of BLAKE3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope(u128);

/// What is watched of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// `cash-80`: the group spent so many percent of its own cash.
    Cash(u16),
    /// `overdraft`: more than the budget is used.
    Overdraft,
    /// `consumed-80`: the subtree spent so many percent of the budget.
    Consumed(u16),
    /// `forecast`: when the group's own cash is going to end.
    Forecast,
    /// `full`: the group itself uses nearly all that a limit leaves to it.
    Full,
    /// `unreviewed`: something is used that no review admitted.
    Unreviewed,
    /// `model`: something runs on a model that it was not admitted for.
    Model,
    /// `quarantine`: records of the log were not taken.
    Quarantine,
    /// `stopped`: nothing more of the log is folded.
    Stopped,
    /// `silent`: nobody observes a cluster.
    Silent,
}

/// Those without a percentage.
const WHATS: [(What, &str); 8] = [
    (What::Overdraft, "overdraft"),
    (What::Forecast, "forecast"),
    (What::Full, "full"),
    (What::Unreviewed, "unreviewed"),
    (What::Model, "model"),
    (What::Quarantine, "quarantine"),
    (What::Stopped, "stopped"),
    (What::Silent, "silent"),
];

impl What {
    /// The name of the alert that says so.
    #[must_use]
    pub const fn alert(self) -> &'static str {
        match self {
            Self::Cash(100..) => "BizrqCashExhausted",
            Self::Cash(_) => "BizrqCashThreshold",
            Self::Overdraft => "BizrqCashOverdraft",
            Self::Consumed(100..) => "BizrqConsumedExhausted",
            Self::Consumed(_) => "BizrqConsumedThreshold",
            Self::Forecast => "BizrqCashForecast",
            Self::Full => "BizrqLimitFull",
            Self::Unreviewed => "BizrqLimitUnreviewed",
            Self::Model => "BizrqModelMismatch",
            Self::Quarantine => "BizrqRecordsQuarantined",
            Self::Stopped => "BizrqFoldStopped",
            Self::Silent => "BizrqSourceSilent",
        }
    }

    /// How urgent it is: `info`, `warning` or `critical`.
    #[must_use]
    pub const fn severity(self) -> &'static str {
        match self {
            Self::Cash(..90) | Self::Consumed(..90) | Self::Full => "info",
            Self::Cash(100..) | Self::Consumed(100..) | Self::Overdraft => "critical",
            Self::Stopped | Self::Silent => "critical",
            _ => "warning",
        }
    }
}

impl Scope {
    /// Of these parts; their order counts.
    #[must_use]
    pub fn of(parts: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            // With their lengths, no two lists of parts are written alike.
            hasher.update(&part.len().to_be_bytes()).update(part.as_bytes());
        }
        let mut bits = [0; 16];
        hasher.finalize_xof().fill(&mut bits);
        Self(u128::from_be_bytes(bits))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Topic {
    /// The id of its notice with this number.
    #[must_use]
    pub fn id(self, number: u64) -> String {
        Scope::of(&[&self.to_string(), &number.to_string()]).to_string()
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.scope)?;
        match self.what {
            What::Cash(percent) => write!(f, "cash-{percent}"),
            What::Consumed(percent) => write!(f, "consumed-{percent}"),
            other => {
                let name = WHATS.iter().find(|(what, _)| *what == other);
                f.write_str(name.map_or("", |(_, name)| name))
            }
        }
    }
}

impl FromStr for Topic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("topic `{text}` is none that this build knows; upgrade bizrq");
        let (scope, what) = text.split_once('.').ok_or_else(wrong)?;
        let scope = Scope(u128::from_str_radix(scope, 16).map_err(|_| wrong())?);
        let what = match what.split_once('-') {
            Some(("cash", percent)) => What::Cash(percent.parse().map_err(|_| wrong())?),
            Some(("consumed", percent)) => What::Consumed(percent.parse().map_err(|_| wrong())?),
            _ => WHATS.iter().find(|(_, name)| *name == what).ok_or_else(wrong)?.0,
        };
        Ok(Self { scope, what })
    }
}

impl Serialize for Topic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Topic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The last notice of every topic.
#[derive(Clone, Debug, Default)]
pub struct Told {
    scopes: BTreeMap<Scope, BTreeMap<What, Notice>>,
}

impl Told {
    /// Notes what was told; what is older than what is known says nothing.
    pub fn note(&mut self, notice: Notice) {
        let Topic { scope, what } = notice.topic;
        let last = self.scopes.entry(scope).or_default().entry(what);
        let last = last.or_insert_with(|| notice.clone());
        if last.number < notice.number {
            *last = notice;
        }
    }

    /// What was told last of each mark of a scope.
    #[must_use]
    pub fn of(&self, scope: Scope) -> Option<&BTreeMap<What, Notice>> {
        self.scopes.get(&scope)
    }

    /// The last notices of topics, as far as they are about `since` or later.
    pub fn since(&self, since: Timestamp) -> impl Iterator<Item = &Notice> {
        let all = self.scopes.values().flat_map(BTreeMap::values);
        all.filter(move |notice| notice.at >= since)
    }

    /// What was told and is not over, by scope.
    pub fn standing(&self) -> impl Iterator<Item = (Scope, &Notice)> {
        let all = self.scopes.iter().flat_map(|(scope, last)| last.values().map(|n| (*scope, n)));
        all.filter(|(_, notice)| notice.stands)
    }
}
