//! Nodes: which models they have, which of them are lost, and which stand for something else.

use super::{Changed, Cluster, View};
use crate::{
    domain::{
        event::{Data, NodeClock, NodeObserved},
        names::Map,
        resources::Models,
        text::Text,
        time::Timestamp,
    },
    k8s::meta::ObjectMeta,
    observe::{
        objects::SeenNode,
        owners::{Declared, Owners, Timeline, Version},
    },
};
use std::sync::Arc;

/// How far a clock may be off: each instant is cut to a whole second, and a write takes its time.
const SKEW_MS: i64 = 2_000;

/// See the head of this file.
pub(super) struct Nodes {
    models: [Option<String>; 3],
    virtual_nodes: Option<(String, String)>,
    /// Those that are gone too, since their pods are collected later.
    known: Map<Arc<str>, Node>,
    /// How many of them have another clock than the API server.
    skewed: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    models: [Option<Arc<str>>; 3],
    ready: Box<str>,
    /// Since when nothing was heard of it.
    lost: Option<Timestamp>,
    is_virtual: bool,
    gone: bool,
    /// Milliseconds that its clock is ahead, as was told; 0 until it is more than [`SKEW_MS`].
    ahead: i64,
}

impl Node {
    const fn is_skewed(&self) -> bool {
        !self.gone && self.ahead.unsigned_abs() > SKEW_MS.unsigned_abs()
    }
}

impl Nodes {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let (models, virtual_nodes) = (cluster.node_models.clone(), cluster.virtual_nodes.clone());
        Self { models, virtual_nodes, known: Map::default(), skewed: 0 }
    }

    /// Since when nothing was heard of a node, if it is lost.
    pub(super) fn lost(&self, name: &str) -> Option<Timestamp> {
        self.known.get(name)?.lost
    }

    /// Whether what runs there holds nothing of this cluster.
    pub(super) fn is_virtual(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|node| node.is_virtual)
    }

    /// Whether a pod must wait for what is known of its node.
    pub(super) fn lacks(&self, name: &str) -> bool {
        !name.is_empty() && !self.known.contains_key(name)
    }

    pub(super) fn lose(&mut self, name: &str) {
        if let Some(node) = self.known.get_mut(name) {
            self.skewed = self.skewed.saturating_sub(usize::from(node.is_skewed()));
            node.gone = true;
        }
        // Nodes come and go with autoscaling; those that are gone are remembered, but not without end.
        if self.known.len() > 100_000 {
            self.known.retain(|_, node| !node.gone);
        }
    }

    /// Takes in a node; gives what was known of it.
    fn see(&mut self, name: &Arc<str>, node: Node) -> Option<Node> {
        let skewed = usize::from(node.is_skewed());
        let before = self.known.insert(Arc::clone(name), node);
        let was = usize::from(before.as_ref().is_some_and(Node::is_skewed));
        self.skewed = self.skewed.saturating_sub(was).saturating_add(skewed);
        before
    }

    fn node(&self, seen: &SeenNode, text: &mut impl FnMut(&str) -> Arc<str>) -> Node {
        let label =
            |meta: &ObjectMeta, key: &str| meta.labels.get(key).filter(|t| !t.is_empty()).cloned();
        let meta = &seen.metadata;
        let models = self.models.each_ref().map(|key| {
            let model = key.as_ref().and_then(|key| label(meta, key));
            model.map(|model| text(&model))
        });
        let (ready, since) = seen.ready();
        let is = |(key, value): &(String, String)| label(meta, key).as_ref() == Some(value);
        Node {
            models,
            ready: ready.into(),
            lost: since.filter(|_| ready == "Unknown"),
            is_virtual: self.virtual_nodes.as_ref().is_some_and(is),
            gone: false,
            ahead: self.ahead(&meta.name, seen.clock()),
        }
    }
}

/// What is to be told of a clock.
impl Nodes {
    /// As was told before, unless that is no longer true.
    fn ahead(&self, name: &str, clock: Option<NodeClock>) -> i64 {
        let told = self.known.get(name).map_or(0, |node| node.ahead);
        let now = clock.map(|clock| clock.ahead());
        now.filter(|now| now.saturating_sub(told).unsigned_abs() > SKEW_MS.unsigned_abs())
            .unwrap_or(told)
    }
}

impl View {
    /// How many nodes have another clock than the API server.
    pub(in crate::observe) const fn skewed(&self) -> usize {
        self.nodes.skewed
    }

    pub(super) fn see_node(&mut self, seen: &SeenNode) {
        let meta = &seen.metadata;
        let shared = &mut self.shared;
        let node = self.nodes.node(seen, &mut |text| shared.text(text));
        let name = shared.text(&meta.name);
        let before = self.nodes.see(&name, node.clone());
        if before.as_ref() == Some(&node) {
            return;
        }
        let version = meta.resource_version.parse().ok().zip(meta.newest_api_time());
        let Some((version, time)) = version else { return };
        let declared = Declared { models: node.models.clone(), ..Declared::default() };
        let version =
            Version { version, time, learned: self.learned(None), declared: Arc::new(declared) };
        let last = |owners: &Owners| owners.node(&name).and_then(Timeline::last).cloned();
        let models = last(&self.owners);
        self.owners.see_node(Arc::clone(&name), version);
        if models != last(&self.owners) {
            for (uid, pod) in self.pods.iter_mut().filter(|(_, pod)| pod.node == name) {
                pod.fresh = true;
                self.changed.push_back(Changed::Pod(*uid));
            }
        }
        let same =
            |b: &Node| (&b.models, &b.ready, b.ahead) == (&node.models, &node.ready, node.ahead);
        if !before.as_ref().is_some_and(same) {
            let ahead = before.map_or(0, |before| before.ahead);
            let clock = seen.clock().filter(|_| node.ahead != 0 || node.ahead != ahead);
            let [cpu, memory, gpu] = node.models.map(|m| m.map(|m| Text::from(m.to_string())));
            let models = Models { cpu, memory, gpu };
            let data = NodeObserved { models, ready: Text::from(node.ready.to_string()), clock };
            let (_, since) = seen.ready();
            let time = since.map_or(time, |since| since.max(time));
            self.facts.note(format!("nodes/{name}"), time, Data::NodeObserved(data));
        }
    }
}
