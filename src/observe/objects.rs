//! What is watched of a cluster, and what is read of each object: the parts that count, and no more, so that 150,000
//! pods fit into little memory. Texts are read where they arrive, on the task of their kind.

use super::{pods::Sighting, watch::Resource};
use crate::{
    domain::{event::NodeClock, time::Timestamp},
    k8s::{
        context,
        crd::QuotaObject,
        kinds::{self, Kind, Kinds, MIRROR},
        meta::{ObjectMeta, nullable},
        placement::NodeSpec,
        pod::{Condition, Pod},
    },
};
use serde::Deserialize;
use std::sync::Arc;

/// What is watched.
#[derive(Clone, Debug)]
pub(super) enum Topic {
    /// Pods, by who observes.
    Pods,
    /// Objects of a declared kind.
    Kind(Arc<Kind>),
    /// Namespaces.
    Namespaces,
    /// Limit ranges.
    LimitRanges,
    /// Runtime classes.
    RuntimeClasses,
    /// Nodes.
    Nodes,
    /// Quota objects, by who observes the cluster that they are kept in.
    Quotas,
}

/// An object.
#[derive(Debug)]
pub(super) enum Object {
    /// A pod.
    Pod(Box<SeenPod>),
    /// An object of a declared kind.
    Kind(Arc<Kind>, Box<kinds::Object>),
    /// What only reviews look at, as it was written.
    Text(Box<ObjectMeta>, Box<str>),
    /// A node.
    Node(Box<SeenNode>),
    /// A quota object.
    Quota(Box<QuotaObject>),
}

/// A pod.
#[derive(Debug)]
pub(super) struct SeenPod {
    /// Names, labels, owners; no managed fields.
    pub(super) meta: ObjectMeta,
    /// The newest instant of the API server's clock on it.
    pub(super) time: Timestamp,
    /// A kubelet runs it from a file.
    pub(super) mirrored: bool,
    /// The server keeps who writes the status apart.
    pub(super) keeps_status_writes: bool,
    /// What counts of this version.
    pub(super) sighting: Sighting,
}

/// A node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SeenNode {
    /// Names, labels.
    #[serde(deserialize_with = "nullable")]
    pub(super) metadata: ObjectMeta,
    /// What keeps pods off.
    #[serde(deserialize_with = "nullable")]
    pub(super) spec: NodeSpec,
    #[serde(deserialize_with = "nullable")]
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    #[serde(deserialize_with = "crate::k8s::meta::list")]
    conditions: Vec<Condition>,
}

impl Topic {
    /// What a replica watches: the context of reviews, and what it observes if it leads.
    pub(super) fn all(kinds: &Kinds, leads: bool, quotas: bool) -> Vec<Self> {
        let mut topics =
            vec![Self::Namespaces, Self::LimitRanges, Self::RuntimeClasses, Self::Nodes];
        let declared = kinds.iter().filter(|kind| !is_pod(kind));
        topics.extend(declared.map(|kind| Self::Kind(Arc::clone(kind))));
        if leads {
            topics.push(Self::Pods);
        }
        if leads && quotas {
            topics.push(Self::Quotas);
        }
        topics
    }

    /// As heartbeats name it: `pods`, `deployments.apps`.
    pub(super) fn name(&self) -> String {
        let version = self.versions().first().copied().unwrap_or_default();
        match version.split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.plural()),
            None => self.plural().to_owned(),
        }
    }

    fn plural(&self) -> &str {
        match self {
            Self::Pods => "pods",
            Self::Kind(kind) => &kind.resource,
            Self::Namespaces => "namespaces",
            Self::LimitRanges => "limitranges",
            Self::RuntimeClasses => "runtimeclasses",
            Self::Nodes => "nodes",
            Self::Quotas => "bizgroupresourcequotas",
        }
    }

    /// Tells it from all others.
    pub(super) fn key(&self) -> Box<str> {
        self.resource().paths.into_iter().next().unwrap_or_default()
    }

    /// Where it is.
    pub(super) fn resource(&self) -> Resource {
        let path = |version: &&str| {
            let root = if version.contains('/') { "apis" } else { "api" };
            format!("/{root}/{version}/{}", self.plural()).into()
        };
        Resource { paths: self.versions().iter().map(path).collect(), selector: "".into() }
    }

    fn versions(&self) -> Vec<&str> {
        match self {
            Self::Kind(kind) => kind.api_versions.iter().map(|version| &**version).collect(),
            Self::RuntimeClasses => vec!["node.k8s.io/v1", "node.k8s.io/v1beta1"],
            Self::Quotas => vec!["bizrq.io/v1"],
            _ => vec!["v1"],
        }
    }

    /// Reads an object of it, of the version of the API that `path` names.
    ///
    /// # Errors
    /// What is wrong with it, and which it is.
    pub(super) fn read(&self, path: &str, text: &str) -> Result<Object, String> {
        self.parts(path, text).map_err(|why| {
            let meta = serde_json::from_str::<Named>(text).unwrap_or_default().metadata;
            let why: String = why.chars().take(300).collect();
            format!("{} {}/{}: {why}", self.name(), meta.namespace, meta.name)
        })
    }

    fn parts(&self, path: &str, text: &str) -> Result<Object, String> {
        let json = |error: serde_json::Error| error.to_string();
        match self {
            Self::Pods => SeenPod::read(text).map(|pod| Object::Pod(Box::new(pod))),
            Self::Kind(kind) => {
                let mut object = context::read(kind, text).map_err(json)?;
                // `/apis/apps/v1/deployments`: what stands between is the version of the API.
                let version = path.trim_start_matches("/apis/").trim_start_matches("/api/");
                let version = version.rsplit_once('/').map_or("", |(version, _)| version);
                (object.api_version, object.kind) = (version.to_owned(), (*kind.kind).to_owned());
                Ok(Object::Kind(Arc::clone(kind), Box::new(object)))
            }
            Self::Namespaces | Self::LimitRanges | Self::RuntimeClasses => {
                let named: Named = serde_json::from_str(text).map_err(json)?;
                Ok(Object::Text(Box::new(named.metadata), text.into()))
            }
            Self::Nodes => {
                serde_json::from_str(text).map(|n| Object::Node(Box::new(n))).map_err(json)
            }
            Self::Quotas => {
                serde_json::from_str(text).map(|q| Object::Quota(Box::new(q))).map_err(json)
            }
        }
    }
}

/// Whether it is the kind of pods, which are watched as what they are.
pub(super) fn is_pod(kind: &Kind) -> bool {
    *kind.kind == *"Pod" && kind.api_versions.iter().any(|version| **version == *"v1")
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    #[serde(deserialize_with = "nullable")]
    metadata: ObjectMeta,
}

impl Object {
    /// What every object has.
    pub(super) const fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Pod(pod) => &pod.meta,
            Self::Kind(_, object) => &object.metadata,
            Self::Text(meta, _) => meta,
            Self::Node(node) => &node.metadata,
            Self::Quota(quota) => &quota.metadata,
        }
    }
}

impl SeenPod {
    fn read(text: &str) -> Result<Self, String> {
        let mut pod: Pod = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let meta = &pod.metadata;
        let version = meta.resource_version.parse();
        let version = version.map_err(|_| "metadata.resourceVersion is no whole number")?;
        if meta.uid.is_empty() {
            return Err("metadata.uid is missing".into());
        }
        let time = meta.newest_api_time().ok_or("metadata.creationTimestamp is missing")?;
        let sighting = Sighting::of(&pod, version).map_err(|error| error.to_string())?;
        let mirrored = meta.annotations.contains_key(MIRROR);
        let keeps_status_writes = meta.managed_fields.iter().any(|f| !f.subresource.is_empty());
        pod.metadata.managed_fields = Vec::new();
        Ok(Self { meta: pod.metadata, time, mirrored, keeps_status_writes, sighting })
    }

    /// Its uid in events: mirror pods of one file on several nodes may share one.
    pub(super) fn uid(&self) -> String {
        match self.mirrored {
            true => format!("{}@{}", self.meta.uid, self.sighting.state.node),
            false => self.meta.uid.clone(),
        }
    }
}

impl SeenNode {
    /// The status of its condition `Ready`, and since when; `Unknown` means that nothing is heard of it.
    pub(super) fn ready(&self) -> (&str, Option<Timestamp>) {
        let ready = self.status.conditions.iter().find(|condition| condition.kind == "Ready");
        ready.map_or(("", None), |c| (&c.status, c.last_transition_time.map(|time| time.0)))
    }

    /// The kubelet's last write of the status by both clocks; `None` where the server does not keep when that was
    /// (before 1.22).
    pub(super) fn clock(&self) -> Option<NodeClock> {
        let said = self.status.conditions.iter().filter_map(|c| c.last_heartbeat_time).max()?;
        let writes = self.metadata.managed_fields.iter();
        let own = writes.filter(|w| (&*w.manager, &*w.subresource) == ("kubelet", "status"));
        let taken = own.filter_map(|write| write.time).max()?;
        Some(NodeClock { node: said.0, api: taken.0 })
    }
}
