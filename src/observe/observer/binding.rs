//! Whether an observer may tell the log what it sees: of the cluster that the log knows by this name, no older than it
//! was, and of quota objects only those that count.

use super::{Lead, Observer};
use crate::{
    domain::event::{ClusterBound, Data, Event, EventId},
    event_log::EventLog,
    observe::{error::Error, objects::Topic},
};
use std::{future::pending, time::Duration};
use tokio::time::sleep;

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
        let others = ledger.clusters().filter_map(|(source, known)| {
            let name =
                source.strip_prefix("/clusters/").filter(|name| **name != self.cluster.name)?;
            (known.retired.is_none() && known.versions.contains_key(&*kind))
                .then_some((known.synced, name))
        });
        others.max().map(|(_, name)| name.to_owned())
    }

    /// The first record of a cluster says which one it is.
    pub(super) async fn tell_bound(&self, lead: Option<&mut Lead>, uid: String) {
        let Some(lead) = lead else { return };
        let name = &self.cluster.name;
        if self.projection.ledger().cluster(name).bound.is_some() {
            return;
        }
        let now = (self.cluster.now)();
        let bound = Event {
            id: EventId::default(),
            source: format!("/clusters/{name}").into(),
            subject: format!("clusters/{name}").into(),
            time: now,
            recorded_at: now,
            data: Data::ClusterBound(ClusterBound { uid: uid.into() }),
        };
        self.push(&lead.feed, &bound).await;
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
