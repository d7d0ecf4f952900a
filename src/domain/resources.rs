//! What a pod asks for and holds: resource lists, hardware models, and the keys that they count under.

use super::{
    quantity::{Milli, Quantity},
    text::Text,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Amounts by resource name (`cpu`, `memory`, `nvidia.com/gpu`), sorted by name, each name once.
///
/// Every entry is rounded up to thousandths and none is negative.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceList(Vec<(Box<str>, Quantity)>);

/// Requests and limits of one pod (effective) or container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Resources {
    /// What is asked for.
    #[serde(default)]
    pub requests: ResourceList,
    /// What must not be exceeded; extended resources count here only.
    #[serde(default)]
    pub limits: ResourceList,
}

/// Hardware models that a pod runs on or declares; absent where unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Models<'a> {
    /// Model of `cpu`.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Text<'a>>,
    /// Model of `memory`.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Text<'a>>,
    /// Model of every extended resource.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Text<'a>>,
}

impl ResourceList {
    /// The amount of `name`, if it is listed.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Quantity> {
        let i = self.0.binary_search_by(|(n, _)| (**n).cmp(name)).ok()?;
        self.0.get(i).map(|(_, q)| *q)
    }

    /// Sets the amount of `name`.
    pub fn set(&mut self, name: &str, quantity: Quantity) {
        match self.0.binary_search_by(|(n, _)| (**n).cmp(name)) {
            Ok(i) => {
                if let Some(entry) = self.0.get_mut(i) {
                    entry.1 = quantity;
                }
            }
            Err(i) => self.0.insert(i, (name.into(), quantity)),
        }
    }

    /// Names and amounts in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(n, q)| (&**n, *q))
    }

    /// Whether nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'n> FromIterator<(&'n str, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (&'n str, Quantity)>>(entries: I) -> Self {
        let mut list = Self::default();
        for (name, quantity) in entries {
            list.set(name, quantity);
        }
        list
    }
}

impl Serialize for ResourceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = ResourceList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of resource name to quantity")
            }
            fn visit_map<A: de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<ResourceList, A::Error> {
                let mut list = ResourceList::default();
                while let Some((name, quantity)) = map.next_entry::<Text<'de>, Quantity>()? {
                    if quantity.is_negative() {
                        return Err(de::Error::custom(format!("`{name}: {quantity}` is negative")));
                    }
                    if list.get(&name).is_some() {
                        return Err(de::Error::custom(format!(
                            "`{name}` is listed twice; keep one"
                        )));
                    }
                    list.set(&name, quantity.rounded_up());
                }
                Ok(list)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(feature = "cli")]
impl schemars::JsonSchema for ResourceList {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ResourceList".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let quantity = generator.subschema_for::<Quantity>();
        schemars::json_schema!({ "type": "object", "additionalProperties": quantity })
    }
}

/// Which model types a resource: `cpu`, `memory`, and every extended resource (`gpu`).
#[must_use]
pub fn model_of<'m>(models: &'m Models<'_>, resource: &str) -> Option<&'m str> {
    let model = match resource {
        "cpu" => &models.cpu,
        "memory" => &models.memory,
        r if is_extended(r) => &models.gpu,
        _ => &None,
    };
    model.as_deref()
}

/// Whether `resource` is an extended resource: it has a `/` (facts 1.6).
#[must_use]
pub fn is_extended(resource: &str) -> bool {
    resource.contains('/')
}

/// Whether `text` can be a model: `[A-Za-z0-9][A-Za-z0-9._-]{0,62}`.
#[must_use]
pub fn is_model(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= 63
        && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Calls `each` with every key that `resources` on `models` count under and its amount: `requests.R` and
/// `limits.R`, extended resources under `limits.R` only, and beside each key whose resource has a model the
/// key with `.MODEL` behind it.
pub fn usage_keys(resources: &Resources, models: &Models<'_>, mut each: impl FnMut(&str, Milli)) {
    let mut with_model = String::with_capacity(64);
    usage_by_model(resources, models, |key, model, amount| {
        each(key, amount);
        if let Some(model) = model {
            with_model.clear();
            with_model.extend([key, ".", model]);
            each(&with_model, amount);
        }
    });
}

/// Calls `each` with every generic key that `resources` on `models` count under, its model if there is one, and its
/// amount, once.
pub fn usage_by_model(
    resources: &Resources,
    models: &Models<'_>,
    mut each: impl FnMut(&str, Option<&str>, Milli),
) {
    let mut key = String::with_capacity(64);
    let mut count = |side: &str, resource: &str, quantity: Quantity| {
        key.clear();
        key.extend([side, resource]);
        let model = model_of(models, resource).filter(|m| is_model(m));
        each(&key, model, quantity.milli());
    };
    for (resource, quantity) in resources.requests.iter() {
        if !is_extended(resource) {
            count("requests.", resource, quantity);
        } else if resources.limits.get(resource).is_none() {
            count("limits.", resource, quantity);
        }
    }
    for (resource, quantity) in resources.limits.iter() {
        count("limits.", resource, quantity);
    }
}
