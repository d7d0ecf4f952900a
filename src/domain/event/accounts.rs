//! What operators say of accounts: corrections, and periods that are closed.

use super::{Period, Position};
use crate::domain::{text::Text, time::Timestamp};
use serde::{Deserialize, Serialize};

/// Data of `usage.adjusted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct UsageAdjusted<'a> {
    /// The key that is corrected.
    #[serde(borrow)]
    pub key: Text<'a>,
    /// Signed milli-units × milliseconds.
    #[serde(with = "exact")]
    #[cfg_attr(feature = "cli", schemars(with = "String"))]
    pub exact: i128,
    /// The period that it belongs to.
    pub period: Period,
    /// Why.
    #[serde(borrow)]
    pub why: Text<'a>,
    /// Who.
    #[serde(borrow)]
    pub by: Text<'a>,
}

/// Data of `period.closed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PeriodClosed<'a> {
    /// First instant inside.
    pub from: Timestamp,
    /// First instant after it.
    pub to: Timestamp,
    /// What was known when it was closed.
    pub position: Position,
    /// Root of the log at that position.
    #[serde(borrow)]
    pub root: Text<'a>,
}

/// Exact amounts travel as decimal strings: JSON numbers lose digits in many readers.
mod exact {
    use super::Text;
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(exact: &i128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(exact)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<i128, D::Error> {
        let text = Text::deserialize(deserializer)?;
        text.parse().map_err(|_| de::Error::custom(format!("`{text}` is no whole number")))
    }
}
