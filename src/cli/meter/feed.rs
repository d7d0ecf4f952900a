//! What `bizrq meter` reads: a log, event lines, recordings.

use super::{Args, by::Names};
use crate::{
    cli::{Error, out, progress::Progress},
    domain::{
        event::{Event, Position},
        label_keys::LabelKeys,
        ledger::{Ledger, Record, Stop, ahead::TOGETHER},
        merkle::Hash,
        time::Timestamp,
    },
    event_log::{
        OpenError,
        bulk::{self, Batch, Numbered, Source},
        codec::{DecodeError, Decoded},
    },
    input,
    observe::recording::Recorder,
};
use std::{
    io::{Cursor, Read},
    path::Path,
    sync::Arc,
};

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Fed {
    /// Of a log: the last position that counts, and the root up to there.
    pub(super) head: Option<(Position, Hash)>,
    /// Records that contradict what is known, or cannot be decoded.
    pub(super) quarantined: usize,
    /// The oldest instant of any event.
    pub(super) oldest: Option<Timestamp>,
    /// Of a recording: the newest instant in it.
    pub(super) newest: Option<Timestamp>,
}

/// Bytes that are looked at to tell event lines from recordings.
const LOOK_BYTES: u64 = 4096;

/// Faults that are shown one by one; all are counted.
const SHOWN: usize = 10;

/// Feeds the ledger with everything that the arguments name.
pub(super) fn feed(
    args: &Args,
    ledger: &mut Ledger,
    names: Option<&mut Names>,
) -> Result<Fed, Error> {
    let mut feeder = Feeder { ledger, names, fed: Fed::default() };
    match &args.log {
        Some(log) => feeder.log(args, log)?,
        None => feeder.files(args)?,
    }
    let quarantined = feeder.ledger.quarantined();
    feeder.fed.quarantined = feeder.fed.quarantined.saturating_add(quarantined.len());
    for quarantined in quarantined.iter().take(SHOWN) {
        out::warn(format!("record {}: {}", quarantined.position, quarantined.reason));
    }
    Ok(feeder.fed)
}

struct Feeder<'f> {
    ledger: &'f mut Ledger,
    /// Names of pods and workloads, where lines are by them.
    names: Option<&'f mut Names>,
    fed: Fed,
}

/// Why reading ended before its end.
enum Ended {
    /// The input cannot be read.
    Open(OpenError),
    /// The ledger cannot go on.
    Stop(Stop),
}

impl From<OpenError> for Ended {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl Feeder<'_> {
    fn log(&mut self, args: &Args, place: &str) -> Result<(), Error> {
        let failed = |error: OpenError| Error::log(place, error);
        let limit = match args.as_known_at {
            Some(at) => position_at(place, at)?,
            None => args.position.unwrap_or(Position::MAX),
        };
        let bar = Progress::bytes("reading", input::size(Path::new(place)));
        let source = Source::history(place, limit).map_err(failed)?;
        let summary = self.events(Path::new(place), source, &bar).map_err(|ended| match ended {
            Ended::Open(error) => failed(error),
            Ended::Stop(stop) => Error::log(place, stop),
        })?;
        if let Some(position) = args.position.filter(|p| *p > self.ledger.position()) {
            let last = self.ledger.position();
            let why = format!("--position {position}: the log ends at position {last}");
            return Err(Error::Usage(why));
        }
        let root = summary.tree.map(|tree| tree.root());
        self.fed.head = root.map(|root| (self.ledger.position(), root));
        if summary.torn_bytes > 0 {
            out::warn(format!("{} bytes of a half-written line are left out", summary.torn_bytes));
        }
        Ok(())
    }

    /// Files of events are folded as they come, in the order in which they are given; recordings are understood
    /// together, when all of them are read.
    fn files(&mut self, args: &Args) -> Result<(), Error> {
        let labels = LabelKeys::with(&args.labels).map_err(|e| Error::Usage(e.to_string()))?;
        let mut recorder = Recorder::new(&args.cluster).with_labels(Arc::new(labels));
        let mut recorded = false;
        for path in &args.files {
            let failed = |e: std::io::Error| Error::input(path.display(), e);
            let mut input = input::open(path).map_err(failed)?;
            let mut start = Vec::new();
            input.by_ref().take(LOOK_BYTES).read_to_end(&mut start).map_err(failed)?;
            let events = is_event_line(&start);
            let whole = Cursor::new(start).chain(input);
            let bar = Progress::bytes("reading", input::size(path));
            if events {
                let source = Source::Lines { name: path, input: Box::new(whole) };
                self.events(path, source, &bar).map_err(|ended| match ended {
                    Ended::Open(error) => Error::input(path.display(), error),
                    Ended::Stop(stop) => Error::input(path.display(), stop),
                })?;
            } else {
                let counted = bar.wrap(whole);
                let name = path.display().to_string();
                recorder.read(&name, counted).map_err(|error| {
                    let place = format!("{}:{}", error.file, error.line);
                    Error::input(place, error.problem)
                })?;
                recorded = true;
            }
        }
        if recorded {
            self.recording(recorder)?;
        }
        Ok(())
    }

    fn recording(&mut self, recorder: Recorder) -> Result<(), Error> {
        let recording = recorder.finish();
        for note in &recording.notes {
            let place = if note.line > 0 {
                format!("{}:{}: ", note.file, note.line)
            } else {
                String::new()
            };
            out::warn(format!("{place}{}", note.text));
        }
        self.fed.newest = recording.newest;
        let left_out = usize::try_from(recording.quarantined).unwrap_or(usize::MAX);
        self.fed.quarantined = self.fed.quarantined.saturating_add(left_out);
        for event in recording.events() {
            self.event(&event).map_err(|stop| Error::input("recording", stop))?;
        }
        Ok(())
    }

    fn events(
        &mut self,
        place: &Path,
        source: Source<'_>,
        bar: &Progress,
    ) -> Result<bulk::Summary, Ended> {
        bulk::read(source, |batch| {
            bar.more(batch.bytes() as u64);
            self.batch(place, batch).map_err(Ended::Stop)
        })
    }

    fn batch(&mut self, place: &Path, batch: &Batch) -> Result<(), Stop> {
        for events in batch.events_by(TOGETHER) {
            let next = events.iter().filter_map(|(_, decoded)| decoded.as_ref().ok()?.event());
            self.ledger.look_ahead(next);
            self.decoded(place, events)?;
        }
        Ok(())
    }

    fn decoded(&mut self, place: &Path, events: Vec<Numbered<'_>>) -> Result<(), Stop> {
        for (number, decoded) in events {
            match decoded {
                Ok(Decoded::Event(event)) => self.event(&event)?,
                Ok(Decoded::Unknown) | Err(DecodeError::Blank) => self.fold(&Record::Unknown)?,
                Ok(Decoded::Newer { kind, version }) => {
                    self.fold(&Record::Newer { kind, version })?
                }
                Err(error) => {
                    self.undecodable(place, number, &error);
                    self.fold(&Record::Unknown)?;
                }
            }
        }
        Ok(())
    }

    /// Counts a line that is no event. The ledger does not hear of it: it would keep every reason, and a file may
    /// hold more of such lines than there is memory.
    fn undecodable(&mut self, place: &Path, number: Position, error: &DecodeError) {
        if self.fed.quarantined < SHOWN {
            let number =
                if place.is_dir() { format!(" position {number}") } else { number.to_string() };
            out::warn(format!("{}:{number}: {error}", place.display()));
        }
        self.fed.quarantined = self.fed.quarantined.saturating_add(1);
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Stop> {
        if self.fed.oldest.is_none_or(|oldest| event.time < oldest) {
            self.fed.oldest = Some(event.time);
        }
        if let Some(names) = &mut self.names {
            names.learn(event);
        }
        self.fold(&Record::Event(event))
    }

    fn fold(&mut self, record: &Record<'_>) -> Result<(), Stop> {
        let position = self.ledger.position().saturating_add(1);
        self.ledger.fold(position, record).map(|_| ())
    }
}

/// The last position that was published up to `at`.
fn position_at(place: &str, at: Timestamp) -> Result<Position, Error> {
    let failed = |error: OpenError| Error::log(place, error);
    let mut last = 0;
    let source = Source::log(place, Position::MAX).map_err(failed)?;
    bulk::read(source, |batch| {
        for (position, scanned) in batch.iter() {
            let published = scanned.ok().and_then(|s| Timestamp::parse(&s.recorded_at).ok());
            if published.is_some_and(|published| published <= at) {
                last = position;
            }
        }
        Ok(())
    })
    .map_err(failed)?;
    Ok(last)
}

/// Whether text begins with an event line: an object whose first line names the CloudEvents version.
fn is_event_line(start: &[u8]) -> bool {
    let line = start.trim_ascii_start().split(|b| *b == b'\n').next().unwrap_or_default();
    let attribute = b"\"specversion\"";
    line.windows(attribute.len()).any(|window| window == attribute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_recordings_are_told_apart_by_looking() {
        assert!(is_event_line(b"\n {\"specversion\":\"1.0\",\"id\""));
        assert!(is_event_line(b"{\"id\":\"0\", \"specversion\" : \"1.0\"}\n"));
        for other in
            ["", "{}", "{\n\"specversion\":\"1.0\"}", "{\"type\":\"ADDED\"}", "specversion"]
        {
            assert!(!is_event_line(other.as_bytes()), "{other}");
        }
    }
}
