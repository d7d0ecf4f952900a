//! What is said of quota objects: as they really are, and what was let through its review.

use super::{CashPeriod, Operation, Position};
use crate::domain::{quantity::Quantity, text::Text};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Whether a group charges the surge of rolling updates in advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum Charge {
    /// Charge `count`.
    #[default]
    Steady,
    /// Charge `peak`.
    Peak,
}

/// Whether a workload must declare the model of what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum ModelPolicy {
    /// A workload without a model is charged under the generic key only.
    #[default]
    Declared,
    /// A workload without a model is refused where the group limits models.
    Required,
}

/// `spec` of a quota object as it was accepted: keys normalised, amounts canonical.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct QuotaSpec<'a> {
    /// The parent's name; empty for a root.
    #[serde(borrow, default)]
    pub parent: Text<'a>,
    /// Limits by key, `cash/KEY` for time budgets.
    #[serde(borrow, default, deserialize_with = "distinct")]
    pub hard: BTreeMap<Text<'a>, Quantity>,
    /// Steady or peak.
    #[serde(default)]
    pub charge: Charge,
    /// Declared or required.
    #[serde(default)]
    pub models: ModelPolicy,
    /// Percentages of its own cash at which the group is told. Absent: the usual ones; empty: none.
    #[serde(rename = "notifyCash", default, skip_serializing_if = "Option::is_none")]
    pub notify_cash: Option<Vec<u16>>,
    /// The same of what its whole subtree spends of the budget.
    #[serde(rename = "notifyConsumed", default, skip_serializing_if = "Option::is_none")]
    pub notify_consumed: Option<Vec<u16>>,
    /// Of a root: when the budgets of its tree begin anew. Absent: never.
    #[serde(rename = "cashPeriod", default, skip_serializing_if = "Option::is_none")]
    pub cash_period: Option<Arc<CashPeriod>>,
}

/// Data of `quota.declared`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct QuotaDeclared<'a> {
    /// The object.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Its version; empty where there is no API server.
    #[serde(borrow, default)]
    pub resource_version: Text<'a>,
    /// `metadata.generation`.
    pub generation: i64,
    /// What it says.
    #[serde(borrow)]
    pub spec: QuotaSpec<'a>,
}

/// Data of `quota.removed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct QuotaRemoved<'a> {
    /// The object.
    #[serde(borrow)]
    pub uid: Text<'a>,
}

/// Data of `quota.proposed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct QuotaProposed<'a> {
    /// Position of the last record that the decider had applied.
    pub seen: Position,
    /// What was asked.
    pub operation: Operation,
    /// The object.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Version of the object that is changed; absent for a create.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub old_resource_version: Option<Text<'a>>,
    /// What it is to say; absent for a removal.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<QuotaSpec<'a>>,
    /// Uid of the review; absent where nobody asked a webhook.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Text<'a>>,
}

/// A map in which no key comes twice: of two the last would win silently.
fn distinct<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Text<'a>, Quantity>, D::Error> {
    struct Visitor;
    impl<'de> de::Visitor<'de> for Visitor {
        type Value = BTreeMap<Text<'de>, Quantity>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of key to quantity")
        }
        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some((key, quantity)) = map.next_entry::<Text<'de>, _>()? {
                if entries.insert(key.clone(), quantity).is_some() {
                    return Err(de::Error::custom(format!("`{key}` is listed twice; keep one")));
                }
            }
            Ok(entries)
        }
    }
    deserializer.deserialize_map(Visitor)
}
