//! The table of kinds as people write it, in YAML, and what it means; what it cannot mean is told with its place.

use super::Kinds;
use crate::k8s::pod::ResourceRequirements;
use serde::{
    Deserialize, Deserializer,
    de::{self, IntoDeserializer, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;
use std::{fmt, marker::PhantomData};

/// What is wrong with a table of kinds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct TableError {
    /// The line, from 1; of an entry its first.
    pub line: u64,
    /// What is wrong there, and the remedy.
    pub why: String,
}

/// A table longer than this describes no cluster.
const MAX_TABLE_BYTES: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct KindText {
    pub(super) api_versions: Many<String>,
    pub(super) kind: String,
    pub(super) resource: String,
    #[serde(default)]
    pub(super) roles: Vec<RoleText>,
    #[serde(default)]
    pub(super) suspended: Many<ConditionText>,
    #[serde(default)]
    pub(super) finished: Many<ConditionText>,
    pub(super) scale: Option<String>,
    #[serde(default)]
    pub(super) makes: bool,
    #[serde(default)]
    pub(super) controllers: Many<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RoleText {
    pub(super) name: Option<String>,
    pub(super) each: Option<String>,
    #[serde(default)]
    pub(super) template: Many<String>,
    pub(super) reference: Option<String>,
    pub(super) nodes: Option<String>,
    #[serde(default)]
    pub(super) count: Many<TermText>,
    #[serde(default)]
    pub(super) times: Many<TermText>,
    #[serde(default)]
    pub(super) surge: Many<TermText>,
    #[serde(default)]
    pub(super) peak: Many<TermText>,
    #[serde(default)]
    pub(super) unless: Many<ConditionText>,
    #[serde(default)]
    pub(super) adds: Vec<AddedText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct AddedText {
    pub(super) r#if: Option<ConditionText>,
    #[serde(default)]
    pub(super) init: bool,
    pub(super) from: Option<String>,
    pub(super) resources: ResourceRequirements,
}

/// A term, or its number alone.
#[derive(Default)]
pub(super) struct TermText(pub(super) TermFields);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct TermFields {
    pub(super) r#if: Option<ConditionText>,
    pub(super) path: Option<String>,
    pub(super) default: Option<Scalar>,
    pub(super) at_least: Option<Scalar>,
    pub(super) at_most: Option<Scalar>,
    pub(super) plus: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ConditionText {
    pub(super) path: Option<String>,
    pub(super) is: Option<Many<Scalar>>,
    pub(super) present: Option<bool>,
    pub(super) name: Option<String>,
    pub(super) conditions: Option<Many<String>>,
    pub(super) all: Option<Vec<ConditionText>>,
}

/// A text, a number or a truth value, as it was written.
#[derive(Default)]
pub(super) struct Scalar(pub(super) String);

/// One, or a list.
pub(super) struct Many<T>(pub(super) Vec<T>);

impl<T> Default for Many<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for One<T> {
            type Value = Many<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one, or a list")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Many<T>, E> {
                T::deserialize(text.into_deserializer()).map(|one| Many(vec![one]))
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Many<T>, E> {
                self.visit_str(&value.to_string())
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Many<T>, E> {
                self.visit_str(&value.to_string())
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Many<T>, E> {
                self.visit_str(&value.to_string())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Many<T>, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = seq.next_element()? {
                    many.push(one);
                }
                Ok(Many(many))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Many<T>, A::Error> {
                let one = T::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Many(vec![one]))
            }
        }
        deserializer.deserialize_any(One(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }
            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl<'de> Deserialize<'de> for TermText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Term;
        impl<'de> Visitor<'de> for Term {
            type Value = TermText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a term like {path: spec.replicas, default: 1}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<TermText, E> {
                let default = Some(Scalar(text.to_owned()));
                Ok(TermText(TermFields { default, ..TermFields::default() }))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<TermText, E> {
                self.visit_str(&value.to_string())
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<TermText, E> {
                self.visit_str(&value.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TermText, A::Error> {
                Deserialize::deserialize(de::value::MapAccessDeserializer::new(map)).map(TermText)
            }
        }
        deserializer.deserialize_any(Term)
    }
}

/// Adds what `text` declares to `kinds`; a kind that is known is replaced.
pub(super) fn declare(kinds: &mut Kinds, text: &str) -> Result<(), TableError> {
    if text.len() > MAX_TABLE_BYTES {
        let why = format!("the table has more than {MAX_TABLE_BYTES} bytes; declare fewer kinds");
        return Err(TableError { line: 1, why });
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: 24, max_aliases: 100, max_anchors: 100 },
        with_snippet: false,
    };
    let entries: Vec<Spanned<KindText>> = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| {
            let line = error.location().map_or(1, |l| l.line());
            let off = serde_saphyr::render_options! { snippets: serde_saphyr::SnippetMode::Off };
            TableError { line, why: error.render_with_options(off) }
        })?;
    for entry in entries {
        let line = entry.referenced.line().max(1);
        let name = entry.value.kind.clone();
        let kind = entry.value.meant();
        kinds.put(kind.map_err(|why| TableError { line, why: format!("{name}: {why}") })?);
    }
    Ok(())
}
