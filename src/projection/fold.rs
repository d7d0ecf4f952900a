//! From a scanned line to a record that the ledger takes: the one place where a decoding error becomes a
//! quarantined record. Knows neither files nor stores.

use crate::{
    domain::{
        event::{Event, Position},
        ledger::{Applied, Ledger, Record, Stop},
        merkle::Hash,
    },
    event_log::codec::{DecodeError, Decoded, Decoder, Scanned},
};

/// What a line says, decoded, or why it says nothing.
#[derive(Clone, Debug)]
// Nearly every line is an event: a box would cost an allocation for each.
#[allow(clippy::large_enum_variant)]
pub enum Read<'a> {
    /// Decoded.
    Decoded(Decoded<'a>),
    /// It will be quarantined for this reason.
    Undecodable(String),
}

/// What some lines say, in their order. What they will touch in `ledgers`, which take them next, is looked at beforehand.
pub fn ahead<'a, 'l>(
    ledgers: impl IntoIterator<Item = &'l Ledger>,
    lines: impl IntoIterator<Item = (Position, Result<Decoded<'a>, DecodeError>)>,
) -> Vec<(Position, Read<'a>)> {
    let lines = lines.into_iter().map(|(position, decoded)| (position, Read::of(decoded)));
    let read: Vec<_> = lines.collect();
    for ledger in ledgers {
        ledger.look_ahead(read.iter().filter_map(|(_, read)| read.event()));
    }
    read
}

impl<'a> Read<'a> {
    /// Decodes one line.
    #[must_use]
    pub fn new(decoder: &mut Decoder, scanned: &Scanned<'a>) -> Self {
        Self::of(decoder.decode(scanned))
    }

    /// What became of decoding a line.
    #[must_use]
    pub fn of(decoded: Result<Decoded<'a>, DecodeError>) -> Self {
        match decoded {
            Ok(decoded) => Self::Decoded(decoded),
            Err(why) => Self::Undecodable(why.to_string()),
        }
    }

    /// The event, if it is one that this build reads.
    #[must_use]
    pub const fn event(&self) -> Option<&Event<'a>> {
        match self {
            Self::Decoded(decoded) => decoded.event(),
            Self::Undecodable(_) => None,
        }
    }

    /// What the ledger takes.
    #[must_use]
    pub fn record(&self) -> Record<'_> {
        match self {
            Self::Decoded(Decoded::Event(event)) => Record::Event(event),
            Self::Decoded(Decoded::Unknown) => Record::Unknown,
            Self::Decoded(Decoded::Newer { kind, version }) => {
                Record::Newer { kind: *kind, version: *version }
            }
            Self::Undecodable(why) => Record::Undecodable(why.clone()),
        }
    }

    /// Applies it as the record at `position`.
    ///
    /// # Errors
    /// [`Stop`]; the ledger is unchanged.
    pub fn apply(
        &self,
        ledger: &mut Ledger,
        position: Position,
        leaf: Hash,
    ) -> Result<Applied, Stop> {
        ledger.apply_record(position, leaf, &self.record())
    }
}
