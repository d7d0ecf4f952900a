//! A small company at the webhook: reviews in the words of an API server, and facts as an observer would tell them.
//!
//! The groups are those of the executable model: r (cpu 8, gpu 4), under it a (cpu 4) and b (gpu 2); s (cpu 4).

use super::served::{Ca, limits};
use axum::{
    Router,
    body::{Body, to_bytes},
};
use bizrq::{
    decider::{self, Decider, Expired, Expiry, transport::Alone},
    domain::event::{ObjectRef, Position},
    event_log::{EventLog, NewEvent, codec::scan},
    k8s::{context::Context, kinds::Kinds},
    projection::{MemoryStore, Projection, Runner, runner},
    webhook::{
        Options,
        clusters::{Cluster, Clusters},
        metrics::Metrics,
        server::router,
        tls::Current,
    },
};
use hyper::Request;
use prometheus::Registry;
use serde_json::{Value, json};
use std::{
    future::pending,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};
use tower::ServiceExt;

/// Cores and cards.
pub(super) type Demand = (u32, u32);

/// A group and what is asked of it.
pub(super) type Place = (&'static str, Demand);

/// What an API server is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) allowed: bool,
    /// `Recorded`, `NothingGrows`, `QuotaExceeded` …
    pub(super) reason: String,
    /// Where it was recorded.
    pub(super) position: Option<Position>,
}

/// What answers, over a log of the test's.
pub(super) struct Company<L> {
    pub(super) log: Arc<L>,
    router: Router,
    decider: Decider,
    projection: Projection,
    kinds: Arc<Kinds>,
    context: Arc<RwLock<Context>>,
    /// Numbers reviews and events.
    number: AtomicU32,
}

impl<L: EventLog + 'static> Company<L> {
    pub(super) async fn of(log: L) -> Self {
        let log = Arc::new(log);
        let (runner, projection) = Runner::new(MemoryStore::default(), runner::Options::default());
        let options = decider::Options::default();
        let (decider, worker) = decider::new(Arc::clone(&log), projection.clone(), Alone, options);
        let folded = Arc::clone(&log);
        tokio::spawn(async move { runner.run(&*folded, pending::<()>()).await.map(drop).unwrap() });
        tokio::spawn(worker.run(pending::<()>()));
        let (kinds, context) = (Arc::new(Kinds::builtin().unwrap()), Arc::default());
        let east = Cluster { options: Options::new("east"), context: Arc::clone(&context) };
        let clusters =
            Clusters::new(Arc::clone(&kinds), [east], decider.clone(), projection.clone());
        let current = Arc::new(Current::default());
        current.show(Ca::new().pair());
        let metrics = Arc::new(Metrics::new(&Registry::new()).unwrap());
        let router = router(clusters, current, metrics, limits());
        let number = AtomicU32::new(0);
        let company = Self { log, router, decider, projection, kinds, context, number };
        company.projection.clone().caught_up().await.unwrap();
        company.declared("r", 1, "", &[("limits.cpu", "8"), ("limits.nvidia.com/gpu", "4")]).await;
        company.declared("a", 1, "r", &[("limits.cpu", "4")]).await;
        company.declared("b", 1, "r", &[("limits.nvidia.com/gpu", "2")]).await;
        company.declared("s", 1, "", &[("limits.cpu", "4")]).await;
        company
    }

    fn number(&self) -> u32 {
        self.number.fetch_add(1, Relaxed) + 1
    }

    /// Tells a fact; returns when the ledger has it.
    async fn tell(&self, kind: &str, subject: &str, data: Value) -> Position {
        let (id, time) = (self.number(), "2026-11-29T16:00:00.000Z");
        let line = format!(
            r#"{{"specversion":"1.0","id":"{id:032x}","type":"io.bizrq.{kind}.v1","source":"/clusters/east","subject":"{subject}","time":"{time}","recordedat":"{time}","data":{data}}}"#
        );
        let event = NewEvent::copied(&scan(line.as_bytes()).unwrap()).unwrap();
        let position = self.log.append(vec![event]).await.unwrap().last;
        self.projection.clone().wait_for(position).await.unwrap();
        assert_eq!(self.projection.ledger().quarantined(), [], "{line}");
        position
    }

    pub(super) async fn declared(
        &self,
        name: &str,
        version: u32,
        parent: &str,
        hard: &[(&str, &str)],
    ) {
        let spec = spec(parent, hard);
        let data = json!({"uid": format!("q-{name}"), "resourceVersion": version.to_string(),
            "generation": version, "spec": spec});
        self.tell("quota.declared", &format!("quotas/{name}"), data).await;
    }

    pub(super) async fn removed(&self, name: &str) {
        let data = json!({"uid": format!("q-{name}")});
        self.tell("quota.removed", &format!("quotas/{name}"), data).await;
    }

    /// A version of a workload was seen; whoever asks about its pods knows it, too.
    pub(super) async fn observed(&self, name: &str, version: u32, (group, demand): Place) {
        let object = deployment(name, version, (group, demand), 1).to_string();
        self.context.write().unwrap().see(&self.kinds, &object).unwrap();
        let data = json!({"workload": reference(name), "resourceVersion": version.to_string(),
            "generation": 1, "group": group,
            "roles": [{"name": "", "count": 1, "peak": 1, "models": {}, "pod": resources(demand)}]});
        self.tell("workload.observed", "workloads/w", data).await;
    }

    /// The same, of so many pods of one core.
    pub(super) async fn observed_pods(&self, name: &str, version: u32, group: &str, count: u32) {
        let data = json!({"workload": reference(name), "resourceVersion": version.to_string(),
            "generation": 1, "group": group,
            "roles": [{"name": "", "count": count, "peak": count, "models": {}, "pod": resources((1, 0))}]});
        self.tell("workload.observed", "workloads/w", data).await;
    }

    /// It is gone; what it was charged is kept for pods that may still come, until the record at this position is over.
    pub(super) async fn gone(&self, name: &str) -> Position {
        let data = json!({"workload": reference(name), "cause": "Deleted"});
        self.tell("workload.gone", "workloads/w", data).await
    }

    /// A pod of a workload came.
    pub(super) async fn pod(&self, uid: &str, of: &str, (group, demand): Place) {
        let data = json!({"uid": uid, "owner": reference(of), "group": group, "models": {},
            "reserved": resources(demand)});
        self.tell("pod.created", &format!("pods/web/{uid}"), data).await;
    }

    /// A consistent read, some time after `position`, does not show what it was for.
    pub(super) async fn expired(&self, position: Position, name: &str) {
        let reference = reference(name).to_string();
        let reference: ObjectRef<'_> = serde_json::from_str(&reference).unwrap();
        let of = Expired::Workload(reference.into_owned());
        self.over(Expiry { position, of }).await;
    }

    /// The same, of a proposal.
    pub(super) async fn withdrawn(&self, position: Position, quota: &str) {
        self.over(Expiry { position, of: Expired::Quota(quota.into()) }).await;
    }

    async fn over(&self, expiry: Expiry) {
        let at = self.decider.expire("east", vec![expiry]).await.unwrap();
        self.projection.clone().wait_for(at).await.unwrap();
    }

    /// A heartbeat.
    pub(super) async fn synced(&self, version: u32) {
        let versions =
            json!({"pods": version.to_string(), "deployments.apps": version.to_string()});
        let data = json!({"resourceVersions": versions, "since": "2026-11-29T15:59:00.000Z"});
        self.tell("observer.synced", "observers/east", data).await;
    }

    /// Creates a Deployment, as a review of its own.
    pub(super) async fn create(&self, name: &str, place: Place) -> Told {
        self.ask("workloads", create(self.number(), name, place)).await
    }

    /// Changes one, from this version.
    pub(super) async fn update(&self, name: &str, version: u32, from: Place, to: Place) -> Told {
        let (old, new) = (deployment(name, version, from, 1), deployment(name, version, to, 1));
        self.ask("workloads", review(self.number(), "UPDATE", "", new, old)).await
    }

    /// Scales one of pods of one core.
    pub(super) async fn scale(
        &self,
        name: &str,
        version: u32,
        group: &'static str,
        from: u32,
        to: u32,
    ) -> Told {
        let at = |count| deployment(name, version, (group, (1, 0)), count);
        self.ask("workloads", review(self.number(), "UPDATE", "", at(to), at(from))).await
    }

    /// Resizes a pod of a workload.
    pub(super) async fn resize(&self, uid: &str, of: &str, from: Demand, to: Demand) -> Told {
        let pod = |demand| {
            let owner = reference(of);
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": uid, "namespace": "web", "uid": uid, "resourceVersion": "7",
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment",
                        "name": of, "uid": owner["uid"], "controller": true}]},
                "spec": {"containers": [{"name": "a", "resources": resources(demand)}]}})
        };
        self.ask("workloads", review(self.number(), "UPDATE", "resize", pod(to), pod(from))).await
    }

    /// Changes the parent of a group, or its limits.
    pub(super) async fn change(
        &self,
        name: &str,
        version: u32,
        from: (&str, &[(&str, &str)]),
        to: (&str, &[(&str, &str)]),
    ) -> Told {
        let (old, new) = (quota(name, version, from), quota(name, version, to));
        self.ask("quotas", review(self.number(), "UPDATE", "", new, old)).await
    }

    pub(super) async fn delete(
        &self,
        name: &str,
        version: u32,
        was: (&str, &[(&str, &str)]),
    ) -> Told {
        let old = quota(name, version, was);
        self.ask("quotas", review(self.number(), "DELETE", "", Value::Null, old)).await
    }

    /// Asks, with a second's time.
    pub(super) async fn ask(&self, what: &str, review: Value) -> Told {
        let path = format!("/validate/{what}/east?timeout=2s");
        let request = Request::post(path).body(Body::from(review.to_string())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        let text = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let said = serde_json::from_slice::<Value>(&text).unwrap()["response"].clone();
        let noted = |key: &str| said["auditAnnotations"][key].as_str().unwrap_or_default();
        Told {
            allowed: said["allowed"].as_bool().unwrap(),
            reason: noted("reason").to_owned(),
            position: noted("position").parse().ok(),
        }
    }
}

impl Told {
    /// It was allowed and recorded; where.
    pub(super) fn recorded(&self) -> Position {
        assert!(self.allowed, "{self:?}");
        self.position.unwrap_or_else(|| panic!("{self:?}"))
    }

    /// It was allowed, and nothing was recorded.
    pub(super) fn passed(&self) {
        assert!(self.allowed && self.position.is_none(), "{self:?}");
    }

    pub(super) fn refused(&self, reason: &str) {
        assert_eq!((self.allowed, &*self.reason), (false, reason), "{self:?}");
    }
}

/// A review of a create, which has a uid of its own.
pub(super) fn create(number: u32, name: &str, place: Place) -> Value {
    let mut object = deployment(name, 0, place, 1);
    if name.contains('#') {
        // Another object that wants the same name.
        let (real, _) = name.split_once('#').unwrap();
        object["metadata"]["name"] = real.into();
    }
    review(number, "CREATE", "", object, Value::Null)
}

fn review(number: u32, operation: &str, sub: &str, object: Value, old: Value) -> Value {
    let named = if object.is_null() { &old } else { &object };
    let text = |field: &str| named[field].as_str().unwrap_or_default();
    let version = text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = format!("{}s", text("kind").to_lowercase());
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": format!("review-{number}"),
        "kind": {"group": group, "version": version, "kind": text("kind")},
        "resource": {"group": group, "version": version, "resource": resource},
        "subResource": sub,
        "name": named["metadata"]["name"],
        "namespace": named["metadata"]["namespace"],
        "operation": operation,
        "userInfo": {"username": "ann"},
        "object": object,
        "oldObject": old,
    }})
}

fn resources((cores, cards): Demand) -> Value {
    let list = json!({"cpu": cores.to_string(), "nvidia.com/gpu": cards.to_string()});
    json!({"requests": list.clone(), "limits": list})
}

fn deployment(name: &str, version: u32, (group, demand): Place, count: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "web", "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(), "labels": {"biz.group.resource.quota": group}},
        "spec": {"replicas": count, "strategy": {"type": "Recreate"},
            "template": {"spec": {"containers": [{"name": "a", "resources": resources(demand)}]}}}})
}

fn reference(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": name,
        "uid": format!("uid-{name}")})
}

fn quota(name: &str, version: u32, (parent, hard): (&str, &[(&str, &str)])) -> Value {
    json!({"apiVersion": "bizrq.io/v1", "kind": "BizGroupResourceQuota",
        "metadata": {"name": name, "uid": format!("q-{name}"),
            "resourceVersion": version.to_string()},
        "spec": spec(parent, hard)})
}

fn spec(parent: &str, hard: &[(&str, &str)]) -> Value {
    let hard: Value = hard.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
    json!({"parent": parent, "hard": hard, "charge": "Steady", "models": "Declared"})
}
