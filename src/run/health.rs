//! Whether the process can do its work: asked by whoever sends reviews here, answered by what is true at that moment.

use crate::{projection::Projection, shutdown::Staged};
use std::sync::{Arc, PoisonError, RwLock};

/// Says what is waited for, if anything is.
pub(super) type Check = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// See the head of this file. Clones are the same.
#[derive(Clone)]
pub(super) struct Health {
    staged: Staged,
    /// Written a few times at the start.
    checks: Arc<RwLock<Vec<Check>>>,
}

impl Health {
    pub(super) fn new(staged: Staged) -> Self {
        Self { staged, checks: Arc::default() }
    }

    /// Asks this, too, from now on.
    pub(super) fn also(&self, check: impl Fn() -> Option<String> + Send + Sync + 'static) {
        self.checks.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(check));
    }

    /// What is waited for; `None`: the process is ready.
    pub(super) fn waits_for(&self) -> Option<String> {
        if self.staged.is_ending() {
            return Some("shutting down".to_owned());
        }
        let checks = self.checks.read().unwrap_or_else(PoisonError::into_inner);
        match checks.is_empty() {
            true => Some("the event log is being opened".to_owned()),
            false => checks.iter().find_map(|check| check()),
        }
    }
}

/// What is waited for of the fold.
pub(super) fn fold(projection: &Projection) -> Option<String> {
    if let Some(why) = projection.ended() {
        return Some(format!("the ledger stopped: {why}"));
    }
    let status = projection.status();
    let position = status.position;
    (!status.caught_up).then(|| format!("the ledger is read from the log, now at {position}"))
}
