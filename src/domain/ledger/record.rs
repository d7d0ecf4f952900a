//! What a record is for the ledger, and what becomes of it.

use crate::domain::event::{Event, Kind, Position};
use serde::{Deserialize, Serialize};

/// What a record is for the ledger: decoded, or not.
#[derive(Clone, Debug)]
pub enum Record<'a> {
    /// An event.
    Event(&'a Event<'a>),
    /// A type that this build does not know.
    Unknown,
    /// A known type in a version that only a newer build reads.
    Newer {
        /// The type.
        kind: Kind,
        /// The version.
        version: u32,
    },
    /// Bytes that are no event, and why.
    Undecodable(String),
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It said something new.
    Changed,
    /// It repeats what is known.
    Repeated,
    /// It is for people, or of a type that this build does not know.
    Ignored,
    /// It repeats what was forgotten.
    Dropped,
    /// It contradicts what is known.
    Quarantined,
}

/// How many records became what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Said something new.
    pub changed: u64,
    /// Repeated what is known.
    pub repeated: u64,
    /// Notes, and types that this build does not know.
    pub ignored: u64,
    /// Repeated what was forgotten.
    pub dropped: u64,
}

/// A record that was not taken, or a stop that a later record contradicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The record.
    pub position: Position,
    /// What is wrong with it.
    pub reason: String,
}

/// Why the ledger cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Positions have no holes.
    #[error("position {found} follows {position}: a record is missing or comes twice")]
    NotNext {
        /// The ledger's position.
        position: Position,
        /// The record's.
        found: Position,
    },
    /// From here on only a newer build knows what is written.
    #[error(
        "position {position} raises the log to version {version}; this build reads up to version {reads}: upgrade bizrq"
    )]
    NewerLog {
        /// The record.
        position: Position,
        /// The log's version from there on.
        version: u32,
        /// What this build reads.
        reads: u32,
    },
    /// Only a newer build understands this.
    #[error(
        "position {position} is `{type_name}` version {version}; this build reads up to version {reads}: upgrade bizrq"
    )]
    NewerVersion {
        /// The record.
        position: Position,
        /// Its type.
        type_name: &'static str,
        /// Its version.
        version: u32,
        /// What this build reads.
        reads: u32,
    },
}
