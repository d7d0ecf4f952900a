//! The simulated objects as an API server shows them to a webhook.

use crate::domain::{
    event::{ObjectRef, Operation, PodResize, QuotaSpec, Role},
    resources::{ResourceList, Resources},
};
use serde_json::{Map, Value, json};

/// One review.
pub(super) struct Review<'r> {
    /// The request's uid.
    pub(super) uid: &'r str,
    pub(super) operation: Operation,
    /// `deployments`, and `resize` behind a slash.
    pub(super) resource: String,
    pub(super) object: Value,
    pub(super) old: Option<Value>,
}

const LABEL: &str = "biz.group.resource.quota";

impl Review<'_> {
    /// The AdmissionReview.
    pub(super) fn to_json(&self) -> String {
        let text = |at: &str| self.object.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = match text("/apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text("/apiVersion")),
        };
        let (resource, sub_resource) = match self.resource.split_once('/') {
            Some((resource, sub_resource)) => (resource, Some(sub_resource)),
            None => (&*self.resource, None),
        };
        let kind = json!({"group": group, "version": version, "kind": text("/kind")});
        let resource = json!({"group": group, "version": version, "resource": resource});
        let mut request = json!({
            "uid": self.uid,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": text("/metadata/name"),
            "operation": self.operation,
            "userInfo": {"username": "somebody@acme.example", "groups": ["system:authenticated"]},
            "object": self.object,
            "oldObject": self.old,
            "dryRun": false,
        });
        if let Some(sub_resource) = sub_resource {
            request["subResource"] = sub_resource.into();
        }
        if !text("/metadata/namespace").is_empty() {
            request["namespace"] = text("/metadata/namespace").into();
        }
        let kind = "AdmissionReview";
        json!({"kind": kind, "apiVersion": "admission.k8s.io/v1", "request": request}).to_string()
    }
}

/// The resource that a kind is under.
pub(super) fn resource(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

/// A Deployment, Job or StatefulSet of this role.
pub(super) fn workload(
    object: &ObjectRef<'_>,
    group: &str,
    role: &Role<'_>,
    version: Option<&str>,
) -> Value {
    let name = &*object.name;
    let app = json!({"app": name});
    let template = json!({
        "metadata": {"labels": app},
        "spec": {"containers": [container(&role.pod)]},
    });
    let spec = match &*object.kind {
        "Job" => json!({
            "parallelism": role.count,
            "completions": role.count,
            "template": template,
        }),
        "Deployment" => json!({
            "replicas": role.count,
            "selector": {"matchLabels": app},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {
                "maxSurge": role.peak.saturating_sub(role.count),
                "maxUnavailable": if role.peak > role.count { 0 } else { 1 },
            }},
            "template": template,
        }),
        _ => json!({
            "replicas": role.count,
            "selector": {"matchLabels": app},
            "serviceName": name,
            "template": template,
        }),
    };
    let mut metadata = metadata(object, version);
    metadata["labels"] = labels(group, role.models.gpu.as_deref());
    json!({
        "apiVersion": &*object.api_version,
        "kind": &*object.kind,
        "metadata": metadata,
        "spec": spec,
    })
}

/// A pod of `owner`, which reserves what it holds.
pub(super) fn pod(
    owner: &ObjectRef<'_>,
    group: &str,
    name: &str,
    resize: &PodResize<'_>,
    holds: &Resources,
    version: &str,
) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner.namespace.as_deref(),
            "uid": &*resize.uid,
            "resourceVersion": version,
            "labels": labels(group, resize.models.gpu.as_deref()),
            "ownerReferences": [{
                "apiVersion": &*owner.api_version,
                "kind": &*owner.kind,
                "name": &*owner.name,
                "uid": &*owner.uid,
                "controller": true,
            }],
        },
        "spec": {"nodeName": "somewhere", "containers": [container(holds)]},
        "status": {"phase": "Running"},
    })
}

/// A quota object.
pub(super) fn quota(
    name: &str,
    uid: &str,
    spec: &QuotaSpec<'_>,
    version: Option<&str>,
) -> Result<Value, serde_json::Error> {
    let mut metadata = json!({"name": name, "uid": uid});
    if let Some(version) = version {
        metadata["resourceVersion"] = version.into();
    }
    let kind = "BizGroupResourceQuota";
    let spec = serde_json::to_value(spec)?;
    Ok(json!({"apiVersion": "bizrq.io/v1", "kind": kind, "metadata": metadata, "spec": spec}))
}

fn metadata(object: &ObjectRef<'_>, version: Option<&str>) -> Value {
    let mut metadata = json!({
        "name": &*object.name,
        "namespace": object.namespace.as_deref(),
        "uid": &*object.uid,
    });
    if let Some(version) = version {
        metadata["resourceVersion"] = version.into();
    }
    metadata
}

fn labels(group: &str, gpu: Option<&str>) -> Value {
    let mut labels = json!({LABEL: group});
    if let Some(gpu) = gpu {
        labels[format!("{LABEL}/gpu-type")] = gpu.into();
    }
    labels
}

fn container(resources: &Resources) -> Value {
    let list = |list: &ResourceList| {
        list.iter()
            .map(|(name, amount)| (name.to_owned(), Value::from(amount.to_string())))
            .collect::<Map<_, _>>()
    };
    json!({
        "name": "main",
        "image": "acme.example/main:1",
        "resources": {"requests": list(&resources.requests), "limits": list(&resources.limits)},
    })
}
