//! The webhook of the library, in this process, registered with the API server for the namespaces of one test.
//!
//! What it knows of objects is polled; the quotas are on its log from the beginning. `bizrq serve` does both by itself.

use super::control_plane::{ControlPlane, eventually, runtime};
use bizrq::{
    clock,
    decider::{self, transport::Alone},
    domain::{
        event::{Data, Event, QuotaDeclared},
        ident,
        quota::TypedSpec,
        time::HOUR_MS,
    },
    event_log::{EventLog, NewEvent, memory::MemoryLog},
    k8s::{context::Context, kinds::Kinds},
    projection::{MemoryStore, Runner, runner},
    webhook::{
        Options,
        clusters::{Cluster, Clusters},
        metrics::Metrics,
        server::{Limits, Server},
        tls::{Current, Pair, issue},
    },
};
use k8s_openapi::{ByteString, api::apps::v1::Deployment};
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};
use std::{
    net::{SocketAddr, TcpStream},
    sync::{Arc, RwLock},
    time::Duration,
};
use tokio::sync::watch;

/// See the head of this file.
pub(crate) struct Webhook {
    pub(crate) log: Arc<MemoryLog>,
    end: watch::Sender<bool>,
    address: SocketAddr,
}

impl Webhook {
    /// Answers for the namespaces that are labelled `e2e: NAME`, whose quotas are `quotas`.
    pub(crate) fn start(
        plane: &ControlPlane,
        name: &str,
        quotas: &[(&str, &[(&str, &str)])],
    ) -> Self {
        let now = clock::now();
        let until = now.shifted(24 * HOUR_MS);
        let authority = issue::authority(now, until).unwrap();
        let serving = issue::serving(&authority, &["127.0.0.1".into()], now, until).unwrap();
        let pair =
            Pair::parse(serving.certificate.as_bytes(), serving.key.as_bytes(), now).unwrap();
        let current = Arc::new(Current::default());
        current.show(pair);
        let webhook = runtime().block_on(serve(plane.nodes.client.clone(), current, quotas));
        let bundle = ByteString(authority.certificate.into_bytes());
        let configuration = configuration(name, webhook.address, &bundle);
        plane.admin().apply(&configuration).succeeds();
        webhook.wait_until_asked(plane, name);
        webhook
    }

    /// Nobody answers any more; the configuration stays.
    pub(crate) fn stop(&self) {
        self.end.send_replace(true);
        eventually("the webhook stops", || match TcpStream::connect(self.address) {
            Ok(_) => Err("it accepts connections".to_owned()),
            Err(_) => Ok(()),
        });
    }

    /// An API server asks only some time after the configuration was stored: until it refuses what is wrong.
    fn wait_until_asked(&self, plane: &ControlPlane, name: &str) {
        let namespace = format!("{name}-asked");
        plane.namespace(&namespace, &[("e2e", name)]);
        let labels = json!({"biz.group.resource.quota": "nobody"});
        let wrong = super::pods::deployment(&namespace, "wrong", &labels, 1, "1").to_string();
        eventually("the API server asks the webhook", || {
            let said = plane.admin().with_input("create --dry-run=server -f -", &wrong);
            if said.err.contains("group `nobody` is not declared") {
                Ok(())
            } else {
                Err(said.out + &said.err)
            }
        });
    }
}

fn configuration(name: &str, address: SocketAddr, bundle: &ByteString) -> Value {
    let rule = |operations: &[&str], resources: &[&str]| json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": operations, "resources": resources});
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "workloads.bizrq.io",
            "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun",
            "failurePolicy": "Fail", "timeoutSeconds": 5,
            "clientConfig": {"url": format!("https://{address}/validate/workloads/east"), "caBundle": bundle},
            "namespaceSelector": {"matchLabels": {"e2e": name}},
            "rules": [rule(&["CREATE", "UPDATE"], &["deployments"]), rule(&["UPDATE"], &["deployments/scale"])],
        }],
    })
}

async fn serve(
    client: Client,
    current: Arc<Current>,
    quotas: &[(&str, &[(&str, &str)])],
) -> Webhook {
    let log = Arc::new(MemoryLog::default());
    let declared = quotas.iter().map(|(name, hard)| declared(name, hard)).collect();
    log.append(declared).await.unwrap();
    let (runner, projection) = Runner::new(MemoryStore::default(), runner::Options::default());
    let options = decider::Options::default();
    let (decider, worker) = decider::new(Arc::clone(&log), projection.clone(), Alone, options);
    let end = watch::Sender::new(false);
    let ended = || {
        let mut end = end.subscribe();
        async move { end.wait_for(|end| *end).await.map(drop) }
    };
    let (folded, served, decided, read) = (Arc::clone(&log), ended(), ended(), ended());
    tokio::spawn(async move { runner.run(&*folded, read).await.map(drop).unwrap() });
    tokio::spawn(worker.run(decided));
    projection.clone().caught_up().await.unwrap();
    let kinds = Arc::new(Kinds::builtin().unwrap());
    let context = Arc::new(RwLock::new(Context::default()));
    tokio::spawn(know(client, Arc::clone(&kinds), Arc::downgrade(&context)));
    let east = Cluster { options: Options::new("east"), context };
    let clusters = Clusters::new(kinds, [east], decider, projection);
    let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).unwrap());
    let limits = Limits { notice: Duration::ZERO, farewell: Duration::ZERO, ..Limits::default() };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(any, clusters, current, metrics, limits).unwrap();
    let address = server.address().unwrap();
    tokio::spawn(async move { server.serve(served).await.unwrap() });
    Webhook { log, end, address }
}

/// Keeps the context up to date, as long as it is used.
async fn know(client: Client, kinds: Arc<Kinds>, context: std::sync::Weak<RwLock<Context>>) {
    let api: Api<Deployment> = Api::all(client);
    while let Some(context) = context.upgrade() {
        for deployment in
            api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
        {
            let text = serde_json::to_string(&deployment).unwrap();
            context.write().unwrap().see(&kinds, &text).unwrap();
        }
        drop(context);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn declared(name: &str, hard: &[(&str, &str)]) -> NewEvent {
    let spec = TypedSpec {
        parent: "",
        hard: hard.to_vec(),
        charge: "",
        models: "",
        ..TypedSpec::default()
    };
    let spec = spec.accept(name).unwrap();
    let uid = format!("quota-{name}");
    let data = QuotaDeclared { uid: uid.into(), resource_version: "1".into(), generation: 1, spec };
    let data = Data::QuotaDeclared(data);
    let (source, time) = ("/clusters/east", clock::now());
    let id = ident::fact(source, time, &data).unwrap();
    let subject = format!("quotas/{name}").into();
    NewEvent::new(&Event { id, source: source.into(), subject, time, recorded_at: time, data })
        .unwrap()
}
