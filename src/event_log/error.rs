//! What can go wrong with a log: opening it, appending to it, reading it. Every error names the place and the remedy.

use super::{
    chain,
    codec::{DecodeError, EncodeError},
};
use crate::domain::{event::Position, merkle::Hash};
use std::{io, path::PathBuf};

/// Why an append was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Another decision came first. Nothing was written.
    #[error(
        "the last decision is at position {last_decision}, not {expected}; apply it and decide again"
    )]
    Conflict {
        /// What the decider knew.
        expected: Position,
        /// What is true.
        last_decision: Position,
    },
    /// Something of the same matter was appended since the log was read. Nothing was written.
    #[error(
        "the record at position {position} came while the log was read, and may change what is right; nothing was written, run the command again"
    )]
    Overtaken {
        /// Where it stands.
        position: Position,
    },
    /// It may be on the log or not: read first, then decide.
    #[error(
        "it is not known whether the record was written ({why}); read the log before deciding again"
    )]
    Unclear {
        /// What happened.
        why: String,
    },
    /// The log takes no appends any more. Nothing was written.
    #[error("the log takes no more appends ({why}); open it again once the cause is gone")]
    Closed {
        /// What happened, and when it happened to an earlier append.
        why: String,
    },
    /// The log cannot be reached. Nothing was written.
    #[error("the log cannot be reached ({why}); nothing was written, try again")]
    Away {
        /// What happened.
        why: String,
    },
    /// The log does not take it. Nothing was written.
    #[error("the log does not take it ({why}); nothing was written")]
    Refused {
        /// What happened, and the remedy.
        why: String,
    },
    /// The log ends elsewhere than a copy of its records would go on. Nothing was written.
    #[error(
        "the log ends at position {last}, so nothing can stand at {first} next; somebody else appended: import into an empty log"
    )]
    Elsewhere {
        /// Where the next record belongs.
        first: Position,
        /// Position of the last record.
        last: Position,
    },
    /// The log was opened for reading. Nothing was written.
    #[error("the log was opened for reading only")]
    ReadOnly,
    /// Only a decision can be appended conditionally. Nothing was written.
    #[error("event {id} is no decision; append it without a condition")]
    NotADecision {
        /// The event.
        id: String,
    },
}

/// Why records cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// A compressed segment cannot be unpacked any further.
    #[error("{}: the compressed data is cut off or damaged ({source}): from position {position} on it cannot be read; restore the file from a copy", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// The record from which on nothing can be read.
        position: Position,
        /// What the decompressor says.
        source: io::Error,
    },
    /// There is no log.
    #[error("{} is no event log: {why}", path.display())]
    NotALog {
        /// What was opened.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// Records are missing.
    #[error("{}: the records {from} to {to} are missing; restore the segment that begins at or before {from} from a copy", path.display())]
    Missing {
        /// The log.
        path: PathBuf,
        /// First that is missing.
        from: Position,
        /// Last that is missing.
        to: Position,
    },
    /// Two segments claim the same records.
    #[error("{}: the segment that begins at {segment} overlaps the one before it, which reaches {reached}; one of them belongs to another log", path.display())]
    Overlap {
        /// The log.
        path: PathBuf,
        /// Where the second begins.
        segment: Position,
        /// Last record of the first.
        reached: Position,
    },
    /// What stands beside the records contradicts them.
    #[error(transparent)]
    Contradicted(Box<OpenError>),
    /// A line is no event, or not the one that was written.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line in it, from 1.
        line: u64,
        /// Its position in the log.
        position: Position,
        /// What is wrong with it.
        why: LineError,
    },
    /// A stream cannot be read, or is not what was written.
    #[cfg(feature = "jetstream")]
    #[error(transparent)]
    Stream(#[from] super::jetstream::StreamError),
}

impl ReadError {
    /// Whether the log could not be asked, which may pass, and nothing is wrong with it as far as is known.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        #[cfg(feature = "jetstream")]
        if let Self::Stream(super::jetstream::StreamError::Away { .. }) = self {
            return true;
        }
        false
    }
}

/// What is wrong with a line of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// No event.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Changed after it was written.
    #[error(transparent)]
    Leaf(#[from] chain::LeafDiffers),
    /// Half a line where more follows.
    #[error("the line ends early, and another segment follows; restore the segment from a copy")]
    Torn,
}

/// Why a log cannot be opened, or is not what was written.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another writer is at work.
    #[error("{} is held by another writer ({holder}); stop it first, or keep the log on NATS, where several write", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// What the other writer wrote about itself.
        holder: String,
    },
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The operating system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// A line of `roots` is malformed.
    #[error("{}, line {line}: not `position root` in ascending order; verify the log, then remove the file, which is made anew", path.display())]
    Roots {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
    },
    /// The records are not those that the root was recorded for.
    #[error("{}: root {recorded} was recorded at position {position}, but the records give {computed}; verify the log, and restore segments or `roots` from a copy", path.display())]
    RootDiffers {
        /// The file.
        path: PathBuf,
        /// Where.
        position: Position,
        /// In the file.
        recorded: Hash,
        /// From the records.
        computed: Hash,
    },
    /// Acknowledged records are gone.
    #[error("{}: the log ends at position {found}, but a root was recorded at {recorded}: acknowledged records were lost; restore the last segment from a copy, or remove `roots` and `frontier` to accept the loss", path.display())]
    Truncated {
        /// The log.
        path: PathBuf,
        /// Position of the last root.
        recorded: Position,
        /// Position of the last record.
        found: Position,
    },
    /// A continued log must begin with what it continues.
    #[error("{}: the log begins at position {first}, but its first record is no `log.opened` with the tree before it; restore the segments before it", path.display())]
    NoBase {
        /// The log.
        path: PathBuf,
        /// First position.
        first: Position,
    },
    /// Its first record cannot be written.
    #[error(transparent)]
    Opening(#[from] EncodeError),
    /// What it says cannot be summed up without what came before.
    #[error(
        "{location} continues a log that ends at position {base}: name that log, or its archive, before it, with a comma between: --log EARLIER,{location}"
    )]
    Continues {
        /// The log.
        location: String,
        /// The last position of the one before.
        base: Position,
    },
    /// Not what was named before it.
    #[error(
        "{location} continues a log that ends at position {base}, and the one named before it ends at {reached} or is another; name the logs of one history, the earliest first"
    )]
    NotContinued {
        /// The log.
        location: String,
        /// The last position of the one before.
        base: Position,
        /// The last position of what was named.
        reached: Position,
    },
    /// Both hold the beginning, and not the same.
    #[error(
        "{location} is not the log whose archive was named before it: up to position {reached}, where that ends, it holds other records or fewer; name the logs of one history, the earliest first"
    )]
    AnotherHistory {
        /// The log.
        location: String,
        /// The last position of what was named.
        reached: Position,
    },
    /// It was rolled over.
    #[error("{} was rolled over at position {position} and takes no more records; append to {next}", path.display())]
    Sealed {
        /// The log.
        path: PathBuf,
        /// Its last record.
        position: Position,
        /// The log that goes on.
        next: String,
    },
    /// A stream on a server.
    #[cfg(feature = "jetstream")]
    #[error(transparent)]
    Stream(#[from] super::jetstream::OpenError),
    /// An address of a provider that is not there.
    #[error("{location}: this build opens folders only; give a path")]
    Unsupported {
        /// What was asked for.
        location: String,
    },
}
