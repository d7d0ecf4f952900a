//! From a typed event to the line that a file log keeps: fixed keys in a fixed order, nothing optional.

use super::{MAX_LINE_BYTES, Scanned};
use crate::domain::{
    event::{Data, Event, EventId, Kind, Position},
    ident,
    merkle::{Hash, LeafHasher, LeafInput},
    time::Timestamp,
};
use serde::de::IgnoredAny;
use std::fmt::Write as _;

/// An event that is ready to be appended: everything but its position, and therefore its leaf.
///
/// Attributes are kept as decoded strings, data as the bytes that will be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// id ‖ type ‖ source ‖ subject ‖ time ‖ recordedat ‖ data, one after another.
    text: String,
    /// Where each of the first six ends.
    ends: [usize; 6],
    decision: bool,
}

/// Why an event cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Of a type that this build does not know.
    #[error("event {id} is of a type that this build does not write")]
    Unknown {
        /// The event.
        id: EventId,
    },
    /// Longer than a reader would accept.
    #[error(
        "event {id} has {bytes} bytes, at most {MAX_LINE_BYTES} are written; make the batch smaller"
    )]
    TooLong {
        /// The event.
        id: String,
        /// Its bytes.
        bytes: usize,
    },
    /// The data has no JSON form, or none that fits into a line.
    #[error("event {id}: {why}")]
    Data {
        /// The event.
        id: String,
        /// What is wrong.
        why: String,
    },
}

/// Room for the keys, quotes and leaf of a line beside its contents: 102 + 75 bytes, rounded up.
const FRAME_BYTES: usize = 256;

impl NewEvent {
    /// Encodes an event, times with milliseconds and `Z`, data compact.
    ///
    /// # Errors
    /// [`EncodeError`] when the type is unknown or the line would be too long to be read again.
    pub fn new(event: &Event<'_>) -> Result<Self, EncodeError> {
        let (kind, data) = json(event)?;
        Self::written(event.id, event, kind, &data)
    }

    /// Encodes a decision under the name that its content gives it; `event.id` is not looked at.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn decision(event: &Event<'_>) -> Result<Self, EncodeError> {
        let (kind, data) = json(event)?;
        Self::written(ident::decision(kind, data.as_bytes()), event, kind, &data)
    }

    fn written(
        id: EventId,
        event: &Event<'_>,
        kind: Kind,
        data: &str,
    ) -> Result<Self, EncodeError> {
        let mut parts = Parts::with_capacity(192_usize.saturating_add(data.len()));
        parts.end(format_args!("{id}"));
        parts.end(format_args!("{}", kind.type_name()));
        parts.end(format_args!("{}", event.source));
        parts.end(format_args!("{}", event.subject));
        parts.end(format_args!("{}", event.time));
        parts.end(format_args!("{}", event.recorded_at));
        parts.finish(data, kind.is_decision())
    }

    /// Encodes what has no uid (nodes, observers, clusters) under the name of source, subject, time and content;
    /// `event.id` is not looked at.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn note(event: &Event<'_>) -> Result<Self, EncodeError> {
        let (kind, data) = json(event)?;
        let id = ident::note(kind, &event.source, &event.subject, event.time, data.as_bytes());
        Self::written(id, event, kind, &data)
    }

    /// What an operator says of the log itself, named by its content.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn of_the_log(data: Data<'_>, operator: &str, now: Timestamp) -> Result<Self, EncodeError> {
        let source = format!("/operators/{operator}");
        let (source, subject) = (source.as_str().into(), "log".into());
        let id = EventId::default();
        let event = Event { id, source, subject, time: now, recorded_at: now, data };
        Self::note(&event)
    }

    /// What an operator decides about `subject`, named by what it says of what: said again it is the same event.
    ///
    /// # Errors
    /// [`EncodeError`].
    pub fn by_operator(
        subject: &str,
        data: Data<'_>,
        operator: &str,
        now: Timestamp,
    ) -> Result<Self, EncodeError> {
        let source = format!("/operators/{operator}");
        let (source, subject) = (source.as_str().into(), subject.into());
        let id = EventId::default();
        let event = Event { id, source, subject, time: now, recorded_at: now, data };
        let (kind, data) = json(&event)?;
        let id = ident::Parts::of(kind).text(&event.subject).text(&data).id();
        Self::written(id, &event, kind, &data)
    }

    /// Takes over a record of another log, byte for byte, whatever its type.
    ///
    /// # Errors
    /// [`EncodeError::Data`] when its data is no JSON object or spreads over lines.
    pub fn copied(scanned: &Scanned<'_>) -> Result<Self, EncodeError> {
        let refuse = |why: String| EncodeError::Data { id: scanned.id.to_string(), why };
        serde_json::from_str::<IgnoredAny>(scanned.data).map_err(|e| refuse(e.to_string()))?;
        if !scanned.data.starts_with('{') || scanned.data.contains(['\n', '\r']) {
            return Err(refuse("data is no JSON object on one line".to_owned()));
        }
        let mut parts = Parts::with_capacity(256_usize.saturating_add(scanned.data.len()));
        let attributes = [
            &scanned.id,
            &scanned.type_name,
            &scanned.source,
            &scanned.subject,
            &scanned.time,
            &scanned.recorded_at,
        ];
        attributes.into_iter().for_each(|text| parts.end(format_args!("{text}")));
        parts.finish(scanned.data, scanned.is_decision())
    }

    /// Whether it takes part in the order of decisions.
    #[must_use]
    pub const fn is_decision(&self) -> bool {
        self.decision
    }

    /// The event's id, 32 hex digits.
    #[must_use]
    pub fn id(&self) -> &str {
        self.leaf_input().id
    }

    /// Bytes of its attributes and data.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.text.len()
    }

    /// What the leaf will cover.
    #[must_use]
    pub fn leaf_input(&self) -> LeafInput<'_> {
        let part = |i: usize| {
            let start = i.checked_sub(1).and_then(|i| self.ends.get(i)).copied().unwrap_or(0);
            let end = self.ends.get(i).copied().unwrap_or(self.text.len());
            self.text.get(start..end).unwrap_or_default()
        };
        LeafInput {
            id: part(0),
            type_name: part(1),
            source: part(2),
            subject: part(3),
            time: part(4),
            recorded_at: part(5),
            data: part(6).as_bytes(),
        }
    }

    /// Writes the line of the event at `position`, with its leaf and a line break; returns the leaf.
    pub fn write_line(
        &self,
        position: Position,
        hasher: &mut LeafHasher,
        out: &mut Vec<u8>,
    ) -> Hash {
        let input = self.leaf_input();
        let leaf = hasher.leaf(position, &input);
        out.reserve(self.text.len().saturating_add(FRAME_BYTES));
        out.extend_from_slice(br#"{"specversion":"1.0""#);
        let attributes = [
            (r#","id":"#, input.id),
            (r#","type":"#, input.type_name),
            (r#","source":"#, input.source),
            (r#","subject":"#, input.subject),
            (r#","time":"#, input.time),
            (r#","recordedat":"#, input.recorded_at),
        ];
        for (key, value) in attributes {
            out.extend_from_slice(key.as_bytes());
            push_string(value, out);
        }
        out.extend_from_slice(br#","data":"#);
        out.extend_from_slice(input.data);
        out.extend_from_slice(br#","leaf":""#);
        out.extend_from_slice(&leaf.hex());
        out.extend_from_slice(b"\"}\n");
        leaf
    }
}

fn json(event: &Event<'_>) -> Result<(Kind, String), EncodeError> {
    let id = event.id;
    let kind = event.data.kind().ok_or(EncodeError::Unknown { id })?;
    let data = serde_json::to_string(&event.data)
        .map_err(|error| EncodeError::Data { id: id.to_string(), why: error.to_string() })?;
    Ok((kind, data))
}

/// A [`NewEvent`] that is being put together.
struct Parts {
    text: String,
    ends: Vec<usize>,
}

impl Parts {
    fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ends: Vec::with_capacity(6) }
    }

    fn end(&mut self, part: std::fmt::Arguments<'_>) {
        // A String takes everything, and every Display here succeeds.
        let _ = self.text.write_fmt(part);
        self.ends.push(self.text.len());
    }

    fn finish(mut self, data: &str, decision: bool) -> Result<NewEvent, EncodeError> {
        let attributes = self.text.len();
        self.text.push_str(data);
        let mut ends = [0; 6];
        ends.iter_mut().zip(self.ends).for_each(|(to, from)| *to = from);
        let new = NewEvent { text: self.text, ends, decision };
        // An escape makes six bytes of one at worst, and only in attributes.
        let bytes = attributes.saturating_mul(6).saturating_add(data.len() + FRAME_BYTES);
        if bytes > MAX_LINE_BYTES {
            return Err(EncodeError::TooLong { id: new.id().chars().take(32).collect(), bytes });
        }
        Ok(new)
    }
}

/// Writes a JSON string with no more escapes than JSON wants.
fn push_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let special = |b: &u8| *b < 0x20 || matches!(b, b'"' | b'\\');
    let plain = text.as_bytes().iter().position(special).unwrap_or(text.len());
    let (plain, rest) = text.as_bytes().split_at(plain);
    out.extend_from_slice(plain);
    for byte in rest.iter().copied() {
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x00..0x20 => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let [high, low] = [byte >> 4, byte & 0x0f].map(|n| DIGITS[usize::from(n)]);
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
                continue;
            }
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.push(b'"');
}
