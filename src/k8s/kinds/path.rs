//! Paths into an object, and what of an object is kept while it is read: the places that its kind's declaration names,
//! and nothing else.

use std::{fmt, sync::Arc};

/// Where something stands: `spec.replicas` from the object's root, `.replicas` from the entry that a role is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Begins at the entry.
    pub(super) of_entry: bool,
    pub(super) keys: Vec<Arc<str>>,
}

/// What is kept of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// A number, text or truth value; of anything else, that it is there.
    Value,
    /// These fields of a map.
    Inside(Vec<(Arc<str>, Keep)>),
    /// Every element of a list, or every value of a map with its key.
    Each(Box<Keep>),
    /// Labels and annotations.
    Labels,
    /// A pod's specification.
    PodSpec,
    /// A pod's status.
    PodStatus,
    /// Requests and limits.
    Resources,
}

/// Two declarations read one place in two ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clash;

impl Path {
    /// The path that `text` spells; an empty one is the root itself.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (of_entry, rest) = match text.strip_prefix('.') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let keys: Vec<Arc<str>> = match rest {
            "" => Vec::new(),
            rest => rest.split('.').map(Into::into).collect(),
        };
        let is_key = |key: &str| {
            let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'/');
            !key.is_empty() && key.bytes().all(inner)
        };
        keys.iter().all(|key| is_key(key)).then_some(Self { of_entry, keys })
    }

    /// The place `key` inside this one.
    pub(super) fn inside(&self, key: &str) -> Self {
        let mut inner = self.clone();
        inner.keys.push(key.into());
        inner
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.of_entry { "." } else { "" };
        write!(f, "{dot}{}", self.keys.join("."))
    }
}

impl Keep {
    /// Keeps `what` at `keys` inside this, too.
    pub(super) fn add(&mut self, keys: &[Arc<str>], what: Self) -> Result<(), Clash> {
        let Some((key, rest)) = keys.split_first() else {
            return self.join(what);
        };
        self.join(Self::Inside(Vec::new()))?;
        let fields = match self {
            Self::Inside(fields) => fields,
            // One entry among all that are read.
            Self::Each(entry) => return entry.add(rest, what),
            _ => return Err(Clash),
        };
        let at = fields.iter().position(|(field, _)| field == key).unwrap_or_else(|| {
            fields.push((Arc::clone(key), Self::Value));
            fields.len().saturating_sub(1)
        });
        fields.get_mut(at).map_or(Err(Clash), |(_, field)| field.add(rest, what))
    }

    /// The fields that are kept of a map.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        let fields = if let Self::Inside(fields) = self { fields.as_slice() } else { &[] };
        fields.iter().map(|(field, _)| &**field)
    }

    /// Reads one place both ways, where one of them includes the other.
    fn join(&mut self, other: Self) -> Result<(), Clash> {
        match (&mut *self, other) {
            (_, Self::Value) => Ok(()),
            (Self::Value, other) => {
                *self = other;
                Ok(())
            }
            (Self::Inside(fields), Self::Inside(others)) => {
                for (key, keep) in others {
                    match fields.iter_mut().find(|(field, _)| *field == key) {
                        Some((_, field)) => field.join(keep)?,
                        None => fields.push((key, keep)),
                    }
                }
                Ok(())
            }
            (Self::Each(entry), Self::Each(other)) => entry.join(*other),
            (Self::Each(entry), Self::Inside(fields)) => {
                fields.into_iter().try_for_each(|(_, keep)| entry.join(keep))
            }
            (Self::Inside(fields), Self::Each(mut entry)) => {
                for (_, keep) in std::mem::take(fields) {
                    entry.join(keep)?;
                }
                *self = Self::Each(entry);
                Ok(())
            }
            (one, other) if *one == other => Ok(()),
            _ => Err(Clash),
        }
    }
}
