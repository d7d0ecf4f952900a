//! Certificates of our own: made once, kept in a Secret, renewed in time, trusted by our own webhook configurations.
//!
//! ```text
//!  every half minute:  load ─▶ step? ─▶ save over what was loaded ─▶ show ─▶ put the bundle where it is missing
//!                        ▲                │ somebody else was first
//!                        └────────────────┘
//! ```
//!
//! Every replica does this; who saves first wins, and the others take what they find. A Secret that cannot be read
//! as ours is never written over.

use super::{
    Current, Pair, PairError, issue,
    issue::IssueError,
    rotation::{Authority, Kept, Serving, Step},
};
use crate::domain::time::Timestamp;
use std::{future::Future, sync::Arc, time::Duration};

/// Store and configurations are looked at so often: so long a replica may show what another replaced.
pub const EVERY: Duration = Duration::from_secs(30);
/// More steps at once there never are: drop and make an authority, issue, and again after somebody else's change.
const STEPS: usize = 16;

/// Where certificates are kept, and who is told whom to trust. In a cluster: a Secret, and the `caBundle` of every
/// webhook in bizrq's two configurations.
pub trait Store: Send + Sync {
    /// Which version was loaded.
    type Version: Send;

    /// What is kept; `None`: nothing yet.
    fn load(
        &self,
    ) -> impl Future<Output = Result<Option<(Kept, Self::Version)>, StoreError>> + Send;

    /// Keeps this in place of what was loaded (`None`: of nothing).
    fn save(
        &self,
        kept: &Kept,
        over: Option<Self::Version>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Makes both configurations trust exactly `bundle` (PEM), if they do not.
    fn trust(&self, bundle: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Why a [`Store`] does not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another replica was first: load again.
    #[error("somebody else changed it meanwhile")]
    Conflict,
    /// What is kept is not ours, or damaged.
    #[error("{place} does not hold what bizrq writes ({why}); delete it, and a new one is made")]
    Foreign {
        /// Namespace and name.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// It cannot be reached, or says no.
    #[error("{place}: {why}")]
    Failed {
        /// What was asked for.
        place: String,
        /// What came back.
        why: String,
    },
}

/// Why certificates are not in order. What works goes on working.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// See there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// See there.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// What is kept does not work.
    #[error("the certificate that is kept: {0}")]
    Pair(#[from] PairError),
    /// Others change it all the time.
    #[error(
        "the certificates changed at each of {STEPS} attempts; is another program writing them?"
    )]
    Restless,
}

/// Keeps the certificates of one replica in order.
#[derive(Debug)]
pub struct Keeper<S> {
    store: S,
    names: Vec<String>,
    current: Arc<Current>,
    shown: Option<Serving>,
}

impl<S: Store> Keeper<S> {
    /// For a server that is reached under `names` (DNS names and addresses).
    #[must_use]
    pub const fn new(store: S, names: Vec<String>, current: Arc<Current>) -> Self {
        Self { store, names, current, shown: None }
    }

    /// Does all that is to be done at `now`, and says whether a new certificate is shown.
    ///
    /// # Errors
    /// [`KeepError`]. Whatever could be done was done; it may be tried again at any time.
    pub async fn keep(&mut self, now: Timestamp) -> Result<bool, KeepError> {
        let mut is_new = false;
        for _ in 0..STEPS {
            let (kept, version) = match self.store.load().await? {
                Some((kept, version)) => (kept, Some(version)),
                None => (Kept::default(), None),
            };
            if let Some(next) = self.step(&kept, now)? {
                self.save(&next, version).await?;
                continue;
            }
            is_new |= self.show(&kept, now)?;
            self.store.trust(&kept.bundle()).await?;
            let mut trusted = kept;
            if !trusted.bundle_is_trusted(now) {
                return Ok(is_new);
            }
            self.save(&trusted, version).await?;
        }
        Err(KeepError::Restless)
    }

    /// `kept` one step on.
    fn step(&self, kept: &Kept, now: Timestamp) -> Result<Option<Kept>, IssueError> {
        let Some(step) = kept.next(&self.names, now) else { return Ok(None) };
        let mut next = kept.clone();
        match step {
            Step::MakeAuthority => {
                next.authorities.push(issue::authority(now, Authority::end(now))?);
            }
            Step::Issue { by } => {
                if let Some(by) = kept.authorities.get(by) {
                    let until = Serving::end(by, now);
                    next.serving = Some(issue::serving(by, &self.names, now, until)?);
                }
            }
            Step::Drop { authority } => {
                next.authorities.remove(authority);
            }
        }
        Ok(Some(next))
    }

    /// That somebody else was first is no error: it is loaded again.
    async fn save(&self, kept: &Kept, over: Option<S::Version>) -> Result<(), StoreError> {
        match self.store.save(kept, over).await {
            Ok(()) | Err(StoreError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn show(&mut self, kept: &Kept, now: Timestamp) -> Result<bool, PairError> {
        let Some(serving) = kept.serving.as_ref().filter(|s| self.shown.as_ref() != Some(*s))
        else {
            return Ok(false);
        };
        let (certificate, key) = (serving.certificate.as_bytes(), serving.key.as_bytes());
        self.current.show(Pair::parse(certificate, key, now)?);
        self.shown = Some(serving.clone());
        Ok(true)
    }
}
