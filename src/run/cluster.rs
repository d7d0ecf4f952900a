//! The clusters that have an API server: each is watched by all replicas, and led by the one that holds its Lease.

use super::{Shared, health::Health};
use crate::{
    clock,
    config::{ApiServer, Cluster, Config, Role},
    decider::Missing,
    k8s::lease::{Candidate, Timing},
    observe::{self, Observer, Progress},
    projection::{Projection, Snapshots, daily},
    shutdown::{Stage, Tasks},
    status,
};
use kube::{
    Client,
    config::{InClusterError, KubeConfigOptions, KubeconfigError},
};
use std::{
    collections::BTreeMap,
    fs,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};
use tokio::{sync::watch, time::Instant};
use tracing::{error, info, warn};

/// Why an API server cannot even be tried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This is no pod, or one without a service account's token.
    #[error(
        "--cluster {cluster}=in-cluster: {source}; outside a pod, name a context of your kubeconfig"
    )]
    Inside {
        /// The cluster.
        cluster: String,
        /// What is missing.
        source: InClusterError,
    },
    /// The kubeconfig does not say.
    #[error("--cluster {cluster}={context}: {source}; look at `kubectl config get-contexts`")]
    Context {
        /// The cluster.
        cluster: String,
        /// The context.
        context: String,
        /// What is wrong.
        source: KubeconfigError,
    },
    /// What they say cannot be used.
    #[error("--cluster {cluster}: {source}")]
    Client {
        /// The cluster.
        cluster: String,
        /// What is wrong.
        source: Box<kube::Error>,
    },
}

/// So long reviews wait for what a cluster says of itself: a kind that never answers must not keep the others from
/// being served.
const CONTEXT: Duration = Duration::from_secs(60);
/// The Lease that whoever leads a cluster holds there.
const LEASE: &str = "bizrq-leader";
/// A process that has just begun has other things to do than a snapshot.
const SOON: Duration = Duration::from_secs(60);

/// A client for every cluster with an API server, by its place in the configuration.
pub(super) async fn connect(config: &Config) -> Result<BTreeMap<usize, Client>, Error> {
    let mut clients = BTreeMap::new();
    for (place, cluster) in config.clusters.iter().enumerate() {
        if let Some(api) = &cluster.api {
            clients.insert(place, client(&cluster.reviews.cluster, api).await?);
        }
    }
    Ok(clients)
}

/// Nothing is asked yet: a server that is away is waited for later.
async fn client(cluster: &str, api: &ApiServer) -> Result<Client, Error> {
    let named = || cluster.to_owned();
    let config = match api {
        ApiServer::InCluster => kube::Config::incluster()
            .map_err(|source| Error::Inside { cluster: named(), source })?,
        ApiServer::Context(context) => {
            let options =
                KubeConfigOptions { context: Some(context.clone()), ..Default::default() };
            kube::Config::from_kubeconfig(&options).await.map_err(|source| Error::Context {
                cluster: named(),
                context: context.clone(),
                source,
            })?
        }
    };
    let client = Client::try_from(config);
    client.map_err(|source| Error::Client { cluster: named(), source: Box::new(source) })
}

/// Leads a cluster when nobody else does; gives what says whether it does.
pub(super) fn lead(
    tasks: &mut Tasks,
    config: &Config,
    cluster: &Cluster,
    client: Client,
) -> watch::Receiver<bool> {
    let (leads, leading) = watch::channel(false);
    let (namespace, replica) = (&config.namespace, &config.replica);
    let candidate =
        Candidate::new(client, namespace, LEASE, replica, Timing::default(), clock::now);
    let (end, name) = (tasks.staged().until(Stage::Lead), cluster.reviews.cluster.clone());
    let mut told = leading.clone();
    let saying = name.clone();
    let say = async move {
        while told.changed().await.is_ok() {
            let leads = *told.borrow_and_update();
            info!(cluster = saying, leads, "leadership");
        }
    };
    tasks.spawn(Stage::Lead, format!("lease of {name}"), async move {
        let failed = |why: &str| warn!(cluster = name, error = why, "the lease");
        tokio::select! {
            () = candidate.run(&leads, end, failed) => {}
            () = say => {}
        }
        Ok(())
    });
    leading
}

/// Watches a cluster: for what reviews must know of it, and, while `leads` says so, for the log.
pub(super) fn observe(
    tasks: &mut Tasks,
    config: &Config,
    cluster: &Cluster,
    shared: &Shared,
    client: Client,
    leads: watch::Receiver<bool>,
) -> watch::Receiver<Progress> {
    let name = cluster.reviews.cluster.clone();
    let context = shared.contexts.get(&name).cloned().unwrap_or_default();
    let noticed = name.clone();
    let observed = observe::Cluster {
        name: name.clone(),
        quotas: name == config.quota_cluster,
        quotas_named: config.quota_cluster_named,
        node_models: config.node_models.clone(),
        default_group: match &cluster.reviews.missing {
            Missing::Default(group) => group.clone(),
            Missing::Allow | Missing::Refuse => String::new(),
        },
        notice: Arc::new(move |said| warn!(cluster = noticed, "{said}")),
        ..observe::Cluster::default()
    };
    let observer = Observer::new(
        client,
        observed,
        Arc::clone(&shared.kinds),
        context,
        Arc::clone(&shared.log),
        shared.projection.clone(),
        shared.decider.clone(),
    )
    .with_metrics(Arc::clone(&shared.observed));
    let progress = observer.progress();
    // Without the role it knows what reviews need, and tells nothing.
    let leads = if config.has(Role::Observe) { leads } else { watch::channel(false).1 };
    let (staged, end) = (tasks.staged(), tasks.staged().until(Stage::Watch));
    tasks.spawn(Stage::Watch, format!("observer of {name}"), async move {
        if let Err(why) = observer.run(leads, end).await {
            // The other clusters are served on.
            error!(cluster = name, error = %why, "the cluster is not observed any more");
            staged.until(Stage::Watch).await;
        }
        Ok(())
    });
    progress
}

/// Reviews are judged by what the cluster says of itself: owners, limit ranges, templates.
pub(super) fn wait_for_context(
    health: &Health,
    cluster: &Cluster,
    progress: watch::Receiver<Progress>,
) {
    let (begun, name) = (Instant::now(), cluster.reviews.cluster.clone());
    health.also(move || {
        let waits = !progress.borrow().context_synced && begun.elapsed() < CONTEXT;
        waits.then(|| format!("cluster {name} is being read"))
    });
}

/// Shows the statuses of the quota objects that count, while `leads` says so.
pub(super) fn show_statuses(
    tasks: &mut Tasks,
    shared: &Shared,
    metrics: &Arc<status::metrics::Metrics>,
    client: Client,
    leads: watch::Receiver<bool>,
) {
    let (projection, metrics) = (shared.projection.clone(), Arc::clone(metrics));
    let writer = status::Writer::new(client, projection, metrics, clock::now);
    let end = tasks.staged().until(Stage::Watch);
    tasks.spawn(Stage::Watch, "statuses", async move {
        writer.run(leads, end, |why| warn!(error = why, "a status is not written")).await;
        Ok(())
    });
}

/// Keeps mirrors in a cluster whose own quota objects do not count, and their statuses, while `leads` says so.
pub(super) fn keep_mirrors(
    tasks: &mut Tasks,
    shared: &Shared,
    metrics: &Arc<status::metrics::Metrics>,
    cluster: (&str, &str),
    client: Client,
    leads: watch::Receiver<bool>,
) {
    let ((name, origin), projection) = (cluster, shared.projection.clone());
    let (of_specs, of_statuses) = (name.to_owned(), name.to_owned());
    let mirrors = status::mirrors::Mirrors::new(
        client.clone(),
        projection.clone(),
        Arc::clone(metrics),
        [name, origin],
    );
    let (end, leading) = (tasks.staged().until(Stage::Watch), leads.clone());
    tasks.spawn(Stage::Watch, format!("mirrors in {name}"), async move {
        let failed =
            |why: &str| warn!(cluster = of_specs, error = why, "a mirror is not as it must be");
        mirrors.run(leading, end, failed).await;
        Ok(())
    });
    let writer = status::Writer::new(client, projection, Arc::clone(metrics), clock::now);
    let end = tasks.staged().until(Stage::Watch);
    tasks.spawn(Stage::Watch, format!("statuses in {name}"), async move {
        let failed =
            |why: &str| warn!(cluster = of_statuses, error = why, "a status is not written");
        writer.of_mirrors().run(leads, end, failed).await;
        Ok(())
    });
}

/// Asks for a snapshot a day, while `leads` says that it is for us to do.
pub(super) fn take_snapshots(
    tasks: &mut Tasks,
    snapshots: Option<Snapshots>,
    projection: Projection,
    leads: watch::Receiver<bool>,
) {
    let end = tasks.staged().until(Stage::Watch);
    tasks.spawn(Stage::Watch, "snapshots", async move {
        let first = first_snapshot(snapshots.as_ref());
        let daily = daily::daily(&projection, first, daily::EVERY, || *leads.borrow());
        tokio::select! {
            () = daily => {}
            () = end => {}
        }
        Ok(())
    });
}

/// How long the first snapshot is waited for: until the newest is a day old, also if that was another process's.
fn first_snapshot(snapshots: Option<&Snapshots>) -> Duration {
    let newest = snapshots.and_then(|snapshots| snapshots.list().ok()?.pop());
    let written = newest.and_then(|(_, path)| fs::metadata(path).ok()?.modified().ok());
    let age = written.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|at| {
        let now = u64::try_from(clock::now().millis()).unwrap_or(0);
        Duration::from_millis(now).saturating_sub(at)
    });
    age.map_or(SOON, |age| daily::EVERY.saturating_sub(age).max(SOON))
}
