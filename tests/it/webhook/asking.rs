//! `bizrq webhook-config --context`: a cluster is looked at before it is made to ask, and asks no more than it must.

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
};
use bizrq::{
    k8s::{context::Context, kinds::Kinds},
    webhook::{Next, Options, Request, Surroundings},
};
use flate2::read::GzDecoder;
use serde_json::{Deserializer, Value, json};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
    process::Command,
    sync::Arc,
};
use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime};

/// What `/version` of a real 1.20.2 and a real 1.36.2 says, as far as somebody reads it, and what vendors make of it.
const V1_20: (&str, &str) = ("1", "20");
const V1_36: (&str, &str) = ("1", "36");
const OF_A_VENDOR: (&str, &str) = ("1", "30+");

/// A cluster as the command meets it.
#[derive(Clone)]
struct Cluster {
    version: (&'static str, &'static str),
    /// Names of namespaces, and whether they are labelled.
    namespaces: Vec<(&'static str, bool)>,
    /// The namespace of a DaemonSet, and its priority.
    daemons: (&'static str, &'static str),
    has_secret: bool,
}

impl Cluster {
    /// All is well.
    fn new(version: (&'static str, &'static str)) -> Self {
        let labelled = ["kube-system", "kube-node-lease", "bizrq"].map(|name| (name, true));
        let namespaces = labelled.into_iter().chain([("default", false), ("networks", false)]);
        Self {
            version,
            namespaces: namespaces.collect(),
            daemons: ("networks", "high"),
            has_secret: true,
        }
    }
}

/// A list of objects as an API server sends it.
fn list(items: Vec<Value>) -> Json<Value> {
    Json(json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
}

/// An API server with what the command looks at.
fn serve(cluster: Cluster) -> Router {
    let version = |State(of): State<Arc<Cluster>>| async move {
        let (major, minor) = of.version;
        Json(json!({"major": major, "minor": minor, "gitVersion": "v", "gitCommit": "",
            "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}))
    };
    let namespaces = |State(of): State<Arc<Cluster>>| async move {
        let one = |(name, labelled): &(&str, bool)| {
            let labels = if *labelled { json!({"bizrq.io/excluded": "true"}) } else { json!({}) };
            json!({"metadata": {"name": name, "labels": labels}})
        };
        list(of.namespaces.iter().map(one).collect())
    };
    let apps = |State(of): State<Arc<Cluster>>, Path(kind): Path<String>| async move {
        let (namespace, class) = of.daemons;
        let spec = json!({"priorityClassName": class, "containers": []});
        let daemons = json!({"metadata": {"name": "net", "namespace": namespace},
            "spec": {"selector": {}, "template": {"spec": spec}}});
        list(if kind == "daemonsets" { vec![daemons] } else { Vec::new() })
    };
    let secret = |State(of): State<Arc<Cluster>>| async move {
        match of.has_secret {
            // `PEM`, in base64.
            true => Ok(Json(json!({"metadata": {"name": "s"}, "data": {"ca.crt": "UEVN"}}))),
            false => Err((
                StatusCode::NOT_FOUND,
                Json(json!({"kind": "Status", "apiVersion": "v1",
                "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404, "message": "no"})),
            )),
        }
    };
    Router::new()
        .route("/version", get(version))
        .route("/api/v1/namespaces", get(namespaces))
        .route("/apis/apps/v1/{kind}", get(apps))
        .route("/api/v1/namespaces/bizrq/secrets/bizrq-webhook-tls", get(secret))
        .with_state(Arc::new(cluster))
}

/// What the command says of a cluster: exit code, stdout, stderr.
fn look(cluster: Cluster, arguments: &[&str]) -> (Option<i32>, String, String) {
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, serve(cluster)).await.unwrap() });
    let dir = TempDir::new().unwrap();
    let config = json!({"apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "there", "context": {"cluster": "c", "user": "u"}}]});
    let kubeconfig = dir.path().join("kubeconfig");
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    command.args(["webhook-config", "--cluster", "east"]).args(arguments);
    let output = command.env("KUBECONFIG", kubeconfig).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The webhooks that are printed of a cluster where all is well.
fn printed(cluster: Cluster, arguments: &[&str]) -> Vec<Value> {
    let (code, text, why) = look(cluster, &[&["--context", "there"], arguments].concat());
    assert_eq!(code, Some(0), "{why}");
    let documents = text.split("---\n").filter(|document| !document.is_empty());
    let configurations = documents.map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    configurations.flat_map(|c| c["webhooks"].as_array().unwrap().clone()).collect()
}

#[test]
fn each_version_is_asked_to_ask_in_its_own_way_and_believes_bizrq_at_once() {
    // version, seconds, whether it takes conditions
    let cases =
        [(V1_20, 2, false), (V1_36, 5, true), (OF_A_VENDOR, 5, true), (("1", "29"), 5, false)];
    for (version, seconds, conditions) in cases {
        for webhook in printed(Cluster::new(version), &[]) {
            let has = webhook.get("matchConditions").is_some();
            let expected = conditions && webhook["name"] != "quotas.bizrq.io";
            assert_eq!(has, expected, "{version:?}: {webhook}");
            assert_eq!(webhook["timeoutSeconds"], seconds, "{version:?}");
            assert_eq!(webhook["clientConfig"]["caBundle"], "UEVN");
        }
    }
    let typed = printed(Cluster::new(V1_20), &["--timeout", "4"]);
    assert!(typed.iter().all(|webhook| webhook["timeoutSeconds"] == 4));
    // Who has not started yet, or has another's certificates, is written in later.
    let absent = [
        printed(Cluster { has_secret: false, ..Cluster::new(V1_36) }, &[]),
        printed(Cluster::new(V1_36), &["--inject-ca-from", "bizrq/bizrq-webhook"]),
    ];
    for webhook in absent.iter().flatten() {
        assert!(webhook["clientConfig"].get("caBundle").is_none(), "{webhook}");
    }
}

#[test]
fn nothing_is_printed_while_what_must_start_without_bizrq_could_be_asked_about() {
    let mut unlabelled = Cluster::new(V1_36);
    unlabelled.namespaces[0].1 = false;
    let critical = Cluster { daemons: ("networks", "system-node-critical"), ..Cluster::new(V1_36) };
    let mut excluded = critical.clone();
    excluded.namespaces[4].1 = true;
    let label = "kubectl label namespace networks bizrq.io/excluded=true";
    let cases: [(Cluster, &[&str], &[&str]); 6] = [
        (unlabelled, &[], &["kubectl label namespace kube-system bizrq.io/excluded=true"]),
        (critical.clone(), &[], &["networks runs DaemonSet net", label, "--ask-about networks"]),
        (critical.clone(), &["--exclude", "networks"], &["networks is not labelled", label]),
        (
            Cluster::new(V1_20),
            &["--exclude", "nats"],
            &["--exclude nats: there is no such namespace"],
        ),
        (critical, &["--ask-about", "networks"], &[]),
        (excluded, &[], &[]),
    ];
    for (cluster, arguments, reasons) in cases {
        let (code, text, why) = look(cluster, &[&["--context", "there"], arguments].concat());
        assert_eq!(
            (code, text.is_empty()),
            (Some(i32::from(!reasons.is_empty())), !reasons.is_empty()),
            "{why}"
        );
        for reason in reasons {
            assert!(why.contains(reason), "no `{reason}` in: {why}");
        }
    }
}

#[test]
fn a_context_that_is_not_there_is_named() {
    let (code, _, why) = look(Cluster::new(V1_36), &["--context", "elsewhere"]);
    assert_eq!(code, Some(3), "{why}");
    assert!(why.contains("--context elsewhere") && why.contains("get-contexts"), "{why}");
    let (code, _, why) = look(Cluster::new(V1_36), &["--ask-about", "networks"]);
    assert_eq!(code, Some(2), "without --context nobody looks: {why}");
}

/// Whether an API server would ask about an update, by the expression as it is printed: comparisons of fields, one of
/// which must hold.
fn is_asked(expression: &str, new: &Value, old: &Value) -> bool {
    let (first, rest) = expression.split_once(" || ").unwrap();
    assert_eq!(first, "request.operation != 'UPDATE'");
    let at = |object: &Value, field: &str| {
        object.pointer(&format!("/{}", field.replace('.', "/"))).cloned()
    };
    let mut fields = Vec::new();
    for comparison in rest.split("has(object.").skip(1).step_by(2) {
        fields.push(comparison.split_once(')').unwrap().0);
    }
    let written = fields.iter().map(|field| {
        let [new, old] = ["object", "oldObject"].map(|object| format!("{object}.{field}"));
        format!("has({new}) != has({old}) || (has({new}) && {new} != {old})")
    });
    assert_eq!(rest, written.collect::<Vec<_>>().join(" || "), "it says something else");
    fields.iter().any(|field| at(new, field) != at(old, field))
}

/// Every update that two real API servers recorded, new and old; and each version written once more, by somebody else.
fn versions() -> Vec<(Value, Value)> {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/watch");
    let mut known = BTreeMap::<String, Value>::new();
    let mut updates = Vec::new();
    for version in ["v1.20", "v1.36"] {
        for file in fs::read_dir(fixtures.join(version)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "gz") {
                continue;
            }
            let text = GzDecoder::new(File::open(path).unwrap());
            for event in Deserializer::from_reader(text).into_iter::<Value>() {
                let object = event.unwrap()["object"].take();
                let mut again = object.clone();
                again["metadata"]["managedFields"] = json!([]);
                again["metadata"]["finalizers"] = json!(["somebody/else"]);
                updates.push((again, object.clone()));
                let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
                if let Some(old) = known.insert(uid, object.clone()) {
                    updates.push((object, old));
                }
            }
        }
    }
    updates
}

#[test]
fn what_an_api_server_does_not_ask_about_would_have_been_allowed_without_a_record() {
    let all = printed(Cluster::new(V1_36), &[]);
    let expression = |at: usize| all[at]["matchConditions"][0]["expression"].as_str().unwrap();
    let (workloads, pods) = (expression(0), expression(1));
    let (kinds, context, options) =
        (Kinds::builtin().unwrap(), Context::default(), Options::new("east"));
    let around = Surroundings { kinds: &kinds, context: &context, options: &options };
    let (mut skipped, mut asked) = (0, 0);
    for (new, old) in versions() {
        let expression = if new["kind"] == "Pod" { pods } else { workloads };
        if is_asked(expression, &new, &old) {
            asked += 1;
            continue;
        }
        skipped += 1;
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "r", "operation": "UPDATE", "namespace": new["metadata"]["namespace"],
            "kind": kind_of(&new), "resource": resource_of(&new, &kinds),
            "userInfo": {"username": "alice"}, "object": new, "oldObject": old}});
        let request = Request::decode(review.to_string().as_bytes(), &kinds).unwrap();
        match request.next(&around) {
            Next::Said(response) => assert!(response.allowed, "{response:?}"),
            Next::Ask(_) => panic!("it would have been asked: {review}"),
        }
    }
    assert!(skipped > 100 && asked > 100, "{skipped} are not asked about, {asked} are");
}

fn kind_of(object: &Value) -> Value {
    let version = object["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    json!({"group": group, "version": version, "kind": object["kind"]})
}

fn resource_of(object: &Value, kinds: &Kinds) -> Value {
    let [version, kind] = ["apiVersion", "kind"].map(|field| object[field].as_str().unwrap());
    let resource = &kinds.find(version, kind).unwrap().resource;
    let mut of = kind_of(object);
    of.as_object_mut().unwrap().remove("kind");
    of["resource"] = (**resource).into();
    of
}
