//! When a pod came to count under another group, as far as the API server says it; and that no change is lost.

use super::{
    api::Api,
    facts::{DEPLOYMENTS, PODS, QUOTAS, at, told},
    played::{cluster, server},
    stand::{Stand, eventually},
};
use bizrq::{domain::time::Timestamp, event_log::memory::MemoryLog, observe::Cluster};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::SeqCst},
};

/// A clock that stands where it was set.
#[derive(Clone)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn set(&self, time: &str) {
        self.0.store(at(time).millis(), SeqCst);
    }

    fn cluster(&self) -> Cluster {
        let clock = Arc::clone(&self.0);
        let now = move || Timestamp::from_millis(clock.load(SeqCst)).unwrap();
        Cluster { now: Arc::new(now), ..cluster(at("12:00:01")) }
    }
}

/// A server that shows which subresource was written, or, as those before 1.22, not; a Deployment, and its pod of one
/// core, which was bound at noon.
struct Scene {
    api: Api,
    log: Arc<MemoryLog>,
    clock: Clock,
    subresource: &'static str,
}

impl Scene {
    async fn begin(subresource: &'static str) -> (Self, Stand) {
        let clock = Clock(Arc::new(AtomicI64::new(0)));
        clock.set("12:00:01");
        let scene = Self { api: server(), log: Arc::default(), clock, subresource };
        scene.label("team-a", "12:00:00");
        let time = |t: &str| format!("2026-11-29T{t}Z");
        let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d", "controller": true});
        scene.api.put(
            PODS,
            json!({"metadata": {"name": "p", "namespace": "ml", "uid": "p", "ownerReferences": [owner],
                    "creationTimestamp": time("11:59:59"), "managedFields": [scene.written("kubelet", "12:00:00")]},
                "spec": {"nodeName": "n1", "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
                "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True",
                    "lastTransitionTime": time("12:00:00")}]}}),
        );
        let mut stand = Stand::new(scene.api.client(), scene.clock.cluster(), &scene.log, true);
        stand.until(|progress| progress.facts_synced).await;
        eventually("it runs", || !stand.usage(at("12:01:00")).is_empty()).await;
        (scene, stand)
    }

    fn written(&self, manager: &str, time: &str) -> Value {
        let mut field = json!({"manager": manager, "time": format!("2026-11-29T{time}Z")});
        if !self.subresource.is_empty() {
            field["subresource"] = self.subresource.into();
        }
        field
    }

    /// Somebody labels the Deployment; its newest instant is then `written`.
    fn label(&self, group: &str, written: &str) {
        let fields = [self.written("kubectl-label", written)];
        self.api.put(
            DEPLOYMENTS,
            json!({"metadata": {"name": "d", "namespace": "ml", "uid": "d", "creationTimestamp": "2026-11-29T11:00:00Z",
                    "labels": {"biz.group.resource.quota": group}, "managedFields": fields},
                "spec": {"replicas": 1, "template": {"spec": {"containers": []}}}}),
        );
    }

    async fn moves(&self, count: usize) {
        let began = tokio::time::Instant::now();
        loop {
            let moved = told(&self.log, "pod.moved").await;
            if moved.len() == count {
                return;
            }
            assert!(began.elapsed().as_secs() < 60, "{count} moves, of which came {moved:#?}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

/// Core-milliseconds of both groups until `until`.
fn spent(stand: &Stand, until: &str) -> [i128; 2] {
    let usage = stand.usage(at(until));
    ["team-a", "team-b"].map(|group| {
        usage.get(&(group.to_owned(), "requests.cpu".to_owned())).copied().unwrap_or(0) / 1000
    })
}

#[tokio::test]
async fn a_change_that_a_server_does_not_date_is_dated_by_its_arrival() {
    let (scene, stand) = Scene::begin("").await;
    let changes = [("12:10:00.250", "team-b"), ("12:20:00.500", "team-a"), ("12:20:07", "team-b")];
    for (n, (time, group)) in (1..).zip(changes) {
        scene.clock.set(time);
        // As 1.20 does where the same manager writes the same field.
        scene.label(group, "12:00:00");
        scene.moves(n).await;
    }
    eventually("each second is billed where the workload was", || {
        spent(&stand, "12:30:00") == [600_250 + 6_500, 600_250 + 593_000]
    })
    .await;

    // So is a declaration of a quota.
    let quota = |cpu: &str| {
        json!({"metadata": {"name": "team-a", "uid": "quota", "generation": 1,
            "creationTimestamp": "2026-11-29T11:00:00Z"}, "spec": {"hard": {"limits.cpu": cpu}}})
    };
    for (cpu, time) in [("10", "12:21:00"), ("12", "12:22:00.125")] {
        scene.clock.set(time);
        scene.api.put(QUOTAS, quota(cpu));
        eventually("declared", || {
            let ledger = stand.projection.ledger();
            let key = ledger.names().known_key("limits.cpu");
            let line = |key| ledger.book()?.line(ledger.names().known_group("team-a")?, key).limit;
            key.and_then(line) == Some(cpu.parse::<i128>().unwrap() * 1000)
        })
        .await;
    }
    let declared = told(&scene.log, "quota.declared").await;
    assert!(declared[0].contains(" 2026-11-29T11:00:00.000Z "), "{declared:?}");
    assert!(declared[1].contains(" 2026-11-29T12:22:00.125Z "), "{declared:?}");
    stand.close().await;
}

/// Instants of the API server are whole seconds; a move back would have the name of the one before.
#[tokio::test]
async fn changes_within_a_second_are_all_told_and_the_last_one_counts() {
    let (scene, stand) = Scene::begin("status").await;
    for (n, group) in (1..).zip(["team-b", "team-a", "team-b"]) {
        scene.label(group, "12:10:00");
        scene.moves(n).await;
    }
    eventually("a millisecond apart", || spent(&stand, "12:20:00") == [600_001, 599_999]).await;
    stand.close().await;

    // Whoever observes next sees the last version alone, and finds nothing to correct.
    let mut stand = Stand::new(scene.api.client(), scene.clock.cluster(), &scene.log, true);
    stand.until(|progress| progress.facts_synced).await;
    assert_eq!(spent(&stand, "12:20:00"), [600_001, 599_999]);
    assert_eq!(told(&scene.log, "pod.moved").await.len(), 3);
    stand.close().await;

    // While nobody observed: not before it was written.
    scene.label("team-a", "12:15:00");
    let mut stand = Stand::new(scene.api.client(), scene.clock.cluster(), &scene.log, true);
    stand.until(|progress| progress.facts_synced).await;
    scene.moves(4).await;
    eventually("from then on", || spent(&stand, "12:20:00") == [900_001, 299_999]).await;
    stand.close().await;
}
