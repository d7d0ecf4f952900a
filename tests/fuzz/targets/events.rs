//! Event lines and the data of events; what is accepted is folded as well.

use super::Target;
use crate::corpus;
use bizrq::{
    domain::{
        event::{Data, Event, Kind},
        ledger::{Ledger, Options},
        merkle::LeafHasher,
        time::Timestamp,
    },
    event_log::codec::{self, Decoded, NewEvent},
};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Lines of a file log or of an event stream.
pub(super) const LINE: Target = Target {
    name: "line",
    corpus: || [corpus::lines("events"), corpus::lines("corpus/line")].concat(),
    tokens: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\u0000",
        "\\ud800",
        "\\\"",
        "null",
        "true",
        "1e999",
        "{}",
        "[[[[[[[[",
        "\"id\":",
        "\"type\":",
        "\"data\":{",
        "\"leaf\":\"",
        "\"specversion\":\"1.0\"",
        "io.bizrq.pod.started.v1",
        "io.bizrq.pod.stopped.v2",
        "io.bizrq.quota.declared.v1",
        "\"held\":{",
        "\"requests\":{\"cpu\":\"1\"}",
        "2026-11-29T16:00:00.000Z",
        "\u{feff}",
        "\n",
        "é",
    ],
    parser: || {
        let mut folded = Folded::new();
        Box::new(move |input| line(input, &mut folded))
    },
};

fn line(input: &[u8], folded: &mut Folded) -> bool {
    let Ok(scanned) = codec::scan(input) else { return false };
    let Ok(decoded) = codec::decode(&scanned) else { return false };
    // A second reader, which shares nothing with the short way.
    let json: BTreeMap<String, &RawValue> =
        serde_json::from_slice(input).expect("a decoded line is a JSON object");
    let text = |name: &str| serde_json::from_str::<String>(json[name].get()).expect("a string");
    assert_eq!(text("id"), scanned.id.as_str(), "the attribute is what JSON says");
    assert_eq!(text("subject"), scanned.subject.as_str());
    assert_eq!(json["data"].get(), scanned.data);
    if let Ok(copy) = NewEvent::copied(&scanned) {
        let bytes = written(&copy);
        let again = codec::scan(&bytes).expect("a copied line can be read");
        assert_eq!(again.leaf_input(), scanned.leaf_input(), "a copy says the same");
    }
    let Decoded::Event(event) = decoded else { return true };
    round_trip(&event);
    folded.take(&event);
    true
}

/// Encoding and decoding gives the same event; true unless it cannot be written.
pub(super) fn round_trip(event: &Event<'_>) {
    let new = NewEvent::new(event).expect("what was decoded can be encoded");
    let line = written(&new);
    let scanned = codec::scan(&line).expect("what was encoded can be scanned");
    let decoded = codec::decode(&scanned).expect("what was encoded can be decoded");
    assert_eq!(decoded, Decoded::Event(event.clone()));
    assert_eq!(scanned.leaf, Some(LeafHasher::default().leaf(1, &scanned.leaf_input())));
}

/// The line at position 1, without its break.
fn written(event: &NewEvent) -> Vec<u8> {
    let mut line = Vec::new();
    event.write_line(1, &mut LeafHasher::default(), &mut line);
    assert_eq!(line.pop(), Some(b'\n'));
    assert!(!line.contains(&b'\n'), "a line is one line");
    line
}

/// A ledger that takes every accepted event, in the order of the fuzzing.
pub(super) struct Folded(Ledger);

impl Folded {
    pub(super) fn new() -> Self {
        Self(Ledger::new(Options::default()))
    }

    /// Folds one event; now and then it asks, and begins anew before it grows large.
    pub(super) fn take(&mut self, event: &Event<'_>) {
        let position = self.0.position() + 1;
        let root = self.0.root();
        match self.0.apply(position, bizrq::domain::merkle::Hash([7; 32]), event) {
            Ok(_) => assert_eq!(self.0.position(), position),
            Err(_) => assert_eq!((self.0.position(), self.0.root()), (position - 1, root)),
        }
        if position.is_multiple_of(64) {
            // Overflow is an answer; only a panic would be none.
            let _ = self.0.usage(Timestamp::MAX);
            let _ = self.0.usage(Timestamp::MIN);
        }
        if position.is_multiple_of(4096) {
            *self = Self::new();
        }
    }
}

/// The `data` of every event type, whatever the type says.
pub(super) const DATA: Target = Target {
    name: "data",
    corpus: || {
        let lines = corpus::lines("events");
        let data = |line: &Vec<u8>| {
            let scanned = codec::scan(line).expect("a line of the corpus");
            scanned.data.as_bytes().to_vec()
        };
        lines.iter().map(data).chain(corpus::files("corpus/data")).collect()
    },
    tokens: LINE.tokens,
    parser: || Box::new(data),
};

fn data(input: &[u8]) -> bool {
    let mut accepted = false;
    for kind in Kind::ALL.iter().copied() {
        let mut json = serde_json::Deserializer::from_slice(input);
        let Ok(data) = Data::deserialize(kind, &mut json) else { continue };
        if json.end().is_err() {
            continue;
        }
        let text = serde_json::to_string(&data).expect("data has a JSON form");
        let mut json = serde_json::Deserializer::from_str(&text);
        let again = Data::deserialize(kind, &mut json).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(again, data, "{text}");
        assert_eq!(data.kind(), Some(kind));
        accepted = true;
    }
    accepted
}
