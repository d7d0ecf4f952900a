//! From a line to its attributes and the exact bytes of `data`, without looking into `data`.
//!
//! Lines that bizrq wrote take a short way: fixed keys in a fixed order, no escapes. Any other spelling of the
//! same JSON takes the general parser, with the same result; what the short way does not understand, it
//! never refuses.

use super::{DecodeError, MAX_LINE_BYTES};
use crate::domain::{
    event::TypeName,
    merkle::{Hash, LeafInput},
    text::Text,
};
use memchr::memchr2;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The attributes of one event and its data, not yet decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned<'a> {
    /// `id`.
    pub id: Text<'a>,
    /// `type`.
    pub type_name: Text<'a>,
    /// `source`.
    pub source: Text<'a>,
    /// `subject`.
    pub subject: Text<'a>,
    /// `time`, as written.
    pub time: Text<'a>,
    /// `recordedat`, as written.
    pub recorded_at: Text<'a>,
    /// The bytes of the `data` value, as written: one JSON value as far as [`scan`] knows, which
    /// decoding makes sure of.
    pub data: &'a str,
    /// The leaf that was recorded beside it; absent outside a file log.
    pub leaf: Option<Hash>,
}

/// Scans one line, without its line break.
///
/// # Errors
/// [`DecodeError`] when it is too long, no UTF-8, no JSON object, or lacks or doubles an attribute.
pub fn scan(line: &[u8]) -> Result<Scanned<'_>, DecodeError> {
    if line.len() > MAX_LINE_BYTES {
        return Err(DecodeError::TooLong { bytes: line.len() });
    }
    let text = std::str::from_utf8(line)
        .map_err(|error| DecodeError::NotUtf8 { at: error.valid_up_to() })?;
    scan_text(text)
}

/// As [`scan`], of a line that is known to be UTF-8.
///
/// # Errors
/// As [`scan`].
pub fn scan_text(line: &str) -> Result<Scanned<'_>, DecodeError> {
    if line.len() > MAX_LINE_BYTES {
        return Err(DecodeError::TooLong { bytes: line.len() });
    }
    canonical(line).map_or_else(|| general(line), Ok)
}

impl Scanned<'_> {
    /// Whether it takes part in the order of decisions.
    #[must_use]
    pub fn is_decision(&self) -> bool {
        match TypeName::parse(&self.type_name) {
            TypeName::Known(kind) | TypeName::Newer { kind, .. } => kind.is_decision(),
            TypeName::Unknown => false,
        }
    }

    /// What the leaf covers.
    #[must_use]
    pub fn leaf_input(&self) -> LeafInput<'_> {
        LeafInput {
            id: &self.id,
            type_name: &self.type_name,
            source: &self.source,
            subject: &self.subject,
            time: &self.time,
            recorded_at: &self.recorded_at,
            data: self.data.as_bytes(),
        }
    }
}

/// Bytes of `,"leaf":"…"}`.
const TAIL_BYTES: usize = 9 + 64 + 2;

/// The short way; `None` for whatever else may still be an event.
fn canonical(line: &str) -> Option<Scanned<'_>> {
    let rest = line.strip_prefix(r#"{"specversion":"1.0","id":""#)?;
    let (id, rest) = string(rest, r#"","type":""#)?;
    let (type_name, rest) = string(rest, r#"","source":""#)?;
    let (source, rest) = string(rest, r#"","subject":""#)?;
    let (subject, rest) = string(rest, r#"","time":""#)?;
    let (time, rest) = string(rest, r#"","recordedat":""#)?;
    let (recorded_at, rest) = string(rest, r#"","data":"#)?;
    let attributes = line.as_bytes().get(..line.len() - rest.len())?;
    // No short-circuit: the loop becomes a few vector instructions. JSON forbids these inside strings.
    if attributes.iter().fold(false, |found, b| found | (*b < 0x20)) {
        return None;
    }
    let (data, tail) = rest.split_at_checked(rest.len().checked_sub(TAIL_BYTES)?)?;
    let leaf = tail.strip_prefix(r#","leaf":""#)?.strip_suffix(r#""}"#)?;
    let leaf = Hash::from_hex(leaf.as_bytes())?;
    // Without spaces around it, so that both ways see the same bytes.
    if !(data.starts_with('{') && data.ends_with('}')) {
        return None;
    }
    Some(Scanned {
        id: id.into(),
        type_name: type_name.into(),
        source: source.into(),
        subject: subject.into(),
        time: time.into(),
        recorded_at: recorded_at.into(),
        data,
        leaf: Some(leaf),
    })
}

/// A string without escapes up to its quote, and what follows `next`.
fn string<'a>(text: &'a str, next: &str) -> Option<(&'a str, &'a str)> {
    let end = memchr2(b'"', b'\\', text.as_bytes())?;
    let (value, rest) = text.split_at_checked(end)?;
    Some((value, rest.strip_prefix(next)?))
}

/// An event in any spelling. Other CloudEvents attributes are allowed and ignored.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    specversion: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, rename = "type")]
    type_name: Text<'a>,
    #[serde(borrow)]
    source: Text<'a>,
    #[serde(borrow)]
    subject: Text<'a>,
    #[serde(borrow)]
    time: Text<'a>,
    #[serde(borrow)]
    recordedat: Text<'a>,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default)]
    leaf: Option<Hash>,
}

/// The general way.
fn general(line: &str) -> Result<Scanned<'_>, DecodeError> {
    if line.trim_ascii().is_empty() {
        return Err(DecodeError::Blank);
    }
    let event: Envelope<'_> = serde_json::from_str(line)
        .map_err(|error| DecodeError::NotAnEvent { why: error.to_string() })?;
    if event.specversion != "1.0" {
        let why = format!("`{}` is not read, only 1.0 is", event.specversion);
        return Err(DecodeError::Attribute { name: "specversion", why });
    }
    Ok(Scanned {
        id: event.id,
        type_name: event.type_name,
        source: event.source,
        subject: event.subject,
        time: event.time,
        recorded_at: event.recordedat,
        data: event.data.get(),
        leaf: event.leaf,
    })
}
