//! One cluster, watched for as long as the process runs: by every replica for the context of its reviews, by the one
//! that leads for the facts of the log as well.
//!
//! ```text
//!  API server ─▶ a watcher a kind ─▶ [bounded] ─▶ Observer ─▶ Context (reviews)
//!                                                    └ leads ▶ View ─▶ facts ─▶ Feed ─▶ event_log
//! ```
//!
//! When a replica begins or ceases to lead, everything is listed anew: what it tells follows from consistent reads
//! of its own. It never appends while it does not lead.

mod binding;

use super::{
    error::Error,
    feed::{Ended, Feed, feed},
    inventory::Named,
    keeper::keep,
    metrics::Metrics,
    objects::{Object, Topic},
    server::{Failure, Server},
    sweeper::Sweeper,
    view::{Complete, View},
    watch::Update,
    watching::{Watched, Watching},
};
use crate::{
    clock,
    decider::Decider,
    domain::{event::Event, time::Timestamp},
    event_log::EventLog,
    k8s::{context::Context, kinds::Kinds},
    projection::Projection,
};
use kube::Client;
use std::{
    collections::BTreeMap,
    fmt,
    future::pending,
    pin::{Pin, pin},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::interval,
};

/// How often what waits is looked at.
const TICK: Duration = Duration::from_millis(250);

/// A cluster, and how it is observed.
#[derive(Clone)]
pub struct Cluster {
    /// Its name in the log.
    pub name: String,
    /// Quota objects of this cluster are the ones that count.
    pub quotas: bool,
    /// An operator said so; else they do not while the log has those of another.
    pub quotas_named: bool,
    /// Labels of nodes that name the model of their CPUs, memory and cards.
    pub node_models: [Option<String>; 3],
    /// Nodes with this label and value (`type`, `virtual-kubelet`) hold nothing: their pods run elsewhere.
    pub virtual_nodes: Option<(String, String)>,
    /// The group of what names none; empty for none.
    pub default_group: String,
    /// The time by which facts are recorded.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// What an operator should know is said here, a line at a time.
    pub notice: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Observes one cluster; see [`Observer::run`].
pub struct Observer<L> {
    cluster: Cluster,
    server: Server,
    kinds: Arc<Kinds>,
    context: Arc<RwLock<Context>>,
    log: Arc<L>,
    projection: Projection,
    decider: Decider,
    progress: watch::Sender<Progress>,
    metrics: Option<Arc<Metrics>>,
}

/// How far an observer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Reviews know their cluster: every kind was listed, or is not served there, or has had its time.
    pub context_synced: bool,
    /// Facts are told; only of who leads.
    pub leading: bool,
    /// Everything that was there at the start has been told.
    pub facts_synced: bool,
    /// Kinds that do not work, and why.
    pub failing: BTreeMap<String, Failure>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            name: String::new(),
            quotas: true,
            quotas_named: false,
            node_models: [const { None }; 3],
            virtual_nodes: Some(("type".into(), "virtual-kubelet".into())),
            default_group: String::new(),
            now: Arc::new(clock::now),
            notice: Arc::new(|_| {}),
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<L> fmt::Debug for Observer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl<L: EventLog + 'static> Observer<L> {
    /// An observer of the cluster behind `client`, which keeps `context` up to date and tells facts to `log`.
    #[must_use]
    pub fn new(
        client: Client,
        cluster: Cluster,
        kinds: Arc<Kinds>,
        context: Arc<RwLock<Context>>,
        log: Arc<L>,
        projection: Projection,
        decider: Decider,
    ) -> Self {
        let (server, progress) = (Server::new(client), watch::Sender::default());
        Self { cluster, server, kinds, context, log, projection, decider, progress, metrics: None }
    }

    /// How far it is; for readiness.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Counts in `metrics` what it does.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Watches until `end` comes true, and tells facts while `leads` says so.
    ///
    /// # Errors
    /// [`Error`]: what a person must look at first.
    pub async fn run(
        self,
        mut leads: watch::Receiver<bool>,
        end: impl Future,
    ) -> Result<(), Error> {
        let mut end = pin!(end);
        let mut before = Vec::new();
        loop {
            let leading = *leads.borrow_and_update();
            let topics = Topic::all(&self.kinds, leading, self.cluster.quotas);
            let mut watching = Watching::begin(&self.server, topics, &self.cluster.now, before);
            let mut lead = leading.then(|| self.lead(&watching, leads.clone()));
            tokio::select! {
                _ = &mut end => return Ok(()),
                () = changed(&mut leads, leading) => {}
                ended = self.observe(&mut watching, lead.as_mut()) => return ended,
            }
            if let Some(metrics) = &self.metrics {
                metrics.seen(&self.cluster.name, 0, 0);
            }
            before = watching.end();
        }
    }

    /// Observes until something is wrong that no waiting mends.
    async fn observe(
        &self,
        watching: &mut Watching,
        mut lead: Option<&mut Lead>,
    ) -> Result<(), Error> {
        let mut ticks = interval(TICK);
        let leads = lead.is_some();
        let mut bound = pin!(async {
            match leads {
                true => self.bind().await,
                false => pending().await,
            }
        });
        let mut is_bound = false;
        loop {
            tokio::select! {
                result = &mut bound, if !is_bound => {
                    is_bound = true;
                    self.tell_bound(lead.as_deref_mut(), result?).await?;
                }
                told = watching.next() => {
                    let Some((number, update, gone)) = told else { return Ok(()) };
                    let kind = watching.kind(number).filter(|_| leads && is_bound);
                    if let (Update::Begins(version), Some(kind)) = (&update, kind) {
                        self.is_newer(&kind.topic, *version, kind.inventory.newest())?;
                    }
                    self.take(watching, lead.as_deref_mut(), number, update, &gone);
                }
                compare = Lead::asked(lead.as_deref_mut()) => {
                    if let Some(lead) = lead.as_deref_mut() {
                        lead.view.compare();
                        lead.comparing = Some(compare);
                    }
                }
                _ = ticks.tick() => {
                    if let Some(lead) = lead.as_deref_mut() {
                        lead.view.tick();
                    }
                }
            }
            if let Some(lead) = lead.as_deref_mut().filter(|_| is_bound) {
                self.tell(lead, watching).await?;
            }
            watching.passed();
            self.tell_progress(watching, lead.as_deref());
        }
    }

    /// What leading takes.
    fn lead(&self, watching: &Watching, leads: watch::Receiver<bool>) -> Lead {
        let notice = Arc::clone(&self.cluster.notice);
        let (feed, appender) = feed(Arc::clone(&self.log), leads, Arc::clone(&notice));
        let (compare, comparisons) = mpsc::channel(1);
        let metrics = self.metrics.clone();
        let cluster = self.cluster.name.clone();
        let expired = move |count| {
            if let Some(metrics) = &metrics {
                metrics.expired(&cluster, count);
            }
        };
        let sweeper = Sweeper {
            cluster: self.cluster.name.clone(),
            quotas: self.cluster.quotas,
            server: self.server.clone(),
            declared: Arc::clone(&self.kinds),
            kinds: watching.swept(),
            log: Arc::clone(&self.log),
            projection: self.projection.clone(),
            decider: self.decider.clone(),
            feed: feed.clone(),
            compare,
            now: Arc::clone(&self.cluster.now),
            notice,
            expired: Arc::new(expired),
            open: BTreeMap::new(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(appender.run());
        let context = self.context.read().unwrap_or_else(PoisonError::into_inner);
        let labels = Arc::clone(context.labels());
        drop(context);
        Lead {
            view: View::new(self.cluster.clone(), Arc::clone(&self.kinds), labels),
            feed,
            since: None,
            told: false,
            complete: Complete::default(),
            comparisons,
            comparing: None,
            sweep: Some(Box::pin(sweeper.run())),
            tasks,
        }
    }

    fn take(
        &self,
        watching: &Watching,
        lead: Option<&mut Lead>,
        number: usize,
        update: Update<Object>,
        gone: &[Named],
    ) {
        let Some(Watched { topic, .. }) = watching.kind(number) else { return };
        if let Some(lead) = lead {
            lead.view.apply(topic, &update, gone);
            if let (Topic::Pods, Update::Listed { stood, .. }) = (topic, &update)
                && (!stood || lead.since.is_none())
            {
                // Whatever came and went before, while no watch stood, was missed.
                lead.since = Some(lead.view.known_since());
            }
        }
        let mut unreadable = 0;
        let notice = |why: &str| {
            (self.cluster.notice)(why);
        };
        if let Update::Objects(objects) = &update {
            unreadable = objects.iter().filter(|sent| sent.object.is_err()).count();
        }
        if let Some(metrics) = self.metrics.as_ref().filter(|_| unreadable > 0) {
            metrics.unreadable(&self.cluster.name, unreadable);
        }
        let mut context = self.context.write().unwrap_or_else(PoisonError::into_inner);
        keep(&mut context, &self.kinds, topic, update, gone, &notice);
    }

    /// Tells what follows from what was taken in, once everything that was there has been listed.
    async fn tell(&self, lead: &mut Lead, watching: &Watching) -> Result<(), Error> {
        if !lead.told && !watching.is_synced() {
            return Ok(());
        }
        if !lead.told {
            for (topic, version) in watching.versions() {
                self.is_newer(topic, version, 0)?;
            }
        }
        let news = watching.complete().without(lead.complete);
        if !lead.told || news.any() {
            lead.view.sync(&self.projection.ledger(), news);
            lead.complete = lead.complete.and(news);
        }
        while !lead.view.is_idle() {
            let facts = {
                let context = self.context.read().unwrap_or_else(PoisonError::into_inner);
                let ledger = self.projection.ledger();
                lead.view.drain(&context, &ledger, (self.cluster.now)()).take()
            };
            for fact in &facts {
                self.push(&lead.feed, fact).await;
            }
        }
        if let Some(sweep) = lead.sweep.take() {
            lead.tasks.spawn(sweep);
        }
        lead.told = true;
        if let Some(reply) = lead.comparing.take_if(|_| !lead.view.is_comparing()) {
            // Who asked may be gone.
            let _ = reply.send(lead.since.unwrap_or_default());
        }
        if let Some(metrics) = &self.metrics {
            metrics.drifted(&self.cluster.name, lead.view.take_drift());
            metrics.waiting(&self.cluster.name, lead.feed.len());
            metrics.seen(&self.cluster.name, lead.view.uncovered(), lead.view.skewed());
        }
        Ok(())
    }

    async fn push(&self, feed: &Feed, fact: &Event<'_>) {
        match feed.push(fact).await {
            Ok(Ok(())) => {
                if let Some(metrics) = &self.metrics {
                    metrics.told(&self.cluster.name, fact);
                }
            }
            Ok(Err(why)) => (self.cluster.notice)(&format!("{}: {why}", fact.subject)),
            // It no longer leads, which whoever runs this hears soon.
            Err(Ended) => pending().await,
        }
    }

    fn tell_progress(&self, watching: &Watching, lead: Option<&Lead>) {
        self.progress.send_if_modified(|progress| {
            let now = Progress {
                context_synced: progress.context_synced || watching.is_synced(),
                leading: lead.is_some(),
                facts_synced: lead.is_some_and(|lead| lead.told),
                failing: watching.failing(),
            };
            let news = *progress != now;
            *progress = now;
            news
        });
    }
}

/// What a replica that leads has more.
struct Lead {
    view: View,
    feed: Feed,
    /// Nothing was missed since.
    since: Option<Timestamp>,
    /// Everything that was there has been told.
    told: bool,
    /// Of what everything was listed.
    complete: Complete,
    comparisons: mpsc::Receiver<oneshot::Sender<Timestamp>>,
    comparing: Option<oneshot::Sender<Timestamp>>,
    /// The sweeper, until it begins.
    sweep: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// End with this.
    tasks: JoinSet<()>,
}

impl Lead {
    /// Whoever asks for a comparison.
    async fn asked(lead: Option<&mut Self>) -> oneshot::Sender<Timestamp> {
        match lead {
            Some(lead) if lead.told && lead.comparing.is_none() => {
                let Some(reply) = lead.comparisons.recv().await else { pending().await };
                reply
            }
            _ => pending().await,
        }
    }
}

/// Comes true when a replica that leads, or not, does otherwise.
async fn changed(leads: &mut watch::Receiver<bool>, leading: bool) {
    if leads.wait_for(|leads| *leads != leading).await.is_err() {
        // Nobody will ever say otherwise.
        pending().await
    }
}
