//! Which nodes a pod may run on by its own specification: what a DaemonSet's controller counts.
//!
//! Node selector, required node affinity, and taints against tolerations, by the rules of `kube-scheduler`'s
//! `component-helpers` as Kubernetes documents them; preferences and what other pods hold are no matter.

use super::{
    meta::{ObjectMeta, list, nullable},
    pod::PodSpec,
};
use serde::Deserialize;

/// A node, as far as it matters where pods may run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Name and labels.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// What keeps pods off.
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
}

/// `spec` of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    #[serde(deserialize_with = "list")]
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Taint {
    #[serde(deserialize_with = "nullable")]
    key: String,
    #[serde(deserialize_with = "nullable")]
    value: String,
    #[serde(deserialize_with = "nullable")]
    effect: String,
}

/// A taint that a pod bears, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    #[serde(deserialize_with = "nullable")]
    key: String,
    #[serde(deserialize_with = "nullable")]
    operator: String,
    #[serde(deserialize_with = "nullable")]
    value: String,
    #[serde(deserialize_with = "nullable")]
    effect: String,
}

/// `affinity`; of it only what nodes must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    #[serde(deserialize_with = "nullable")]
    node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    #[serde(deserialize_with = "list")]
    node_selector_terms: Vec<SelectorTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectorTerm {
    #[serde(deserialize_with = "list")]
    match_expressions: Vec<Requirement>,
    #[serde(deserialize_with = "list")]
    match_fields: Vec<Requirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Requirement {
    #[serde(deserialize_with = "nullable")]
    key: String,
    #[serde(deserialize_with = "nullable")]
    operator: String,
    #[serde(deserialize_with = "list")]
    values: Vec<String>,
}

/// Taints that pass, or that the controller of DaemonSets lets its pods bear: a node that is not ready comes back, and
/// its pod with it.
const BORNE: [&str; 6] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
];
/// The same, of pods in their host's network.
const BORNE_IN_HOST_NETWORK: &str = "node.kubernetes.io/network-unavailable";

impl PodSpec {
    /// Whether it may run on the same nodes as `other`, whatever these are.
    #[must_use]
    pub fn is_placed_as(&self, other: &Self) -> bool {
        fn said(spec: &PodSpec) -> impl PartialEq + '_ {
            (
                &spec.node_name,
                spec.host_network,
                &spec.node_selector,
                &spec.affinity,
                &spec.tolerations,
            )
        }
        said(self) == said(other)
    }
}

impl Node {
    /// Whether a DaemonSet whose pods are like `spec` runs one here.
    #[must_use]
    pub fn takes(&self, spec: &PodSpec) -> bool {
        let PodSpec { node_selector, affinity, tolerations, .. } = spec;
        let labels = &self.metadata.labels;
        let named = spec.node_name.is_empty() || spec.node_name == self.metadata.name;
        let selected = node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let required = affinity.node_affinity.required.as_ref();
        let borne = |taint: &Taint| {
            BORNE.contains(&&*taint.key)
                || (spec.host_network && taint.key == BORNE_IN_HOST_NETWORK)
                || tolerations.iter().any(|toleration| toleration.bears(taint))
        };
        let keeps_off = |taint: &&Taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute");
        named
            && selected
            && required.is_none_or(|required| required.matches(self))
            && self.spec.taints.iter().filter(keeps_off).all(borne)
    }
}

impl Toleration {
    fn bears(&self, taint: &Taint) -> bool {
        let every = self.key.is_empty() && self.operator == "Exists";
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let value = match &*self.operator {
            "" | "Equal" => self.value == taint.value,
            other => other == "Exists",
        };
        effect && value && (every || self.key == taint.key)
    }
}

impl NodeSelector {
    /// One of the terms is enough; one without any requirement matches nothing.
    fn matches(&self, node: &Node) -> bool {
        self.node_selector_terms.iter().any(|term| {
            let SelectorTerm { match_expressions, match_fields } = term;
            let label = |key: &str| node.metadata.labels.get(key).map(|label| &**label);
            let field = |key: &str| (key == "metadata.name").then_some(&*node.metadata.name);
            !(match_expressions.is_empty() && match_fields.is_empty())
                && match_expressions.iter().all(|wanted| wanted.holds(label(&wanted.key)))
                && match_fields.iter().all(|wanted| wanted.holds(field(&wanted.key)))
        })
    }
}

impl Requirement {
    fn holds(&self, found: Option<&str>) -> bool {
        let listed = |found: &str| self.values.iter().any(|value| value == found);
        let numbers = || {
            let wanted: i64 = self.values.first()?.parse().ok()?;
            Some((found?.parse::<i64>().ok()?, wanted))
        };
        match &*self.operator {
            "In" => found.is_some_and(listed),
            "NotIn" => !found.is_some_and(listed),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => numbers().is_some_and(|(found, wanted)| found > wanted),
            "Lt" => numbers().is_some_and(|(found, wanted)| found < wanted),
            _ => false,
        }
    }
}
