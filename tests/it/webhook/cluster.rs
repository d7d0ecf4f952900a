//! Certificates of our own by an API server's protocol: what is asked of it, and what it may answer.

use bizrq::{
    clock,
    webhook::tls::{
        Current,
        cluster::InCluster,
        own::{KeepError, Keeper, Store, StoreError},
    },
};
use http_body_util::BodyExt;
use hyper::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Map, Value, json};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

const SECRET: &str = "/api/v1/namespaces/bizrq/secrets/bizrq-webhook-tls";
const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Objects by path, as far as bizrq asks for them, with versions that are compared.
#[derive(Clone, Default)]
struct Api(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: Map<String, Value>,
    version: u64,
    /// Method and path of each request.
    asked: Vec<String>,
}

impl Api {
    fn with_configurations() -> Self {
        let api = Self::default();
        for name in ["bizrq-workloads", "bizrq-quotas"] {
            let webhook = |n: u32| {
                json!({
                    "name": format!("{n}.bizrq.io"),
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "NoneOnDryRun",
                    "clientConfig": {"service": {"namespace": "bizrq", "name": "bizrq"}},
                })
            };
            let metadata = json!({"name": name, "resourceVersion": "1"});
            let configuration = json!({"metadata": metadata, "webhooks": [webhook(1), webhook(2)]});
            let mut state = api.0.lock().unwrap();
            state.objects.insert(format!("{CONFIGURATIONS}/{name}"), configuration);
        }
        api
    }

    fn store(&self) -> InCluster {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (status, said) =
                    api.0.lock().unwrap().answer(&head.method, head.uri.path(), body);
                let said = Body::from(said.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(status).body(said).unwrap())
            }
        });
        let client = kube::Client::new(service, "bizrq");
        let configurations = ["bizrq-workloads", "bizrq-quotas"].map(str::to_owned).to_vec();
        InCluster::new(client, "bizrq", "bizrq-webhook-tls", configurations)
    }

    fn state<T>(&self, see: impl FnOnce(&mut State) -> T) -> T {
        see(&mut self.0.lock().unwrap())
    }

    /// The bundles in both configurations, in base64.
    fn bundles(&self) -> Vec<Value> {
        self.state(|state| {
            let configurations = state.objects.values().filter(|o| o.get("webhooks").is_some());
            let webhooks = configurations.flat_map(|o| o["webhooks"].as_array().unwrap().clone());
            webhooks.map(|webhook| webhook["clientConfig"]["caBundle"].clone()).collect()
        })
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        self.asked.push(format!("{method} {path}"));
        let no = |code: u16, reason: &str| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": reason, "reason": reason, "code": code});
            (StatusCode::from_u16(code).unwrap(), status)
        };
        let path = if *method == Method::POST {
            format!("{path}/{}", body["metadata"]["name"].as_str().unwrap())
        } else {
            path.to_owned()
        };
        let found = self.objects.get(&path).cloned();
        let new = match (method.as_str(), found) {
            ("GET", Some(found)) => return (StatusCode::OK, found),
            ("POST", Some(_)) => return no(409, "AlreadyExists"),
            ("POST", None) => body,
            (_, None) => return no(404, "NotFound"),
            ("PUT", Some(found)) => {
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                if version(&found) != version(&body) {
                    return no(409, "Conflict");
                }
                body
            }
            ("PATCH", Some(mut found)) => {
                for operation in body.as_array().unwrap() {
                    let at = operation["path"].as_str().unwrap();
                    match operation["op"].as_str().unwrap() {
                        "test" if found.pointer(at) != Some(&operation["value"]) => {
                            return no(422, "Invalid");
                        }
                        "test" => {}
                        _ => {
                            let (parent, name) = at.rsplit_once('/').unwrap();
                            found.pointer_mut(parent).unwrap()[name] = operation["value"].clone();
                        }
                    }
                }
                found
            }
            (other, _) => panic!("{other} {path}"),
        };
        self.version += 1;
        let mut new = new;
        new["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path, new.clone());
        (StatusCode::OK, new)
    }
}

fn keeper(api: &Api) -> (Keeper<InCluster>, Arc<Current>) {
    let current = Arc::new(Current::default());
    let names = vec!["bizrq.bizrq.svc".to_owned()];
    (Keeper::new(api.store(), names, Arc::clone(&current)), current)
}

#[tokio::test]
async fn a_first_start_fills_the_secret_and_every_bundle_and_a_second_only_looks() {
    let (api, now) = (Api::with_configurations(), clock::now());
    let (mut first, current) = keeper(&api);
    assert!(first.keep(now).await.unwrap());
    assert!(current.is_valid(now));
    let secret = api.state(|state| state.objects[SECRET].clone());
    assert_eq!(secret["type"], "kubernetes.io/tls");
    for key in ["tls.crt", "tls.key", "ca.crt", "bizrq.json"] {
        assert!(secret["data"][key].as_str().is_some_and(|text| text.len() > 100), "{key}");
    }
    assert_eq!(api.bundles(), [0; 4].map(|_| secret["data"]["ca.crt"].clone()));

    api.state(|state| state.asked.clear());
    assert!(keeper(&api).0.keep(now).await.unwrap());
    let asked = api.state(|state| state.asked.clone());
    assert!(asked.iter().all(|asked| asked.starts_with("GET ")), "{asked:?}");
}

#[tokio::test]
async fn a_bundle_that_somebody_spoiled_is_put_right_and_nothing_else_is_touched() {
    let (api, now) = (Api::with_configurations(), clock::now());
    let (mut keeper, _) = keeper(&api);
    keeper.keep(now).await.unwrap();
    let path = format!("{CONFIGURATIONS}/bizrq-quotas");
    let good = api.state(|state| state.objects[&path].clone());
    api.state(|state| state.objects[&path]["webhooks"][1]["clientConfig"]["caBundle"] = "".into());
    api.state(|state| state.asked.clear());
    keeper.keep(now).await.unwrap();
    let mut again = api.state(|state| state.objects[&path].clone());
    again["metadata"] = good["metadata"].clone();
    assert_eq!(again, good);
    let asked = api.state(|state| state.asked.clone());
    let patched: Vec<_> = asked.iter().filter(|asked| !asked.starts_with("GET ")).collect();
    assert_eq!(patched, [&format!("PATCH {path}")]);
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_left_alone() {
    let api = Api::with_configurations();
    let foreign =
        json!({"metadata": {"name": "s", "resourceVersion": "7"}, "data": {"tls.crt": "YQ=="}});
    api.state(|state| state.objects.insert(SECRET.to_owned(), foreign.clone()));
    let error = keeper(&api).0.keep(clock::now()).await.unwrap_err();
    assert!(matches!(error, KeepError::Store(StoreError::Foreign { .. })), "{error}");
    assert_eq!(api.state(|state| state.objects[SECRET].clone()), foreign);
}

#[tokio::test]
async fn whoever_writes_second_is_told_so() {
    let (api, now) = (Api::with_configurations(), clock::now());
    keeper(&api).0.keep(now).await.unwrap();
    let store = api.store();
    let (kept, version) = store.load().await.unwrap().unwrap();
    assert_eq!(store.save(&kept, None).await, Err(StoreError::Conflict));
    assert_eq!(store.save(&kept, Some(version.clone())).await, Ok(()));
    assert_eq!(store.save(&kept, Some(version)).await, Err(StoreError::Conflict));
}

#[tokio::test]
async fn a_configuration_that_is_missing_is_named() {
    let api = Api::default();
    let error = keeper(&api).0.keep(clock::now()).await.unwrap_err().to_string();
    assert!(error.contains("validatingwebhookconfiguration bizrq-workloads"), "{error}");
}
