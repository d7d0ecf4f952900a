//! An observer on a memory log, with everything that a process puts around it.

use bizrq::{
    decider::{self, Decider, transport::Alone},
    domain::{label_keys::LabelKeys, time::Timestamp},
    event_log::{EventLog, NewEvent, codec::scan, memory::MemoryLog},
    k8s::{context::Context, kinds::Kinds},
    observe::{Cluster, Error, Observer, Progress, metrics::Metrics},
    projection::{MemoryStore, Projection, Runner, runner},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, RwLock},
    time::Duration,
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep},
};

/// See the head of this file.
pub(crate) struct Stand {
    pub(crate) decider: Decider,
    pub(crate) metrics: prometheus::Registry,
    pub(crate) context: Arc<RwLock<Context>>,
    pub(crate) projection: Projection,
    pub(crate) leads: watch::Sender<bool>,
    pub(crate) progress: watch::Receiver<Progress>,
    pub(crate) observing: JoinHandle<Result<(), Error>>,
    end: Option<oneshot::Sender<()>>,
    others: Vec<JoinHandle<()>>,
}

impl Stand {
    /// Observes what `client` leads to as `cluster`, on `log`.
    pub(crate) fn new<L: EventLog + 'static>(
        client: kube::Client,
        cluster: Cluster,
        log: &Arc<L>,
        leads: bool,
    ) -> Self
    where
        L::Reader: 'static,
    {
        Self::with_labels(client, cluster, log, leads, Arc::default())
    }

    /// The same, where these labels name groups and models.
    pub(crate) fn with_labels<L: EventLog + 'static>(
        client: kube::Client,
        cluster: Cluster,
        log: &Arc<L>,
        leads: bool,
        labels: Arc<LabelKeys>,
    ) -> Self
    where
        L::Reader: 'static,
    {
        let log = Arc::clone(log);
        let (runner, projection) = Runner::new(MemoryStore::default(), runner::Options::default());
        let options = decider::Options { now: Arc::clone(&cluster.now), ..Default::default() };
        let (decider, worker) = decider::new(Arc::clone(&log), projection.clone(), Alone, options);
        let folded = Arc::clone(&log);
        let others = vec![
            tokio::spawn(worker.run(std::future::pending::<()>())),
            tokio::spawn(async move {
                runner.run(&*folded, std::future::pending::<()>()).await.unwrap();
            }),
        ];
        let context = Arc::new(RwLock::new(Context::new(labels)));
        let kinds = Arc::new(Kinds::builtin().unwrap());
        let observer = Observer::new(
            client,
            cluster,
            kinds,
            Arc::clone(&context),
            log,
            projection.clone(),
            decider.clone(),
        );
        let metrics = prometheus::Registry::new();
        let observer = observer.with_metrics(Arc::new(Metrics::new(&metrics).unwrap()));
        let (leads, progress) = (watch::Sender::new(leads), observer.progress());
        let (end, ended) = oneshot::channel();
        let observed = observer.run(leads.subscribe(), ended);
        let observing = tokio::spawn(async move {
            let ended = observed.await;
            if let Err(error) = &ended {
                println!("the observer ended: {error}");
            }
            ended
        });
        Self {
            decider,
            metrics,
            context,
            projection,
            leads,
            progress,
            observing,
            end: Some(end),
            others,
        }
    }

    /// Waits until the observer is as far as `reached` says.
    pub(crate) async fn until(&mut self, reached: impl FnMut(&Progress) -> bool) {
        tokio::time::timeout(Duration::from_secs(60), self.progress.wait_for(reached))
            .await
            .expect("it takes too long")
            .unwrap();
    }

    /// Somebody declares a group without a parent, before noon; returns when the ledger has it.
    pub(crate) async fn declare(&self, log: &MemoryLog, name: &str, models: &str, hard: &Value) {
        let data = json!({"uid": name, "resourceVersion": "1", "generation": 1,
            "spec": {"parent": "", "hard": hard, "charge": "Steady", "models": models}});
        let (id, time) = (name.len(), "2026-11-29T11:00:00.000Z");
        let line = format!(
            r#"{{"specversion":"1.0","id":"{id:032x}","type":"io.bizrq.quota.declared.v1","source":"/clusters/east","subject":"quotas/{name}","time":"{time}","recordedat":"{time}","data":{data}}}"#
        );
        let event = NewEvent::copied(&scan(line.as_bytes()).unwrap()).unwrap();
        let position = log.append(vec![event]).await.unwrap().last;
        self.projection.clone().wait_for(position).await.unwrap();
    }

    /// Usage by group and key at `at`.
    pub(crate) fn usage(&self, at: Timestamp) -> BTreeMap<(String, String), i128> {
        let lines = self.projection.ledger().usage(at).unwrap().into_iter();
        lines.filter(|line| line.exact != 0).map(|l| ((l.group, l.key), l.exact)).collect()
    }

    /// Waits until the usage at `at` is `expected`; else tells what differs.
    pub(crate) async fn settles(
        &self,
        what: &str,
        at: Timestamp,
        expected: &BTreeMap<(String, String), i128>,
    ) {
        let began = Instant::now();
        loop {
            let found = self.usage(at);
            if found == *expected {
                return;
            }
            if began.elapsed() > Duration::from_secs(60) {
                let keys: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
                let differ = keys.into_iter().filter(|key| found.get(*key) != expected.get(*key));
                let lines = differ.map(|key| (key, found.get(key), expected.get(key)));
                panic!("never: {what}; found and expected: {:#?}", lines.collect::<Vec<_>>());
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// What a counter says.
    pub(crate) fn counted(&self, name: &str) -> u64 {
        let families = self.metrics.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.into_iter().flat_map(|family| family.get_metric());
        metrics.map(|metric| metric.get_counter().get_value() as u64).sum()
    }

    /// What a gauge says.
    pub(crate) fn shown(&self, name: &str) -> u64 {
        let families = self.metrics.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.into_iter().flat_map(|family| family.get_metric());
        metrics.map(|metric| metric.get_gauge().get_value() as u64).sum()
    }

    /// Ends it, in order.
    pub(crate) async fn close(mut self) {
        let _ = self.end.take().unwrap().send(());
        self.observing.await.unwrap().unwrap();
        self.others.iter().for_each(JoinHandle::abort);
    }
}

/// Waits until `holds` does.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
