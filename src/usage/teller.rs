//! Who tells usage: reads the log, looks at the clock for ends of hours, and publishes batch after batch.

use super::{
    Error,
    event::{self, UsageMetered},
    metrics::Metrics,
    nats::Published,
    reading::Reading,
};
use crate::{
    domain::{
        event::Position,
        metered::{Mark, Metered},
        time::{HOUR_MS, Timestamp},
    },
    event_log::{AnyLog, EventLog, jetstream::JetStreamLog},
    projection::{Snapshots, runner},
};
use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};
use tokio::{task::spawn_blocking, time::Instant};

/// What ended is told this long after the batch before, at most: so a busy second is one batch.
const EVERY: Duration = Duration::from_secs(1);
/// After an hour so many milliseconds pass before what runs is told up to its end: a stop at the end of the hour is known
/// by then, and needs no correction.
const GRACE_MS: i64 = 10_000;
/// A batch is told when it has so many events, about ten megabytes: a long history is told while it is read.
const MOST: usize = 16_384;

/// Tells the usage of one log.
pub struct Teller {
    log: Arc<AnyLog>,
    /// From the newest that is old enough the log is read on; without any, from its first record.
    snapshots: Option<Snapshots>,
    metrics: Metrics,
    now: fn() -> Timestamp,
}

impl Teller {
    /// For what `log` holds, of which `snapshots` may shorten the reading.
    #[must_use]
    pub fn new(
        log: Arc<AnyLog>,
        snapshots: Option<Snapshots>,
        metrics: Metrics,
        now: fn() -> Timestamp,
    ) -> Self {
        Self { log, snapshots, metrics, now }
    }

    /// Tells until it is dropped, which it may be at any time. Of a log without a stream of usage it does nothing.
    ///
    /// # Errors
    /// [`Error`]. Begin again: what was told is found out.
    pub async fn tell(&self) -> Result<Infallible, Error> {
        let AnyLog::JetStream(log) = &*self.log else { return pending().await };
        let (mut place, last) = Published::open(log).await?;
        let mut reading = match &last {
            Some(last) => self.resume(log, &mut place, last).await?,
            None => Reading::new(self.log.read(1)?),
        };
        self.metrics.waits(false);
        self.go_on(log, &mut reading, &mut place).await
    }

    /// The log from a snapshot on that stands at `mark` or before, else from its first record.
    async fn read_to(&self, mark: Mark) -> Result<Reading, Error> {
        let snapshots = self.snapshots.clone();
        // Rows that cannot be read are passed over: they are a cache.
        let found = spawn_blocking(move || {
            let usable = |position| (1..=mark.position).contains(&position);
            snapshots?.newest(runner::Options::default().ledger, usable)
        });
        if let Ok(Some(ledger)) = found.await {
            let began = ledger.position();
            if let Some(reading) = Reading::behind(self.log.read(began)?, ledger).await? {
                self.metrics.began(began);
                return Ok(reading);
            }
        }
        self.metrics.began(0);
        Ok(Reading::new(self.log.read(1)?))
    }

    /// Comes to where `last` was told, and tells the rest of its batch.
    async fn resume(
        &self,
        log: &JetStreamLog,
        place: &mut Published,
        last: &UsageMetered,
    ) -> Result<Reading, Error> {
        let (since, mark) = (last.since(), last.mark());
        let other =
            || Error::OtherLog { stream: place.stream().to_owned(), position: mark.position };
        if self.log.head().await?.position < mark.position || mark.position < since.position {
            return Err(other());
        }
        let mut reading = self.read_to(since).await?;
        while reading.fold.mark().position < since.position {
            reading.read_or_wait(since.position).await?;
            // It was told before.
            reading.fold.told();
        }
        reading.fold.advance(since.until)?;
        reading.fold.told();
        while reading.fold.mark().position < mark.position {
            reading.read_or_wait(mark.position).await?;
        }
        reading.fold.advance(mark.until)?;
        let batch = event::batch(log.stream(), &reading.fold, since);
        let at = batch.iter().position(|event| event == last).ok_or_else(other)?;
        let rest = batch.get(at.saturating_add(1)..).unwrap_or_default();
        self.publish(place, rest, &mut reading.fold).await?;
        Ok(reading)
    }

    async fn go_on(
        &self,
        log: &JetStreamLog,
        reading: &mut Reading,
        place: &mut Published,
    ) -> Result<Infallible, Error> {
        let (mut since, mut told) = (reading.fold.mark(), Instant::now());
        // An hour that ended, and where the log ended then.
        let mut due: Option<(Timestamp, Position)> = None;
        loop {
            let is_at_end = !reading.read(Position::MAX).await?;
            let fold = &mut reading.fold;
            let hour = last_hour((self.now)());
            if due.is_none() && fold.mark().until < hour {
                due = Some((hour, self.log.head().await?.position));
            }
            let ended = due.take_if(|(_, head)| *head <= fold.mark().position);
            if let Some((hour, _)) = ended {
                fold.advance(hour)?;
            }
            let waited = fold.untold() > 0 && told.elapsed() >= EVERY;
            if ended.is_some() || waited || fold.untold() >= MOST {
                let batch = event::batch(log.stream(), fold, since);
                self.publish(place, &batch, fold).await?;
                (since, told) = (fold.mark(), Instant::now());
            }
            if is_at_end {
                reading.wait().await?;
            }
        }
    }

    async fn publish(
        &self,
        place: &mut Published,
        events: &[UsageMetered],
        fold: &mut Metered,
    ) -> Result<(), Error> {
        place.publish(events).await?;
        fold.told();
        let Mark { position, .. } = fold.mark();
        self.metrics.told(events.len(), position);
        Ok(())
    }

    /// Usage waits, or no longer; whether that is new.
    pub fn waits(&self, waits: bool) -> bool {
        self.metrics.waits(waits)
    }
}

/// The end of the last hour that is over for good.
fn last_hour(now: Timestamp) -> Timestamp {
    let over = now.shifted(-GRACE_MS);
    over.shifted(-over.millis().rem_euclid(HOUR_MS))
}
