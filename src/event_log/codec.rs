//! The bytes of an event: one CloudEvent, as one line of JSON or as a [`message`]. The only file family that knows
//! them.
//!
//! ```text
//! append:  Event ──NewEvent::new──▶ NewEvent ──write_line(position)──▶ line ‖ leaf
//! read:    line ──scan──▶ Scanned (attributes, exact bytes of data, leaf) ──Decoder::decode──▶ Event
//! ```
//!
//! Reading has two steps because a reader that only checks hashes needs no types, and because a hash covers
//! the bytes of `data` as they were written. Nothing here reads files or knows where a line came from; the
//! caller adds path, line and position to an error.

mod decode;
mod encode;
mod memo;
pub mod message;
mod outline;
mod part;
mod scan;
mod short;

pub use decode::{Decoded, Decoder, decode};
pub use encode::{EncodeError, NewEvent};
pub(super) use outline::Outline;
pub(super) use part::Part;
pub use scan::{Scanned, scan, scan_text};

/// The longest line that is written or read: 16 MiB, thirty times the largest batch (512 KiB).
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Why a line is no event that this build reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Longer than [`MAX_LINE_BYTES`].
    #[error(
        "the line has {bytes} bytes or more, at most {MAX_LINE_BYTES} are read; is this an event file?"
    )]
    TooLong {
        /// Bytes that were seen.
        bytes: usize,
    },
    /// Nothing but white space.
    #[error("the line is empty; a line is one CloudEvent in JSON")]
    Blank,
    /// Not UTF-8.
    #[error("byte {} of the line is not UTF-8; restore the line from a copy", at.saturating_add(1))]
    NotUtf8 {
        /// Offset of the first wrong byte.
        at: usize,
    },
    /// Not a JSON object with the attributes of a CloudEvent.
    #[error("no event: {why}; a line is one CloudEvent in JSON")]
    NotAnEvent {
        /// What the parser says.
        why: String,
    },
    /// An attribute says what it must not.
    #[error("attribute `{name}`: {why}")]
    Attribute {
        /// Its name.
        name: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The data is not what its type says.
    #[error("data of `{type_name}`: {why}")]
    Data {
        /// The type.
        type_name: String,
        /// What the parser says.
        why: String,
    },
}

#[cfg(test)]
mod tests;
