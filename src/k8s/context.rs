//! What a review needs to know of its cluster besides the object under review: namespaces and their limit ranges, runtime
//! classes, nodes, and the objects of declared kinds (parents of scales, owners of children, templates of others).
//!
//! Whoever watches the cluster keeps it up to date; reviews only read it, so that none waits for the API server.

use super::{
    convert::{self, ResourcesError},
    kinds::{Kind, Kinds, Object, Reading, group},
    meta::{ObjectMeta, OwnerReference, list, nullable},
    placement::{Node, NodeSpec},
    pod::{Amounts, PodSpec},
};
use crate::domain::{
    label_keys::LabelKeys,
    names::{Map, Uid},
    quantity::Quantity,
    resources::ResourceList,
};
use serde::{Deserialize, de::DeserializeSeed};
use std::{collections::BTreeMap, sync::Arc};

/// Longest chain of owners that is followed; the longest real one (LeaderWorkerSet) has four links.
const MAX_DEPTH: usize = 8;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Context {
    labels: Arc<LabelKeys>,
    namespaces: Map<Box<str>, Namespace>,
    overheads: Map<Box<str>, ResourceList>,
    objects: Map<Uid, Arc<Known>>,
    names: Map<FullName, Uid>,
    nodes: Map<Box<str>, Node>,
}

/// An object of a declared kind.
#[derive(Clone, Debug)]
pub struct Known {
    /// What is declared of its kind.
    pub kind: Arc<Kind>,
    /// As its kind looks at it.
    pub object: Object,
}

/// What was made of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is known now.
    Known,
    /// Objects of its kind say nothing to any review.
    Other,
}

/// Why an object is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// It is no JSON, or a value has the wrong type.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// An amount is none.
    #[error(transparent)]
    Resources(#[from] ResourcesError),
}

#[derive(Clone, Debug, Default)]
struct Namespace {
    group: Option<Box<str>>,
    /// By limit range, in order of name.
    defaults: BTreeMap<Box<str>, Defaults>,
}

/// What the API server fills into containers that leave it open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Requests.
    pub requests: ResourceList,
    /// Limits.
    pub limits: ResourceList,
}

/// API group, kind, namespace, name.
type FullName = (Box<str>, Box<str>, Box<str>, Box<str>);

/// What every text says first.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    #[serde(deserialize_with = "nullable")]
    api_version: String,
    #[serde(deserialize_with = "nullable")]
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LimitRange {
    #[serde(deserialize_with = "nullable")]
    metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    spec: LimitRangeSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LimitRangeSpec {
    #[serde(deserialize_with = "list")]
    limits: Vec<LimitRangeItem>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LimitRangeItem {
    #[serde(rename = "type", deserialize_with = "nullable")]
    kind: String,
    #[serde(deserialize_with = "nullable")]
    default: Amounts,
    #[serde(deserialize_with = "nullable")]
    default_request: Amounts,
    #[serde(deserialize_with = "nullable")]
    max: Amounts,
    #[serde(deserialize_with = "nullable")]
    min: Amounts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RuntimeClass {
    #[serde(deserialize_with = "nullable")]
    metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    overhead: Overhead,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Overhead {
    #[serde(deserialize_with = "nullable")]
    pod_fixed: Amounts,
}

impl Context {
    /// A cluster of which nothing is known but by which labels its objects name group and models.
    #[must_use]
    pub fn new(labels: Arc<LabelKeys>) -> Self {
        Self { labels, ..Self::default() }
    }

    /// By which labels objects name group and models.
    #[must_use]
    pub const fn labels(&self) -> &Arc<LabelKeys> {
        &self.labels
    }

    /// Takes in an object as JSON: what it says now replaces what it said before.
    ///
    /// # Errors
    /// [`ContextError`]; nothing has changed then.
    pub fn see(&mut self, kinds: &Kinds, text: &str) -> Result<Seen, ContextError> {
        let head: Head = serde_json::from_str(text)?;
        self.see_as(kinds, &head.api_version, &head.kind, text)
    }

    /// The same of an object out of a list, whose text does not name its kind.
    ///
    /// # Errors
    /// As [`Self::see`].
    pub fn see_as(
        &mut self,
        kinds: &Kinds,
        api_version: &str,
        kind: &str,
        text: &str,
    ) -> Result<Seen, ContextError> {
        match (api_version, kind) {
            ("v1", "Namespace") => {
                let seen: Object = serde_json::from_str(text)?;
                let group = seen.metadata.label(&self.labels.group).map(Into::into);
                self.namespace(&seen.metadata.name).group = group;
            }
            ("v1", "LimitRange") => {
                let seen: LimitRange = serde_json::from_str(text)?;
                let defaults = seen.spec.defaults()?;
                let namespace = self.namespace(&seen.metadata.namespace);
                namespace.defaults.insert(seen.metadata.name.into(), defaults);
            }
            ("v1", "Node") => {
                let seen: Node = serde_json::from_str(text)?;
                self.know_node(seen.metadata, seen.spec);
            }
            (version, "RuntimeClass") if version.starts_with("node.k8s.io/") => {
                let seen: RuntimeClass = serde_json::from_str(text)?;
                let overhead =
                    convert::resource_list(&seen.overhead.pod_fixed, "overhead.podFixed")?;
                self.overheads.insert(seen.metadata.name.into(), overhead);
            }
            (version, kind) => {
                let Some(kind) = kinds.find(version, kind) else { return Ok(Seen::Other) };
                let mut object = read(kind, text)?;
                (object.api_version, object.kind) = (version.to_owned(), (*kind.kind).into());
                self.know(object, kind);
            }
        }
        Ok(Seen::Known)
    }

    /// Takes in an object that was read already.
    pub fn know(&mut self, mut object: Object, kind: &Arc<Kind>) {
        object.metadata.managed_fields = Vec::new();
        object.metadata.annotations.retain(|key, _| self.labels.has(key));
        let (name, uid) = (full_name(&object), Uid::of(&object.metadata.uid));
        self.names.insert(name, uid);
        self.objects.insert(uid, Arc::new(Known { kind: Arc::clone(kind), object }));
    }

    /// Takes in a node that was read already.
    pub fn know_node(&mut self, mut metadata: ObjectMeta, spec: NodeSpec) {
        (metadata.managed_fields, metadata.annotations) = Default::default();
        self.nodes.insert((*metadata.name).into(), Node { metadata, spec });
    }

    /// An object is no more.
    pub fn forget(&mut self, uid: &str) {
        let uid = Uid::of(uid);
        if let Some(known) = self.objects.remove(&uid) {
            let name = full_name(&known.object);
            if self.names.get(&name) == Some(&uid) {
                self.names.remove(&name);
            }
        }
    }

    /// A limit range is no more.
    pub fn forget_limit_range(&mut self, namespace: &str, name: &str) {
        if let Some(namespace) = self.namespaces.get_mut(namespace) {
            namespace.defaults.remove(name);
        }
    }

    /// A namespace is no more.
    pub fn forget_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// A node is no more.
    pub fn forget_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// A runtime class is no more.
    pub fn forget_runtime_class(&mut self, name: &str) {
        self.overheads.remove(name);
    }

    /// The object of this uid.
    #[must_use]
    pub fn object(&self, uid: &str) -> Option<&Arc<Known>> {
        self.objects.get(&Uid::of(uid))
    }

    /// The object of this uid.
    #[must_use]
    pub fn known(&self, uid: Uid) -> Option<&Arc<Known>> {
        self.objects.get(&uid)
    }

    /// The object of this name, whatever the version of its API.
    #[must_use]
    pub fn named(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Known>> {
        let key = (group(api_version).into(), kind.into(), namespace.into(), name.into());
        self.objects.get(self.names.get(&key)?)
    }

    /// The group that a namespace's label names.
    #[must_use]
    pub fn namespace_group(&self, namespace: &str) -> Option<&str> {
        self.namespaces.get(namespace)?.group.as_deref()
    }

    /// What the API server fills into the containers of a namespace, limit range by limit range.
    pub fn defaults(&self, namespace: &str) -> impl Iterator<Item = &Defaults> {
        self.namespaces.get(namespace).into_iter().flat_map(|n| n.defaults.values())
    }

    /// How many nodes a DaemonSet with such pods runs on.
    #[must_use]
    pub fn nodes_for(&self, spec: &PodSpec) -> usize {
        self.nodes.values().filter(|node| node.takes(spec)).count()
    }

    /// What a runtime class adds to a pod, if the class is known.
    #[must_use]
    pub fn overhead(&self, class: &str) -> Option<&ResourceList> {
        self.overheads.get(class)
    }

    /// The objects above one that `owner` manages, nearest first, as far as they are known, of declared kinds, and
    /// the ones that are meant: anybody may write a reference. What makes workloads is above none.
    pub fn above<'c>(
        &'c self,
        owner: Option<&'c OwnerReference>,
        namespace: &'c str,
    ) -> impl Iterator<Item = &'c Arc<Known>> {
        let first = owner.and_then(|owner| self.meant(owner, namespace));
        let next = move |known: &&'c Arc<Known>| {
            self.meant(known.object.metadata.controller()?, namespace)
        };
        std::iter::successors(first, next).take(MAX_DEPTH)
    }

    /// The object that a reference names, if it is the one that is meant.
    #[must_use]
    pub fn meant(&self, reference: &OwnerReference, namespace: &str) -> Option<&Arc<Known>> {
        let known = self.object(&reference.uid)?;
        let meta = &known.object.metadata;
        let same = *known.kind.kind == *reference.kind
            && known.kind.api_versions.iter().any(|v| group(v) == group(&reference.api_version))
            && meta.name == reference.name
            && (meta.namespace.is_empty() || meta.namespace == namespace);
        same.then_some(known)
    }

    fn namespace(&mut self, name: &str) -> &mut Namespace {
        self.namespaces.entry(name.into()).or_default()
    }
}

/// Reads an object as its kind looks at it.
///
/// # Errors
/// It is no JSON, or a value has the wrong type.
pub fn read(kind: &Kind, text: &str) -> Result<Object, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let object = Reading::of(kind).deserialize(&mut json)?;
    json.end()?;
    Ok(object)
}

impl LimitRangeSpec {
    /// The defaults for containers, completed as the API server completes them: a default limit is the maximum, a
    /// default request the default limit, else the minimum.
    fn defaults(&self) -> Result<Defaults, ResourcesError> {
        let mut all = Defaults::default();
        for item in self.limits.iter().filter(|item| item.kind == "Container") {
            let list = |amounts, field| convert::resource_list(amounts, field);
            let mut limits = list(&item.default, "spec.limits.default")?;
            let mut requests = list(&item.default_request, "spec.limits.defaultRequest")?;
            fill(&mut limits, &list(&item.max, "spec.limits.max")?);
            fill(&mut requests, &limits);
            fill(&mut requests, &list(&item.min, "spec.limits.min")?);
            fill(&mut all.limits, &limits);
            fill(&mut all.requests, &requests);
        }
        Ok(all)
    }
}

/// Sets what is not listed yet.
pub(super) fn fill(list: &mut ResourceList, others: &ResourceList) {
    let missing: Vec<(&str, Quantity)> =
        others.iter().filter(|(name, _)| list.get(name).is_none()).collect();
    for (name, quantity) in missing {
        list.set(name, quantity);
    }
}

fn full_name(object: &Object) -> FullName {
    let meta = &object.metadata;
    let name = (&*meta.namespace, &*meta.name);
    (group(&object.api_version).into(), (*object.kind).into(), name.0.into(), name.1.into())
}
