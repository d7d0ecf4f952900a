//! Keys of quotas and usage: `requests.cpu`, `limits.nvidia.com/gpu.A30`, `pods`, `count/jobs.batch`,
//! `cash/limits.cpu`. Normalised once, at the door; comparing never splits.

use super::Why;
use crate::domain::{
    quantity::{Format, Milli, Quantity},
    resources::{is_extended, is_model},
};
use std::{collections::BTreeSet, fmt};

/// What one of something is called, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A CPU core.
    Core,
    /// A byte of memory or storage.
    Byte,
    /// A unit of an extended resource.
    Card,
    /// A pod, an object, anything else.
    Item,
}

/// Resource names that are known, so that a key can be split into resource and model.
///
/// `cpu`, `memory`, `ephemeral-storage`, `storage` and `hugepages-SIZE` are always known; extended names are
/// learned from the configuration and from pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known(BTreeSet<Box<str>>);

/// A group name longer than this fits no Kubernetes label.
const NAME_BYTES: usize = 63;
/// A prefix of a qualified name is a DNS subdomain.
const PREFIX_BYTES: usize = 253;
/// Name (63 bytes), dot, model (63 bytes).
const NAME_AND_MODEL_BYTES: usize = 127;

impl Unit {
    /// The unit of a normalised key; of `cash/K` the unit of K, whose hours are counted.
    #[must_use]
    pub fn of(key: &str) -> Self {
        let key = key.strip_prefix("cash/").unwrap_or(key);
        let Some((_, resource)) = sided(key) else { return Self::Item };
        match resource.split('.').next() {
            _ if is_extended(resource) => Self::Card,
            Some("cpu") => Self::Core,
            Some("memory" | "storage" | "ephemeral-storage") => Self::Byte,
            Some(name) if name.starts_with("hugepages-") => Self::Byte,
            _ => Self::Item,
        }
    }

    /// An amount as Kubernetes writes it, exactly: bytes by powers of two, all else decimal.
    #[must_use]
    pub fn written(self, milli: Milli) -> String {
        let format = if self == Self::Byte { Format::BinarySI } else { Format::DecimalSI };
        Quantity::from_milli(milli, format).to_string()
    }

    /// `core`, `byte`, `card` or `item`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Byte => "byte",
            Self::Card => "card",
            Self::Item => "item",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Known {
    /// Remembers an extended resource; other names need no learning.
    pub fn learn(&mut self, resource: &str) {
        if is_extended(resource) && !self.0.contains(resource) {
            self.0.insert(resource.into());
        }
    }

    /// Splits a normalised key (without `cash/`) into the generic key and the model: `limits.cpu.A4` into
    /// `limits.cpu` and `A4`. The longest known resource wins; a key that matches none is generic as a whole.
    #[must_use]
    pub fn split<'k>(&self, key: &'k str) -> (&'k str, Option<&'k str>) {
        let Some((_, resource)) = sided(key) else { return (key, None) };
        if self.holds(resource) {
            return (key, None);
        }
        let dots = resource.rmatch_indices('.').map(|(i, _)| i);
        let known = dots.filter_map(|i| resource.split_at_checked(i)).find(|(r, _)| self.holds(r));
        let model = known.and_then(|(_, rest)| rest.strip_prefix('.')).filter(|m| is_model(m));
        match model.and_then(|m| Some((key.strip_suffix(m)?.strip_suffix('.')?, m))) {
            Some((generic, model)) => (generic, Some(model)),
            None => (key, None),
        }
    }

    fn holds(&self, resource: &str) -> bool {
        is_standard(resource) || self.0.contains(resource)
    }
}

/// Whether `name` can be a group's: a DNS label of at most 63 bytes.
#[must_use]
pub fn is_group_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= NAME_BYTES
        && !name.is_empty()
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// The one spelling of a key that a person typed: `cpu` is `requests.cpu`, an extended resource is always
/// `limits.R`.
///
/// # Errors
/// Why the text is no key that anything is ever counted under.
pub fn normalise(key: &str) -> Result<String, Why> {
    if let Some(budgeted) = key.strip_prefix("cash/") {
        let budgeted = normalise(budgeted)?;
        return match sided(&budgeted) {
            Some(_) => Ok(format!("cash/{budgeted}")),
            None => Err("has no hours; budgets exist for requests.R and limits.R, \
                         as in cash/limits.cpu"
                .into()),
        };
    }
    if let Some(object) = key.strip_prefix("count/") {
        return match is_subdomain(object) {
            true => Ok(key.to_owned()),
            false => Err("counts no objects; write count/RESOURCE.GROUP in lower case, \
                          as in count/deployments.apps"
                .into()),
        };
    }
    if key == "pods" {
        return Ok(key.to_owned());
    }
    let (side, resource) = sided(key).unwrap_or(("requests.", key));
    if is_extended(resource) {
        return extended(resource);
    }
    let (name, model) = match resource.split_once('.') {
        Some((name, model)) => (name, Some(model)),
        None => (resource, None),
    };
    if !is_standard(name) {
        return Err(
            "is no key; write requests.R or limits.R (R is cpu, memory, ephemeral-storage, \
                    hugepages-SIZE or VENDOR/NAME, with .MODEL behind it if need be), pods, \
                    count/RESOURCE.GROUP, or cash/ before a resource key"
                .into(),
        );
    }
    match model {
        Some(model) if !is_model(model) => Err(MODEL.into()),
        _ => Ok(format!("{side}{resource}")),
    }
}

const MODEL: &str = "ends in no model; a model begins with a letter or digit, goes on with letters, digits, \
                     `.`, `_` or `-`, and has at most 63 characters";

fn extended(resource: &str) -> Result<String, Why> {
    let Some((prefix, name)) = resource.split_once('/') else { return Err(QUALIFIED.into()) };
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    let bytes = name.as_bytes();
    let fine = is_subdomain(prefix)
        && name.len() <= NAME_AND_MODEL_BYTES
        && name.bytes().all(inner)
        && ends(bytes.first().copied())
        && ends(bytes.last().copied());
    if fine { Ok(format!("limits.{resource}")) } else { Err(QUALIFIED.into()) }
}

const QUALIFIED: &str = "names no extended resource; write VENDOR/NAME or VENDOR/NAME.MODEL, \
                         as in limits.nvidia.com/gpu.A30";

fn is_subdomain(text: &str) -> bool {
    text.len() <= PREFIX_BYTES && text.split('.').all(is_group_name)
}

/// `requests.` or `limits.`, and the resource behind it.
fn sided(key: &str) -> Option<(&'static str, &str)> {
    let side = |side: &'static str| key.strip_prefix(side).map(|resource| (side, resource));
    side("requests.").or_else(|| side("limits."))
}

fn is_standard(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage" | "storage")
        || resource
            .strip_prefix("hugepages-")
            .is_some_and(|size| !size.is_empty() && size.bytes().all(|b| b.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_key_becomes_one() {
        for (typed, normal) in [
            ("cpu", "requests.cpu"),
            ("memory", "requests.memory"),
            ("ephemeral-storage", "requests.ephemeral-storage"),
            ("hugepages-2Mi", "requests.hugepages-2Mi"),
            ("cpu.A4", "requests.cpu.A4"),
            ("limits.cpu", "limits.cpu"),
            ("limits.cpu.A4.v2", "limits.cpu.A4.v2"),
            ("nvidia.com/gpu", "limits.nvidia.com/gpu"),
            ("requests.nvidia.com/gpu", "limits.nvidia.com/gpu"),
            ("requests.nvidia.com/gpu.A30", "limits.nvidia.com/gpu.A30"),
            ("cash/cpu", "cash/requests.cpu"),
            ("cash/requests.nvidia.com/gpu", "cash/limits.nvidia.com/gpu"),
            ("pods", "pods"),
            ("count/deployments.apps", "count/deployments.apps"),
        ] {
            assert_eq!(normalise(typed).as_deref(), Ok(normal), "{typed}");
            assert_eq!(normalise(normal).as_deref(), Ok(normal), "{normal} is normal already");
        }
    }

    #[test]
    fn what_nothing_is_counted_under_is_no_key() {
        for key in [
            "",
            "cpus",
            "limit.cpu",
            "limits.",
            "limits.cpu.",
            "limits.cpu.V100|T4",
            "limits.CPU",
            "services",
            "a/b/c",
            "/gpu",
            "nvidia.com/",
            "nvidia.com/gpu.",
            "Nvidia.com/gpu",
            "cash/",
            "cash/pods",
            "cash/count/jobs.batch",
            "cash/cash/cpu",
            "count/",
            "count/Deployments.apps",
            "cpu ",
            "limits.cpu\n",
            "hugepages-",
            "limits.nvidia.com/gpu\u{0}",
        ] {
            assert!(normalise(key).is_err(), "{key:?}");
        }
        assert!(normalise(&format!("cpu.{}", "m".repeat(64))).is_err());
        assert!(normalise(&format!("v/{}", "n".repeat(128))).is_err());
    }

    #[test]
    fn a_model_is_split_off_the_longest_known_resource() {
        let mut known = Known::default();
        known.learn("example.com/gpu");
        assert_eq!(
            known.split("limits.example.com/gpu.v2.A30"),
            ("limits.example.com/gpu", Some("v2.A30"))
        );
        known.learn("example.com/gpu.v2");
        for (key, generic, model) in [
            ("limits.example.com/gpu.v2.A30", "limits.example.com/gpu.v2", Some("A30")),
            ("limits.example.com/gpu.v2", "limits.example.com/gpu.v2", None),
            ("limits.example.com/gpu.A30", "limits.example.com/gpu", Some("A30")),
            ("limits.nvidia.com/gpu.A30", "limits.nvidia.com/gpu.A30", None),
            ("requests.cpu.A4", "requests.cpu", Some("A4")),
            ("limits.hugepages-2Mi.x", "limits.hugepages-2Mi", Some("x")),
            ("limits.cpu", "limits.cpu", None),
            ("limits.cpu.", "limits.cpu.", None),
            ("count/deployments.apps", "count/deployments.apps", None),
        ] {
            assert_eq!(known.split(key), (generic, model), "{key}");
        }
    }

    #[test]
    fn a_key_knows_its_unit() {
        for (key, unit) in [
            ("limits.cpu.A4", Unit::Core),
            ("cash/requests.cpu", Unit::Core),
            ("requests.memory", Unit::Byte),
            ("requests.ephemeral-storage", Unit::Byte),
            ("limits.hugepages-1Gi", Unit::Byte),
            ("limits.nvidia.com/gpu.A30", Unit::Card),
            ("limits.cpu.io/thing", Unit::Card),
            ("pods", Unit::Item),
            ("count/deployments.apps", Unit::Item),
            ("requests.cpuset", Unit::Item),
        ] {
            assert_eq!(Unit::of(key), unit, "{key}");
        }
    }

    #[test]
    fn a_group_is_named_like_a_dns_label() {
        for name in ["a", "team-a", "0", "a--b", &"x".repeat(63)] {
            assert!(is_group_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a.b", "a_b", "ä", &"x".repeat(64)] {
            assert!(!is_group_name(name), "{name}");
        }
    }
}
