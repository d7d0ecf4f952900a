//! The two webhook configurations that make an API server ask: generated from the table of kinds, so that a kind that
//! is declared is asked about, and nothing else is.
//!
//! | configuration | asks about | in which namespaces |
//! |---|---|---|
//! | `bizrq-workloads`, `workloads.bizrq.io` | declared kinds and their scales: create, update | not in excluded ones |
//! | `bizrq-workloads`, `pods.bizrq.io` | pods and their resizes: create, update | in those labelled [`MANAGED`] only |
//! | `bizrq-quotas`, `quotas.bizrq.io` | quota objects: create, update, delete | they have none |
//!
//! What keeps bizrq itself alive must never wait for bizrq: hence the exclusions. Nothing here is applied anywhere.

use crate::k8s::{
    kinds::{Kind, Kinds},
    reviewed::{EXCLUDED, MANAGED, is_reviewed},
};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The names of the two configurations, which bizrq may get, watch and patch.
pub const NAMES: [&str; 2] = ["bizrq-workloads", "bizrq-quotas"];
/// The label with a namespace's own name; API servers since 1.21 set it themselves.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// No API server waits longer: a review takes milliseconds, and a user waits with it.
pub const MOST_SECONDS: u8 = 5;

/// How a cluster is to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The cluster's name in the log.
    pub cluster: String,
    /// How its API server reaches the webhook.
    pub reach: Reach,
    /// How long it waits. Two where it is Kubernetes 1.20, which asks twice about an update that is refused.
    pub timeout_seconds: u8,
    /// Namespaces that are excluded by name, beside those that have the label.
    pub excluded: Vec<String>,
    /// The certificate (`NAMESPACE/NAME`) whose authority cert-manager is to write into the configurations; without,
    /// bizrq writes its own.
    pub inject_ca_from: Option<String>,
    /// Whom the API server is to believe, in PEM; without, whoever writes it later.
    pub authority: Option<String>,
    /// Whether the API server takes conditions (since Kubernetes 1.30): then it does not even ask about an update that
    /// changes nothing that is read.
    pub conditions: bool,
}

/// How an API server reaches the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A Service of its own cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// `https://host:port`, for clusters that bizrq does not run in.
    Url(String),
}

impl Asking {
    /// Both configurations.
    #[must_use]
    pub fn configurations(&self, kinds: &Kinds) -> [Value; 2] {
        let outside = json!({"matchExpressions": [
            {"key": EXCLUDED, "operator": "DoesNotExist"},
            {"key": NAMESPACE_NAME, "operator": "NotIn", "values": self.excluded},
        ]});
        let managed = json!({"matchExpressions": [
            {"key": MANAGED, "operator": "Exists"},
            {"key": EXCLUDED, "operator": "DoesNotExist"},
            {"key": NAMESPACE_NAME, "operator": "NotIn", "values": self.excluded},
        ]});
        let mut workloads = self.webhook("workloads", "workloads", workloads(kinds), &outside);
        let mut pods = self.webhook("pods", "workloads", pods(), &managed);
        let quotas = self.webhook("quotas", "quotas", quotas(), &json!({}));
        if self.conditions {
            workloads["matchConditions"] = changes_something(kinds, is_reviewed);
            let is_pod = |kind: &Kind| !is_reviewed(kind) && *kind.kind == *"Pod";
            pods["matchConditions"] = changes_something(kinds, is_pod);
        }
        let [first, second] = NAMES;
        [self.configuration(first, vec![workloads, pods]), self.configuration(second, vec![quotas])]
    }

    fn configuration(&self, name: &str, webhooks: Vec<Value>) -> Value {
        let mut metadata = json!({"name": name, "labels": {
            "app.kubernetes.io/name": "bizrq", "app.kubernetes.io/component": "admission"}});
        if let Some(certificate) = &self.inject_ca_from {
            metadata["annotations"] = json!({"cert-manager.io/inject-ca-from": certificate});
        }
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": metadata,
            "webhooks": webhooks,
        })
    }

    fn webhook(&self, name: &str, about: &str, rules: Value, namespaces: &Value) -> Value {
        let path = format!("/validate/{about}/{}", self.cluster);
        let client = match &self.reach {
            Reach::Service { namespace, name, port } => json!({"service": {
                "namespace": namespace, "name": name, "port": port, "path": path,
            }}),
            Reach::Url(base) => json!({"url": format!("{}{path}", base.trim_end_matches('/'))}),
        };
        let mut client = client;
        if let Some(authority) = &self.authority {
            client["caBundle"] = json!(ByteString(authority.clone().into_bytes()));
        }
        json!({
            "name": format!("{name}.bizrq.io"),
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": namespaces,
            "objectSelector": {},
            "rules": rules,
            // Admissions are recorded, those of a dry run are not.
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": self.timeout_seconds.clamp(1, MOST_SECONDS),
        })
    }
}

/// A rule for each API group and version: narrow, never a wildcard.
fn workloads(kinds: &Kinds) -> Value {
    let mut resources: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for kind in kinds.iter().filter(|kind| is_reviewed(kind)) {
        for version in &kind.api_versions {
            let group = version.split_once('/').unwrap_or(("", version));
            let of = resources.entry(group).or_default();
            of.push(kind.resource.to_string());
            of.extend(kind.has_scale().then(|| format!("{}/scale", kind.resource)));
        }
    }
    let rules = resources.into_iter().map(|((group, version), mut resources)| {
        resources.sort_unstable();
        resources.dedup();
        rule(group, version, &resources, &["CREATE", "UPDATE"], "Namespaced")
    });
    rules.collect()
}

/// Of an update only what changes a field that some kind is read for, a label or an annotation. What changes none of
/// them asks for what it asked for before, and is allowed without a record: so no answer is missing.
fn changes_something(kinds: &Kinds, of: impl Fn(&Kind) -> bool) -> Value {
    let read = kinds.iter().filter(|kind| of(kind)).flat_map(|kind| kind.fields_read());
    let fields: BTreeSet<&str> = read.chain(["metadata.labels", "metadata.annotations"]).collect();
    let changed = fields.into_iter().map(|field| {
        let [new, old] = ["object", "oldObject"].map(|object| format!("{object}.{field}"));
        format!("has({new}) != has({old}) || (has({new}) && {new} != {old})")
    });
    let any = std::iter::once("request.operation != 'UPDATE'".to_owned()).chain(changed);
    json!([{"name": "changes-something", "expression": any.collect::<Vec<_>>().join(" || ")}])
}

fn pods() -> Value {
    let resources = ["pods".to_owned(), "pods/resize".to_owned()];
    json!([rule("", "v1", &resources, &["CREATE", "UPDATE"], "Namespaced")])
}

fn quotas() -> Value {
    let resources = ["bizgroupresourcequotas".to_owned()];
    json!([rule("bizrq.io", "v1", &resources, &["CREATE", "UPDATE", "DELETE"], "Cluster")])
}

fn rule(
    group: &str,
    version: &str,
    resources: &[String],
    operations: &[&str],
    scope: &str,
) -> Value {
    json!({
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": operations,
        "resources": resources,
        "scope": scope,
    })
}
