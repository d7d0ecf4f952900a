//! A stream as a source: read by its own reader, on a runtime of the reading thread's own.
//!
//! A stream keeps neither leaves nor roots, so nothing beside a record says that it is what was written: the tree is
//! computed, and is for who wrote a root down.

use super::{Batch, Source, Summary};
use crate::{
    domain::{event::Position, merkle::Frontier},
    event_log::{
        EventLog, OpenError, ReadError, Reader, Records,
        chain::Chain,
        codec::Decoder,
        jetstream::{JetStreamLog, JetStreamReader, Options},
    },
};
use std::{
    future::Future,
    io,
    path::PathBuf,
    sync::mpsc::{Receiver, SyncSender},
    time::Duration,
};
use tokio::{runtime::Builder, time::timeout};

/// How long the server may be away while there is more to read: a cluster elects another leader in that time, and what
/// was read of a long log is not read again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads up to `limit`, or to the head of when it began.
pub(super) fn read_stream(
    options: Options,
    limit: Position,
    before: Option<&Frontier>,
    filled: &SyncSender<Batch>,
    spares: &Receiver<Batch>,
) -> Result<Summary, OpenError> {
    let location = options.location.clone();
    run(&location, async {
        let log = JetStreamLog::open_read(options).await?;
        let mut chain = Chain::resume(log.beginning().await.map_err(ReadError::from)?);
        let (mut summary, mut decoder) = (Summary::default(), Decoder::default());
        if let Some(known) = super::continues(chain.tree(), before, &location)? {
            let mut again = log.read(chain.tree().position().saturating_add(1))?;
            while chain.tree().position() < known.position()
                && let Some(records) = again.next().await?
            {
                let (end, mut batch) = (known.position(), Batch::default());
                batch.take_messages(records, end, &mut chain, &mut decoder);
            }
            super::same(known, chain.tree(), &location)?;
        }
        let mut reader = log.read(chain.tree().position().saturating_add(1))?;
        let end = log.head().await?.position.min(limit);
        while chain.tree().position() < end
            && let Some(records) = existing(&mut reader).await?
        {
            let mut batch = spares.try_recv().unwrap_or_default();
            batch.take_messages(records, end, &mut chain, &mut decoder);
            summary.lines = summary.lines.saturating_add(batch.len() as u64);
            summary.bytes = summary.bytes.saturating_add(batch.bytes() as u64);
            if filled.send(batch).is_err() {
                return Ok(summary);
            }
        }
        summary.tree = Some(chain.tree().clone());
        Ok(summary)
    })?
}

/// The next of records that are there.
async fn existing(reader: &mut JetStreamReader) -> Result<Option<Records>, ReadError> {
    match timeout(PATIENCE, reader.tail()).await {
        Ok(records) => records.map(Some),
        // It says what it waits for.
        Err(_) => reader.next().await,
    }
}

/// Position of the first record that a stream has or will have.
pub(super) fn first(options: Options) -> Result<Position, OpenError> {
    let location = options.location.clone();
    run(&location, async {
        let tree = JetStreamLog::open_read(options).await?.beginning().await;
        Ok(tree.map_err(ReadError::from)?.position().saturating_add(1))
    })?
}

/// Runs to the end: the connection on a thread of its own, the work on this one.
fn run<T>(location: &str, work: impl Future<Output = T>) -> Result<T, OpenError> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let io = |source: io::Error| OpenError::Io { path: PathBuf::from(location), source };
    Ok(runtime.map_err(io)?.block_on(work))
}

impl<'a> Source<'a> {
    /// The stream at an address.
    pub(super) fn stream(location: &str, limit: Position) -> Result<Self, OpenError> {
        let options = Box::new(Options::from_environment(location)?);
        Ok(Source::Stream { options, limit })
    }
}
