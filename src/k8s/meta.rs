//! What every object has: names, labels, owners, times. Only what bizrq looks at is kept.

use crate::domain::{text::Text, time::Timestamp};
use serde::{Deserialize, Deserializer, de};
use std::{collections::BTreeMap, fmt, marker::PhantomData};

/// Most entries that a list or map of an object may have.
///
/// An object is at most 1.5 MiB in etcd and an entry that says something some 100 bytes: real ones stay far below. The
/// bound keeps 16 MiB of `[{},{},…` from becoming gigabytes, and what is quadratic in it below a second.
const MAX_ENTRIES: usize = 10_000;

/// `metadata`; `()` for `W` passes over `managedFields`, which are a third of most objects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "W: Writes")]
pub struct ObjectMeta<W = Vec<ManagedFields>> {
    /// Name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// What the API server makes a name of, where none is given.
    #[serde(deserialize_with = "nullable")]
    pub generate_name: String,
    /// Namespace; empty for what has none.
    #[serde(deserialize_with = "nullable")]
    pub namespace: String,
    /// Identity.
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
    /// Version of the object in etcd.
    #[serde(deserialize_with = "nullable")]
    pub resource_version: String,
    /// Version of the specification.
    #[serde(deserialize_with = "nullable")]
    pub generation: i64,
    /// When the API server created it.
    pub creation_timestamp: Option<Time>,
    /// When the grace period of its deletion ends.
    pub deletion_timestamp: Option<Time>,
    /// That grace period.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Labels.
    #[serde(deserialize_with = "texts")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(deserialize_with = "texts")]
    pub annotations: BTreeMap<String, String>,
    /// Owners.
    #[serde(deserialize_with = "list")]
    pub owner_references: Vec<OwnerReference>,
    /// Who wrote what, and when.
    #[serde(deserialize_with = "W::read")]
    pub managed_fields: W,
}

/// What is kept of `managedFields`.
pub trait Writes: Default {
    /// Reads the list, or null.
    ///
    /// # Errors
    /// Another type, or more than 10,000 entries.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl Writes for Vec<ManagedFields> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list(deserializer)
    }
}

impl Writes for () {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        de::IgnoredAny::deserialize(deserializer).map(drop)
    }
}

impl From<ObjectMeta<()>> for ObjectMeta {
    fn from(meta: ObjectMeta<()>) -> Self {
        Self {
            name: meta.name,
            generate_name: meta.generate_name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation,
            creation_timestamp: meta.creation_timestamp,
            deletion_timestamp: meta.deletion_timestamp,
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            labels: meta.labels,
            annotations: meta.annotations,
            owner_references: meta.owner_references,
            managed_fields: Vec::new(),
        }
    }
}

/// An owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// `apps/v1`.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    /// `ReplicaSet`.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// Name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Identity.
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
    /// Whether it manages the object; at most one does.
    #[serde(deserialize_with = "nullable")]
    pub controller: bool,
}

/// The newest write of one writer to one part of the object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ManagedFields {
    /// Who.
    #[serde(deserialize_with = "nullable")]
    pub manager: String,
    /// `status`, or empty.
    #[serde(deserialize_with = "nullable")]
    pub subresource: String,
    /// `Update` or `Apply`.
    #[serde(deserialize_with = "nullable")]
    pub operation: String,
    /// When, by the API server's clock.
    pub time: Option<Time>,
    /// What.
    #[serde(rename = "fieldsV1", deserialize_with = "nullable")]
    pub fields: Fields,
}

/// The fields of an entry of `managedFields`, as far as they tell how a pod came to its node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Fields {
    /// Fields of `spec`.
    #[serde(rename = "f:spec", deserialize_with = "nullable")]
    pub spec: SpecFields,
}

/// The fields of `spec` that somebody set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SpecFields {
    /// Present when `nodeName` was written by an ordinary write and not by the scheduler's binding.
    #[serde(rename = "f:nodeName")]
    pub node_name: Option<de::IgnoredAny>,
}

/// An instant of the API: whole seconds, or finer, which is cut to milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Timestamp);

impl ObjectMeta {
    /// The newest instant that the API server's clock has left on this version: creation, writes, and the request
    /// of a deletion (its timestamp lies in the future by the grace period).
    #[must_use]
    pub fn newest_api_time(&self) -> Option<Timestamp> {
        let created = self.creation_timestamp.map(|t| t.0);
        let written = self.managed_fields.iter().filter_map(|f| f.time).map(|t| t.0).max();
        created.max(written).max(self.deletion_requested())
    }

    /// When the deletion was asked for, or, of a version after the last step of it, when that was.
    #[must_use]
    pub fn deletion_requested(&self) -> Option<Timestamp> {
        let grace = self.deletion_grace_period_seconds.unwrap_or(0);
        self.deletion_timestamp.map(|t| t.0.shifted(grace.saturating_mul(-1000)))
    }

    /// A label, or else an annotation; an empty one is none.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        labelled(&self.labels, &self.annotations, name)
    }

    /// The owner that manages the object.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|o| o.controller)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Time;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                Timestamp::parse_floor(text).map(Time).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// A label, or else an annotation; an empty one is none.
pub(crate) fn labelled<'m>(
    labels: &'m BTreeMap<String, String>,
    annotations: &'m BTreeMap<String, String>,
    name: &str,
) -> Option<&'m str> {
    let of = |map: &'m BTreeMap<String, String>| map.get(name).filter(|t| !t.is_empty());
    of(labels).or_else(|| of(annotations)).map(|t| &**t)
}

/// Takes null for the default.
pub(crate) fn nullable<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A list of at most [`MAX_ENTRIES`], or null.
pub(crate) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct Visitor<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
        fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(entry) = seq.next_element()? {
                bounded(list.len())?;
                list.push(entry);
            }
            Ok(list)
        }
    }
    deserializer.deserialize_any(Visitor(PhantomData))
}

/// What `kubectl apply` was given, whole, beside the object that came of it: long, and of no use here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A map of at most [`MAX_ENTRIES`] texts, or null; a null text is an empty one. [`LAST_APPLIED`] is left out.
pub(crate) fn texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    struct Visitor;
    impl<'de> de::Visitor<'de> for Visitor {
        type Value = BTreeMap<String, String>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of texts")
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }
        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some(name) = map.next_key::<Text<'_>>()? {
                if name == *LAST_APPLIED {
                    map.next_value::<de::IgnoredAny>()?;
                    continue;
                }
                bounded(entries.len())?;
                let value = map.next_value::<Option<String>>()?.unwrap_or_default();
                entries.insert(name.to_string(), value);
            }
            Ok(entries)
        }
    }
    deserializer.deserialize_any(Visitor)
}

/// Refuses the entry after the last that may be.
pub(crate) fn bounded<E: de::Error>(entries: usize) -> Result<(), E> {
    if entries < MAX_ENTRIES {
        return Ok(());
    }
    Err(E::custom("more than 10000 entries in one list; no Kubernetes object has so many"))
}
