//! Ends what was promised and never became real, and says at intervals that nothing was missed.
//!
//! ```text
//!  open in the ledger for 75 s ─▶ ask the API server for its newest version ─▶ watch has passed it?
//!       ─▶ what was seen is on the log and read ─▶ still open: it never came ─▶ reservation.expired
//! ```
//!
//! One clock: this process's own, and only for how long something was seen to be open. The read is begun 75 seconds
//! after the admission stood on the log, so the request that was admitted is over by then, whatever any clock says.

use super::{
    feed::{Ended, Feed},
    objects::{Topic, is_pod},
    server::{Failure, Server},
    watch::{Resource, newest},
};
use crate::{
    decider::{Decider, Expired, Expiry, Unavailable},
    domain::{
        book::{Book, OpenItem, OpenKind},
        event::{Data, Event, EventId, ObjectRef, ObserverSynced, Position},
        names::{ObjectId, Uid},
        text::Text,
        time::Timestamp,
    },
    event_log::{
        EventLog, Reader,
        codec::{Decoded, Decoder},
    },
    k8s::kinds::Kinds,
    projection::{Projection, runner::Stopped},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval, timeout},
};

/// An API server ends a request after 60 seconds (`--request-timeout`); 15 more for what is on its way.
const OVER_AFTER: Duration = Duration::from_secs(75);
/// How often open promises are looked at.
const EVERY: Duration = Duration::from_secs(5);
/// How often everything is compared.
const COMPARE_EVERY: Duration = Duration::from_secs(300);
/// A watch that does not reach a version by itself in so long (bookmarks come once a minute, on 1.20 not of quiet
/// kinds) is begun anew with a list.
const QUIET: Duration = Duration::from_secs(3);
const BUSY: Duration = Duration::from_secs(70);
/// Kinds with fewer objects are listed anew at once.
const FEW: usize = 2_000;
/// A list that takes longer is not waited for.
const LISTED_WITHIN: Duration = Duration::from_secs(300);
/// Expiries of one append.
const BATCH: usize = 256;

/// A kind, as far as the sweeper looks at it.
#[derive(Clone)]
pub(super) struct Kind {
    pub(super) topic: Topic,
    pub(super) resource: Resource,
    pub(super) relist: Arc<Notify>,
    /// Everything up to this version was told to the log; 0 before the first list.
    pub(super) reached: watch::Receiver<u64>,
    /// How many objects there are.
    pub(super) count: watch::Receiver<usize>,
}

/// See the head of this file.
pub(super) struct Sweeper<L> {
    pub(super) cluster: String,
    pub(super) quotas: bool,
    pub(super) server: Server,
    pub(super) declared: Arc<Kinds>,
    pub(super) kinds: Vec<Kind>,
    pub(super) log: Arc<L>,
    pub(super) projection: Projection,
    pub(super) decider: Decider,
    pub(super) feed: Feed,
    /// Asks for a comparison, which answers when it is done with the instant since which nothing was missed.
    pub(super) compare: mpsc::Sender<oneshot::Sender<Timestamp>>,
    pub(super) now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) notice: Arc<dyn Fn(&str) + Send + Sync>,
    pub(super) expired: Arc<dyn Fn(u64) + Send + Sync>,
    pub(super) open: BTreeMap<Key, Open>,
}

/// Names what is open: its record, its place there, and what it is of.
type Key = (Position, u32, Uid, bool);

/// Since when it was seen to be open, and what it is, once that was looked up.
pub(super) struct Open {
    since: Instant,
    item: Item,
    what: Option<What>,
}

/// What is open.
#[derive(Clone)]
enum Item {
    Workload(OpenItem),
    Quota(String),
}

/// What a promise is about.
#[derive(Clone)]
struct What {
    /// Kinds of which a read must not show it.
    kinds: Vec<usize>,
    of: Expired,
}

/// Why a round ends early; the next one tries again.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Server(#[from] Failure),
    #[error("{0}")]
    Fold(#[from] Stopped),
    #[error("{0}")]
    Log(String),
    #[error("it ends")]
    Ended,
}

impl<L: EventLog> Sweeper<L> {
    /// Sweeps until it is dropped.
    pub(super) async fn run(mut self) {
        let [mut sweeps, mut comparisons] = [EVERY, COMPARE_EVERY].map(|period| {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        loop {
            let done = tokio::select! {
                _ = sweeps.tick() => self.sweep().await,
                _ = comparisons.tick() => self.beat().await,
            };
            match done {
                Ok(()) => {}
                Err(Error::Ended) => return,
                Err(error) => (self.notice)(&format!("open reservations are not swept: {error}")),
            }
        }
    }

    async fn sweep(&mut self) -> Result<(), Error> {
        self.look();
        let due = |open: &Open| open.since.elapsed() >= OVER_AFTER;
        let due: Vec<Key> = self.open.iter().filter(|(_, o)| due(o)).map(|(key, _)| *key).collect();
        if due.is_empty() {
            return Ok(());
        }
        let caught_up = self.catch_up_with(&due).await?;
        self.applied().await?;
        self.look();
        let over = due.iter().filter_map(|key| {
            let What { kinds, of } = self.open.get(key)?.what.clone()?;
            let shown = kinds.iter().all(|kind| caught_up.contains(kind));
            shown.then_some(Expiry { position: key.0, of })
        });
        let over: Vec<Expiry> = over.collect();
        for batch in over.chunks(BATCH) {
            let expired = self.decider.expire(&self.cluster, batch.to_vec()).await;
            let position =
                expired.map_err(|error: Unavailable| Error::Log(format!("{error:?}")))?;
            (self.expired)(batch.len() as u64);
            self.projection.wait_for(position).await?;
        }
        Ok(())
    }

    /// Catches up with every kind that these are about; returns the kinds with which that went well.
    async fn catch_up_with(&mut self, due: &[Key]) -> Result<BTreeSet<usize>, Error> {
        let mut kinds = BTreeSet::new();
        for key in due {
            match self.what(*key).await {
                Ok(what) => kinds.extend(what.kinds),
                Err(error) => self.put_off(error)?,
            }
        }
        let mut caught_up = BTreeSet::new();
        for kind in kinds {
            match self.catch_up(kind).await {
                Ok(_) => drop(caught_up.insert(kind)),
                Err(error) => self.put_off(error)?,
            }
        }
        Ok(caught_up)
    }

    /// One thing that does not work keeps no other waiting.
    fn put_off(&self, error: Error) -> Result<(), Error> {
        match error {
            Error::Ended => Err(Error::Ended),
            error => {
                (self.notice)(&format!("an open reservation is not swept: {error}"));
                Ok(())
            }
        }
    }

    /// Says what everything is known up to, after everything was compared.
    async fn beat(&mut self) -> Result<(), Error> {
        let pods = self.position_of(|topic| matches!(topic, Topic::Pods));
        let mut at = None;
        for kind in pods {
            at = self.catch_up(kind).await?;
        }
        self.applied().await?;
        let (reply, compared) = oneshot::channel();
        self.compare.send(reply).await.map_err(|_| Error::Ended)?;
        let since = compared.await.map_err(|_| Error::Ended)?;
        let versions = self.kinds.iter().filter_map(|kind| {
            let version = *kind.reached.borrow();
            (version > 0).then(|| (Text::from(kind.topic.name()), Text::from(version.to_string())))
        });
        let now = (self.now)();
        let time = at.unwrap_or(now).max(since);
        let event = Event {
            id: EventId::default(),
            source: format!("/clusters/{}", self.cluster).into(),
            subject: format!("observers/{}", self.cluster).into(),
            time,
            recorded_at: now,
            data: Data::ObserverSynced(ObserverSynced {
                resource_versions: versions.collect(),
                since,
            }),
        };
        let pushed = self.feed.push(&event).await.map_err(|Ended| Error::Ended)?;
        pushed.map_err(Error::Log)
    }

    /// Begins a consistent read of a kind, and waits until what it would show was told. Returns the API server's time.
    async fn catch_up(&self, kind: usize) -> Result<Option<Timestamp>, Error> {
        let Some(kind) = self.kinds.get(kind) else { return Ok(None) };
        let (version, at) = match newest(&self.server, &kind.resource).await {
            Ok(newest) => newest,
            // What is not served there is not there.
            Err(Failure::NotServed) => return Ok(None),
            Err(failure) => return Err(failure.into()),
        };
        let mut reached = kind.reached.clone();
        let patience = if *kind.count.borrow() < FEW { QUIET } else { BUSY };
        let passed = |reached: &u64| *reached >= version;
        if timeout(patience, reached.wait_for(passed)).await.is_err() {
            kind.relist.notify_one();
            let listed = timeout(LISTED_WITHIN, reached.wait_for(passed)).await;
            listed.map_err(|_| Failure::Silent(LISTED_WITHIN))?.map_err(|_| Error::Ended)?;
        }
        Ok(at)
    }

    /// Waits until everything that was seen is on the log, and read.
    async fn applied(&mut self) -> Result<(), Error> {
        let position = self.feed.flush().await.map_err(|Ended| Error::Ended)?;
        Ok(self.projection.wait_for(position).await?)
    }

    /// Notes what is open, and since when.
    fn look(&mut self) {
        let now = Instant::now();
        let mut open = BTreeMap::new();
        {
            let ledger = self.projection.ledger();
            let cluster = ledger.names().known_cluster_of(&self.cluster);
            let book = ledger.book();
            for item in book.into_iter().flat_map(Book::reservations) {
                if Some(item.workload.cluster) == cluster {
                    let resized = match item.what {
                        OpenKind::Resize(pod) => pod.uid,
                        _ => item.workload.uid,
                    };
                    let kept = item.what == OpenKind::Kept;
                    let key = (item.ticket.position, item.ticket.item, resized, kept);
                    open.insert(key, Item::Workload(item));
                }
            }
            for group in book.into_iter().filter(|_| self.quotas).flat_map(Book::accounts) {
                for proposal in book.into_iter().flat_map(|book| book.proposals(group)) {
                    let name = ledger.names().group_name(group).to_owned();
                    open.insert((proposal.position, 0, proposal.uid, false), Item::Quota(name));
                }
            }
        }
        let before = std::mem::take(&mut self.open);
        let mut before: BTreeMap<_, _> = before.into_iter().collect();
        let known = |(key, item)| {
            let open = before.remove(&key).unwrap_or(Open { since: now, item, what: None });
            (key, open)
        };
        self.open = open.into_iter().map(known).collect();
    }

    /// What something open is about: its record says so.
    async fn what(&mut self, key: Key) -> Result<What, Error> {
        let Some(open) = self.open.get(&key) else {
            return Ok(What { kinds: Vec::new(), of: Expired::Quota(String::new()) });
        };
        if let Some(what) = &open.what {
            return Ok(what.clone());
        }
        let what = match open.item.clone() {
            Item::Quota(name) => What {
                kinds: self.position_of(|topic| matches!(topic, Topic::Quotas)),
                of: Expired::Quota(name),
            },
            Item::Workload(item) => self.what_of(&item).await?,
        };
        if let Some(open) = self.open.get_mut(&key) {
            open.what = Some(what.clone());
        }
        Ok(what)
    }

    async fn what_of(&self, item: &OpenItem) -> Result<What, Error> {
        let pods = self.position_of(|topic| matches!(topic, Topic::Pods));
        let workload = self.named(item).await?;
        match item.what {
            // Pods that were admitted against a former charge may still come, but not for ever.
            OpenKind::Kept => Ok(What { kinds: pods, of: Expired::Workload(workload) }),
            OpenKind::Admission(_) => {
                let kinds = self.kinds_of(&workload);
                Ok(What { kinds, of: Expired::Workload(workload) })
            }
            OpenKind::Resize(pod) => {
                let mut kinds = self.kinds_of(&workload);
                kinds.extend(pods);
                let of = Expired::Workload(self.resized(pod, workload));
                Ok(What { kinds, of })
            }
        }
    }

    /// Of a resize the pod is named, if it is known: then only its own ends. One that never came has no other.
    fn resized(&self, pod: ObjectId, workload: ObjectRef<'static>) -> ObjectRef<'static> {
        let there = self.projection.ledger().meter().pod(pod).is_some();
        if !there || Uid::of(&workload.uid) == pod.uid {
            return workload;
        }
        ObjectRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            uid: pod.uid.to_string().into(),
            ..workload
        }
    }

    /// The workload that a record names.
    async fn named(&self, item: &OpenItem) -> Result<ObjectRef<'static>, Error> {
        let position = item.ticket.position;
        let failed = |why: String| Error::Log(format!("position {position}: {why}"));
        let mut reader = self.log.read(position).map_err(|error| failed(error.to_string()))?;
        let records = reader.next().await.map_err(|error| failed(error.to_string()))?;
        let records = records.ok_or_else(|| failed("is not there".into()))?;
        let (_, raw) = records.iter().next().ok_or_else(|| failed("is not there".into()))?;
        let scanned = raw.scan().map_err(|error| failed(error.to_string()))?;
        let mut decoder = Decoder::default();
        let Ok(Decoded::Event(event)) = decoder.decode(&scanned) else {
            return Err(failed("is no event".into()));
        };
        let named = match &event.data {
            Data::WorkloadsAdmitted(data) => {
                let at = usize::try_from(item.ticket.item).unwrap_or(usize::MAX);
                data.admissions.get(at).map(|admission| &admission.workload)
            }
            Data::WorkloadObserved(data) => Some(&data.workload),
            Data::WorkloadGone(data) => Some(&data.workload),
            _ => None,
        };
        named.cloned().map(ObjectRef::into_owned).ok_or_else(|| failed("promises nothing".into()))
    }

    /// Where objects of this kind are watched; of what nobody declares, by its pods.
    fn kinds_of(&self, workload: &ObjectRef<'_>) -> Vec<usize> {
        let kind = self.declared.find(&workload.api_version, &workload.kind);
        match kind {
            Some(kind) if !is_pod(kind) => self.position_of(|topic| match topic {
                Topic::Kind(watched) => watched == kind,
                _ => false,
            }),
            _ => self.position_of(|topic| matches!(topic, Topic::Pods)),
        }
    }

    fn position_of(&self, is: impl Fn(&Topic) -> bool) -> Vec<usize> {
        self.kinds.iter().position(|kind| is(&kind.topic)).into_iter().collect()
    }
}
