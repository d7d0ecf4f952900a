//! Usage events: what each group held of each key, in exact amounts that need no fold, published as it becomes known. It
//! decides nothing and appends nothing to the log.
//!
//! ```text
//!  log ──▶ Metered (domain) ──▶ pieces ──every second, and at the end of each hour──▶ batch ──▶ BIZRQ_USAGE
//!                                                   each event behind the one before ──┘    bizrq.usage.v1.GROUP
//! ```
//!
//! An event names the mark that its batch was made at and the one before. So whoever comes next reads the last event,
//! folds the log up to these marks, makes the same batch again and goes on behind that event: nothing is told twice and
//! nothing is left out, whoever was killed when. Of an embedded log there are none: `/v1/usage` has its amounts.

pub mod event;
pub mod metrics;
#[cfg(feature = "jetstream")]
mod nats;
#[cfg(feature = "jetstream")]
mod reading;
#[cfg(feature = "jetstream")]
mod teller;
pub mod tenant;

use crate::{
    domain::{amounts::Overflow, event::Position, metered},
    event_log::ReadError,
};
#[cfg(feature = "jetstream")]
pub use nats::{make_consumers, stream_name};
#[cfg(feature = "jetstream")]
pub use teller::Teller;

/// What usage is published to: the group follows, as one token.
const SUBJECT: &str = "bizrq.usage.v1";

/// Why usage is not told yet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stream does not take it, or cannot be read.
    #[error("stream {stream}: {why}; usage events wait until it can be published to")]
    Stream {
        /// The stream.
        stream: String,
        /// What happened.
        why: String,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The log cannot be folded.
    #[error("usage events: {0}")]
    Fold(#[from] metered::Error),
    /// What was told does not follow from this log.
    #[error(
        "stream {stream}: its last event, of position {position}, does not follow from this log; was the log replaced? Let an administrator remove the stream, so that usage is told anew, or give bizrq the log that it was told from"
    )]
    OtherLog {
        /// The stream.
        stream: String,
        /// The position that the event names.
        position: Position,
    },
}

impl From<Overflow> for Error {
    fn from(overflow: Overflow) -> Self {
        Self::Fold(overflow.into())
    }
}
