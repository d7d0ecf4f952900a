//! The short way through the data of starts and stops, which are nearly all of a long history: known keys in
//! the order that bizrq writes, strings without escapes.
//!
//! It says `None` to whatever else there is, good or bad, and the general parser decides. What it takes, the
//! general parser would take with the same result; a test compares them on damaged lines.

use super::memo::Memo;
use crate::domain::{
    event::{ObjectRef, Period, PodStarted, PodStopped},
    resources::{Models, Resources},
    text::Text,
    time::Timestamp,
};
use memchr::{memchr2, memmem};
use serde::{
    Deserialize,
    de::{IntoDeserializer, value::StrDeserializer},
};
use std::sync::Arc;

/// Data of `pod.started`.
pub(super) fn started<'a>(data: &'a str, memo: &mut Memo) -> Option<PodStarted<'a>> {
    let mut rest = Cursor::new(data)?;
    rest.take(r#"{"uid":""#)?;
    let uid = rest.string()?;
    let owner = if rest.optional(r#","owner":"#) { Some(rest.object_ref()?) } else { None };
    rest.take(r#","group":""#)?;
    let group = rest.string()?;
    rest.take(r#","models":{"#)?;
    let models = rest.models()?;
    rest.take(r#","node":""#)?;
    let node = rest.string()?;
    rest.take(r#","held":"#)?;
    let held = rest.resources(memo)?;
    let reserved =
        if rest.optional(r#","reserved":"#) { Some(rest.resources(memo)?) } else { None };
    rest.take(r#","basis":""#)?;
    let basis = rest.variant()?;
    rest.end("}")?;
    Some(PodStarted { uid, owner, group, models, node, held, reserved, basis })
}

/// Data of `pod.stopped`.
pub(super) fn stopped(data: &str) -> Option<PodStopped<'_>> {
    let mut rest = Cursor::new(data)?;
    rest.take(r#"{"uid":""#)?;
    let uid = rest.string()?;
    rest.take(r#","earliest":""#)?;
    let earliest = rest.time()?;
    rest.take(r#","latest":""#)?;
    let latest = rest.time()?;
    rest.take(r#","basis":""#)?;
    let basis = rest.variant()?;
    rest.take(r#","phase":""#)?;
    let phase = rest.string()?;
    rest.take(r#","reason":""#)?;
    let reason = rest.string()?;
    let ran = if rest.optional(r#","ran":{"from":""#) { Some(rest.period()?) } else { None };
    rest.end("}")?;
    Some(PodStopped { uid, earliest, latest, basis, phase, reason, ran })
}

/// What is still to be read.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    /// JSON forbids raw control characters in strings; one pass over everything is cheaper than one a string.
    fn new(data: &'a str) -> Option<Self> {
        let control = data.as_bytes().iter().fold(false, |found, b| found | (*b < 0x20));
        (!control).then_some(Self(data))
    }

    fn take(&mut self, literal: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(literal)?;
        Some(())
    }

    fn optional(&mut self, literal: &str) -> bool {
        self.take(literal).is_some()
    }

    fn end(&self, literal: &str) -> Option<()> {
        (self.0 == literal).then_some(())
    }

    /// The rest of a string and its closing quote.
    fn raw(&mut self) -> Option<&'a str> {
        let at = memchr2(b'"', b'\\', self.0.as_bytes())?;
        let (value, rest) = self.0.split_at_checked(at)?;
        self.0 = rest.strip_prefix('"')?;
        Some(value)
    }

    fn string(&mut self) -> Option<Text<'a>> {
        self.raw().map(Text::from)
    }

    fn time(&mut self) -> Option<Timestamp> {
        Timestamp::parse(self.raw()?).ok()
    }

    /// A variant of an enum without contents.
    fn variant<T: Deserialize<'a>>(&mut self) -> Option<T> {
        let name: StrDeserializer<'_, serde::de::value::Error> = self.raw()?.into_deserializer();
        T::deserialize(name).ok()
    }

    fn period(&mut self) -> Option<Period> {
        let from = self.time()?;
        self.take(r#","to":""#)?;
        let to = self.time()?;
        self.take("}")?;
        Some(Period { from, to })
    }

    fn object_ref(&mut self) -> Option<ObjectRef<'a>> {
        self.take(r#"{"apiVersion":""#)?;
        let api_version = self.string()?;
        self.take(r#","kind":""#)?;
        let kind = self.string()?;
        let namespace =
            if self.optional(r#","namespace":""#) { Some(self.string()?) } else { None };
        self.take(r#","name":""#)?;
        let name = self.string()?;
        self.take(r#","uid":""#)?;
        let uid = self.string()?;
        self.take("}")?;
        Some(ObjectRef { api_version, kind, namespace, name, uid })
    }

    /// The rest of an object of models.
    fn models(&mut self) -> Option<Models<'a>> {
        let mut models = Models::default();
        let mut comma = "";
        for (key, model) in [
            (r#""cpu":""#, &mut models.cpu),
            (r#""memory":""#, &mut models.memory),
            (r#""gpu":""#, &mut models.gpu),
        ] {
            let after_comma = self.0.strip_prefix(comma);
            if let Some(rest) = after_comma.and_then(|rest| rest.strip_prefix(key)) {
                self.0 = rest;
                *model = Some(self.string()?);
                comma = ",";
            }
        }
        self.take("}")?;
        Some(models)
    }

    /// Resources end with the first `}}`: no quantity has one, and where a name had one, neither the piece
    /// before it would be resources nor what follows the next key, whose quotes would be escaped.
    fn resources(&mut self, memo: &mut Memo) -> Option<Arc<Resources>> {
        let end = memmem::find(self.0.as_bytes(), b"}}")?.checked_add(2)?;
        let (spelling, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        memo.resources(spelling).ok()
    }
}
