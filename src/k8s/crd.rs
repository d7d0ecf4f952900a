//! The quota object of a cluster: its type, and the CustomResourceDefinition that is generated from it.
//!
//! Rules that stand in the schema help those who type; old servers drop the CEL rules, so every one of them is judged
//! again by `domain::quota::TypedSpec`, which also judges what no schema can.

#![allow(
    unreachable_pub,
    reason = "the derive of CEL rules makes a copy of the type inside a function"
)]

use super::meta::{ObjectMeta, nullable};
use crate::domain::quota::{TypedPeriod, TypedSpec};
use kube::{CustomResource, CustomResourceExt, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{borrow::Cow, collections::BTreeMap, fmt};

/// `spec` of a BizGroupResourceQuota.
#[derive(
    CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[kube(
    group = "bizrq.io",
    version = "v1",
    kind = "BizGroupResourceQuota",
    plural = "bizgroupresourcequotas",
    singular = "bizgroupresourcequota",
    shortname = "bizrq",
    status = "BizGroupResourceQuotaStatus",
    doc = "A business group: what its workloads may hold at once, and what they may spend",
    printcolumn = r#"{"name":"Parent","type":"string","jsonPath":".spec.parent"}"#,
    printcolumn = r#"{"name":"CPU","type":"string","description":"limits.cpu, used/hard","jsonPath":".status.summary.cpu"}"#,
    printcolumn = r#"{"name":"Memory","type":"string","description":"requests.memory, used/hard","jsonPath":".status.summary.memory"}"#,
    printcolumn = r#"{"name":"GPU","type":"string","description":"cards, used/hard","jsonPath":".status.summary.gpu"}"#,
    printcolumn = r#"{"name":"Cash left","type":"string","description":"unit-hours that are left of each budget","jsonPath":".status.summary.cashLeft"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    validation = Rule::new("size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')")
        .message("metadata.name: a group's name has at most 63 lower-case letters, digits and `-`"),
    validation = Rule::new("!has(self.spec.parent) || self.spec.parent != self.metadata.name")
        .message("spec.parent: a group is not its own parent"),
    validation = Rule::new("!has(self.spec.cashPeriod) || !has(self.spec.parent) || self.spec.parent == ''")
        .message("spec.cashPeriod: is for a root, and holds for its whole tree; remove it here")
)]
#[serde(rename_all = "camelCase")]
pub struct BizGroupResourceQuotaSpec {
    /// The group that this one is a part of; empty for a root
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(length(max = 63), regex(pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"))]
    pub parent: String,
    /// Limits by key: limits.cpu, requests.memory, limits.nvidia.com/gpu.A30, pods, cash/limits.cpu (unit-hours)
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(extend("maxProperties" = 512))]
    pub hard: BTreeMap<String, Amount>,
    /// Whether the surge of rolling updates is charged in advance: Steady (the default) or Peak
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(extend("enum" = ["Steady", "Peak", ""]))]
    pub charge: String,
    /// Whether a workload must name the model of what it asks for: Declared (the default) or Required
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(extend("enum" = ["Declared", "Required", ""]))]
    pub models: String,
    /// Percentages of its own cash (what its budgets leave beside its children) at which the group is told; 50, 80, 90
    /// and 100 if not given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(range(min = 1, max = 1000)))]
    pub notify_cash: Option<Vec<i64>>,
    /// Percentages of its budgets at which the group is told what it and the groups below it spent; 50, 80, 90 and 100
    /// if not given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(range(min = 1, max = 1000)))]
    pub notify_consumed: Option<Vec<i64>>,
    /// Of a root: when the budgets (cash/…) of its tree begin anew; without it they never do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cash_period: Option<CashPeriod>,
}

/// When the budgets of a tree begin anew, and what goes over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CashPeriod {
    /// How long a period is: Day, Week, Month, Quarter or Year
    #[schemars(extend("enum" = ["Day", "Week", "Month", "Quarter", "Year"]))]
    pub every: String,
    /// Where its dates begin, by the IANA database: Europe/Berlin; UTC by default
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(length(max = 64))]
    pub time_zone: String,
    /// The first date of any period: 2026-04-01; by default weeks begin on Monday, and months, quarters and years on their first
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(regex(pattern = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$"))]
    pub anchor: String,
    /// What goes over into the next period: None (the default), Unused, Overdraft or Both
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(extend("enum" = ["None", "Unused", "Overdraft", "Both", ""]))]
    pub carry_over: String,
    /// At most so much of a group's limit goes over, either way: 50%
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(regex(pattern = r"^([0-9]{1,4}%)?$"))]
    pub max: String,
}

/// `status` of a BizGroupResourceQuota. Maps have the keys of `spec.hard` and those that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BizGroupResourceQuotaStatus {
    /// The limits in force
    pub hard: BTreeMap<String, String>,
    /// What is used: its own use, and the larger of limit and use of each child
    pub used: BTreeMap<String, String>,
    /// What its own workloads are charged
    pub self_used: BTreeMap<String, String>,
    /// Unit-hours that the whole subtree spent, by budget; where budgets begin anew, in this period
    pub consumed: BTreeMap<String, String>,
    /// Unit-hours that went over from the period before, by budget; below zero what is owed
    pub carried: BTreeMap<String, String>,
    /// The period that the budgets are of, where they begin anew
    pub cash_period: Option<Window>,
    /// What no review admitted
    pub unreviewed: BTreeMap<String, String>,
    /// The main numbers, as columns show them
    pub summary: Summary,
    /// When this was written
    #[schemars(extend("format" = "date-time"))]
    pub last_reconcile_time: Option<String>,
    /// Ready, WithinHard, CashAvailable
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation of the specification that this is about
    pub observed_generation: i64,
    /// The position in the log that this follows from
    // API servers know no `uint64`, and newer ones warn of it.
    #[schemars(extend("format" = "int64"))]
    pub position: u64,
}

/// A stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// First instant inside
    #[schemars(extend("format" = "date-time"))]
    pub from: String,
    /// First instant after it
    #[schemars(extend("format" = "date-time"))]
    pub to: String,
}

/// The main numbers of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// limits.cpu, used/hard
    pub cpu: String,
    /// requests.memory, used/hard
    pub memory: String,
    /// Cards, used/hard
    pub gpu: String,
    /// Unit-hours that are left of each budget
    pub cash_left: String,
}

/// Whether something holds of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Ready, WithinHard or CashAvailable
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// Why, in one word
    #[serde(default)]
    pub reason: String,
    /// Why, for people
    #[serde(default)]
    pub message: String,
    /// When the status changed last
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// The generation of the specification that this is about
    #[serde(default)]
    pub observed_generation: i64,
}

/// An amount as it was typed: a text, or a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount(pub String);

/// A quota object, as far as a review looks at it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct QuotaObject {
    /// Name, uid, versions, annotations.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// What it says.
    #[serde(deserialize_with = "nullable")]
    pub spec: BizGroupResourceQuotaSpec,
}

impl QuotaObject {
    /// Whether objects of this kind are quota objects.
    #[must_use]
    pub fn is(api_version: &str, kind: &str) -> bool {
        (api_version, kind) == ("bizrq.io/v1", "BizGroupResourceQuota")
    }
}

impl BizGroupResourceQuotaSpec {
    /// What was typed, for [`TypedSpec::accept`].
    #[must_use]
    pub fn typed(&self) -> TypedSpec<'_> {
        TypedSpec {
            parent: &self.parent,
            hard: self.hard.iter().map(|(key, amount)| (&**key, &*amount.0)).collect(),
            charge: &self.charge,
            models: &self.models,
            notify_cash: self.notify_cash.as_deref(),
            notify_consumed: self.notify_consumed.as_deref(),
            cash_period: self.cash_period.as_ref().map(CashPeriod::typed),
        }
    }
}

impl CashPeriod {
    fn typed(&self) -> TypedPeriod<'_> {
        TypedPeriod {
            every: &self.every,
            time_zone: &self.time_zone,
            anchor: &self.anchor,
            carry_over: &self.carry_over,
            max: &self.max,
        }
    }
}

/// The CustomResourceDefinition, in YAML.
///
/// # Errors
/// Never: it consists of maps, lists and texts.
pub fn definition() -> Result<String, serde_saphyr::ser_error::Error> {
    let mut text = "# Generated by `make schemas` from src/k8s/crd.rs.\n".to_owned();
    text.push_str(&serde_saphyr::to_string(&BizGroupResourceQuota::crd())?);
    Ok(text)
}

/// The CustomResourceDefinition without rules in CEL, which API servers before 1.25 drop and their `kubectl` refuses.
///
/// # Errors
/// Never: it consists of maps, lists and texts.
pub fn definition_without_rules() -> Result<String, serde_saphyr::ser_error::Error> {
    let mut definition = BizGroupResourceQuota::crd();
    let schemas = definition.spec.versions.iter_mut().filter_map(|v| v.schema.as_mut());
    for schema in schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()) {
        schema.x_kubernetes_validations = None;
    }
    serde_saphyr::to_string(&definition)
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Typed;
        impl de::Visitor<'_> for Typed {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount")
            }
            fn visit_str<E>(self, text: &str) -> Result<Amount, E> {
                Ok(Amount(text.to_owned()))
            }
            fn visit_i64<E>(self, n: i64) -> Result<Amount, E> {
                Ok(Amount(n.to_string()))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Amount, E> {
                Ok(Amount(n.to_string()))
            }
            fn visit_f64<E>(self, n: f64) -> Result<Amount, E> {
                Ok(Amount(n.to_string()))
            }
        }
        deserializer.deserialize_any(Typed)
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        // As for native quantities, but without a minus: an amount below zero would be a credit.
        schemars::json_schema!({
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "maxLength": 64,
            "pattern": r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$",
        })
    }
}
