//! By which labels (or annotations) objects name their group and their models.

use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeSet, fmt, str::FromStr};

/// The keys of the labels that count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelKeys {
    /// Names the group.
    pub group: Cow<'static, str>,
    /// Declares the CPU model.
    pub cpu: Cow<'static, str>,
    /// Declares the memory model.
    pub memory: Cow<'static, str>,
    /// Declares the model of every extended resource.
    pub gpu: Cow<'static, str>,
}

/// What a label names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// The group.
    Group,
    /// The CPU model.
    Cpu,
    /// The memory model.
    Memory,
    /// The model of every extended resource.
    Gpu,
}

/// A label that is to name something; as text `gpu=example.com/card`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label {
    /// What it names.
    pub what: Named,
    /// Its key.
    pub key: String,
}

/// A label that cannot name what it is to name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label `{label}`: {why}")]
pub struct WrongLabel {
    /// The label.
    pub label: Label,
    /// What is wrong, and the remedy.
    pub why: String,
}

impl LabelKeys {
    /// The keys where nobody chose others.
    pub const USUAL: Self = Self {
        group: Cow::Borrowed("biz.group.resource.quota"),
        cpu: Cow::Borrowed("biz.group.resource.quota/cpu-type"),
        memory: Cow::Borrowed("biz.group.resource.quota/memory-type"),
        gpu: Cow::Borrowed("biz.group.resource.quota/gpu-type"),
    };

    /// The usual keys, but for these labels.
    ///
    /// # Errors
    /// Two labels are to name one thing, or one label two.
    pub fn with(labels: &[Label]) -> Result<Self, WrongLabel> {
        let mut keys = Self::USUAL;
        let mut given = BTreeSet::new();
        for label in labels {
            if !given.insert(label.what) {
                return Err(label.wrong(format!("{} is given twice; give one label", label.what)));
            }
            *keys.place(label.what) = label.key.clone().into();
        }
        for label in labels {
            let mut others = Named::ALL.into_iter().filter(|what| *what != label.what);
            if let Some(other) = others.find(|what| *keys.key(*what) == *label.key) {
                return Err(label.wrong(format!("it names {other}, too; give each its own label")));
            }
        }
        Ok(keys)
    }

    /// Every label, as it could be given.
    #[must_use]
    pub fn labels(&self) -> [Label; 4] {
        Named::ALL.map(|what| Label { what, key: self.key(what).to_owned() })
    }

    /// The key of the label that names something.
    #[must_use]
    pub fn key(&self, what: Named) -> &str {
        match what {
            Named::Group => &self.group,
            Named::Cpu => &self.cpu,
            Named::Memory => &self.memory,
            Named::Gpu => &self.gpu,
        }
    }

    /// The key of the label that declares the model of a resource.
    #[must_use]
    pub fn of_model(&self, resource: &str) -> &str {
        match resource {
            "cpu" => &self.cpu,
            "memory" => &self.memory,
            _ => &self.gpu,
        }
    }

    /// Whether a label of this key counts.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        Named::ALL.into_iter().any(|what| self.key(what) == key)
    }

    fn place(&mut self, what: Named) -> &mut Cow<'static, str> {
        match what {
            Named::Group => &mut self.group,
            Named::Cpu => &mut self.cpu,
            Named::Memory => &mut self.memory,
            Named::Gpu => &mut self.gpu,
        }
    }
}

impl Default for LabelKeys {
    fn default() -> Self {
        Self::USUAL
    }
}

impl Named {
    /// Everything that a label can name.
    pub const ALL: [Self; 4] = [Self::Group, Self::Cpu, Self::Memory, Self::Gpu];
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Group => "group",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Gpu => "gpu",
        })
    }
}

impl Label {
    fn wrong(&self, why: String) -> WrongLabel {
        WrongLabel { label: self.clone(), why }
    }
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, key) = text.split_once('=').unwrap_or((text, ""));
        let Some(what) = Named::ALL.into_iter().find(|what| what.to_string() == name) else {
            return Err(format!("`{text}` is none of group=KEY, cpu=KEY, memory=KEY and gpu=KEY"));
        };
        if !is_label_key(key) {
            return Err(format!(
                "`{key}` is no key of a label; write one as Kubernetes takes it, such as example.com/team"
            ));
        }
        Ok(Self { what, key: key.to_owned() })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.what, self.key)
    }
}

impl TryFrom<String> for Label {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.to_string()
    }
}

/// Whether Kubernetes takes this for the key of a label: a name of at most 63 characters, perhaps behind a DNS name
/// of at most 253 and a slash.
fn is_label_key(key: &str) -> bool {
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let domain = |name: &str| {
        name.len() <= 253 && name.split('.').all(|part| is_word(part, lower, |byte| byte == b'-'))
    };
    let (prefix, name) = key.split_once('/').map_or((None, key), |(p, name)| (Some(p), name));
    let sign = |byte| b"-_.".contains(&byte);
    prefix.is_none_or(domain)
        && name.len() <= 63
        && is_word(name, |byte| byte.is_ascii_alphanumeric(), sign)
}

/// Whether a text has letters at both ends, and letters and signs between.
fn is_word(text: &str, letter: impl Fn(u8) -> bool, sign: impl Fn(u8) -> bool) -> bool {
    let text = text.as_bytes();
    let ends = [text.first(), text.last()];
    ends.into_iter().all(|end| end.is_some_and(|byte| letter(*byte)))
        && text.iter().all(|byte| letter(*byte) || sign(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_are_told_as_kubernetes_tells_them() {
        let (name, prefix) = ("n".repeat(63), ["p"; 127].join("."));
        let longest = format!("{prefix}/{name}");
        for key in ["team", "a", "A_b.c-D", "example.com/team", "x/y", &name, &longest] {
            assert!(is_label_key(key), "{key}");
        }
        for key in ["", "/", "/a", "a/", "a/b/c", "-a", "a-", "a b", "Ex.com/a", "a..b/c"] {
            assert!(!is_label_key(key), "{key}");
        }
        let (long_name, long_prefix) = (format!("{name}n"), format!("{prefix}.p/a"));
        for key in ["-a.b/c", "a_b/c", "\u{e4}", &long_name, &long_prefix] {
            assert!(!is_label_key(key), "{key}");
        }
    }

    #[test]
    fn labels_that_are_given_take_the_place_of_the_usual_ones() {
        let label = |text: &str| text.parse::<Label>().unwrap();
        let keys = LabelKeys::with(&[label("group=example.com/team"), label("gpu=card")]).unwrap();
        let shown = keys.labels().map(|label| label.to_string());
        let usual = "biz.group.resource.quota";
        assert_eq!(
            shown,
            [
                "group=example.com/team".to_owned(),
                format!("cpu={usual}/cpu-type"),
                format!("memory={usual}/memory-type"),
                "gpu=card".to_owned(),
            ]
        );
        assert!(keys.has("card") && !keys.has(usual));
        assert_eq!(keys.of_model("nvidia.com/gpu"), "card");
        let wrong = |texts: &[&str]| {
            let labels: Vec<_> = texts.iter().map(|text| label(text)).collect();
            LabelKeys::with(&labels).unwrap_err().to_string()
        };
        assert_eq!(
            wrong(&["group=a", "group=b"]),
            "label `group=b`: group is given twice; give one label"
        );
        assert_eq!(
            wrong(&["cpu=a", "gpu=a"]),
            "label `cpu=a`: it names gpu, too; give each its own label"
        );
        let taken = wrong(&["cpu=biz.group.resource.quota"]);
        assert!(taken.contains("it names group, too"), "{taken}");
        for text in ["", "disk=a", "group", "group=", "group=a b"] {
            assert!(text.parse::<Label>().is_err(), "{text}");
        }
    }
}
