//! Nodes: which models they have, which of them are lost, and which stand for something else.

use super::{Changed, Cluster, View};
use crate::{
    domain::{
        event::{Data, NodeObserved},
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

/// See the head of this file.
pub(super) struct Nodes {
    models: [Option<String>; 3],
    virtual_nodes: Option<(String, String)>,
    /// Those that are gone too, since their pods are collected later.
    known: Map<Arc<str>, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    models: [Option<Arc<str>>; 3],
    ready: Box<str>,
    /// Since when nothing was heard of it.
    lost: Option<Timestamp>,
    is_virtual: bool,
    gone: bool,
}

impl Nodes {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let (models, virtual_nodes) = (cluster.node_models.clone(), cluster.virtual_nodes.clone());
        Self { models, virtual_nodes, known: Map::default() }
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
            node.gone = true;
        }
        // Nodes come and go with autoscaling; those that are gone are remembered, but not without end.
        if self.known.len() > 100_000 {
            self.known.retain(|_, node| !node.gone);
        }
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
        }
    }
}

impl View {
    pub(super) fn see_node(&mut self, seen: &SeenNode) {
        let meta = &seen.metadata;
        let shared = &mut self.shared;
        let node = self.nodes.node(seen, &mut |text| shared.text(text));
        let name = shared.text(&meta.name);
        let before = self.nodes.known.insert(Arc::clone(&name), node.clone());
        if before.as_ref() == Some(&node) {
            return;
        }
        let version = meta.resource_version.parse().ok().zip(meta.newest_api_time());
        let Some((version, time)) = version else { return };
        let declared = Declared { models: node.models.clone(), ..Declared::default() };
        let version = Version { version, time, declared: Arc::new(declared) };
        let last = |owners: &Owners| owners.node(&name).and_then(Timeline::last).cloned();
        let models = last(&self.owners);
        self.owners.see_node(Arc::clone(&name), version);
        if models != last(&self.owners) {
            for (uid, pod) in self.pods.iter_mut().filter(|(_, pod)| pod.node == name) {
                pod.fresh = true;
                self.changed.push_back(Changed::Pod(*uid));
            }
        }
        let told = before.is_some_and(|b| (&b.models, &b.ready) == (&node.models, &node.ready));
        if !told {
            let [cpu, memory, gpu] = node.models.map(|m| m.map(|m| Text::from(m.to_string())));
            let models = Models { cpu, memory, gpu };
            let data = NodeObserved { models, ready: Text::from(node.ready.to_string()) };
            let (_, since) = seen.ready();
            let time = since.map_or(time, |since| since.max(time));
            self.facts.note(format!("nodes/{name}"), time, Data::NodeObserved(data));
        }
    }
}
