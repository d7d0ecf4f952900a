//! What else a real cluster has: an autoscaler that goes by metrics, and somebody else's webhook that says no. Both are
//! played by servers of this process; the controllers are real.

use super::{
    control_plane::{ControlPlane, eventually, runtime},
    crowd::{self, Answers},
    installation::{installed, paused},
    pods::{deployment, runs},
};
use axum::{
    Json, Router,
    extract::Path,
    routing::{get, post},
};
use axum_server::tls_rustls::RustlsConfig;
use bizrq::{
    clock,
    domain::time::HOUR_MS,
    webhook::tls::{Current, Pair, issue, server_config},
};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Serves over TLS; gives its port, and whom to trust.
fn serve(router: Router) -> (u16, ByteString) {
    let now = clock::now();
    let until = now.shifted(24 * HOUR_MS);
    let authority = issue::authority(now, until).unwrap();
    let serving = issue::serving(&authority, &["127.0.0.1".into()], now, until).unwrap();
    let pair = Pair::parse(serving.certificate.as_bytes(), serving.key.as_bytes(), now).unwrap();
    let current = Arc::new(Current::default());
    current.show(pair);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = RustlsConfig::from_config(Arc::new(server_config(current).unwrap()));
    runtime().spawn(async move {
        let server = axum_server::from_tcp_rustls(listener, config).unwrap();
        server.serve(router.into_make_service()).await.unwrap();
    });
    (port, ByteString(authority.certificate.into_bytes()))
}

/// The API server passes external metrics on to us; all of them are `load`.
fn play_metrics(plane: &ControlPlane, load: &Arc<AtomicUsize>) {
    const VERSION: &str = "external.metrics.k8s.io/v1beta1";
    let load = Arc::clone(load);
    let resources = || async {
        Json(json!({"kind": "APIResourceList", "groupVersion": VERSION, "resources": []}))
    };
    let value = move |Path((_, name)): Path<(String, String)>| async move {
        let value = load.load(Ordering::Relaxed).to_string();
        let item = json!({"metricName": name, "metricLabels": {}, "value": value,
            "timestamp": clock::now().to_string()});
        Json(
            json!({"kind": "ExternalMetricValueList", "apiVersion": VERSION, "metadata": {}, "items": [item]}),
        )
    };
    let router = Router::new()
        .route("/apis/external.metrics.k8s.io/v1beta1", get(resources))
        .route("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{name}", get(value));
    let (port, _) = serve(router);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "external-metrics"},
        "rules": [{"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]}]});
    plane.admin().apply(&role).succeeds();
    let bind = "create clusterrolebinding external-metrics --clusterrole=external-metrics \
                --serviceaccount=kube-system:horizontal-pod-autoscaler";
    plane.admin().run(bind).succeeds();
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "metrics", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
    plane.admin().apply(&service).succeeds();
    let registered = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
        "spec": {"group": "external.metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": "default", "name": "metrics", "port": port}}});
    plane.admin().apply(&registered).succeeds();
}

/// One pod for each unit of load.
fn autoscaler(plane: &ControlPlane, namespace: &str, deployment: &str) -> Value {
    let version = if plane.version() >= (1, 23) { "autoscaling/v2" } else { "autoscaling/v2beta2" };
    let target = json!({"type": "AverageValue", "averageValue": "1"});
    json!({"apiVersion": version, "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": deployment, "namespace": namespace},
        "spec": {"minReplicas": 0, "maxReplicas": 20,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
            "metrics": [{"type": "External", "external": {"metric": {"name": "load"}, "target": target}}]}})
}

#[test]
fn an_autoscaler_is_refused_beyond_the_quota_and_scales_within_from_zero_too() {
    let (test, name) = ("an_autoscaler_is_refused_beyond_the_quota", "autoscaled");
    let Some(installed) = installed(test) else { return };
    let plane = &installed.plane;
    plane.namespace(name, &[("bizrq.io/managed", "true")]);
    let group = json!({"biz.group.resource.quota": name});
    plane.alice().apply(&deployment(name, "web", &group, 0, "1")).succeeds();
    let load = Arc::new(AtomicUsize::new(3));
    play_metrics(plane, &load);
    plane.alice().apply(&autoscaler(plane, name, "web")).succeeds();
    runs(plane, name, "web", 3);
    load.store(8, Ordering::Relaxed);
    runs(plane, name, "web", 8);
    load.store(15, Ordering::Relaxed);
    eventually("the autoscaler is told why it may not", || {
        let shown = plane.alice().run(&format!("describe hpa web -n {name}")).succeeds().out;
        let why = "exceeded quota: autoscaled, requested: limits.cpu=7, used: limits.cpu=8, limited: limits.cpu=10";
        if shown.contains(why) { Ok(()) } else { Err(shown) }
    });
    runs(plane, name, "web", 8);
    load.store(2, Ordering::Relaxed);
    runs(plane, name, "web", 2);
}

/// Says no to every third Deployment that is created in a namespace.
fn play_webhook(plane: &ControlPlane, namespace: &str) {
    let asked = Arc::new(AtomicUsize::new(0));
    let review = move |Json(review): Json<Value>| {
        let third = asked.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        let answer = json!({"uid": review["request"]["uid"], "allowed": !third,
            "status": {"message": "every third is refused"}});
        async move {
            Json(
                json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}),
            )
        }
    };
    let (port, bundle) = serve(Router::new().route("/", post(review)));
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [{"name": "thirds.example.com", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": bundle},
            "namespaceSelector": {"matchLabels": {"neighbour": namespace}},
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["deployments"]}]}],
    });
    plane.admin().apply(&configuration).succeeds();
}

/// What bizrq admitted and the other refused holds its reservation until it is certain that it never came.
#[test]
fn with_a_second_webhook_that_refuses_every_third_exactly_what_fits_is_admitted_in_the_end() {
    let (test, name) = ("with_a_second_webhook", "thirds");
    let Some(installed) = installed(test) else { return };
    let plane = &installed.plane;
    plane.namespace(name, &[("neighbour", name)]);
    play_webhook(plane, name);
    let probe = paused(name, "probe", &json!({}), 0).to_string();
    eventually("the API server asks the other", || {
        let said = plane.alice().with_input("create --dry-run=server -f -", &probe);
        if said.err.contains("every third is refused") { Ok(()) } else { Err(said.out + &said.err) }
    });
    let groups = [("thirds", 300), ("others", 200)];
    let create = |prefix: &'static str| {
        let object = move |group: &str, n: usize| {
            let labels = json!({"biz.group.resource.quota": group});
            paused(name, &format!("{prefix}-{n}"), &labels, 1)
        };
        let answers = Arc::<Answers>::default();
        let groups = groups.map(|(group, _)| group);
        crowd::create(&plane.file("kubeconfig"), groups, Arc::new(object), &answers);
        answers.counts()
    };
    let [admitted, over_quota, by_another] = create("first");
    assert_eq!(admitted + over_quota + by_another, crowd::ALL);
    assert!(admitted <= 500 && by_another >= 200, "{admitted}, {by_another} by another");

    plane.admin().run(&format!("delete validatingwebhookconfiguration {name}")).succeeds();
    eventually("what the other refused is given back", || {
        let used = groups.map(|(group, _)| installed.used_now(group));
        let there = groups.map(|(group, _)| installed.there(group));
        if used == there { Ok(()) } else { Err(format!("{used:?} are charged, {there:?} there")) }
    });
    let [later, ..] = create("second");
    assert_eq!(admitted + later, 500);
    for (group, fit) in groups {
        installed.counts(group, fit);
    }
}
