//! The parts of a Pod that count. Everything else is skipped while reading.
//!
//! A quantity that is none does not fail the reading: the error waits in its place, and the conversion that knows
//! the container's name reports it.

use super::{
    meta::{ObjectMeta, Time, bounded, list, nullable, texts},
    placement::{Affinity, Toleration},
};
use crate::domain::{
    quantity::{InvalidQuantity, Quantity},
    text::Text,
};
use serde::{Deserialize, Deserializer, de};
use std::{borrow::Cow, collections::BTreeMap, fmt};

/// A Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Name, labels, owners, times.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: PodSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: PodStatus,
}

/// `spec`, of a pod or of a template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node; empty until the pod is bound.
    #[serde(deserialize_with = "nullable")]
    pub node_name: String,
    /// App containers.
    #[serde(deserialize_with = "list")]
    pub containers: Vec<Container>,
    /// Init containers and sidecars, in their order.
    #[serde(deserialize_with = "list")]
    pub init_containers: Vec<Container>,
    /// What the runtime class adds.
    #[serde(deserialize_with = "nullable")]
    pub overhead: Amounts,
    /// Whose overhead the API server adds.
    #[serde(deserialize_with = "nullable")]
    pub runtime_class_name: String,
    /// Resources of the pod as a whole.
    #[serde(deserialize_with = "nullable")]
    pub resources: ResourceRequirements,
    /// It uses the network of its node.
    #[serde(deserialize_with = "nullable")]
    pub host_network: bool,
    /// Labels that its node must have.
    #[serde(deserialize_with = "texts")]
    pub node_selector: BTreeMap<String, String>,
    /// What its node must be.
    #[serde(deserialize_with = "nullable")]
    pub affinity: Affinity,
    /// Taints that it bears.
    #[serde(deserialize_with = "list")]
    pub tolerations: Vec<Toleration>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Resources.
    #[serde(deserialize_with = "nullable")]
    pub resources: ResourceRequirements,
    /// `Always` makes an init container a sidecar.
    #[serde(deserialize_with = "nullable")]
    pub restart_policy: String,
}

/// `resources`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    /// What is asked for.
    #[serde(deserialize_with = "nullable")]
    pub requests: Amounts,
    /// What must not be exceeded.
    #[serde(deserialize_with = "nullable")]
    pub limits: Amounts,
}

/// `status`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    #[serde(deserialize_with = "nullable")]
    pub phase: String,
    /// `Evicted`, …
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    /// When the kubelet took the pod over (the node's clock).
    pub start_time: Option<Time>,
    /// Conditions.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<Condition>,
    /// States of the app containers.
    #[serde(deserialize_with = "list")]
    pub container_statuses: Vec<ContainerStatus>,
    /// States of the init containers and sidecars.
    #[serde(deserialize_with = "list")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Pod-level requests that the node has admitted.
    pub allocated_resources: Option<Amounts>,
    /// Pod-level resources that are configured.
    pub resources: Option<ResourceRequirements>,
}

/// A condition.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// `PodScheduled`, …
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    /// `True`, `False`, `Unknown`.
    #[serde(deserialize_with = "nullable")]
    pub status: String,
    /// Why.
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    /// When `status` changed last.
    pub last_transition_time: Option<Time>,
    /// Of a node: when its kubelet said so last.
    pub last_heartbeat_time: Option<Time>,
}

/// The state of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Now.
    #[serde(deserialize_with = "nullable")]
    pub state: ContainerState,
    /// Before the last restart.
    #[serde(deserialize_with = "nullable")]
    pub last_state: ContainerState,
    /// Requests that the node has admitted.
    pub allocated_resources: Option<Amounts>,
    /// What is configured.
    pub resources: Option<ResourceRequirements>,
}

/// Waiting (neither), running or terminated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// It runs.
    pub running: Option<Run>,
    /// It ran.
    pub terminated: Option<Run>,
}

/// When a container ran, by the node's clock. The first of 1970 stands for "unknown" in the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Run {
    /// From.
    pub started_at: Option<Time>,
    /// To.
    pub finished_at: Option<Time>,
}

/// A resource list as it was written: names and amounts, some of which may be none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(pub Vec<(Cow<'static, str>, Result<Quantity, InvalidQuantity>)>);

impl Pod {
    /// Whether the phase is final: every container has stopped for good.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }

    /// The condition `kind`.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.condition(kind)
    }
}

impl PodStatus {
    /// The condition `kind`.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.kind == kind)
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Amounts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of resource name to quantity")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Amounts, A::Error> {
                let mut amounts = Vec::new();
                while let Some((name, Amount(quantity))) = map.next_entry::<Text<'_>, _>()? {
                    bounded(amounts.len())?;
                    amounts.push((resource(&name), quantity));
                }
                Ok(Amounts(amounts))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// A resource's name; those that nearly every container has are not copied.
fn resource(name: &str) -> Cow<'static, str> {
    let usual = ["cpu", "memory"].into_iter().find(|usual| *usual == name);
    usual.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed)
}

/// One amount, or why it is none.
struct Amount(Result<Quantity, InvalidQuantity>);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }
            fn visit_str<E>(self, text: &str) -> Result<Amount, E> {
                Ok(Amount(Quantity::parse_json_text(text)))
            }
            fn visit_i64<E>(self, n: i64) -> Result<Amount, E> {
                Ok(Amount(Quantity::parse(&n.to_string())))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Amount, E> {
                Ok(Amount(Quantity::parse(&n.to_string())))
            }
            fn visit_f64<E>(self, n: f64) -> Result<Amount, E> {
                Ok(Amount(Quantity::parse_float(n)))
            }
            fn visit_unit<E>(self) -> Result<Amount, E> {
                Ok(Amount(Ok(Quantity::ZERO)))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Amount, E> {
                Ok(Amount(Quantity::parse(if value { "true" } else { "false" })))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Amount, A::Error> {
                while seq.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(Amount(Quantity::parse("[…]")))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Amount, A::Error> {
                while map.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
                Ok(Amount(Quantity::parse("{…}")))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
