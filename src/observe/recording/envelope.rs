//! What a recorded object says about itself: the event around it, its kind, and where it stands.

use super::objects::{Object, Problem};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// An object out of its envelope.
pub(super) struct Opened<'t> {
    /// What happened to it.
    pub(super) event: Event,
    /// `Pod`, `Deployment`, …
    pub(super) kind: Cow<'t, str>,
    /// The object's own text.
    text: &'t [u8],
    /// The line that it begins on.
    line: u64,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It was there: listed, added or modified.
    Seen,
    /// It was deleted; the text is its last version.
    Deleted,
    /// The watch reports nothing about an object (a bookmark).
    Nothing,
    /// The watch broke off.
    Broken,
}

/// The outermost level of a text.
#[derive(Deserialize)]
struct Head<'t> {
    #[serde(borrow, rename = "type", default)]
    event: Option<&'t RawValue>,
    #[serde(borrow, default)]
    object: Option<&'t RawValue>,
    #[serde(borrow, default)]
    kind: Option<Cow<'t, str>>,
    #[serde(borrow, default)]
    specversion: Option<&'t RawValue>,
}

/// A problem and the line that it is on.
pub(super) type Placed = (u64, Problem);

/// Takes `object` out of its envelope, if it has one.
pub(super) fn open<'t>(object: &Object<'t>) -> Result<Opened<'t>, Placed> {
    let head: Head<'t> = parse(object.text, object.line)?;
    let wrong = |text: &str| (object.line, Problem::Json(text.to_owned()));
    if head.specversion.is_some() {
        return Err(wrong("an event of a bizrq log among recorded objects; give it by itself"));
    }
    let Some(inner) = head.object else {
        let kind = head.kind.or_else(|| object.listed_as.map(Cow::Borrowed));
        let kind = kind.ok_or_else(|| {
            wrong("the object has no `kind`; record with kubectl get … -o json, which writes it")
        })?;
        return Ok(Opened { event: Event::Seen, kind, text: object.text, line: object.line });
    };
    let event = match head.event.map_or("", RawValue::get) {
        "\"ADDED\"" | "\"MODIFIED\"" => Event::Seen,
        "\"DELETED\"" => Event::Deleted,
        "\"BOOKMARK\"" => Event::Nothing,
        "\"ERROR\"" => Event::Broken,
        _ => return Err(wrong("`type` is none of ADDED, MODIFIED, DELETED, BOOKMARK, ERROR")),
    };
    let text = inner.get().as_bytes();
    let line = object.line.saturating_add(lines_before(object.text, text));
    let inner: Head<'t> = parse(text, line)?;
    let kind = inner.kind.ok_or_else(|| wrong("the object of the event has no `kind`"))?;
    Ok(Opened { event, kind, text, line })
}

impl Opened<'_> {
    /// The object, as far as `T` looks at it.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Placed> {
        parse(self.text, self.line)
    }
}

/// Line breaks of `outer` before `inner`, which is a part of it.
fn lines_before(outer: &[u8], inner: &[u8]) -> u64 {
    let offset = (inner.as_ptr() as usize).saturating_sub(outer.as_ptr() as usize);
    let before = outer.get(..offset).unwrap_or_default();
    u64::try_from(memchr::memchr_iter(b'\n', before).count()).unwrap_or(0)
}

/// Reads JSON that begins on `line`; an error says on which line it is, without serde's own count.
fn parse<'t, T: Deserialize<'t>>(text: &'t [u8], line: u64) -> Result<T, Placed> {
    serde_json::from_slice(text).map_err(|e| {
        let below = u64::try_from(e.line().saturating_sub(1)).unwrap_or(0);
        let whole = e.to_string();
        let message = whole.rsplit_once(" at line ").map_or(&*whole, |(message, _)| message);
        (line.saturating_add(below), Problem::Json(message.chars().take(300).collect()))
    })
}
