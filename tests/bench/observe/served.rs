//! An API server with nothing in it but pods, a node and two namespaces. Pods are written when they are asked for, so it
//! keeps none: a list shows the first ones as running, and a watch tells of pods that come, run, end and go.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, Query, State},
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
    routing::any,
};
use bizrq::domain::time::Timestamp;
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval},
};

/// What the pods count under, one after another.
pub(crate) const GROUPS: usize = 1000;
/// Each pod that comes and each that goes together are five changes.
const PODS_A_SECOND: usize = 200;
/// How often changes come: twenty times a second.
const TICKS: usize = 20;
const A_TICK: usize = PODS_A_SECOND / TICKS;
/// The version of what is listed first.
const LISTED: usize = 1_000_000;
/// When the containers end.
const ENDED: &str = "2026-11-29T13:30:00Z";

/// See the head of this file. Clones are the same.
#[derive(Clone)]
pub(crate) struct Served(Arc<World>);

struct World {
    pods: usize,
    port: OnceLock<u16>,
    sent: AtomicUsize,
    /// How long changes come, once they do.
    go: watch::Sender<Option<Duration>>,
    done: AtomicBool,
    /// When each new pod was told to be bound, and each old one to have ended.
    bound: Mutex<Vec<Instant>>,
    ended: Mutex<Vec<Instant>>,
    /// Who leads.
    lease: Mutex<Option<serde_json::Value>>,
}

/// How far a pod is.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Pending,
    Bound,
    Running,
    Succeeded,
}

impl Served {
    /// Serves on a free port, for as long as the runtime runs.
    pub(crate) async fn start(pods: usize) -> Self {
        let served = Self(Arc::new(World {
            pods,
            port: OnceLock::new(),
            sent: AtomicUsize::default(),
            go: watch::Sender::new(None),
            done: AtomicBool::default(),
            bound: Mutex::default(),
            ended: Mutex::default(),
            lease: Mutex::default(),
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        served.0.port.set(listener.local_addr().unwrap().port()).unwrap();
        let router = Router::new().route("/{*path}", any(answer)).with_state(served.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        served
    }

    pub(crate) fn port(&self) -> u16 {
        *self.0.port.get().unwrap()
    }

    /// Lets changes come, for so long.
    pub(crate) fn go(&self, changing: Duration) {
        self.0.go.send_replace(Some(changing));
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.done.load(Ordering::Acquire)
    }

    /// Changes that were sent.
    pub(crate) fn sent(&self) -> usize {
        self.0.sent.load(Ordering::Relaxed)
    }

    /// Pods that were bound; as many old ones have ended, in the end.
    pub(crate) fn new_pods(&self) -> usize {
        self.0.bound.lock().unwrap().len()
    }

    /// When this new pod was told to be bound.
    pub(crate) fn bound(&self, n: usize) -> Instant {
        self.0.bound.lock().unwrap()[n]
    }

    /// When this old pod was told to have ended.
    pub(crate) fn ended(&self, n: usize) -> Instant {
        self.0.ended.lock().unwrap()[n]
    }

    /// Milli-cores × milliseconds of each group, `at` an instant after the last end.
    pub(crate) fn truth(&self, at: Timestamp) -> BTreeMap<String, i128> {
        let (new, mut truth) = (self.new_pods(), BTreeMap::new());
        let ended = Timestamp::parse(ENDED).unwrap();
        for n in 0..self.0.pods + new {
            let until = if n < new { ended } else { at };
            let from = Timestamp::parse(&time(n)).unwrap();
            let exact = i128::from(until.since(from)) * (1000 * (1 + n % 8)) as i128;
            *truth.entry(format!("team-{}", n % GROUPS)).or_default() += exact;
        }
        truth
    }

    fn change(&self, text: &mut String, what: &str, n: usize, stage: Stage) {
        let version = LISTED + 1 + self.0.sent.fetch_add(1, Ordering::Relaxed);
        let object = pod(n, version, stage);
        text.push_str(&format!("{{\"type\":\"{what}\",\"object\":{object}}}\n"));
    }

    /// Everything that happens, in chunks of a twentieth of a second. A pod is one stage further in each.
    async fn play(self, lines: mpsc::Sender<Bytes>) {
        let mut go = self.0.go.subscribe();
        let changing = go.wait_for(Option::is_some).await.unwrap().unwrap();
        let mut ticks = interval(Duration::from_secs(1) / TICKS as u32);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let count = changing.as_secs() as usize * TICKS;
        // The last ones need two chunks more.
        for tick in 0..count + 2 {
            ticks.tick().await;
            let mut text = String::new();
            // Numbers of those that come in this chunk, or came so many chunks before.
            let of = |before: usize| {
                let tick = tick.checked_sub(before).filter(|tick| *tick < count);
                tick.map_or(0..0, |tick| tick * A_TICK..(tick + 1) * A_TICK)
            };
            for n in of(0) {
                self.change(&mut text, "ADDED", self.0.pods + n, Stage::Pending);
                self.change(&mut text, "MODIFIED", n, Stage::Succeeded);
            }
            for n in of(1) {
                self.change(&mut text, "MODIFIED", self.0.pods + n, Stage::Bound);
                self.change(&mut text, "DELETED", n, Stage::Succeeded);
            }
            for n in of(2) {
                self.change(&mut text, "MODIFIED", self.0.pods + n, Stage::Running);
            }
            let now = Instant::now();
            self.0.ended.lock().unwrap().extend(of(0).map(|_| now));
            self.0.bound.lock().unwrap().extend(of(1).map(|_| now));
            if lines.send(text.into()).await.is_err() {
                return;
            }
        }
        self.0.done.store(true, Ordering::Release);
        // A watch does not end because nothing happens.
        lines.closed().await;
    }

    fn watch(self) -> Response {
        let (lines, told) = mpsc::channel::<Bytes>(64);
        tokio::spawn(self.play(lines));
        let told = futures_util::stream::unfold(told, |mut told| async {
            told.recv().await.map(|line| (Ok::<_, Infallible>(line), told))
        });
        Response::new(Body::from_stream(told))
    }

    fn list(&self, path: &str, query: &BTreeMap<String, String>) -> Response {
        let number = |name: &str| query.get(name).map(|text| text.parse::<usize>().unwrap());
        let (from, limit) = (number("continue").unwrap_or(0), number("limit").unwrap_or(500));
        let (pods, all) = (path == "api/v1/pods", self.0.pods);
        let items: Vec<String> = match path {
            "api/v1/pods" => (from..all.min(from + limit))
                .map(|n| pod(n, LISTED - all + n, Stage::Running))
                .collect(),
            "api/v1/nodes" => vec![node()],
            "api/v1/namespaces" => vec![namespace("kube-system"), namespace("ml")],
            _ => Vec::new(),
        };
        let next = from + limit;
        let more = if pods && next < all { next.to_string() } else { String::new() };
        let (version, items) = (LISTED + self.sent(), items.join(","));
        json(format!(
            r#"{{"kind":"List","metadata":{{"resourceVersion":"{version}","continue":"{more}"}},"items":[{items}]}}"#
        ))
    }

    fn lease(&self, method: &Method, body: &[u8]) -> Response {
        let mut lease = self.0.lease.lock().unwrap();
        if *method != Method::GET {
            let mut given: serde_json::Value = serde_json::from_slice(body).unwrap();
            given["metadata"]["resourceVersion"] = "1".into();
            *lease = Some(given);
        }
        match &*lease {
            Some(lease) => json(lease.to_string()),
            None => missing(),
        }
    }
}

async fn answer(
    State(served): State<Served>,
    method: Method,
    Path(path): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    body: Bytes,
) -> Response {
    if path.starts_with("apis/coordination.k8s.io/v1/namespaces/bizrq/leases") {
        return served.lease(&method, &body);
    }
    if let Some(name) = path.strip_prefix("api/v1/namespaces/") {
        return json(namespace(name));
    }
    let groups = ["api/v1/", "apis/apps/v1/", "apis/batch/v1/", "apis/node.k8s.io/v1/"];
    if method != Method::GET || !groups.iter().any(|group| path.starts_with(group)) {
        return missing();
    }
    match (query.contains_key("watch"), &*path) {
        (true, "api/v1/pods") => served.watch(),
        (true, _) => silence(),
        (false, _) => served.list(&path, &query),
    }
}

fn json(text: String) -> Response {
    ([("content-type", "application/json")], text).into_response()
}

fn missing() -> Response {
    let text = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"not served","code":404}"#;
    (StatusCode::NOT_FOUND, [("content-type", "application/json")], text).into_response()
}

/// A watch on which nothing happens.
fn silence() -> Response {
    Response::new(Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>()))
}

fn namespace(name: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","uid":"uid of {name}","resourceVersion":"1","creationTimestamp":"2026-11-29T10:00:00Z"}}}}"#
    )
}

fn node() -> String {
    r#"{"metadata":{"name":"n1","uid":"node","resourceVersion":"1","creationTimestamp":"2026-11-29T10:00:00Z"},"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-29T10:00:00Z"}]}}"#.into()
}

/// When a pod was created, bound and begun.
fn time(n: usize) -> String {
    format!("2026-11-29T12:{:02}:{:02}Z", n / 60 % 60, n % 60)
}

/// A pod as a real one looks, three kilobytes; without an owner, so that the most is told of it.
fn pod(n: usize, version: usize, stage: Stage) -> String {
    let (time, group, job) = (time(n), n % GROUPS, n / 100);
    // When its status was written last, by the API server's clock, by which it is billed.
    let written = if stage == Stage::Succeeded { ENDED } else { &time };
    let (mut node, mut status) =
        (String::new(), r#"{"phase":"Pending","qosClass":"Burstable"}"#.to_owned());
    if stage != Stage::Pending {
        node = r#""nodeName":"n1","#.into();
        let (phase, state) = match stage {
            Stage::Running => ("Running", format!(r#"{{"running":{{"startedAt":"{time}"}}}}"#)),
            Stage::Succeeded => (
                "Succeeded",
                format!(
                    r#"{{"terminated":{{"exitCode":0,"reason":"Completed","startedAt":"{time}","finishedAt":"{ENDED}"}}}}"#
                ),
            ),
            _ => ("Pending", r#"{"waiting":{"reason":"ContainerCreating"}}"#.to_owned()),
        };
        status = format!(
            r#"{{"phase":"{phase}","qosClass":"Burstable","hostIP":"10.0.0.1","podIP":"10.1.0.1","startTime":"{time}","conditions":[{{"type":"PodScheduled","status":"True","lastTransitionTime":"{time}"}},{{"type":"Ready","status":"True","lastTransitionTime":"{time}"}}],"containerStatuses":[{{"name":"main","image":"registry/train:1","imageID":"sha256:0","restartCount":0,"ready":true,"state":{state}}}]}}"#
        );
    }
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"train-{job}-{n}","namespace":"ml","uid":"{:08x}-0000-4000-8000-{n:012x}","resourceVersion":"{version}","creationTimestamp":"{time}","labels":{{"biz.group.resource.quota":"team-{group}","app":"train","job-name":"train-{job}"}},"managedFields":[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:job-name":{{}}}},"f:ownerReferences":{{".":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"main\"}}":{{".":{{}},"f:image":{{}},"f:name":{{}},"f:resources":{{".":{{}},"f:limits":{{}},"f:requests":{{}}}}}}}},"f:restartPolicy":{{}}}}}}}},{{"manager":"kubelet","operation":"Update","subresource":"status","apiVersion":"v1","time":"{written}","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{}},"f:containerStatuses":{{}},"f:phase":{{}},"f:startTime":{{}}}}}}}}]}},"spec":{{{node}"restartPolicy":"Never","schedulerName":"default-scheduler","serviceAccountName":"default","terminationGracePeriodSeconds":30,"containers":[{{"name":"main","image":"registry/train:1","imagePullPolicy":"IfNotPresent","resources":{{"requests":{{"cpu":"{}","memory":"4Gi"}},"limits":{{"cpu":"{}","memory":"4Gi"}}}},"volumeMounts":[{{"name":"token","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}]}}],"tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}]}},"status":{status}}}"#,
        n.wrapping_mul(0x9e37_79b9) as u32,
        1 + n % 8,
        1 + n % 8,
    )
}
