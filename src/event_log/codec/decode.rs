//! From scanned attributes and data to a typed event.

use super::{DecodeError, Scanned, memo::Memo, outline::Outline, part::Part, short};
use crate::domain::{
    event::{Data, Event, InvalidEventId, Kind, TypeName},
    resources::Resources,
    time::Timestamp,
};
use foldhash::fast::RandomState;
use serde::{Deserialize, de::IgnoredAny};
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

/// What a line says to this build.
#[derive(Clone, Debug, PartialEq, Eq)]
// Nearly every line is an event: a box would cost an allocation for each.
#[allow(clippy::large_enum_variant)]
pub enum Decoded<'a> {
    /// An event.
    Event(Event<'a>),
    /// A known type in a version that only a newer build reads: the reader must stop.
    Newer {
        /// The known type.
        kind: Kind,
        /// Its version.
        version: u32,
    },
    /// A type that this build has never heard of: kept and ignored.
    Unknown,
}

impl<'a> Decoded<'a> {
    /// The event, if it is one that this build reads.
    #[must_use]
    pub const fn event(&self) -> Option<&Event<'a>> {
        match self {
            Self::Event(event) => Some(event),
            _ => None,
        }
    }
}

/// Decodes one event after another and remembers the resources that it has parsed: most pods ask for
/// what another asked for already, so most events share theirs.
#[derive(Debug, Default)]
pub struct Decoder {
    memo: Memo,
    /// A table that was handed back.
    spare: Vec<Arc<Resources>>,
}

/// Decodes one event. For many, keep a [`Decoder`].
///
/// # Errors
/// As [`Decoder::decode`].
pub fn decode<'a>(scanned: &Scanned<'a>) -> Result<Decoded<'a>, DecodeError> {
    Decoder::default().decode(scanned)
}

impl Decoder {
    /// Decodes one event.
    ///
    /// # Errors
    /// [`DecodeError`] for a malformed id, time or data.
    pub fn decode<'a>(&mut self, scanned: &Scanned<'a>) -> Result<Decoded<'a>, DecodeError> {
        let kind = match type_name(&scanned.type_name) {
            TypeName::Known(kind) => kind,
            TypeName::Newer { kind, version } => {
                return json::<IgnoredAny>(scanned).map(|_| Decoded::Newer { kind, version });
            }
            TypeName::Unknown => {
                return json::<IgnoredAny>(scanned).map(|_| Decoded::Unknown);
            }
        };
        Ok(Decoded::Event(Event {
            id: scanned.id.parse().map_err(|error: InvalidEventId| attribute("id", &error))?,
            source: scanned.source.clone(),
            subject: scanned.subject.clone(),
            time: time("time", &scanned.time)?,
            recorded_at: time("recordedat", &scanned.recorded_at)?,
            data: self.data(kind, scanned)?,
        }))
    }

    /// Decodes `data`: starts and stops by the short way where it leads.
    fn data<'a>(&mut self, kind: Kind, scanned: &Scanned<'a>) -> Result<Data<'a>, DecodeError> {
        self.memo.next_round(&mut self.spare);
        let outline = short::outline(kind, scanned.data, 0, &mut self.memo);
        let short = outline.and_then(|outline| outline.data(scanned.data, self.memo.table()));
        short.map_or_else(|| general(kind, scanned), Ok)
    }

    /// The outline of one event of `text`, if the short way leads through it; whatever else there is is decoded.
    pub(in crate::event_log) fn outline(
        &mut self,
        text: &str,
        scanned: &Scanned<'_>,
    ) -> Option<Outline> {
        let TypeName::Known(kind) = type_name(&scanned.type_name) else { return None };
        let start = Part::within(text, scanned.data)?.start();
        Some(Outline {
            data: short::outline(kind, scanned.data, start, &mut self.memo)?,
            id: scanned.id.parse().ok()?,
            time: Timestamp::parse(&scanned.time).ok()?,
            recorded_at: Timestamp::parse(&scanned.recorded_at).ok()?,
        })
    }

    /// Hands over the table of the resources that the outlines name which were made since the last call.
    pub(in crate::event_log) fn take_table(&mut self, table: &mut Vec<Arc<Resources>>) {
        self.memo.next_round(table);
    }
}

/// Decodes `data` whatever its spelling.
fn general<'a>(kind: Kind, scanned: &Scanned<'a>) -> Result<Data<'a>, DecodeError> {
    let mut json = serde_json::Deserializer::from_str(scanned.data);
    let data = Data::deserialize(kind, &mut json);
    data.and_then(|data| json.end().map(|()| data)).map_err(|error| data_error(scanned, &error))
}

/// [`TypeName::parse`], which looks at every type, for the names that this build writes.
fn type_name(name: &str) -> TypeName {
    static KINDS: LazyLock<HashMap<String, Kind, RandomState>> =
        LazyLock::new(|| Kind::ALL.iter().map(|kind| (kind.type_name(), *kind)).collect());
    KINDS.get(name).map_or_else(|| TypeName::parse(name), |kind| TypeName::Known(*kind))
}

fn json<'a, T: Deserialize<'a>>(scanned: &Scanned<'a>) -> Result<T, DecodeError> {
    serde_json::from_str(scanned.data).map_err(|error| data_error(scanned, &error))
}

/// An error in the data, with the type that it was to be.
pub(super) fn data_error(scanned: &Scanned<'_>, error: &serde_json::Error) -> DecodeError {
    DecodeError::Data { type_name: scanned.type_name.to_string(), why: error.to_string() }
}

fn time(name: &'static str, text: &str) -> Result<Timestamp, DecodeError> {
    Timestamp::parse(text).map_err(|error| attribute(name, &error))
}

fn attribute(name: &'static str, error: &dyn std::error::Error) -> DecodeError {
    DecodeError::Attribute { name, why: error.to_string() }
}
