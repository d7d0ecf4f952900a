//! The composition root: the one file that knows every room. It builds what a [`Config`] asks for, runs it, and ends it
//! stage by stage; it decides nothing and knows no object of Kubernetes.
//!
//! ```text
//!  AnyLog ──▶ Runner ─▶ Projection ─▶ Decider ─▶ Clusters ─▶ webhook::Server
//!     ▲                                  │                        ▲
//!     └──────────── decisions ───────────┘        Current ◀─ certificates
//! ```

mod access;
mod certificate;
mod cluster;
mod health;
pub mod judge;
mod log;
mod told;
#[cfg(feature = "jetstream")]
mod usage;

use crate::{
    api, clock,
    config::{Config, Role},
    decider::{self, Decider, transport::Alone},
    event_log::{self, AnyLog},
    k8s::{context::Context, kinds::Kinds},
    metrics::{self, Told},
    observe,
    projection::{self, MemoryStore, Projection, Runner, Snapshots, Store, runner, store},
    shutdown::{self, Stage, Tasks},
    status,
    webhook::{
        clusters::{Cluster, Clusters},
        manifest::Manifests,
        metrics::Metrics,
        server::Server,
        tls::{self, Current},
    },
};
use health::Health;
use kube::Client;
use prometheus::Registry;
use std::{
    collections::BTreeMap,
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, RwLock},
    time::Duration,
};
use tokio::sync::watch;
use tracing::{error, info, warn};

/// Why nothing is served, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be listened on.
    #[error("{what} {address}: {source}; stop whoever listens there, or give another address")]
    Listen {
        /// The flag.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        source: io::Error,
    },
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] event_log::OpenError),
    /// The rows' folder cannot be opened.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// There is no certificate to show.
    #[error(transparent)]
    Certificate(#[from] certificate::Error),
    /// The API's tokens cannot be read.
    #[error("--api-tokens: {0}")]
    Tokens(#[from] api::access::Error),
    /// An API server cannot even be tried.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// Two parts count under one name; this is a fault of the program.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// It ended.
    #[error(transparent)]
    Ended(#[from] shutdown::Error),
    /// The last root could not be written.
    #[error("the log: {0}")]
    Close(#[from] event_log::AppendError),
}

/// So many snapshots are kept.
const SNAPSHOTS: usize = 3;
/// What a stage may take beyond the webhook's notice and farewell: an append that is under way takes 5 s at most.
const PATIENCE: Duration = Duration::from_secs(10);

/// By the place of a cluster in the configuration.
type Clients = BTreeMap<usize, Client>;

/// What the rooms share.
struct Shared {
    log: Arc<AnyLog>,
    projection: Projection,
    decider: Decider,
    kinds: Arc<Kinds>,
    /// What is known of each cluster, by its name.
    contexts: BTreeMap<String, Arc<RwLock<Context>>>,
    registry: Registry,
    observed: Arc<observe::metrics::Metrics>,
}

/// Serves what `config` asks for, until `stop` comes true or a part of it ends.
///
/// # Errors
/// [`Error`].
pub async fn run(config: Config, stop: impl Future<Output = ()>) -> Result<(), Error> {
    // A second provider is nowhere linked, so there is none that could be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut tasks = Tasks::new(config.limits.notice + config.limits.farewell + PATIENCE);
    if config.quotas_are_elsewhere() {
        info!(
            cluster = config.quota_cluster,
            "quota objects of a cluster that is served elsewhere count"
        );
    }
    let clients = cluster::connect(&config).await?;
    let registry = Registry::new();
    let health = Health::new(tasks.staged());
    tell(&mut tasks, &config, &registry, health.clone()).await?;

    let mut stop = std::pin::pin!(stop);
    let log = tokio::select! {
        opened = log::open(&config.log) => Arc::new(opened?),
        () = &mut stop => return Ok(tasks.run(async {}).await?),
    };
    log::take_from_commands(&mut tasks, &log, observed(&config, &clients));
    let shared = fold_and_decide(&mut tasks, &config, log, registry)?;
    let projection = shared.projection.clone();
    health.also(move || health::fold(&projection));
    if config.has(Role::Webhook) {
        answer(&mut tasks, &config, &shared, &clients, &health)?;
    }
    if let Some(address) = config.api {
        tell_who_asks(&mut tasks, &config, address, &shared, &clients).await?;
    }
    look_after(&mut tasks, &config, &shared, &clients, &health)?;
    let log = Arc::clone(&shared.log);
    drop(shared);
    let ended = tasks.run(stop).await;
    log::close(log)?;
    Ok(ended?)
}

/// The sources of the clusters that this process observes.
fn observed(config: &Config, clients: &Clients) -> Vec<String> {
    let places = clients.keys().filter(|_| config.has(Role::Observe));
    let clusters = places.filter_map(|place| config.clusters.get(*place));
    clusters.map(|cluster| format!("/clusters/{}", cluster.reviews.cluster)).collect()
}

/// Metrics and health, from the first moment to the last.
async fn tell(
    tasks: &mut Tasks,
    config: &Config,
    registry: &Registry,
    health: Health,
) -> Result<(), Error> {
    let listening = metrics::bind(config.metrics).await;
    let listener = listening.map_err(|source| Error::Listen {
        what: "--metrics",
        address: config.metrics,
        source,
    })?;
    info!(address = %listener.local_addr().unwrap_or(config.metrics), "metrics and health");
    let waits_for = Arc::new(move || health.waits_for());
    let told = Told { registry: registry.clone(), waits_for };
    let end = tasks.staged().until(Stage::Tell);
    tasks.spawn(Stage::Tell, "metrics", async move {
        metrics::serve(listener, told, end).await.map_err(|error| error.to_string())
    });
    Ok(())
}

/// The query API.
async fn tell_who_asks(
    tasks: &mut Tasks,
    config: &Config,
    address: SocketAddr,
    shared: &Shared,
    clients: &Clients,
) -> Result<(), Error> {
    let access = access::whom(tasks, config, clients)?;
    let tls = config
        .api_tls
        .as_deref()
        .map(|folder| certificate::of_api(tasks, folder, &shared.registry));
    let tls = tls.transpose()?;
    if tls.is_none() && !access.is_open() && !address.ip().is_loopback() {
        warn!(%address, "the API's tokens come without encryption; give it a certificate with --api-tls-dir");
    }
    let listening = api::bind(address, &access).await;
    let listener = listening.map_err(|source| Error::Listen { what: "--api", address, source })?;
    let (address, is_tls) = (listener.local_addr().unwrap_or(address), tls.is_some());
    info!(%address, tls = is_tls, "the API listens");
    let (log, projection) = (Arc::clone(&shared.log), shared.projection.clone());
    let manifests = config.clusters.iter().map(|cluster| Manifests {
        kinds: Arc::clone(&shared.kinds),
        context: shared.contexts.get(&cluster.reviews.cluster).cloned().unwrap_or_default(),
        options: cluster.reviews.clone(),
        projection: projection.clone(),
    });
    let judge = Arc::new(judge::ByWebhook::new(manifests));
    let metrics = Some(Arc::new(api::Metrics::new(&shared.registry)?));
    let judge = Some(judge as Arc<dyn api::fits::Judge>);
    let source = api::Source { log, projection, now: clock::now, access, judge, metrics };
    let end = tasks.staged().until(Stage::Accept);
    tasks.spawn(Stage::Accept, "api", async move {
        api::serve(listener, tls, source, end).await.map_err(|error| error.to_string())
    });
    Ok(())
}

/// The fold of the log, and what decides by it.
fn fold_and_decide(
    tasks: &mut Tasks,
    config: &Config,
    log: Arc<AnyLog>,
    registry: Registry,
) -> Result<Shared, Error> {
    let projection = match &config.store {
        Some(dir) => fold(tasks, &log, open_store(dir)?, snapshots(config)),
        None => fold(tasks, &log, MemoryStore::default(), None),
    };
    projection::metrics::register(&registry, projection.clone())?;
    let decider = decide(tasks, config, &log, &projection);
    if config.group_metrics > 0 {
        let most = config.group_metrics;
        metrics::register_groups(&registry, projection.clone(), most, clock::now)?;
    }
    metrics::register_decider(&registry, decider.clone())?;
    let named = config.clusters.iter().map(|cluster| cluster.reviews.cluster.clone());
    let labels = Arc::new(config.labels.clone());
    let context = || Arc::new(RwLock::new(Context::new(Arc::clone(&labels))));
    let contexts = named.map(|name| (name, context())).collect();
    let kinds = Arc::new(config.kinds.clone());
    let observed = Arc::new(observe::metrics::Metrics::new(&registry)?);
    Ok(Shared { log, projection, decider, kinds, contexts, registry, observed })
}

/// Those beside this replica's rows.
fn snapshots(config: &Config) -> Option<Snapshots> {
    Some(Snapshots::new(config.store.as_ref()?.join("snapshots"), SNAPSHOTS))
}

#[cfg(feature = "sled")]
fn open_store(dir: &Path) -> Result<projection::SledStore, Error> {
    let store = projection::SledStore::open(dir)?;
    if let Some(why) = store.moved_aside() {
        warn!(store = %dir.display(), error = why, "rows were moved aside; they are made anew");
    }
    Ok(store)
}

#[cfg(not(feature = "sled"))]
fn open_store(dir: &Path) -> Result<MemoryStore, Error> {
    let path = dir.to_owned();
    let source = io::Error::other("this build keeps no rows; leave --store out");
    Err(store::Error::Io { path, source }.into())
}

/// A fold that has stopped leaves the process running: what lets nothing grow is still allowed, and the rest is told
/// why it is not.
fn fold<S: Store>(
    tasks: &mut Tasks,
    log: &Arc<AnyLog>,
    store: S,
    snapshots: Option<Snapshots>,
) -> Projection {
    let (mut runner, projection) = Runner::new(store, runner::Options::default());
    if let Some(snapshots) = snapshots {
        runner = runner.with_snapshots(snapshots);
    }
    let (log, staged) = (Arc::clone(log), tasks.staged());
    let end = staged.clone().until(Stage::Fold);
    let begun = rows_are_told(projection.clone());
    tasks.spawn(Stage::Fold, "fold", async move {
        match tokio::join!(runner.run(&*log, end), begun).0 {
            Ok(_) if staged.is_ending() => {}
            Ok(_) => return Err("it ended".to_owned()),
            Err(error) => {
                error!(%error, "the fold stopped: nothing more is applied, growth is refused");
                staged.until(Stage::Fold).await;
            }
        }
        Ok(())
    });
    projection
}

/// Says why rows were thrown away: perhaps the log has lost what they were made of.
async fn rows_are_told(mut projection: Projection) {
    // Who stops before that says so.
    let _ = projection.caught_up().await;
    if let runner::Found::Discarded { why } = projection.status().store {
        warn!(%why, "the rows of the store were thrown away; the log was folded without them");
    }
}

/// Replicas that share a log on NATS decide together; of a folder there is one.
fn decide(
    tasks: &mut Tasks,
    config: &Config,
    log: &Arc<AnyLog>,
    projection: &Projection,
) -> Decider {
    let options = decider::Options { replica: config.name_at_log(), ..Default::default() };
    let end = tasks.staged().until(Stage::Decide);
    let (log, projection) = (Arc::clone(log), projection.clone());
    #[cfg(feature = "jetstream")]
    if let AnyLog::JetStream(stream) = &*log {
        let others = decider::nats::Nats::new(stream);
        let (decider, worker) = decider::new(Arc::clone(&log), projection, others, options);
        tasks.spawn(Stage::Decide, "decider", async move {
            worker.run(end).await;
            Ok(())
        });
        return decider;
    }
    let (decider, worker) = decider::new(log, projection, Alone, options);
    tasks.spawn(Stage::Decide, "decider", async move {
        worker.run(end).await;
        Ok(())
    });
    decider
}

/// The webhook, with its certificate.
fn answer(
    tasks: &mut Tasks,
    config: &Config,
    shared: &Shared,
    clients: &Clients,
    health: &Health,
) -> Result<(), Error> {
    let current = Arc::new(Current::default());
    certificate::keep(tasks, config, clients, &current)?;
    tls::metrics::register(&shared.registry, "webhook", Arc::clone(&current))?;
    let shown = Arc::clone(&current);
    health.also(move || {
        let is_valid = shown.is_valid(clock::now());
        (!is_valid).then(|| "there is no certificate whose time is now".to_owned())
    });
    let clusters = config.clusters.iter().filter_map(|cluster| {
        let context = shared.contexts.get(&cluster.reviews.cluster)?;
        Some(Cluster { options: cluster.reviews.clone(), context: Arc::clone(context) })
    });
    let (decider, projection) = (shared.decider.clone(), shared.projection.clone());
    let reviews = Clusters::new(Arc::clone(&shared.kinds), clusters, decider, projection);
    let metrics = Arc::new(Metrics::new(&shared.registry)?);
    let quotas = quotas(config, clients);
    told::tell_refusals(tasks, config, shared, quotas, reviews.refusals(), &metrics);
    let limits = config.limits;
    let server = Server::bind(config.listen, reviews, Arc::clone(&current), metrics, limits)
        .map_err(|source| Error::Listen { what: "--listen", address: config.listen, source })?;
    let address = server.address().unwrap_or(config.listen);
    info!(%address, "the webhook listens");
    let stop = tasks.staged().until(Stage::Accept);
    tasks.spawn(Stage::Accept, "webhook", async move {
        server.serve(stop).await.map_err(|error| error.to_string())
    });
    Ok(())
}

/// Watches every cluster, and does for all replicas what one must do: tells the log, shows statuses, takes snapshots.
fn look_after(
    tasks: &mut Tasks,
    config: &Config,
    shared: &Shared,
    clients: &Clients,
    health: &Health,
) -> Result<(), Error> {
    let is_candidate = config.has(Role::Observe) || config.has(Role::Control);
    let (mut first, mut statuses) = (None, None);
    for (place, client) in clients {
        let Some(cluster) = config.clusters.get(*place) else { continue };
        let leads = match is_candidate {
            true => cluster::lead(tasks, config, cluster, client.clone()),
            false => watch::channel(false).1,
        };
        if config.has(Role::Webhook) || config.has(Role::Observe) {
            let progress =
                cluster::observe(tasks, config, cluster, shared, client.clone(), leads.clone());
            if config.has(Role::Webhook) {
                cluster::wait_for_context(health, cluster, progress);
            }
        }
        let (name, counts) = (&*cluster.reviews.cluster, &*config.quota_cluster);
        if config.has(Role::Control) && (name == counts || cluster.reviews.mirrored) {
            let metrics = match &statuses {
                Some(metrics) => metrics,
                None => statuses.insert(Arc::new(status::metrics::Metrics::new(&shared.registry)?)),
            };
            let (client, leads) = (client.clone(), leads.clone());
            match name == counts {
                true => cluster::show_statuses(tasks, shared, metrics, client, leads),
                false => {
                    cluster::keep_mirrors(tasks, shared, metrics, (name, counts), client, leads)
                }
            }
        }
        first.get_or_insert(leads);
    }
    if config.has(Role::Control) {
        // Where no cluster can be led, this process is taken for the only one.
        let leads = first.unwrap_or_else(|| watch::channel(true).1);
        let quotas = quotas(config, clients);
        told::tell_groups(tasks, config, shared, quotas, leads.clone())?;
        #[cfg(feature = "jetstream")]
        usage::tell(tasks, shared, snapshots(config), leads.clone())?;
        cluster::take_snapshots(tasks, snapshots(config), shared.projection.clone(), leads);
    }
    Ok(())
}

/// The cluster whose quota objects count, if it has an API server here.
fn quotas(config: &Config, clients: &Clients) -> Option<Client> {
    let counts = |cluster: &crate::config::Cluster| cluster.reviews.cluster == config.quota_cluster;
    let place = config.clusters.iter().position(counts)?;
    clients.get(&place).cloned()
}
