//! The asynchronous reader of a file log: blocking reads on the runtime's blocking threads, waiting by the
//! writer's head in the writer's own process, by looking again in any other.

use super::segments::SegmentReader;
use crate::domain::event::Position;
use crate::event_log::{ReadError, Reader, Records, chain::Tip};
use std::{io, path::Path, path::PathBuf, time::Duration};
use tokio::sync::watch;

/// How often another process's log is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Reads a file log in order.
#[derive(Debug)]
pub struct FileReader {
    dir: PathBuf,
    /// `None` only while a read is under way or after one was cancelled.
    segments: Option<SegmentReader>,
    /// Position of the next record, to begin again after a cancelled read.
    next: Position,
    /// In the writer's process: nothing is given before it is acknowledged.
    acknowledged: Option<watch::Receiver<Tip>>,
}

impl FileReader {
    pub(super) fn open(
        dir: &Path,
        from: Position,
        acknowledged: Option<watch::Receiver<Tip>>,
    ) -> Result<Self, ReadError> {
        let segments = Some(SegmentReader::open(dir, from)?);
        Ok(Self { dir: dir.to_owned(), segments, next: from.max(1), acknowledged })
    }

    async fn wait(&mut self) {
        if let Some(tip) = &mut self.acknowledged
            && tip.changed().await.is_ok()
        {
            return;
        }
        // Another process writes, or may begin to.
        tokio::time::sleep(POLL).await;
    }
}

impl Reader for FileReader {
    async fn next(&mut self) -> Result<Option<Records>, ReadError> {
        let limit =
            self.acknowledged.as_mut().map_or(Position::MAX, |h| h.borrow_and_update().position());
        let segments = match self.segments.take() {
            Some(segments) => segments,
            None => SegmentReader::open(&self.dir, self.next)?,
        };
        let (segments, records) = blocking(&self.dir, move || {
            let mut segments = segments;
            let records = segments.next(limit)?;
            Ok((segments, records))
        })
        .await?;
        self.segments = Some(segments);
        if let Some(records) = &records {
            self.next = records.next_position();
        }
        Ok(records)
    }

    async fn tail(&mut self) -> Result<Records, ReadError> {
        loop {
            if let Some(records) = self.next().await? {
                return Ok(records);
            }
            self.wait().await;
        }
    }
}

/// Runs file operations where they may block.
pub(super) async fn blocking<T: Send + 'static>(
    dir: &Path,
    work: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(ReadError::Io { path: dir.to_owned(), source: io::Error::other(error) })
    })
}
