//! Records on their way to the log: named, dated, applied to the ledger that decides, and sent in their order.
//!
//! Decisions are appended on the condition that the last decision is the one that was known. The facts before them
//! travel at the same time, so that both wait for the disk once.

use super::{BATCH, Error, random::Random};
use crate::{
    domain::{
        event::{Data, Event, EventId, Kind, Position},
        ident,
        ledger::{Applied, Ledger, Options, Record},
        merkle::Hash,
        time::Timestamp,
    },
    event_log::{AppendError, Appended, EventLog, NewEvent},
};

/// See the head of this file.
pub(super) struct Recorder {
    /// Everything that was recorded. It decides; that its root is not the log's does not matter here.
    pub(super) ledger: Ledger,
    outbox: Vec<Letter>,
    sent: Position,
    decided: bool,
    recorded_at: Timestamp,
    random: Random,
}

/// A record, and of a decision the position of the one before it.
struct Letter {
    expected: Option<Position>,
    event: NewEvent,
}

/// Who says what about what, and when.
pub(super) struct Said<'a> {
    pub(super) source: &'a str,
    pub(super) subject: &'a str,
    /// When it happened.
    pub(super) time: Timestamp,
    /// When it was heard of.
    pub(super) now: Timestamp,
    pub(super) data: Data<'a>,
}

impl Recorder {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            ledger: Ledger::new(Options { history: false, ..Options::default() }),
            outbox: Vec::new(),
            sent: 0,
            decided: false,
            recorded_at: Timestamp::MIN,
            random: Random::new(seed),
        }
    }

    /// Records a fact, a note, or a decision that needs no condition.
    pub(super) fn tell(&mut self, said: Said<'_>) -> Result<Position, Error> {
        let event = self.event(said)?;
        self.apply(&event)?;
        self.put(None, &event)
    }

    /// Records a fact without which the ledger decides the same: it keeps the position only.
    pub(super) fn pass(&mut self, said: Said<'_>) -> Result<Position, Error> {
        let event = self.event(said)?;
        let position = self.ledger.position().saturating_add(1);
        self.ledger.apply_record(position, Hash::default(), &Record::Unknown)?;
        self.put(None, &event)
    }

    /// Records a decision, on the condition that it follows the last one that is known.
    pub(super) fn decide(&mut self, said: Said<'_>) -> Result<Position, Error> {
        let expected = self.ledger.last_decision();
        let event = self.event(said)?;
        self.apply(&event)?;
        self.decided = true;
        self.put(Some(expected), &event)
    }

    /// Whether something must be sent before the simulation goes on.
    pub(super) fn is_due(&self) -> bool {
        self.decided || self.outbox.len() >= BATCH
    }

    /// Where the last record stands that is known here.
    #[cfg(feature = "service")]
    pub(super) fn position(&self) -> Position {
        self.ledger.position()
    }

    /// Takes up what somebody else put on the log behind what was sent.
    #[cfg(feature = "service")]
    pub(super) async fn read_back(&mut self, log: &impl EventLog) -> Result<(), Error> {
        use crate::event_log::{
            Reader,
            codec::{Decoded, Decoder},
        };
        let mut decoder = Decoder::default();
        let mut reader = log.read(self.sent.saturating_add(1))?;
        while let Some(records) = reader.next().await? {
            for (position, raw) in records.iter() {
                let scanned = raw.scan()?;
                if let Decoded::Event(event) = decoder.decode(&scanned)? {
                    self.apply(&event)?;
                    self.recorded_at = self.recorded_at.max(event.recorded_at);
                }
                self.sent = position;
            }
        }
        Ok(())
    }

    /// Sends everything.
    pub(super) async fn send(&mut self, log: &impl EventLog) -> Result<(), Error> {
        self.decided = false;
        let mut facts = Vec::new();
        for letter in std::mem::take(&mut self.outbox) {
            match letter.expected {
                None => facts.push(letter.event),
                Some(expected) => {
                    let before = std::mem::take(&mut facts);
                    let count = before.len();
                    let (before, decision) =
                        tokio::join!(log.append(before), log.decide(expected, letter.event));
                    self.sent(count, before)?;
                    self.sent(1, decision)?;
                }
            }
        }
        let count = facts.len();
        if count == 0 { Ok(()) } else { self.sent(count, log.append(facts).await) }
    }

    fn sent(&mut self, count: usize, answer: Result<Appended, AppendError>) -> Result<(), Error> {
        let expected = self.sent.saturating_add(count as u64);
        let found = answer?.last;
        if found != expected {
            return Err(Error::Interleaved { expected, found });
        }
        self.sent = expected;
        Ok(())
    }

    /// When something is published that was heard of `now`, by an observer or a webhook.
    pub(super) fn published(&mut self, now: Timestamp) -> Timestamp {
        // What either needs for it, in milliseconds.
        let published = now.shifted(self.random.between(40, 900));
        self.recorded_at = self.recorded_at.max(published);
        self.recorded_at
    }

    fn event<'a>(&mut self, said: Said<'a>) -> Result<Event<'a>, Error> {
        let Said { source, subject, time, now, data } = said;
        self.published(now);
        let id = name(source, subject, time, &data)?;
        let (source, subject) = (source.into(), subject.into());
        Ok(Event { id, source, subject, time, recorded_at: self.recorded_at, data })
    }

    fn apply(&mut self, event: &Event<'_>) -> Result<(), Error> {
        let position = self.ledger.position().saturating_add(1);
        match self.ledger.apply(position, Hash::default(), event)? {
            Applied::Changed | Applied::Ignored => Ok(()),
            applied => {
                let why = self.ledger.quarantined().last().map_or("", |q| &q.reason);
                let subject = &event.subject;
                let what = format!("a record about {subject} is {applied:?} ({why})");
                Err(Error::Plot { time: event.time, what })
            }
        }
    }

    fn put(&mut self, expected: Option<Position>, event: &Event<'_>) -> Result<Position, Error> {
        self.outbox.push(Letter { expected, event: NewEvent::new(event)? });
        Ok(self.ledger.position())
    }
}

/// The name of an event, as whoever observed the same would name it.
fn name(
    source: &str,
    subject: &str,
    time: Timestamp,
    data: &Data<'_>,
) -> Result<EventId, serde_json::Error> {
    if let Some(id) = ident::fact(source, time, data) {
        return Ok(id);
    }
    let json = serde_json::to_vec(data)?;
    let kind = data.kind().unwrap_or(Kind::WorkloadsRefused);
    Ok(if kind.is_decision() {
        ident::decision(kind, &json)
    } else {
        ident::note(kind, source, subject, time, &json)
    })
}
