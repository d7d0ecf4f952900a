//! From scanned attributes and data to a typed event.

use super::{DecodeError, Scanned, memo::Memo};
use crate::domain::event::{
    Data, Event, Kind, PodCreated, PodResized, PodStarted, ResizeBasis, StartBasis, TypeName,
};
use crate::domain::{
    event::{EventId, ObjectRef},
    resources::Models,
    text::Text,
    time::Timestamp,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

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

/// Decodes one event after another and remembers the resources that it has parsed: most pods ask for
/// what another asked for already, so most events share theirs.
#[derive(Debug, Default)]
pub struct Decoder {
    memo: Memo,
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
        let kind = match TypeName::parse(&scanned.type_name) {
            TypeName::Known(kind) => kind,
            TypeName::Newer { kind, version } => {
                return json::<IgnoredAny>(scanned).map(|_| Decoded::Newer { kind, version });
            }
            TypeName::Unknown => {
                return json::<IgnoredAny>(scanned).map(|_| Decoded::Unknown);
            }
        };
        let id = scanned.id.parse::<EventId>();
        Ok(Decoded::Event(Event {
            id: id.map_err(|error| attribute("id", &error))?,
            source: scanned.source.clone(),
            subject: scanned.subject.clone(),
            time: time("time", &scanned.time)?,
            recorded_at: time("recordedat", &scanned.recorded_at)?,
            data: self.data(kind, scanned)?,
        }))
    }

    /// Decodes `data`; the kinds that carry a pod's resources share them by their bytes.
    fn data<'a>(&mut self, kind: Kind, scanned: &Scanned<'a>) -> Result<Data<'a>, DecodeError> {
        match kind {
            Kind::PodStarted => {
                let raw: RawStarted<'a> = json(scanned)?;
                Ok(Data::PodStarted(PodStarted {
                    uid: raw.uid,
                    owner: raw.owner,
                    group: raw.group,
                    models: raw.models,
                    node: raw.node,
                    held: self.memo.resources(raw.held, scanned)?,
                    reserved: raw.reserved.map(|r| self.memo.resources(r, scanned)).transpose()?,
                    basis: raw.basis,
                }))
            }
            Kind::PodCreated => {
                let raw: RawCreated<'a> = json(scanned)?;
                Ok(Data::PodCreated(PodCreated {
                    uid: raw.uid,
                    owner: raw.owner,
                    group: raw.group,
                    models: raw.models,
                    reserved: self.memo.resources(raw.reserved, scanned)?,
                }))
            }
            Kind::PodResized => {
                let raw: RawResized<'a> = json(scanned)?;
                Ok(Data::PodResized(PodResized {
                    uid: raw.uid,
                    held: self.memo.resources(raw.held, scanned)?,
                    reserved: raw.reserved.map(|r| self.memo.resources(r, scanned)).transpose()?,
                    basis: raw.basis,
                }))
            }
            kind => {
                let mut json = serde_json::Deserializer::from_str(scanned.data);
                let data = Data::deserialize(kind, &mut json);
                data.and_then(|data| json.end().map(|()| data))
                    .map_err(|error| data_error(scanned, &error))
            }
        }
    }
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

/// [`PodStarted`] with its resources as bytes. A test decodes each kind both ways.
#[derive(Deserialize)]
struct RawStarted<'a> {
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow, default)]
    owner: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    group: Text<'a>,
    #[serde(borrow)]
    models: Models<'a>,
    #[serde(borrow)]
    node: Text<'a>,
    #[serde(borrow)]
    held: &'a RawValue,
    #[serde(borrow, default)]
    reserved: Option<&'a RawValue>,
    basis: StartBasis,
}

/// [`PodCreated`] with its resources as bytes.
#[derive(Deserialize)]
struct RawCreated<'a> {
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow, default)]
    owner: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    group: Text<'a>,
    #[serde(borrow)]
    models: Models<'a>,
    #[serde(borrow)]
    reserved: &'a RawValue,
}

/// [`PodResized`] with its resources as bytes.
#[derive(Deserialize)]
struct RawResized<'a> {
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow)]
    held: &'a RawValue,
    #[serde(borrow, default)]
    reserved: Option<&'a RawValue>,
    basis: ResizeBasis,
}
