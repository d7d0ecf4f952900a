//! The stand-in itself: what later tests take for granted of pods.

use super::{
    control_plane::{ControlPlane, eventually, runtime, shared},
    nodes::SECONDS,
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// A template of pods that ask for so many cores.
pub(crate) fn template(labels: &Value, cpu: &str) -> Value {
    let resources =
        json!({"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": cpu, "memory": "1Gi"}});
    json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "stand-in", "resources": resources}]},
    })
}

/// A Deployment; `labels` are its own and its pods'.
pub(crate) fn deployment(
    namespace: &str,
    name: &str,
    labels: &Value,
    replicas: u32,
    cpu: &str,
) -> Value {
    let mut all = labels.clone();
    all["app"] = name.into();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name, "labels": all},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(&all, cpu)},
    })
}

/// The pods of an app, all others left out.
pub(crate) fn of_app(plane: &ControlPlane, namespace: &str, app: &str) -> Vec<Pod> {
    let pods = runtime().block_on(plane.nodes.pods(namespace)).into_iter();
    pods.filter(|pod| {
        pod.metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get("app"))
            .is_some_and(|of| of == app)
    })
    .collect()
}

/// Waits until an app has this many pods, and all of them run.
pub(crate) fn runs(plane: &ControlPlane, namespace: &str, app: &str, pods: usize) {
    eventually(&format!("{pods} pods of {app} run"), || {
        let found = of_app(plane, namespace, app);
        let phases: Vec<_> = found.iter().map(phase).collect();
        if phases == vec!["Running"; pods] { Ok(()) } else { Err(format!("{phases:?}")) }
    });
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

#[test]
fn a_deployments_pods_are_bound_run_and_go() {
    let Some(plane) = shared("a_deployments_pods_are_bound_run_and_go") else { return };
    plane.namespace("pods-run", &[]);
    plane.alice().apply(&deployment("pods-run", "web", &json!({}), 3, "1")).succeeds();
    runs(&plane, "pods-run", "web", 3);
    for pod in of_app(&plane, "pods-run", "web") {
        let conditions = pod.status.unwrap().conditions.unwrap_or_default();
        let scheduled =
            conditions.iter().find(|condition| condition.type_ == "PodScheduled").unwrap();
        assert!(scheduled.status == "True" && scheduled.last_transition_time.is_some());
    }
    plane.alice().run("rollout status deployment web -n pods-run --timeout=60s").succeeds();
    plane.alice().run("scale deployment web -n pods-run --replicas=1").succeeds();
    runs(&plane, "pods-run", "web", 1);
    plane.alice().run("delete deployment web -n pods-run").succeeds();
    runs(&plane, "pods-run", "web", 0);
}

#[test]
fn a_jobs_pod_succeeds_and_its_job_completes() {
    let Some(plane) = shared("a_jobs_pod_succeeds_and_its_job_completes") else { return };
    plane.namespace("pods-end", &[]);
    let mut template = template(&json!({"app": "train"}), "1");
    template["metadata"]["annotations"][SECONDS] = "2".into();
    template["spec"]["restartPolicy"] = "Never".into();
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "pods-end", "name": "train"}, "spec": {"template": template}});
    plane.alice().apply(&job).succeeds();
    plane
        .alice()
        .run("wait job/train -n pods-end --for=condition=Complete --timeout=60s")
        .succeeds();
    let pods = of_app(&plane, "pods-end", "train");
    assert_eq!(pods.iter().map(phase).collect::<Vec<_>>(), ["Succeeded"]);
}
