//! A stand-in for the scheduler and the kubelets of two nodes: binds pods and moves them through the statuses of 1.20.
//!
//! ```text
//!  Pending ─bind─▶ Pending, PodScheduled ─▶ Running ─┬─▶ Succeeded                       (restartPolicy is not Always)
//!                                                    └─▶ containers terminated ─▶ gone   (deleted, after its grace)
//! ```
//!
//! It goes by what the API server shows, so it can begin at any point. Pods labelled [`HELD`] are left alone; the
//! annotation [`SECONDS`] says how long a pod runs that ends by itself.

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{Binding, Node, Pod};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::Semaphore, task::AbortHandle};

/// A label: whoever bears it stays as it is.
pub(crate) const HELD: &str = "stand-in/held";
/// An annotation of pods that end by themselves: after so many seconds; absent: at once.
pub(crate) const SECONDS: &str = "stand-in/seconds";
/// What the nodes are called.
const NODES: [&str; 2] = ["n1", "n2"];
/// Pods that are being moved at once.
const AT_ONCE: usize = 16;

/// See the head of this file.
pub(crate) struct Nodes {
    pub(crate) client: Client,
    written: Journal,
    runs: AbortHandle,
}

/// What was written of each pod, by its uid, also of those that are gone.
type Journal = Arc<Mutex<BTreeMap<String, Written>>>;

/// When a pod held what it asked for, by its statuses, in whole seconds.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) namespace: String,
    /// Since when it had a node.
    pub(crate) bound: String,
    /// When its containers ended.
    pub(crate) ended: Option<String>,
}

/// How far a pod was brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Bound,
    Running,
    Ended,
    Removed,
}

/// What is known of all pods.
#[derive(Clone)]
struct StandIn {
    client: Client,
    /// What was begun for each uid, so that no event of a pod begins it again.
    begun: Arc<Mutex<HashMap<String, Stage>>>,
    places: Arc<Semaphore>,
    written: Journal,
}

impl Nodes {
    /// Creates the nodes, and runs from now on.
    pub(crate) async fn start(kubeconfig: &Path) -> Self {
        let client = client(kubeconfig, "system:node:n1").await;
        for name in NODES {
            create(&client, name).await;
        }
        let written = Journal::default();
        let runs = StandIn::begin(&client, &written);
        Self { client, written, runs }
    }

    /// Goes by what an API server shows that was restored from an older copy.
    pub(crate) fn begin_anew(&mut self) {
        self.runs.abort();
        let _inside = super::control_plane::runtime().enter();
        self.runs = StandIn::begin(&self.client, &self.written);
    }

    /// What was written of a namespace's pods.
    pub(crate) fn written(&self, namespace: &str) -> BTreeMap<String, Written> {
        let mut written = self.written.lock().unwrap().clone();
        written.retain(|_, of| of.namespace == namespace);
        written
    }

    /// Pods of a namespace, as the API server knows them now.
    pub(crate) async fn pods(&self, namespace: &str) -> Vec<Pod> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        api.list(&ListParams::default()).await.unwrap().items
    }
}

/// A client that is one of the kubeconfig's users.
pub(crate) async fn client(kubeconfig: &Path, user: &str) -> Client {
    let options = KubeConfigOptions { context: Some(user.to_owned()), ..Default::default() };
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn create(client: &Client, name: &str) {
    let api: Api<Node> = Api::all(client.clone());
    let room = json!({"cpu": "100k", "memory": "100Ti", "pods": "100k", "nvidia.com/gpu": "10k"});
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let status = json!({"status": {"capacity": room, "allocatable": room, "conditions": [ready]}});
    api.patch_status(name, &kubelet(), &Patch::Strategic(status)).await.unwrap();
}

fn kubelet() -> PatchParams {
    PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() }
}

impl StandIn {
    fn begin(client: &Client, written: &Journal) -> AbortHandle {
        let (client, written) = (client.clone(), Arc::clone(written));
        let (begun, places) = (Arc::default(), Arc::new(Semaphore::new(AT_ONCE)));
        tokio::spawn(Self { client, begun, places, written }.run()).abort_handle()
    }

    async fn run(self) {
        let api: Api<Pod> = Api::all(self.client.clone());
        let pods = watcher(api, watcher::Config::default()).default_backoff().applied_objects();
        let mut pods = std::pin::pin!(pods);
        while let Some(pod) = pods.next().await {
            // A watch that was cut begins again by itself.
            if let Ok(pod) = pod
                && let Some(stage) = self.next(&pod)
            {
                let stand_in = self.clone();
                tokio::spawn(async move { stand_in.bring(&pod, stage).await });
            }
        }
    }

    /// What is to be done with a pod, unless it has begun.
    fn next(&self, pod: &Pod) -> Option<Stage> {
        if pod.labels().contains_key(HELD) {
            return None;
        }
        let stage = stage(pod)?;
        let mut begun = self.begun.lock().unwrap();
        let known = begun.insert(pod.uid()?, stage);
        (known < Some(stage)).then_some(stage)
    }

    /// Brings a pod so far. An API server that is being restarted is waited for; what it refuses (of a pod that went
    /// away) is tried again when the pod is seen again.
    async fn bring(&self, pod: &Pod, stage: Stage) {
        if stage == Stage::Ended {
            let seconds = pod.annotations().get(SECONDS).map_or(0, |text| text.parse().unwrap());
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
        let _place = self.places.acquire().await.unwrap();
        loop {
            let done = match stage {
                Stage::Bound => self.bind(pod).await,
                Stage::Running => self.run_it(pod).await,
                Stage::Ended => self.end(pod, Some("Succeeded")).await,
                Stage::Removed => self.remove(pod).await,
            };
            match done {
                Ok(()) => return,
                Err(kube::Error::Api(_)) => break,
                // Nobody answers.
                Err(_) => tokio::time::sleep(Duration::from_millis(300)).await,
            }
        }
        self.begun.lock().unwrap().remove(&pod.uid().unwrap());
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap())
    }

    async fn bind(&self, pod: &Pod) -> kube::Result<()> {
        let name = pod.name_any();
        let node = NODES[name.bytes().map(usize::from).sum::<usize>() % NODES.len()];
        let binding = json!({"apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name, "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        let binding: Binding = serde_json::from_value(binding).unwrap();
        let (api, params) = (self.api(pod), PostParams::default());
        api.create_subresource("binding", &name, &params, &binding).await.map(|_: Value| ())
    }

    async fn run_it(&self, pod: &Pod) -> kube::Result<()> {
        self.status(pod, &running(pod)).await?;
        if let Some(bound) = scheduled(pod) {
            let written = Written { namespace: pod.namespace().unwrap(), bound, ended: None };
            self.written.lock().unwrap().insert(pod.uid().unwrap(), written);
        }
        Ok(())
    }

    async fn end(&self, pod: &Pod, phase: Option<&str>) -> kube::Result<()> {
        let status = ended(pod, phase);
        self.status(pod, &status).await?;
        let finished = &status["containerStatuses"][0]["state"]["terminated"]["finishedAt"];
        if let Some(written) = self.written.lock().unwrap().get_mut(&pod.uid().unwrap()) {
            written.ended = finished.as_str().map(str::to_owned);
        }
        Ok(())
    }

    async fn status(&self, pod: &Pod, status: &Value) -> kube::Result<()> {
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
        let api = self.api(pod);
        api.patch_status(&pod.name_any(), &kubelet(), &Patch::Strategic(patch)).await.map(drop)
    }

    /// As a kubelet of 1.20 ends a pod: the last states of its containers, no terminal phase, then the object goes.
    async fn remove(&self, pod: &Pod) -> kube::Result<()> {
        if pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running")) {
            self.end(pod, None).await?;
        }
        let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        self.api(pod).delete(&pod.name_any(), &now).await.map(drop)
    }
}

/// Where a pod is to be brought next, by what it shows.
fn stage(pod: &Pod) -> Option<Stage> {
    let spec = pod.spec.as_ref()?;
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_bound = spec.node_name.is_some();
    if pod.metadata.deletion_timestamp.is_some() {
        return is_bound.then_some(Stage::Removed);
    }
    match phase {
        Some("Pending") | None if is_bound => Some(Stage::Running),
        Some("Pending") | None => Some(Stage::Bound),
        Some("Running") if spec.restart_policy.as_deref() != Some("Always") => Some(Stage::Ended),
        _ => None,
    }
}

/// Since when a pod has a node, in the API server's own words.
fn scheduled(pod: &Pod) -> Option<String> {
    let pod = serde_json::to_value(pod).unwrap();
    let mut conditions = pod["status"]["conditions"].as_array()?.iter();
    let scheduled = conditions.find(|condition| condition["type"] == "PodScheduled")?;
    scheduled["lastTransitionTime"].as_str().map(str::to_owned)
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "lastTransitionTime": now()})
}

/// Whole seconds, as a kubelet writes them.
fn now() -> String {
    bizrq::clock::now().to_string()[..19].to_owned() + "Z"
}

fn running(pod: &Pod) -> Value {
    let containers = containers(pod, |_| json!({"running": {"startedAt": now()}}), true);
    let conditions =
        ["Initialized", "Ready", "ContainersReady"].map(|kind| condition(kind, "True"));
    json!({
        "phase": "Running", "startTime": now(), "hostIP": "127.0.0.1", "podIP": "127.0.0.1",
        "conditions": conditions,
        "containerStatuses": containers,
    })
}

/// Its containers have ended, and perhaps the pod has.
fn ended(pod: &Pod, phase: Option<&str>) -> Value {
    let terminated = |started: Value| json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": now()}});
    let containers = containers(pod, terminated, false);
    let conditions = ["Ready", "ContainersReady"].map(|kind| condition(kind, "False"));
    let mut status = json!({"conditions": conditions, "containerStatuses": containers});
    if let Some(phase) = phase {
        status["phase"] = phase.into();
    }
    status
}

/// The status of each container, whose state follows from when it started.
fn containers(pod: &Pod, state: impl Fn(Value) -> Value, ready: bool) -> Vec<Value> {
    let known = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
    let started = |name: &str| {
        let status = known.into_iter().flatten().find(|status| status.name == name)?;
        let running = status.state.as_ref()?.running.as_ref()?;
        serde_json::to_value(&running.started_at).ok()
    };
    let spec = pod.spec.as_ref().unwrap();
    let status = |name: &str, image: &Option<String>| {
        json!({"name": name, "image": image, "imageID": "stand-in", "restartCount": 0, "ready": ready,
            "started": ready, "state": state(started(name).unwrap_or(Value::Null))})
    };
    spec.containers.iter().map(|container| status(&container.name, &container.image)).collect()
}
