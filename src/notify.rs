//! Notices: a group is told that its cash runs low, when it is used up, and when that is over, once each. What is due is
//! read off the ledger and what was told before (pure); whoever leads tells it, at the computed instant. It decides
//! nothing and appends nothing to the log.
//!
//! ```text
//!  Ledger ──┐
//!  Told   ──┴─due (pure)──▶ notices ──each behind the one before──▶ a stream, or a file beside the log ─▶ Told
//!                └─▶ the next instant ──▶ timer                                          └─▶ Alertmanager, Events
//! ```

pub mod alertmanager;
pub mod due;
pub mod events;
mod file;
pub mod metrics;
#[cfg(feature = "jetstream")]
mod nats;
pub mod notice;

use crate::{
    domain::{ledger::Ledger, time::Timestamp},
    event_log::AnyLog,
    projection::Projection,
};
use due::{Due, Parts};
use metrics::Metrics;
use notice::{Notice, Told};
use std::{future::Future, path::Path, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// The ledger is looked at this often if it changed; what it says beforehand is told at its instant.
const LOOK: Duration = Duration::from_millis(250);
/// Groups that are looked at without letting the fold in between, for which readers wait, too: an eighth of a
/// millisecond's work.
pub const AT_ONCE: usize = 16;
/// After a failure.
const AGAIN: Duration = Duration::from_secs(1);
/// A place that takes longer has failed; the notice is told again, which is no second one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a notice is not told yet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be written or read.
    #[error("{}: {source}; notices wait until it can be written", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The stream does not take it.
    #[error("stream {stream}: {why}; notices wait until it can be published to")]
    Stream {
        /// The stream.
        stream: String,
        /// What happened.
        why: String,
    },
    /// It may stand there or not.
    #[error(
        "whether {group} was told of {key} is not known: no answer within 10 s; it is tried again"
    )]
    Unanswered {
        /// The group.
        group: String,
        /// The key.
        key: String,
    },
}

/// Where notices stand once they are told; it takes none twice, whoever brings it.
#[derive(Debug)]
pub enum Kept {
    /// Beside an embedded log.
    File(file::Notices),
    /// On the server that keeps the log.
    #[cfg(feature = "jetstream")]
    Nats(Box<nats::Notices>),
}

impl Kept {
    /// The place that belongs to `log`, and what was told there; of one in memory there is none.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn of(log: &AnyLog) -> Result<Option<(Self, Told)>, Error> {
        Ok(match log {
            AnyLog::File(log) => {
                let (file, told) = file::Notices::open(log.dir())?;
                Some((Self::File(file), told))
            }
            #[cfg(feature = "jetstream")]
            AnyLog::JetStream(log) => {
                let (nats, told) = nats::Notices::open(log).await?;
                Some((Self::Nats(Box::new(nats)), told))
            }
            AnyLog::Memory(_) => None,
        })
    }

    /// Tells `notice`; `None`: it is new. Else the last one of its topic, which another process told, or this one when
    /// it got no answer.
    ///
    /// # Errors
    /// [`Error`]: it may have been told or not. Telling it again is safe.
    pub async fn tell(&mut self, notice: &Notice) -> Result<Option<Notice>, Error> {
        match self {
            Self::File(file) => file.tell(notice).map(|()| None),
            #[cfg(feature = "jetstream")]
            Self::Nats(nats) => nats.tell(notice).await,
        }
    }
}

/// Takes what was told beside the log in the folder `from` along to the one in `to`, which continues it.
///
/// # Errors
/// [`Error`]; to be tried again.
pub fn carry(from: &Path, to: &Path) -> Result<(), Error> {
    file::carry(from, to)
}

/// Tells the notices of one log.
pub struct Teller {
    log: Arc<AnyLog>,
    projection: Projection,
    metrics: Metrics,
    /// What was told, while this process leads.
    told: watch::Sender<Option<Told>>,
    now: fn() -> Timestamp,
}

impl Teller {
    /// For the notices that follow from `projection` of `log`.
    #[must_use]
    pub fn new(
        log: Arc<AnyLog>,
        projection: Projection,
        metrics: Metrics,
        now: fn() -> Timestamp,
    ) -> Self {
        Self { log, projection, metrics, told: watch::channel(None).0, now }
    }

    /// What was told so far, while this process leads.
    #[must_use]
    pub fn told(&self) -> watch::Receiver<Option<Told>> {
        self.told.subscribe()
    }

    /// Tells while `leads` says so, until `end` comes true. `heard` gets what is new, `failed` hears why something waits.
    pub async fn run(
        self,
        mut leads: watch::Receiver<bool>,
        end: impl Future,
        heard: impl Fn(&Notice),
        failed: impl Fn(&str),
    ) {
        let mut end = pin!(end);
        let mut waits = String::new();
        loop {
            let mut losing = leads.clone();
            let leading = async {
                // Without anybody who could say so it never leads.
                let is_orphan = leads.wait_for(|leads| *leads).await.is_err();
                if is_orphan {
                    std::future::pending::<()>().await;
                }
                let lost = async move {
                    let is_orphan = losing.wait_for(|leads| !*leads).await.is_err();
                    if is_orphan {
                        // Who leads because there is nobody else leads to the end.
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    Err(error) = self.tell(&heard) => {
                        let (begins, why) = (self.metrics.waits(true), error.to_string());
                        // Once: it is tried every second.
                        if begins || why != waits {
                            failed(&why);
                            waits = why;
                        }
                    }
                    () = lost => {
                        self.told.send_replace(None);
                        return;
                    }
                }
                sleep(AGAIN).await;
            };
            tokio::select! {
                _ = &mut end => return,
                () = leading => {}
            }
        }
    }

    async fn tell(&self, heard: &impl Fn(&Notice)) -> Result<(), Error> {
        let Some((mut kept, told)) = Kept::of(&self.log).await? else {
            return std::future::pending().await;
        };
        self.told.send_replace(Some(told));
        self.metrics.waits(false);
        let (mut looked, mut next) = (None, None);
        loop {
            let status = self.projection.status();
            let now = (self.now)();
            let is = (status.position, status.stopped);
            let is_due = looked.as_ref() != Some(&is) || next.is_some_and(|next| next <= now);
            if is_due && (status.caught_up || is.1.is_some()) {
                let due = self.due(now, is.1.as_deref()).await;
                (looked, next) = (Some(is), due.next);
                for notice in due.notices {
                    let answer = timeout(PATIENCE, kept.tell(&notice)).await;
                    match answer.unwrap_or_else(|_| Err(notice.unanswered()))? {
                        None => {
                            self.metrics.told(&notice, (self.now)());
                            heard(&notice);
                            self.note(notice);
                        }
                        Some(other) => {
                            // What follows from it is looked at anew.
                            looked = None;
                            self.note(other);
                        }
                    }
                }
            }
            sleep(wait(next, (self.now)())).await;
        }
    }

    async fn due(&self, now: Timestamp, stopped: Option<&str>) -> Due {
        let mut parts = Parts::default();
        while self.look(|ledger, told| parts.groups(ledger, told, now, AT_ONCE)) {
            tokio::task::yield_now().await;
        }
        self.look(|ledger, told| parts.end(ledger, told, now, stopped))
    }

    /// A look at the ledger as it is now, and at what was told.
    fn look<T>(&self, look: impl FnOnce(&Ledger, &Told) -> T) -> T {
        let told = self.told.borrow();
        let (none, ledger) = (Told::default(), self.projection.ledger());
        look(&ledger, told.as_ref().unwrap_or(&none))
    }

    fn note(&self, notice: Notice) {
        self.told.send_modify(|told| told.get_or_insert_default().note(notice));
    }
}

/// Until `next`, but no longer than to the next look.
fn wait(next: Option<Timestamp>, now: Timestamp) -> Duration {
    let until = next.map_or(i64::MAX, |next| next.since(now).max(1));
    LOOK.min(Duration::from_millis(until.unsigned_abs()))
}

impl Notice {
    fn unanswered(&self) -> Error {
        Error::Unanswered { group: self.group.clone(), key: self.key.clone() }
    }
}
