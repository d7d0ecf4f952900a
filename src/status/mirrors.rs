//! Mirrors of the quota objects that count, in a cluster whose own do not: read-only copies, so that `kubectl get bizrq`
//! shows the tree everywhere. Whoever leads that cluster writes what the ledger says, and takes away what it says no
//! more. An object of the same name that is no mirror is somebody's, and is left alone.

use super::{PAGE, PATIENCE, metrics::Metrics, while_leading};
use crate::{
    k8s::{
        crd::{BizGroupResourceQuota, BizGroupResourceQuotaSpec},
        mirror::{MIRROR_OF, same, specs},
    },
    projection::Projection,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

/// The ledger is read this often.
const LOOK: Duration = Duration::from_secs(1);
/// What the API server has is compared this often although the ledger says nothing new: somebody may have passed by the
/// webhook.
const REFRESH: Duration = Duration::from_secs(30);
/// After a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// Between two writes: at most 50 a second.
const PACE: Duration = Duration::from_millis(20);

/// What the mirrors of all groups must say, by name.
type Specs = BTreeMap<String, BizGroupResourceQuotaSpec>;

/// Writes the mirrors of one cluster.
pub struct Mirrors {
    api: Api<BizGroupResourceQuota>,
    projection: Projection,
    metrics: Arc<Metrics>,
    /// The cluster that has them.
    cluster: String,
    /// The cluster whose objects count.
    origin: String,
}

/// What is to be done.
#[derive(Debug)]
enum Change {
    Make(Box<BizGroupResourceQuota>),
    /// The object as it was found, with what it must say.
    Write(Box<BizGroupResourceQuota>),
    /// Name and uid.
    Remove(String, Option<String>),
}

impl Mirrors {
    /// Copies, in the cluster behind `client`, of the objects of another, `origin`.
    #[must_use]
    pub fn new(
        client: Client,
        projection: Projection,
        metrics: Arc<Metrics>,
        [cluster, origin]: [&str; 2],
    ) -> Self {
        let [cluster, origin] = [cluster, origin].map(str::to_owned);
        Self { api: Api::all(client), projection, metrics, cluster, origin }
    }

    /// Writes while `leads` says so, until `end` comes true. `failed` hears what is not as it must be, and why.
    pub async fn run(self, leads: watch::Receiver<bool>, end: impl Future, failed: impl Fn(&str)) {
        let keep = async || {
            // Of whoever lost the lead nothing is shown any more.
            let _shown = Shown(&self);
            self.keep(&failed).await;
        };
        while_leading(leads, end, keep).await;
    }

    async fn keep(&self, failed: &impl Fn(&str)) {
        let mut left_alone = BTreeSet::new();
        let mut done: Option<(Instant, Specs)> = None;
        loop {
            sleep(LOOK).await;
            if !self.projection.status().caught_up {
                continue;
            }
            let wanted = specs(&self.projection.ledger());
            if done.as_ref().is_some_and(|(at, last)| at.elapsed() < REFRESH && *last == wanted) {
                continue;
            }
            match self.compare(&wanted, &mut left_alone, failed).await {
                Ok(()) => done = Some((Instant::now(), wanted)),
                Err(why) => {
                    failed(&why);
                    sleep(AGAIN).await;
                }
            }
        }
    }

    /// Makes everything as it must be.
    ///
    /// # Errors
    /// Something is not; the last reason.
    async fn compare(
        &self,
        wanted: &Specs,
        left_alone: &mut BTreeSet<String>,
        failed: &impl Fn(&str),
    ) -> Result<(), String> {
        let (changes, others) = changes(&self.origin, wanted, self.list().await?);
        for name in others.difference(left_alone) {
            failed(&format!(
                "{name}: an object that is no mirror has this name, and is left alone"
            ));
        }
        self.metrics.in_the_way(&self.cluster, others.len());
        *left_alone = others;
        let mut outcome = Ok(());
        for change in changes {
            let done = match &change {
                Change::Make(_) => "made",
                Change::Write(_) => "changed",
                Change::Remove(..) => "removed",
            };
            let done = match self.apply(change).await {
                Ok(()) => done,
                Err(why) => {
                    outcome = Err(why);
                    "failed"
                }
            };
            self.metrics.mirrored(&self.cluster, done);
            sleep(PACE).await;
        }
        outcome
    }

    async fn list(&self) -> Result<Vec<BizGroupResourceQuota>, String> {
        let mut found = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = patient("list", self.api.list(&page)).await?;
            found.extend(list.items);
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    async fn apply(&self, change: Change) -> Result<(), String> {
        let how = PostParams::default();
        match change {
            Change::Make(object) => {
                patient(&object.name_any(), self.api.create(&how, &object)).await.map(drop)
            }
            Change::Write(object) => {
                let name = object.name_any();
                patient(&name, self.api.replace(&name, &how, &object)).await.map(drop)
            }
            Change::Remove(name, uid) => {
                let condition = Preconditions { uid, resource_version: None };
                let how =
                    DeleteParams { preconditions: Some(condition), ..DeleteParams::default() };
                match timeout(PATIENCE, self.api.delete(&name, &how)).await {
                    Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
                    Ok(removed) => removed.map(drop).map_err(|why| format!("{name}: {why}")),
                    Err(_) => Err(format!("{name}: no answer")),
                }
            }
        }
    }
}

/// What is shown while this replica leads.
struct Shown<'m>(&'m Mirrors);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.metrics.in_the_way(&self.0.cluster, 0);
    }
}

async fn patient<T>(what: &str, asked: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    let answered = timeout(PATIENCE, asked).await.map_err(|_| format!("{what}: no answer"))?;
    answered.map_err(|why| format!("{what}: {why}"))
}

/// What makes `found` what is wanted, and the names of objects that are in the way.
fn changes(
    origin: &str,
    wanted: &Specs,
    found: Vec<BizGroupResourceQuota>,
) -> (Vec<Change>, BTreeSet<String>) {
    let (mut changes, mut others, mut there) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for mut object in found {
        let name = object.name_any();
        there.insert(name.clone());
        let mirror_of = object.labels().get(MIRROR_OF).cloned();
        match (wanted.get(&name), mirror_of) {
            (Some(_), None) => drop(others.insert(name)),
            (None, None) => {}
            (None, Some(_)) => changes.push(Change::Remove(name, object.uid())),
            (Some(spec), Some(of)) => {
                if of != origin || !same(&name, &object.spec, spec) {
                    object.labels_mut().insert(MIRROR_OF.to_owned(), origin.to_owned());
                    object.spec = spec.clone();
                    changes.push(Change::Write(Box::new(object)));
                }
            }
        }
    }
    let missing = wanted.iter().filter(|(name, _)| !there.contains(*name));
    changes.extend(missing.map(|(name, spec)| {
        let mut object = BizGroupResourceQuota::new(name, spec.clone());
        object.labels_mut().insert(MIRROR_OF.to_owned(), origin.to_owned());
        Change::Make(Box::new(object))
    }));
    (changes, others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::k8s::crd::Amount;

    fn spec(cpu: &str) -> BizGroupResourceQuotaSpec {
        let hard = [("limits.cpu".to_owned(), Amount(cpu.to_owned()))].into();
        BizGroupResourceQuotaSpec { hard, ..BizGroupResourceQuotaSpec::default() }
    }

    fn object(name: &str, cpu: &str, mirror_of: Option<&str>) -> BizGroupResourceQuota {
        let mut object = BizGroupResourceQuota::new(name, spec(cpu));
        let label = mirror_of.map(|of| (MIRROR_OF.to_owned(), of.to_owned()));
        object.labels_mut().extend(label);
        object
    }

    #[test]
    fn mirrors_become_what_is_declared_and_what_is_somebodys_stays() {
        let wanted: Specs =
            ["new", "same", "changed", "moved", "theirs"].map(|n| (n.to_owned(), spec("2"))).into();
        let found = vec![
            object("same", "2000m", Some("main")),
            object("changed", "3", Some("main")),
            object("moved", "2", Some("old")),
            object("theirs", "9", None),
            object("gone", "2", Some("main")),
            object("other", "2", None),
        ];
        let (changes, others) = changes("main", &wanted, found);
        let said = |object: &BizGroupResourceQuota| {
            let amount = object.spec.hard["limits.cpu"].0.clone();
            format!("{} {amount} {}", object.name_any(), object.labels()[MIRROR_OF])
        };
        let changes: Vec<_> = changes
            .iter()
            .map(|change| match change {
                Change::Make(object) => format!("make {}", said(object)),
                Change::Write(object) => format!("write {}", said(object)),
                Change::Remove(name, _) => format!("remove {name}"),
            })
            .collect();
        let expected =
            ["write changed 2 main", "write moved 2 main", "remove gone", "make new 2 main"];
        assert_eq!(changes, expected);
        assert_eq!(others, ["theirs".to_owned()].into());
    }
}
