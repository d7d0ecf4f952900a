//! A memory log with something in between: what that does is said, everything else goes through.

use bizrq::{
    domain::{event::Position, merkle::Frontier},
    event_log::{
        AppendError, Appended, EventLog, Head, NewEvent, ReadError, Reader, Records,
        memory::{MemoryLog, MemoryReader},
    },
};
use std::{ops::Deref, sync::Arc};

/// What is between a log and whoever uses it.
pub(crate) trait Between: Send + Sync {
    fn append(
        &self,
        log: &MemoryLog,
        events: Vec<NewEvent>,
    ) -> impl Future<Output = Result<Appended, AppendError>> + Send {
        log.append(events)
    }

    fn decide(
        &self,
        log: &MemoryLog,
        expected: Position,
        decision: NewEvent,
    ) -> impl Future<Output = Result<Appended, AppendError>> + Send {
        log.decide(expected, decision)
    }

    fn head(&self, log: &MemoryLog) -> impl Future<Output = Result<Head, ReadError>> + Send {
        log.head()
    }

    fn tail(
        &self,
        reader: &mut MemoryReader,
    ) -> impl Future<Output = Result<Records, ReadError>> + Send {
        reader.tail()
    }
}

/// A memory log, and what is between. It dereferences to that.
#[derive(Default)]
pub(crate) struct Through<B> {
    pub(crate) log: MemoryLog,
    between: Arc<B>,
}

pub(crate) struct ThroughReader<B> {
    reader: MemoryReader,
    between: Arc<B>,
}

impl<B> Through<B> {
    pub(crate) fn new(log: MemoryLog, between: B) -> Self {
        Self { log, between: Arc::new(between) }
    }
}

impl<B> Deref for Through<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.between
    }
}

impl<B: Between> EventLog for Through<B> {
    type Reader = ThroughReader<B>;

    async fn append(&self, events: Vec<NewEvent>) -> Result<Appended, AppendError> {
        self.between.append(&self.log, events).await
    }

    async fn decide(
        &self,
        expected: Position,
        decision: NewEvent,
    ) -> Result<Appended, AppendError> {
        self.between.decide(&self.log, expected, decision).await
    }

    async fn head(&self) -> Result<Head, ReadError> {
        self.between.head(&self.log).await
    }

    async fn tree(&self) -> Result<Frontier, ReadError> {
        self.log.tree().await
    }

    async fn known_tree(&self) -> Result<Option<Frontier>, ReadError> {
        self.log.known_tree().await
    }

    fn read(&self, from: Position) -> Result<ThroughReader<B>, ReadError> {
        Ok(ThroughReader { reader: self.log.read(from)?, between: Arc::clone(&self.between) })
    }
}

impl<B: Between> Reader for ThroughReader<B> {
    async fn next(&mut self) -> Result<Option<Records>, ReadError> {
        self.reader.next().await
    }

    async fn tail(&mut self) -> Result<Records, ReadError> {
        self.between.tail(&mut self.reader).await
    }
}
