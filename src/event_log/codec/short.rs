//! The short way through the data of starts and stops, which are nearly all of a long history: known keys in
//! the order that bizrq writes, strings without escapes.
//!
//! It says `None` to whatever else there is, good or bad, and the general parser decides. What it takes, the
//! general parser would take with the same result; a test compares them on damaged lines.

use super::{
    memo::Memo,
    outline::{DataOutline, Owner, Started, Stopped},
    part::Part,
};
use crate::domain::{
    event::{Kind, Period},
    time::Timestamp,
};
use memchr::{memchr2, memmem};
use serde::{
    Deserialize,
    de::{IntoDeserializer, value::StrDeserializer},
};

/// Outlines `data`, which begins at `start` of its text.
pub(super) fn outline(
    kind: Kind,
    data: &str,
    start: usize,
    memo: &mut Memo,
) -> Option<DataOutline> {
    match kind {
        Kind::PodStarted => started(Cursor::new(data, start)?, memo).map(DataOutline::Started),
        Kind::PodStopped => stopped(Cursor::new(data, start)?).map(DataOutline::Stopped),
        _ => None,
    }
}

/// Data of `pod.started`.
fn started(mut rest: Cursor<'_>, memo: &mut Memo) -> Option<Started> {
    rest.take(r#"{"uid":""#)?;
    let uid = rest.string()?;
    let owner = if rest.optional(r#","owner":"#) { Some(rest.owner()?) } else { None };
    rest.take(r#","group":""#)?;
    let group = rest.string()?;
    rest.take(r#","models":{"#)?;
    let [cpu, memory, gpu] = rest.models()?;
    rest.take(r#","node":""#)?;
    let node = rest.string()?;
    rest.take(r#","held":"#)?;
    let held = rest.resources(memo)?;
    let reserved =
        if rest.optional(r#","reserved":"#) { Some(rest.resources(memo)?) } else { None };
    rest.take(r#","basis":""#)?;
    let basis = rest.variant()?;
    rest.end("}")?;
    Some(Started { uid, owner, group, cpu, memory, gpu, node, held, reserved, basis })
}

/// Data of `pod.stopped`.
fn stopped(mut rest: Cursor<'_>) -> Option<Stopped> {
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
    Some(Stopped { uid, earliest, latest, basis, phase, reason, ran })
}

/// What is still to be read.
struct Cursor<'a> {
    rest: &'a str,
    /// Where it ends in the text.
    end: usize,
}

impl<'a> Cursor<'a> {
    /// JSON forbids raw control characters in strings; one pass over everything is cheaper than one a string.
    fn new(data: &'a str, start: usize) -> Option<Self> {
        let control = data.as_bytes().iter().fold(false, |found, b| found | (*b < 0x20));
        (!control).then_some(Self { rest: data, end: start.checked_add(data.len())? })
    }

    fn take(&mut self, literal: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(literal)?;
        Some(())
    }

    fn optional(&mut self, literal: &str) -> bool {
        self.take(literal).is_some()
    }

    fn end(&self, literal: &str) -> Option<()> {
        (self.rest == literal).then_some(())
    }

    /// The rest of a string and its closing quote.
    fn raw(&mut self) -> Option<&'a str> {
        let at = memchr2(b'"', b'\\', self.rest.as_bytes())?;
        let (value, rest) = self.rest.split_at_checked(at)?;
        self.rest = rest.strip_prefix('"')?;
        Some(value)
    }

    fn string(&mut self) -> Option<Part> {
        let start = self.end.checked_sub(self.rest.len())?;
        let value = self.raw()?;
        Some(Part::new(start..start.checked_add(value.len())?))
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

    fn owner(&mut self) -> Option<Owner> {
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
        Some(Owner { api_version, kind, namespace, name, uid })
    }

    /// The rest of an object of models: cpu, memory, gpu.
    fn models(&mut self) -> Option<[Option<Part>; 3]> {
        let mut models = [None; 3];
        let mut comma = "";
        for (key, model) in [r#""cpu":""#, r#""memory":""#, r#""gpu":""#].iter().zip(&mut models) {
            let after_comma = self.rest.strip_prefix(comma);
            if let Some(rest) = after_comma.and_then(|rest| rest.strip_prefix(key)) {
                self.rest = rest;
                *model = Some(self.string()?);
                comma = ",";
            }
        }
        self.take("}")?;
        Some(models)
    }

    /// Resources end with the first `}}`: no quantity has one, and where a name had one, neither the piece
    /// before it would be resources nor what follows the next key, whose quotes would be escaped.
    fn resources(&mut self, memo: &mut Memo) -> Option<u32> {
        let end = memmem::find(self.rest.as_bytes(), b"}}")?.checked_add(2)?;
        let (spelling, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        memo.place(spelling)
    }
}
