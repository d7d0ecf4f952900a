//! An object as its kind's declaration looks at it, read in one pass: what no path names is skipped.

use super::{
    Kind,
    path::{Keep, Path},
};
use crate::{
    domain::text::Text,
    k8s::{
        meta::{ObjectMeta, bounded, labelled, nullable, texts},
        pod::{PodSpec, PodStatus, ResourceRequirements},
    },
};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// An object of any kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    /// `apps/v1`.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    /// `Deployment`.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// Name, labels, owners, times.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// What its kind's declaration names; nothing of an object that was read without one.
    #[serde(skip)]
    pub body: Node,
}

/// What was kept of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Node {
    /// Not there, or null.
    #[default]
    Nothing,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Number(i64),
    /// A text, or a number that is not whole.
    Text(Box<str>),
    /// Fields, or entries with their keys; what a declaration names is shared with it.
    Map(Vec<(Arc<str>, Node)>),
    /// Elements.
    List(Vec<Node>),
    /// Labels and annotations.
    Labels(Box<Labels>),
    /// A pod's specification.
    PodSpec(Box<PodSpec>),
    /// A pod's status.
    PodStatus(Box<PodStatus>),
    /// Requests and limits.
    Resources(Box<ResourceRequirements>),
}

/// Labels and annotations of a pod template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Labels {
    #[serde(deserialize_with = "texts")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "texts")]
    annotations: BTreeMap<String, String>,
}

impl Labels {
    /// A label, or else an annotation; an empty one is none.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        labelled(&self.labels, &self.annotations, name)
    }
}

impl Node {
    /// The value at `keys` inside this one.
    #[must_use]
    pub(super) fn at(&self, keys: &[Arc<str>]) -> &Self {
        keys.iter().fold(self, |node, key| node.field(key))
    }

    /// The value of a field of this one.
    #[must_use]
    pub(super) fn field(&self, key: &str) -> &Self {
        let Self::Map(fields) = self else { return &Self::Nothing };
        fields.iter().find(|(field, _)| **field == *key).map_or(&Self::Nothing, |(_, value)| value)
    }

    /// Sets the value at `path`, making the maps on the way.
    pub(super) fn set(&mut self, path: &Path, value: Self) {
        let mut node = self;
        for key in &path.keys {
            if !matches!(node, Self::Map(_)) {
                *node = Self::Map(Vec::new());
            }
            let Self::Map(fields) = node else { return };
            let at = fields.iter().position(|(field, _)| field == key).unwrap_or_else(|| {
                fields.push((Arc::clone(key), Self::Nothing));
                fields.len().saturating_sub(1)
            });
            let Some((_, next)) = fields.get_mut(at) else { return };
            node = next;
        }
        *node = value;
    }

    /// Elements of a list, with their places, or values of a map, with their keys.
    pub(super) fn entries(&self) -> Vec<(std::borrow::Cow<'_, str>, &Self)> {
        match self {
            Self::List(list) => {
                (0_usize..).zip(list).map(|(i, node)| (i.to_string().into(), node)).collect()
            }
            Self::Map(map) => map.iter().map(|(key, node)| ((&**key).into(), node)).collect(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(&text.chars().take(80).collect::<String>()),
            Self::List(_) => f.write_str("[…]"),
            _ => f.write_str("{…}"),
        }
    }
}

/// Reads an object of a kind.
#[derive(Clone, Copy)]
pub struct Reading<'k> {
    kind: &'k Kind,
    writes: bool,
}

impl<'k> Reading<'k> {
    /// Reads an object of `kind`.
    #[must_use]
    pub fn of(kind: &'k Kind) -> Self {
        Self { kind, writes: true }
    }

    /// The same, but for who wrote what.
    #[must_use]
    pub fn without_writes(kind: &'k Kind) -> Self {
        Self { kind, writes: false }
    }
}

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = Object;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Object, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.kind.kind)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Object { kind: self.kind.kind.to_string(), ..Object::default() };
        let fields = match &self.kind.keep {
            Keep::Inside(fields) => &fields[..],
            _ => &[],
        };
        let mut body = Vec::with_capacity(fields.len());
        while let Some(head) =
            map.next_key_seed(Key { fields, heads: &["apiVersion", "metadata"] })?
        {
            match head {
                Found::Head(0) => {
                    object.api_version = map.next_value::<Option<_>>()?.unwrap_or_default()
                }
                Found::Head(_) => {
                    let meta = if self.writes {
                        map.next_value::<Option<ObjectMeta>>()
                    } else {
                        let meta = map.next_value::<Option<ObjectMeta<()>>>();
                        meta.map(|meta| meta.map(Into::into))
                    };
                    object.metadata = meta.map_err(|e| within("metadata", e))?.unwrap_or_default();
                }
                Found::Field(at) => body.extend(field(&mut map, fields, at, &body)?),
                Found::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        object.body = Node::Map(body);
        Ok(object)
    }
}

/// Reads what is kept of a value.
struct Kept<'k>(&'k Keep);

impl<'de> DeserializeSeed<'de> for Kept<'_> {
    type Value = Node;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        fn boxed<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
            deserializer: D,
            node: fn(Box<T>) -> Node,
        ) -> Result<Node, D::Error> {
            Ok(Option::<T>::deserialize(deserializer)?.map_or(Node::Nothing, |t| node(Box::new(t))))
        }
        match self.0 {
            Keep::Labels => boxed(deserializer, Node::Labels),
            Keep::PodSpec => boxed(deserializer, Node::PodSpec),
            Keep::PodStatus => boxed(deserializer, Node::PodStatus),
            Keep::Resources => boxed(deserializer, Node::Resources),
            Keep::Value | Keep::Inside(_) | Keep::Each(_) => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Kept<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Keep::Inside(_) => "a map",
            Keep::Each(_) => "a list or a map",
            _ => "a value",
        })
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Node, E> {
        self.scalar(Node::Bool(value), de::Unexpected::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Node, E> {
        self.scalar(Node::Number(value), de::Unexpected::Signed(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Node, E> {
        let node = i64::try_from(value).map_or_else(|_| text(&value.to_string()), Node::Number);
        self.scalar(node, de::Unexpected::Unsigned(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        self.scalar(text(&value.to_string()), de::Unexpected::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
        self.scalar(text(value), de::Unexpected::Str(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        match self.0 {
            Keep::Each(keep) => {
                while let Some(node) = seq
                    .next_element_seed(Kept(keep))
                    .map_err(|e| within(&list.len().to_string(), e))?
                {
                    bounded(list.len())?;
                    list.push(node);
                }
            }
            Keep::Value => while seq.next_element::<IgnoredAny>()?.is_some() {},
            _ => return Err(de::Error::invalid_type(de::Unexpected::Seq, &self)),
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut kept = Vec::new();
        match self.0 {
            Keep::Each(keep) => {
                while let Some(key) = map.next_key::<Text<'_>>()? {
                    bounded(kept.len())?;
                    let node = map.next_value_seed(Kept(keep)).map_err(|e| within(&key, e))?;
                    kept.push((key.as_str().into(), node));
                }
            }
            Keep::Inside(fields) => {
                while let Some(found) = map.next_key_seed(Key { fields, heads: &[] })? {
                    match found {
                        Found::Field(at) => kept.extend(field(&mut map, fields, at, &kept)?),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
            }
            _ => while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {},
        }
        Ok(Node::Map(kept))
    }
}

impl Kept<'_> {
    fn scalar<E: de::Error>(self, node: Node, found: de::Unexpected<'_>) -> Result<Node, E> {
        match self.0 {
            Keep::Value => Ok(node),
            _ => Err(E::invalid_type(found, &self)),
        }
    }
}

fn text(text: &str) -> Node {
    Node::Text(text.into())
}

/// The value of the field that was found; its name twice is an error.
fn field<'de, A: MapAccess<'de>>(
    map: &mut A,
    fields: &[(Arc<str>, Keep)],
    at: usize,
    known: &[(Arc<str>, Node)],
) -> Result<Option<(Arc<str>, Node)>, A::Error> {
    let Some((key, keep)) = fields.get(at) else { return Ok(None) };
    let node = map.next_value_seed(Kept(keep)).map_err(|e| within(key, e))?;
    if known.iter().any(|(field, _)| field == key) {
        return Err(de::Error::custom(format!("{key} stands here twice")));
    }
    Ok(Some((Arc::clone(key), node)))
}

/// The error of a value, with its place before it.
fn within<E: de::Error>(key: &str, error: E) -> E {
    let text = error.to_string();
    // An error knows its line and column when it is made; what comes around it has others.
    let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    E::custom(format!("{key}: {text}"))
}

/// Which key of a map comes next.
struct Key<'k> {
    fields: &'k [(Arc<str>, Keep)],
    heads: &'k [&'k str],
}

enum Found {
    Head(usize),
    Field(usize),
    Other,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Found;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Found;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E>(self, key: &str) -> Result<Found, E> {
        if let Some(at) = self.heads.iter().position(|head| *head == key) {
            return Ok(Found::Head(at));
        }
        let at = self.fields.iter().position(|(field, _)| **field == *key);
        Ok(at.map_or(Found::Other, Found::Field))
    }
}
