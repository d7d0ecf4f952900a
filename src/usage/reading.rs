//! The log as it is read for usage events, one record at a time up to any position.

use super::Error;
use crate::{
    domain::{
        event::Position,
        ledger::{Ledger, Record},
        merkle::LeafHasher,
        metered::Metered,
    },
    event_log::{AnyReader, Reader, Records, codec::Decoder},
    projection::fold::Read,
};
use std::time::Duration;
use tokio::time::timeout;

/// Without new records, the clock is looked at this often.
const LOOK: Duration = Duration::from_millis(250);

/// A log and the fold of what was read of it.
pub(super) struct Reading {
    reader: AnyReader,
    decoder: Decoder,
    /// Handed out by the reader and not folded yet, or only in part.
    kept: Option<Records>,
    pub(super) fold: Metered,
}

impl Reading {
    pub(super) fn new(reader: AnyReader) -> Self {
        Self { reader, decoder: Decoder::default(), kept: None, fold: Metered::default() }
    }

    /// The same, where `ledger` stands; `reader` begins with its last record. `None`: that is another one in this log.
    pub(super) async fn behind(
        mut reader: AnyReader,
        ledger: Ledger,
    ) -> Result<Option<Self>, Error> {
        let records = match reader.next().await? {
            Some(records) => records,
            None => reader.tail().await?,
        };
        let first = records.iter().next().and_then(|(position, raw)| {
            let scanned = raw.scan().ok()?;
            Some((position, LeafHasher::default().leaf(position, &scanned.leaf_input())))
        });
        if first != Some((ledger.position(), ledger.leaf())) {
            return Ok(None);
        }
        let mut reading = Self::new(reader);
        reading.kept = Some(records);
        reading.fold = Metered::behind(ledger)?;
        Ok(Some(reading))
    }

    /// Folds the next records, up to the one at `upto`; `false`: there are no more for now.
    pub(super) async fn read(&mut self, upto: Position) -> Result<bool, Error> {
        if self.kept.is_none() {
            self.kept = self.reader.next().await?;
        }
        let Some(records) = self.kept.take() else { return Ok(false) };
        let folded = self.fold.mark().position;
        for (position, raw) in records.iter().skip_while(|(at, _)| *at <= folded) {
            if position > upto {
                break;
            }
            match raw.scan() {
                Ok(scanned) => {
                    let read = Read::new(&mut self.decoder, &scanned);
                    self.fold.take(position, &read.record())?;
                }
                Err(why) => self.fold.take(position, &Record::Undecodable(why.to_string()))?,
            }
        }
        if self.fold.mark().position.saturating_add(1) < records.next_position() {
            self.kept = Some(records);
        }
        Ok(true)
    }

    /// The same; where there are none it waits a moment for them.
    pub(super) async fn read_or_wait(&mut self, upto: Position) -> Result<(), Error> {
        if !self.read(upto).await? {
            self.wait().await?;
        }
        Ok(())
    }

    /// Waits a moment for the next records.
    pub(super) async fn wait(&mut self) -> Result<(), Error> {
        if let Ok(records) = timeout(LOOK, self.reader.tail()).await {
            self.kept = Some(records?);
        }
        Ok(())
    }
}
