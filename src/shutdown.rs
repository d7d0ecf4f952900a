//! How a process ends: stage by stage, so that nothing that was promised is lost.
//!
//! ```text
//!  SIGTERM ─▶ Accept: unready, no new connections, last answers
//!          ─▶ Watch:  nothing more is observed; facts on their way are appended
//!          ─▶ Decide: the last append of decisions is finished
//!          ─▶ Fold:   rows are committed
//!          ─▶ Lead:   the leases are given back
//!          ─▶ Tell:   metrics and health fall silent
//! ```
//!
//! A task that ends before its stage ends the process. Whoever is killed instead loses nothing either: it takes longer
//! to start again.

use std::{collections::HashMap, future::Future, time::Duration};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::{Instant, timeout_at},
};
use tracing::{error, info, warn};

/// The exit code of a process that a person interrupts, as shells count it.
const KILLED: i32 = 130;

/// When a task ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Nothing has ended.
    #[default]
    Running,
    /// Whoever asks is told to ask elsewhere, and answered.
    Accept,
    /// Nothing more is observed.
    Watch,
    /// Nothing more is decided.
    Decide,
    /// Nothing more is folded.
    Fold,
    /// Nothing more is led.
    Lead,
    /// Nothing more is told.
    Tell,
}

/// Why the process ended although nobody wanted it to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A task failed.
    #[error("{task}: {why}")]
    Failed {
        /// Which.
        task: String,
        /// Why.
        why: String,
    },
    /// A task ended as if all were well.
    #[error("{task} ended early")]
    Early {
        /// Which.
        task: String,
    },
    /// The system gives no signals.
    #[error("signals cannot be received: {0}")]
    Signals(#[from] std::io::Error),
}

/// The tasks of a process, each with the stage in which it ends.
#[derive(Debug)]
pub struct Tasks {
    stage: watch::Sender<Stage>,
    running: JoinSet<Result<(), String>>,
    known: HashMap<Id, Task>,
    patience: Duration,
}

/// What is known of a task.
#[derive(Debug)]
struct Task {
    name: String,
    stage: Stage,
}

/// How a task ended.
type Ended = Result<(Id, Result<(), String>), JoinError>;

/// The stage that a process is in. Clones are the same.
#[derive(Clone, Debug)]
pub struct Staged(watch::Receiver<Stage>);

impl Stage {
    const ORDER: [Self; 6] =
        [Self::Accept, Self::Watch, Self::Decide, Self::Fold, Self::Lead, Self::Tell];
}

impl Staged {
    /// Whether the end has begun.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        *self.0.borrow() > Stage::Running
    }

    /// Waits until `stage` is to end; also when nobody can say so any more.
    pub async fn until(mut self, stage: Stage) {
        let _ = self.0.wait_for(|now| *now >= stage).await;
    }
}

impl Tasks {
    /// None yet. A stage that is not over after `patience` is left behind.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        let stage = watch::Sender::new(Stage::Running);
        Self { stage, running: JoinSet::new(), known: HashMap::new(), patience }
    }

    /// The stage that the process is in.
    #[must_use]
    pub fn staged(&self) -> Staged {
        Staged(self.stage.subscribe())
    }

    /// Runs `work`, which is to end when `stage` does.
    pub fn spawn(
        &mut self,
        stage: Stage,
        name: impl Into<String>,
        work: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let id = self.running.spawn(work).id();
        self.known.insert(id, Task { name: name.into(), stage });
    }

    /// Waits until `stop` comes true or a task ends, and then ends all, stage by stage.
    ///
    /// # Errors
    /// [`Error`] of the first task that ended by itself or failed.
    pub async fn run(mut self, stop: impl Future) -> Result<(), Error> {
        let mut failed = tokio::select! {
            _ = stop => None,
            Some(ended) = self.running.join_next_with_id() => {
                let (task, failed) = self.ended(ended);
                Some(failed.unwrap_or(Error::Early { task }))
            }
        };
        if let Some(error) = &failed {
            error!(%error, "a part of the process ended; the rest is shut down");
        }
        for stage in Stage::ORDER {
            info!(?stage, "ending");
            self.stage.send_replace(stage);
            let late = self.end(stage).await;
            failed = failed.or(late);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Waits until every task of `stage` has ended, or for as long as there is patience; gives the first failure.
    async fn end(&mut self, stage: Stage) -> Option<Error> {
        let deadline = Instant::now() + self.patience;
        let mut failed = None;
        while self.known.values().any(|task| task.stage == stage) {
            match timeout_at(deadline, self.running.join_next_with_id()).await {
                Ok(None) => break,
                Ok(Some(ended)) => {
                    let (_, why) = self.ended(ended);
                    failed = failed.or(why);
                }
                Err(_) => {
                    warn!(?stage, "not over in time; left behind");
                    break;
                }
            }
        }
        failed
    }

    /// Forgets a task that has ended; gives its name, and why, if it failed.
    fn ended(&mut self, ended: Ended) -> (String, Option<Error>) {
        let (id, why) = match ended {
            Ok((id, done)) => (id, done.err()),
            Err(panic) => (panic.id(), Some(panic.to_string())),
        };
        let task = self.known.remove(&id).map_or_else(|| "a task".to_owned(), |task| task.name);
        let failed = why.map(|why| Error::Failed { task: task.clone(), why });
        (task, failed)
    }
}

/// Comes true with SIGTERM or SIGINT. A second one ends the process at once: nothing that was promised is lost by it.
///
/// # Errors
/// [`Error::Signals`].
pub fn signals() -> Result<impl Future<Output = ()> + Send, Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        either(&mut terminate, &mut interrupt).await;
        info!("asked to end; asked once more, it ends at once");
        tokio::spawn(async move {
            either(&mut terminate, &mut interrupt).await;
            std::process::exit(KILLED);
        });
    })
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! { _ = one.recv() => {}, _ = other.recv() => {} }
}

#[cfg(test)]
mod tests;
