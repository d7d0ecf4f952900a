//! What a log says of itself.

use super::Position;
use crate::domain::text::Text;
use serde::{Deserialize, Serialize};

/// Data of `log.opened`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct LogOpened<'a> {
    /// Position of the last record before it.
    pub base: Position,
    /// Root at that position.
    #[serde(borrow)]
    pub root: Text<'a>,
    /// Frontier of the Merkle tree at that position.
    #[serde(borrow)]
    pub frontier: Vec<Text<'a>>,
    /// The log that it continues.
    #[serde(borrow)]
    pub previous: Text<'a>,
}

/// Data of `log.version_raised`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct LogVersionRaised {
    /// The newest version that may be written from here on.
    pub version: u32,
}
