//! A batch of scanned lines: the text in one piece, where the parts of each line are, and what they say, so that it
//! can move between threads and events can still be borrowed from it.

use super::{Failed, Proof};
#[cfg(feature = "jetstream")]
use crate::event_log::chain::Chain;
use crate::{
    domain::{
        event::{Event, Position},
        resources::Resources,
    },
    event_log::{
        codec::{DecodeError, Decoded, Decoder, Outline, Part, Scanned, decode, scan, scan_text},
        records::Records,
    },
};
use std::sync::Arc;

/// Consecutive lines, scanned.
#[derive(Debug, Default)]
pub struct Batch {
    first: Position,
    bytes: usize,
    text: String,
    lines: Vec<Line>,
    /// What outlines name by place.
    resources: Vec<Arc<Resources>>,
}

/// Position (or line number) and event of a line, or why it is none.
pub type Numbered<'a> = (Position, Result<Decoded<'a>, DecodeError>);

/// One line of the text.
#[derive(Debug)]
// Nearly every line has an outline: a box would cost an allocation for each.
#[allow(clippy::large_enum_variant)]
enum Line {
    /// Parts of the text (id, type, source, subject, time, recordedat, data), and what they say, if the short way
    /// led through them.
    Parts([Part; 7], Option<Outline>),
    /// An event in another spelling than bizrq's: scanned again by who wants it.
    Whole(Part),
    /// No event.
    Bad(DecodeError),
}

impl Batch {
    /// Takes lines that are not yet scanned in place of its own, and gives back the buffer of those.
    pub(super) fn refill(&mut self, records: Records) -> Vec<u8> {
        let spare = std::mem::take(&mut self.text).into_bytes();
        (self.first, self.bytes) = (records.first(), records.bytes());
        self.lines.clear();
        let (bytes_of_lines, ends) = records.into_lines();
        match String::from_utf8(bytes_of_lines) {
            Ok(text) => self.text = text,
            Err(error) => {
                self.repair(error.as_bytes(), &ends);
                return spare;
            }
        }
        let mut start = 0;
        for end in ends {
            self.lines.push(Line::Whole(Part::new(start..end.saturating_sub(1))));
            start = end;
        }
        spare
    }

    /// Keeps the lines that are UTF-8; rare, so it may copy.
    fn repair(&mut self, bytes: &[u8], ends: &[usize]) {
        let mut start = 0;
        for end in ends {
            let line = bytes.get(start..end.saturating_sub(1)).unwrap_or_default();
            start = *end;
            match std::str::from_utf8(line) {
                Ok(line) => {
                    let from = self.text.len();
                    self.text.push_str(line);
                    self.lines.push(Line::Whole(Part::new(from..self.text.len())));
                }
                Err(error) => {
                    self.lines.push(Line::Bad(DecodeError::NotUtf8 { at: error.valid_up_to() }));
                }
            }
        }
    }

    /// Scans every line.
    pub(super) fn scan(&mut self, decoder: &mut Decoder) {
        let text = &self.text;
        for line in &mut self.lines {
            if let Line::Whole(part) = line {
                match scan_text(part.of(text)) {
                    Ok(scanned) => *line = Line::of(&scanned, *part, text, decoder),
                    Err(error) => *line = Line::Bad(error),
                }
            }
        }
        decoder.take_table(&mut self.resources);
    }

    /// Scans every line of a log and adds it to the proof.
    pub(super) fn prove(
        &mut self,
        proof: &mut Proof<'_>,
        decoder: &mut Decoder,
    ) -> Result<(), Failed> {
        let text = &self.text;
        for (position, line) in (self.first..).zip(&mut self.lines) {
            let failed = |why| Failed::Line(position, why);
            let part = match line {
                Line::Whole(part) => *part,
                Line::Bad(error) => return Err(failed(error.clone().into())),
                Line::Parts(..) => continue,
            };
            let scanned = scan_text(part.of(text)).map_err(|error| failed(error.into()))?;
            proof.chain.push(&scanned).map_err(|error| failed(error.into()))?;
            proof.check_root(position)?;
            *line = Line::of(&scanned, part, text, decoder);
        }
        decoder.take_table(&mut self.resources);
        Ok(())
    }

    /// Takes messages up to `limit` in place of its own lines, and adds them to the tree.
    #[cfg(feature = "jetstream")]
    pub(super) fn take_messages(
        &mut self,
        records: Records,
        limit: Position,
        chain: &mut Chain,
        decoder: &mut Decoder,
    ) {
        (self.first, self.bytes) = (records.first(), records.bytes());
        let (text, ends) = records.into_messages();
        self.text = text;
        self.lines.clear();
        let mut start = 0;
        for (_, ends) in (self.first..=limit).zip(ends) {
            let parts = ends.map(|end| Part::new(std::mem::replace(&mut start, end)..end));
            let line = Line::Parts(parts, None);
            let Ok(scanned) = self.scanned(&line) else { continue };
            chain.add(&scanned);
            let outline = decoder.outline(&self.text, &scanned);
            self.lines.push(Line::Parts(parts, outline));
        }
        decoder.take_table(&mut self.resources);
    }

    /// Position of the first line: in the log, or the line number of a file.
    #[must_use]
    pub const fn first(&self) -> Position {
        self.first
    }

    /// How many lines.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Bytes that were read, for a progress bar.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Position (or line number) and attributes of each line, or why it is no event.
    pub fn iter(&self) -> impl Iterator<Item = (Position, Result<Scanned<'_>, DecodeError>)> {
        self.numbered().map(|(position, line)| (position, self.scanned(line)))
    }

    /// Position (or line number) and event of each line, or why it is none.
    pub fn events(&self) -> impl Iterator<Item = Numbered<'_>> {
        self.numbered().map(|(position, line)| (position, self.decoded(line)))
    }

    /// The same, `count` at a time: for who looks at what comes next.
    pub fn events_by(&self, count: usize) -> impl Iterator<Item = Vec<Numbered<'_>>> {
        let mut numbered = self.numbered();
        std::iter::from_fn(move || {
            let next = numbered.by_ref().take(count);
            let events: Vec<_> =
                next.map(|(position, line)| (position, self.decoded(line))).collect();
            (!events.is_empty()).then_some(events)
        })
    }

    fn numbered(&self) -> impl Iterator<Item = (Position, &Line)> {
        (self.first..).zip(&self.lines)
    }

    fn decoded(&self, line: &Line) -> Result<Decoded<'_>, DecodeError> {
        match self.outlined(line) {
            Some(event) => Ok(Decoded::Event(event)),
            None => self.scanned(line).and_then(|scanned| decode(&scanned)),
        }
    }

    fn scanned(&self, line: &Line) -> Result<Scanned<'_>, DecodeError> {
        match line {
            Line::Parts([id, type_name, source, subject, time, recorded_at, data], _) => {
                let part = |part: &Part| part.of(&self.text).into();
                Ok(Scanned {
                    id: part(id),
                    type_name: part(type_name),
                    source: part(source),
                    subject: part(subject),
                    time: part(time),
                    recorded_at: part(recorded_at),
                    data: data.of(&self.text),
                    leaf: None,
                })
            }
            Line::Whole(part) => scan(part.of(&self.text).as_bytes()),
            Line::Bad(error) => Err(error.clone()),
        }
    }

    fn outlined(&self, line: &Line) -> Option<Event<'_>> {
        let Line::Parts([_, _, source, subject, ..], Some(outline)) = line else { return None };
        let Outline { id, time, recorded_at, data } = outline;
        Some(Event {
            id: *id,
            source: source.of(&self.text).into(),
            subject: subject.of(&self.text).into(),
            time: *time,
            recorded_at: *recorded_at,
            data: data.data(&self.text, &self.resources)?,
        })
    }
}

impl Line {
    /// Notes where the parts are, if all of them are parts of the text as it stands, and what they say.
    fn of(scanned: &Scanned<'_>, line: Part, text: &str, decoder: &mut Decoder) -> Self {
        let attributes = [
            &scanned.id,
            &scanned.type_name,
            &scanned.source,
            &scanned.subject,
            &scanned.time,
            &scanned.recorded_at,
        ];
        let mut parts = [line; 7];
        let strings = attributes.into_iter().map(|a| a.as_str()).chain([scanned.data]);
        for (part, string) in parts.iter_mut().zip(strings) {
            let Some(place) = Part::within(text, string) else {
                return Self::Whole(line);
            };
            *part = place;
        }
        Self::Parts(parts, decoder.outline(text, scanned))
    }
}
