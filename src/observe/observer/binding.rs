//! Whether an observer may tell the log what it sees: of the cluster that the log knows by this name, no older than it
//! was, and of quota objects only those that count.

use super::{Lead, Observer};
use crate::{
    domain::{
        event::{ClusterBound, Data, Event, EventId},
        ledger::Ledger,
        sources::Cluster as Known,
    },
    event_log::{
        EventLog, ReadError, Reader,
        codec::{Decoded, Decoder},
    },
    observe::{error::Error, feed::Feed, objects::Topic},
};
use std::{collections::BTreeSet, future::pending, time::Duration};
use tokio::time::sleep;

/// What sources of clusters begin with.
const SOURCE: &str = "/clusters/";

/// When an API server that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(2);

impl<L: EventLog + 'static> Observer<L> {
    /// Waits until the log is read, and finds out whether the cluster is the one that it knows by this name. Returns
    /// its uid.
    pub(super) async fn bind(&self) -> Result<String, Error> {
        if self.projection.clone().caught_up().await.is_err() {
            // The fold has stopped, and says so to everybody.
            pending::<()>().await;
        }
        let found = loop {
            match self.server.uid_of_namespace("kube-system").await {
                Ok(uid) => break uid,
                Err(failure) => (self.cluster.notice)(&format!("namespace kube-system: {failure}")),
            }
            sleep(AGAIN).await;
        };
        // Whoever led before may have told something a moment ago.
        if let Ok(head) = self.log.head().await
            && self.projection.clone().wait_for(head.position).await.is_err()
        {
            pending::<()>().await;
        }
        let cluster = self.cluster.name.clone();
        let known = self.projection.ledger().cluster(&cluster);
        if let Some(at) = known.retired {
            return Err(Error::Retired { cluster, at });
        }
        match known.bound {
            Some(bound) if *bound != *found => {
                Err(Error::Rebound { cluster, bound: bound.into(), found })
            }
            _ => match self.quotas_elsewhere() {
                Some(elsewhere) => Err(Error::Quotas { cluster, elsewhere }),
                None => Ok(found),
            },
        }
    }

    /// The other cluster whose quota objects the log has, where nobody said whose count: whoever told those of its own
    /// would end the others as vanished.
    fn quotas_elsewhere(&self) -> Option<String> {
        if !self.cluster.quotas || self.cluster.quotas_named {
            return None;
        }
        let (ledger, kind) = (self.projection.ledger(), Topic::Quotas.name());
        let others = self.others(&ledger).filter(|(_, known)| known.versions.contains_key(&*kind));
        others.max_by_key(|(name, known)| (known.synced, *name)).map(|(name, _)| name.to_owned())
    }

    /// Clusters that the log knows beside this one, by name.
    fn others<'l>(&self, ledger: &'l Ledger) -> impl Iterator<Item = (&'l str, &'l Known)> {
        ledger.clusters().filter_map(|(source, known)| {
            let name = source.strip_prefix(SOURCE).filter(|name| *name != self.cluster.name)?;
            known.retired.is_none().then_some((name, known))
        })
    }

    /// The first record of a cluster says which one it is.
    ///
    /// # Errors
    /// Another joined just before, and nobody said whose quota objects count.
    pub(super) async fn tell_bound(
        &self,
        lead: Option<&mut Lead>,
        uid: String,
    ) -> Result<(), Error> {
        let Some(lead) = lead else { return Ok(()) };
        let name = &self.cluster.name;
        if self.projection.ledger().cluster(name).bound.is_none() {
            let now = (self.cluster.now)();
            let bound = Event {
                id: EventId::default(),
                source: format!("{SOURCE}{name}").into(),
                subject: format!("clusters/{name}").into(),
                time: now,
                recorded_at: now,
                data: Data::ClusterBound(ClusterBound { uid: uid.into() }),
            };
            self.push(&lead.feed, &bound).await;
        }
        match self.joined_before(&lead.feed).await {
            Some(elsewhere) => Err(Error::Quotas { cluster: name.clone(), elsewhere }),
            None => Ok(()),
        }
    }

    /// Of clusters that join a log at one time, each taking its own quota objects for those that count, the one that is
    /// bound first goes on. Until the first heartbeat nothing but that record says that there are several.
    async fn joined_before(&self, feed: &Feed) -> Option<String> {
        if !self.cluster.quotas || self.cluster.quotas_named {
            return None;
        }
        let Ok(position) = feed.flush().await else { return pending().await };
        if self.projection.clone().wait_for(position).await.is_err() {
            // The fold has stopped, and says so to everybody.
            pending::<()>().await;
        }
        let joining: BTreeSet<String> = {
            let (ledger, kind) = (self.projection.ledger(), Topic::Quotas.name());
            if ledger.cluster(&self.cluster.name).versions.contains_key(&*kind) {
                return None;
            }
            let counts =
                |known: &Known| known.versions.is_empty() || known.versions.contains_key(&*kind);
            let others = self.others(&ledger);
            let others = others.filter(|(_, known)| known.bound.is_some() && counts(known));
            others.map(|(name, _)| name.to_owned()).collect()
        };
        // Where the log cannot be read from its begin, nobody knows: an operator must say.
        let first = self.first_bound(&joining).await.unwrap_or_else(|_| joining.first().cloned());
        first.filter(|first| *first != self.cluster.name)
    }

    /// Which of these and this cluster was bound first; of none of these, nobody asks.
    async fn first_bound(&self, joining: &BTreeSet<String>) -> Result<Option<String>, ReadError> {
        if joining.is_empty() {
            return Ok(None);
        }
        let (mut reader, mut decoder) = (self.log.read(1)?, Decoder::default());
        while let Some(records) = reader.next().await? {
            for scanned in records.iter().filter_map(|(_, raw)| raw.scan().ok()) {
                let Some(name) = scanned.source.strip_prefix(SOURCE).map(str::to_owned) else {
                    continue;
                };
                if (name == self.cluster.name || joining.contains(&name))
                    && let Ok(Decoded::Event(event)) = decoder.decode(&scanned)
                    && matches!(event.data, Data::ClusterBound(_))
                {
                    return Ok(Some(name));
                }
            }
        }
        Ok(None)
    }

    /// An API server that was restored from an older copy knows nothing of what the log holds since, or was `seen`.
    pub(super) fn is_newer(&self, topic: &Topic, version: u64, seen: u64) -> Result<(), Error> {
        let kind = topic.name();
        let told =
            self.projection.ledger().cluster(&self.cluster.name).versions.get(&*kind).copied();
        match told.max(Some(seen)).filter(|known| *known > version) {
            Some(known) => {
                Err(Error::Older { cluster: self.cluster.name.clone(), kind, version, known })
            }
            None => Ok(()),
        }
    }
}
