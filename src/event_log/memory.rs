//! A log that lives as long as the process: for tests and simulations.
//!
//! Its records are the same bytes that a file log would hold.

use super::{
    AppendError, Appended, EventLog, Head, NewEvent, ReadError, Reader, Records, chain::Tip,
};
use crate::domain::{
    event::Position,
    merkle::{Frontier, LeafHasher},
};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Records handed out at once.
const READ_RECORDS: usize = 1024;

/// The log. Clones are the same log.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    /// A plain mutex: held for a few microseconds and never across an await.
    lines: Arc<Mutex<Lines>>,
    /// Changed while `lines` is locked, so that a head never runs ahead of its records.
    tip: watch::Sender<Tip>,
}

/// Reads a [`MemoryLog`].
#[derive(Debug)]
pub struct MemoryReader {
    lines: Arc<Mutex<Lines>>,
    tip: watch::Receiver<Tip>,
    next: Position,
}

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<Vec<u8>>,
    hasher: LeafHasher,
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self { lines: Arc::default(), tip: watch::Sender::new(Tip::default()) }
    }
}

impl MemoryLog {
    fn write(
        &self,
        expected: Option<Position>,
        events: &[NewEvent],
    ) -> Result<Appended, AppendError> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tip = self.tip.borrow().clone();
        if let Some(expected) = expected.filter(|e| *e != tip.last_decision) {
            return Err(AppendError::Conflict { expected, last_decision: tip.last_decision });
        }
        let first = tip.position().saturating_add(1);
        for event in events {
            let position = tip.position().saturating_add(1);
            let mut line = Vec::new();
            tip.tree.append(event.write_line(position, &mut lines.hasher, &mut line));
            if event.is_decision() {
                tip.last_decision = position;
            }
            lines.lines.push(line);
        }
        let last = tip.position();
        self.tip.send_replace(tip);
        Ok(Appended { first, last })
    }
}

impl EventLog for MemoryLog {
    type Reader = MemoryReader;

    async fn append(&self, events: Vec<NewEvent>) -> Result<Appended, AppendError> {
        self.write(None, &events)
    }

    async fn decide(
        &self,
        expected: Position,
        decision: NewEvent,
    ) -> Result<Appended, AppendError> {
        if !decision.is_decision() {
            return Err(AppendError::NotADecision { id: decision.id().to_owned() });
        }
        self.write(Some(expected), &[decision])
    }

    async fn head(&self) -> Result<Head, ReadError> {
        Ok(self.tip.borrow().head())
    }

    async fn tree(&self) -> Result<Frontier, ReadError> {
        Ok(self.tip.borrow().tree.clone())
    }

    async fn known_tree(&self) -> Result<Option<Frontier>, ReadError> {
        self.tree().await.map(Some)
    }

    fn read(&self, from: Position) -> Result<MemoryReader, ReadError> {
        let (lines, tip) = (Arc::clone(&self.lines), self.tip.subscribe());
        Ok(MemoryReader { lines, tip, next: from.max(1) })
    }
}

impl Reader for MemoryReader {
    async fn next(&mut self) -> Result<Option<Records>, ReadError> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = usize::try_from(self.next.saturating_sub(1)).unwrap_or(usize::MAX);
        let bytes = lines.lines.iter().skip(skip).take(READ_RECORDS).flatten().copied().collect();
        let records = Records::from_lines(self.next, bytes);
        self.next = records.next_position();
        Ok(Some(records).filter(|r| !r.is_empty()))
    }

    async fn tail(&mut self) -> Result<Records, ReadError> {
        loop {
            self.tip.borrow_and_update();
            if let Some(records) = self.next().await? {
                return Ok(records);
            }
            if self.tip.changed().await.is_err() {
                // The last clone of the log is gone: nothing will ever come.
                std::future::pending::<()>().await;
            }
        }
    }
}
