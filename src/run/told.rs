//! What is told without being asked: notices to groups, what stands to Alertmanagers, Events beside quota objects, and
//! refusals to the log.

use super::{Error, Shared};
use crate::{
    clock,
    config::Config,
    domain::{
        event::{Event, Kind, Refused},
        ident,
        time::Timestamp,
    },
    event_log::{AnyLog, EventLog, NewEvent},
    notify,
    projection::Projection,
    shutdown::{Stage, Tasks},
    webhook::{
        metrics::Metrics,
        refusals::{self, Refusals},
    },
};
use kube::Client;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::warn;

/// Refusals are told together this often.
const TOGETHER: Duration = Duration::from_secs(60);
/// An append that takes longer is given up: refusals are notes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tells groups what their cash comes to, while `leads` says that it is for us to do: where the log is kept, to
/// Alertmanagers, and beside the quota objects behind `quotas`.
pub(super) fn tell_groups(
    tasks: &mut Tasks,
    config: &Config,
    shared: &Shared,
    quotas: Option<Client>,
    leads: watch::Receiver<bool>,
) -> Result<(), Error> {
    let metrics = notify::metrics::Metrics::new(&shared.registry)?;
    let (log, projection) = (Arc::clone(&shared.log), shared.projection.clone());
    let teller = notify::Teller::new(log, projection, metrics, clock::now);
    notify::metrics::show(&shared.registry, teller.told())?;
    if !config.alertmanagers.is_empty() {
        let (urls, told) = (config.alertmanagers.clone(), teller.told());
        let end = tasks.staged().until(Stage::Watch);
        tasks.spawn(Stage::Watch, "alertmanagers", async move {
            let failed = |why: &str| warn!(error = why, "an Alertmanager is not told");
            notify::alertmanager::run(urls, told, clock::now, end, failed).await;
            Ok(())
        });
    }
    if let Some(client) = quotas {
        let (told, replica) = (teller.told(), config.replica.clone());
        let end = tasks.staged().until(Stage::Watch);
        tasks.spawn(Stage::Watch, "events", async move {
            let failed = |why: &str| warn!(error = why, "an Event is not written");
            notify::events::run(client, replica, told, clock::now, end, failed).await;
            Ok(())
        });
    }
    let end = tasks.staged().until(Stage::Watch);
    tasks.spawn(Stage::Watch, "notices", async move {
        let told = |notice: &notify::notice::Notice| {
            let notify::notice::Notice { kind, group, key, at, message, .. } = notice;
            warn!(kind, group, key, %at, says = message, "a notice");
        };
        teller.run(leads, end, told, |why| warn!(error = why, "a notice waits")).await;
        Ok(())
    });
    Ok(())
}

/// Tells the log, and whoever looks at the quota objects behind `quotas`, what was refused here.
pub(super) fn tell_refusals(
    tasks: &mut Tasks,
    config: &Config,
    shared: &Shared,
    quotas: Option<Client>,
    refusals: Refusals,
    metrics: &Arc<Metrics>,
) {
    let telling = Telling {
        log: Arc::clone(&shared.log),
        projection: shared.projection.clone(),
        quotas,
        replica: config.replica.clone(),
        refusals,
        metrics: Arc::clone(metrics),
    };
    let end = tasks.staged().until(Stage::Watch);
    tasks.spawn(Stage::Watch, "refusals", async move {
        let mut end = pin!(end);
        loop {
            let is_last = tokio::select! {
                () = &mut end => true,
                () = sleep(TOGETHER) => false,
            };
            telling.tell().await;
            if is_last {
                return Ok(());
            }
        }
    });
}

/// Who tells refusals, and where.
struct Telling {
    log: Arc<AnyLog>,
    projection: Projection,
    quotas: Option<Client>,
    replica: String,
    refusals: Refusals,
    metrics: Arc<Metrics>,
}

impl Telling {
    async fn tell(&self) {
        let told = self.refusals.take();
        self.metrics.untold(told.untold);
        for (cluster, refused) in told.notes {
            let now = clock::now();
            if let Err(why) = self.append(&cluster, &refused, now).await {
                let lost = refused.iter().fold(0, |sum: u64, r| sum.saturating_add(r.count));
                self.metrics.untold(lost);
                warn!(cluster, error = why, "refusals are not told");
            }
            if let Some(client) = self.quotas.clone() {
                let uid = |group: &str| self.uid(group);
                let telling =
                    notify::events::tell_refusals(client, &self.replica, &refused, uid, now);
                if let Err(why) = telling.await {
                    warn!(cluster, error = why, "an Event of refusals is not written");
                }
            }
        }
    }

    async fn append(
        &self,
        cluster: &str,
        refused: &[Refused<'static>],
        now: Timestamp,
    ) -> Result<(), String> {
        let data = refusals::note(refused.to_vec());
        let (source, subject) = (format!("/clusters/{cluster}"), "refusals");
        let json = serde_json::to_vec(&data).map_err(|error| error.to_string())?;
        let id = ident::note(Kind::WorkloadsRefused, &source, subject, now, &json);
        let (source, subject) = (source.into(), subject.into());
        let event = Event { id, source, subject, time: now, recorded_at: now, data };
        let event = NewEvent::new(&event).map_err(|error| error.to_string())?;
        let appended = timeout(PATIENCE, self.log.append(vec![event])).await;
        appended.map_err(|_| "no answer".to_owned())?.map(drop).map_err(|error| error.to_string())
    }

    /// The uid of the quota object that is in force for a group.
    fn uid(&self, group: &str) -> Option<String> {
        let ledger = self.projection.ledger();
        let group = ledger.names().known_group(group)?;
        Some(ledger.book()?.declaration(group)?.uid.to_string())
    }
}
