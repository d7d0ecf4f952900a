//! Status: what `kubectl get bizrq` shows. Read off the ledger, written by whoever leads the cluster, after the commit
//! and never before; it decides nothing, and what it cannot write it writes later.
//!
//! ```text
//!  Ledger ──summary (pure)──▶ BizGroupResourceQuotaStatus ──what changed──▶ [waiting] ──at most 50/s──▶ server-side apply
//! ```

pub mod metrics;
pub mod mirrors;
pub mod summary;
mod waiting;

use crate::{
    domain::time::Timestamp,
    k8s::{
        crd::{BizGroupResourceQuota, BizGroupResourceQuotaStatus},
        mirror::MIRROR_OF,
    },
    projection::Projection,
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use metrics::{Metrics, Patched};
use serde_json::json;
use std::{collections::BTreeMap, future::Future, pin::pin, sync::Arc, time::Duration};
use summary::Parts;
use tokio::{
    sync::watch,
    task::yield_now,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use waiting::Waiting;

/// Statuses of all groups by name.
type Statuses = BTreeMap<String, BizGroupResourceQuotaStatus>;

/// The ledger is read this often; with the patches of a hundred groups a change is shown within five seconds.
const LOOK: Duration = Duration::from_secs(1);
/// Between two patches: at most 50 a second, which an API server does not notice.
const PACE: Duration = Duration::from_millis(20);
/// What grows all the time (hours, what is left of budgets) is written this often, and objects are listed anew.
const REFRESH: Duration = Duration::from_secs(30);
/// Groups that are read in one go: about a millisecond, for which nothing is applied.
const TOGETHER: usize = 64;
/// A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Objects of one page of a list.
const PAGE: u32 = 500;
/// Who owns the fields of a status.
const MANAGER: &str = "bizrq-status";

/// Writes the statuses of one cluster's quota objects.
pub struct Writer {
    api: Api<BizGroupResourceQuota>,
    projection: Projection,
    metrics: Arc<Metrics>,
    now: fn() -> Timestamp,
    /// Only of objects that are mirrors.
    of_mirrors: bool,
}

/// Does `work` anew each time that `leads` comes true, until `end` does; it is dropped when the lead is lost.
async fn while_leading<W: Future<Output = ()>>(
    mut leads: watch::Receiver<bool>,
    end: impl Future,
    work: impl Fn() -> W,
) {
    let mut end = pin!(end);
    loop {
        let mut losing = leads.clone();
        let leading = async {
            // Without anybody who could say so it never leads.
            if leads.wait_for(|leads| *leads).await.is_err() {
                std::future::pending::<()>().await;
            }
            // What is under way when the lead is lost is dropped with this.
            tokio::select! {
                () = work() => {}
                _ = losing.wait_for(|leads| !*leads) => {}
            }
        };
        tokio::select! {
            _ = &mut end => return,
            () = leading => {}
        }
    }
}

impl Writer {
    /// For the quota objects behind `client`.
    #[must_use]
    pub fn new(
        client: Client,
        projection: Projection,
        metrics: Arc<Metrics>,
        now: fn() -> Timestamp,
    ) -> Self {
        Self { api: Api::all(client), projection, metrics, now, of_mirrors: false }
    }

    /// Of mirrors alone: other objects there are not those that count.
    #[must_use]
    pub fn of_mirrors(self) -> Self {
        Self { of_mirrors: true, ..self }
    }

    /// Writes while `leads` says so, until `end` comes true. `failed` hears what the API server says no with.
    pub async fn run(self, leads: watch::Receiver<bool>, end: impl Future, failed: impl Fn(&str)) {
        while_leading(leads, end, || self.write(&failed)).await;
    }

    async fn write(&self, failed: &impl Fn(&str)) {
        let (mut waiting, mut listed) = (Waiting::default(), None::<Instant>);
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if listed.is_none_or(|at| at.elapsed() >= REFRESH) {
                match self.list().await {
                    Ok(found) => waiting.found(found),
                    Err(why) => {
                        failed(&why);
                        continue;
                    }
                }
                listed = Some(Instant::now());
            }
            if !self.projection.status().caught_up {
                continue;
            }
            let now = (self.now)();
            let mut parts = Parts::default();
            while parts.read(&self.projection.ledger(), now, waiting.shown(), TOGETHER) {
                // Whoever folds and whoever reviews gets its turn.
                yield_now().await;
            }
            let mut wanted = parts.statuses;
            if self.of_mirrors {
                wanted.retain(|name, _| waiting.shown().contains_key(name));
            }
            self.metrics.superseded(waiting.want(wanted));
            // One look's worth at most, so that what is new is looked at in between.
            let until = Instant::now() + LOOK;
            while let Some((name, status)) = waiting.next() {
                let outcome = self.patch(&name, &status).await;
                self.metrics.patched(&outcome);
                match outcome {
                    // Of what was removed the ledger hears soon; until the next list it is not tried again.
                    Patched::Applied | Patched::Gone => waiting.applied(name, status),
                    // Wanted again at the next look; those behind it need not wait for it.
                    Patched::Refused(why) => failed(&format!("status of {name}: {why}")),
                    Patched::Away(why) => {
                        failed(&why);
                        break;
                    }
                }
                if Instant::now() >= until {
                    break;
                }
                tokio::time::sleep(PACE).await;
            }
        }
    }

    /// What the API server has.
    async fn list(&self) -> Result<Statuses, String> {
        let mut found = Statuses::new();
        let mut page = ListParams::default().limit(PAGE);
        if self.of_mirrors {
            page = page.labels(MIRROR_OF);
        }
        loop {
            let listed = timeout(PATIENCE, self.api.list(&page)).await;
            let list = listed.map_err(|_| "no answer".to_owned())?.map_err(|e| e.to_string())?;
            found.extend(list.items.into_iter().filter_map(|object| {
                Some((object.metadata.name?, object.status.unwrap_or_default()))
            }));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    async fn patch(&self, name: &str, status: &BizGroupResourceQuotaStatus) -> Patched {
        let object = json!({
            "apiVersion": "bizrq.io/v1",
            "kind": "BizGroupResourceQuota",
            "metadata": {"name": name},
            "status": status,
        });
        let (how, patch) = (PatchParams::apply(MANAGER).force(), Patch::Apply(&object));
        match timeout(PATIENCE, self.api.patch_status(name, &how, &patch)).await {
            Ok(Ok(_)) => Patched::Applied,
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Patched::Gone,
            Ok(Err(kube::Error::Api(status))) => Patched::Refused(status.message),
            Ok(Err(error)) => Patched::Away(error.to_string()),
            Err(_) => Patched::Away("no answer".to_owned()),
        }
    }
}
