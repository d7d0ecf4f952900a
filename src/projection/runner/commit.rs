//! How rows are committed: on a thread of their own, one commit at a time, while the fold goes on.

use super::{Error, Runner};
use crate::{
    domain::event::Position,
    projection::{
        snapshot::Snapshot,
        store::{self, Store},
    },
};
use std::{future::pending, mem, sync::Arc};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

impl<S: Store> Runner<S> {
    /// Records that are applied and not committed; none while nothing may be committed.
    pub(super) fn waiting(&self) -> u64 {
        let status = self.status.borrow();
        let kept = status.unkept.is_none();
        if kept { status.position.saturating_sub(status.committed) } else { 0 }
    }

    /// Begins a commit, once the one before it is done.
    pub(super) async fn commit(&mut self) -> Result<(), Error> {
        self.finish_writing().await?;
        let Some(mut store) = self.store.take() else { return Ok(()) };
        let snapshots = self.snapshots.clone().filter(|_| mem::take(&mut self.wanted));
        let (ledger, mut checkpoint) = (Arc::clone(&self.ledger), mem::take(&mut self.checkpoint));
        // Making bytes of rows takes long enough to be a thread's work; nothing is applied meanwhile.
        let changes = spawn_blocking(move || (checkpoint.changes(&ledger), checkpoint));
        let (batch, checkpoint) = changes.await?;
        self.checkpoint = checkpoint;
        self.writing = Some(spawn_blocking(move || {
            let batch = batch?;
            let position = batch.mark.position();
            store.commit(batch)?;
            let snapshot = snapshots.map(|snapshots| snapshots.copy(&store));
            Ok((store, position, snapshot.transpose().map(Option::flatten)))
        }));
        Ok(())
    }

    pub(super) async fn finish_writing(&mut self) -> Result<(), Error> {
        if self.writing.is_some() {
            let written = written(&mut self.writing).await;
            self.take_back(written)?;
        }
        Ok(())
    }

    /// Takes the store back after a commit. Rows are a cache: when it failed, the fold goes on without.
    pub(super) fn take_back(&mut self, written: Written<S>) -> Result<(), Error> {
        self.writing = None;
        match written? {
            Ok((store, position, snapshot)) => {
                self.store = Some(store);
                self.status.send_modify(|status| {
                    status.committed = position;
                    match snapshot {
                        Ok(None) => {}
                        Ok(Some(written)) => {
                            (status.snapshot, status.unwritten) = (written.mark.position(), None);
                        }
                        Err(error) => status.unwritten = Some(error.to_string().into()),
                    }
                });
            }
            Err(error) => {
                let why = error.to_string().into();
                self.status.send_modify(|status| status.unkept = Some(why));
            }
        }
        Ok(())
    }
}

/// The store, its position, and the snapshot that was asked for.
pub(super) type Wrote<S> =
    Result<(S, Position, Result<Option<Snapshot>, store::Error>), store::Error>;

/// How a commit ended.
pub(super) type Written<S> = Result<Wrote<S>, JoinError>;

/// Waits for the commit that is under way; for ever where there is none.
pub(super) async fn written<S>(writing: &mut Option<JoinHandle<Wrote<S>>>) -> Written<S> {
    match writing {
        Some(writing) => writing.await,
        None => pending().await,
    }
}
