//! Numbers and conditions that a declaration takes from an object: so many replicas, suspended or not.

use super::{object::Node, path::Path};
use std::borrow::Cow;
/// Where paths begin.
#[derive(Clone)]
pub(super) struct Scope<'o> {
    /// The object.
    pub(super) root: &'o Node,
    /// The entry that a role is made of: its key, or what it is called.
    pub(super) name: Cow<'o, str>,
    /// That entry.
    pub(super) entry: &'o Node,
}

/// So many pods, or a share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    Pods(i64),
    /// Rounded up.
    Percent(i64),
}

/// A number that is written down, or stands somewhere in the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Fixed(Amount),
    /// The first less the others; where the first is not there, there is no bound.
    Paths(Vec<Path>),
}

/// A number with its default and bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) when: Option<Condition>,
    pub(super) path: Option<Path>,
    pub(super) default: Amount,
    pub(super) at_least: Option<Bound>,
    pub(super) at_most: Option<Bound>,
    pub(super) plus: i64,
}

/// Something that holds of an object or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// One of these texts (or truth values) stands there.
    Is(Path, Vec<Box<str>>),
    /// Anything stands there, or nothing does.
    Present(Path, bool),
    /// The role is called so, in whatever case.
    Named(Box<str>),
    /// `status.conditions` has one of these types with the status `True`.
    Reported(Path, Vec<Box<str>>),
    /// All of these.
    All(Vec<Condition>),
}

/// A place holds no number of pods.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: `{value}` is no number of pods; write a whole number of 0 or more{percent}")]
pub struct NoCount {
    path: String,
    value: String,
    percent: &'static str,
}

impl<'o> Scope<'o> {
    /// An object as a whole.
    pub(super) fn of(root: &'o Node) -> Self {
        Self { root, name: Cow::Borrowed(""), entry: &Node::Nothing }
    }

    /// What stands at `path`.
    pub(super) fn at(&self, path: &Path) -> &'o Node {
        let from = if path.of_entry { self.entry } else { self.root };
        from.at(&path.keys)
    }

    /// A path as people find it: behind the entry's name, where it begins there.
    pub(super) fn place(&self, path: &Path) -> String {
        if path.of_entry { format!("{}{path}", self.name) } else { path.to_string() }
    }

    /// Whether any of `conditions` holds.
    pub(super) fn any(&self, conditions: &[Condition]) -> bool {
        conditions.iter().any(|c| c.holds(self))
    }

    /// The first of `terms` that applies here; of `base` pods, where shares are allowed.
    pub(super) fn first(&self, terms: &[Term], base: Option<i64>) -> Result<Option<i64>, NoCount> {
        let applies = |term: &&Term| term.when.as_ref().is_none_or(|when| when.holds(self));
        terms.iter().find(applies).map(|term| self.number(term, base)).transpose()
    }

    /// The number that a term stands for.
    pub(super) fn number(&self, term: &Term, base: Option<i64>) -> Result<i64, NoCount> {
        let written = term.path.as_ref().map(|path| self.amount(path, base)).transpose()?.flatten();
        let mut number = written.unwrap_or(term.default).of(base);
        if let Some(least) = self.bound(term.at_least.as_ref(), base)? {
            number = number.max(least);
        }
        if let Some(most) = self.bound(term.at_most.as_ref(), base)? {
            number = number.min(most);
        }
        Ok(number.saturating_add(term.plus).max(0))
    }

    fn bound(&self, bound: Option<&Bound>, base: Option<i64>) -> Result<Option<i64>, NoCount> {
        let paths = match bound {
            None => return Ok(None),
            Some(Bound::Fixed(amount)) => return Ok(Some(amount.of(base))),
            Some(Bound::Paths(paths)) => paths,
        };
        let mut numbers = paths.iter().map(|path| self.amount(path, base));
        let Some(first) = numbers.next().transpose()?.flatten() else { return Ok(None) };
        let mut rest = first.of(base);
        for less in numbers {
            rest = rest.saturating_sub(less?.map_or(0, |less| less.of(base)));
        }
        Ok(Some(rest.max(0)))
    }

    fn amount(&self, path: &Path, base: Option<i64>) -> Result<Option<Amount>, NoCount> {
        match self.at(path) {
            Node::Nothing => Ok(None),
            Node::Number(n) if *n >= 0 => Ok(Some(Amount::Pods(*n))),
            // Argo's own default is the text `25`, and means per cent.
            Node::Text(text) if base.is_some() && Amount::percent(text).is_some() => {
                Ok(Amount::percent(text))
            }
            other => {
                let percent = if base.is_some() { " or a percentage" } else { "" };
                Err(NoCount { path: self.place(path), value: other.to_string(), percent })
            }
        }
    }
}

impl Amount {
    /// `25%`, also without the sign.
    pub(super) fn percent(text: &str) -> Option<Self> {
        let digits = text.strip_suffix('%').unwrap_or(text);
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let percent = digits.parse().ok().filter(|n: &i64| plain && *n <= 1_000_000)?;
        Some(Self::Percent(percent))
    }

    fn of(self, base: Option<i64>) -> i64 {
        match self {
            Self::Pods(pods) => pods,
            Self::Percent(percent) => {
                let hundredths = i128::from(percent).saturating_mul(i128::from(base.unwrap_or(0)));
                let up = hundredths.saturating_add(99).div_euclid(100);
                i64::try_from(up).unwrap_or(i64::MAX)
            }
        }
    }
}

impl Condition {
    fn holds(&self, scope: &Scope<'_>) -> bool {
        match self {
            Self::Is(path, values) => match scope.at(path) {
                Node::Text(text) => values.contains(text),
                Node::Bool(value) => values.iter().any(|v| **v == *value.to_string()),
                _ => false,
            },
            Self::All(all) => all.iter().all(|c| c.holds(scope)),
            Self::Present(path, present) => (*scope.at(path) != Node::Nothing) == *present,
            Self::Named(name) => scope.name.eq_ignore_ascii_case(name),
            Self::Reported(path, kinds) => {
                let text = |node: &Node, key: &str| match node.at(&[key.into()]) {
                    Node::Text(text) => text.clone(),
                    _ => Box::default(),
                };
                scope.at(path).entries().iter().any(|(_, condition)| {
                    &*text(condition, "status") == "True"
                        && kinds.contains(&text(condition, "type"))
                })
            }
        }
    }

    /// Every place that is looked at.
    pub(super) fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Is(path, _) | Self::Present(path, _) | Self::Reported(path, _) => vec![path],
            Self::All(all) => all.iter().flat_map(Self::paths).collect(),
            Self::Named(_) => Vec::new(),
        }
    }
}

impl Term {
    /// Every place that is looked at.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        fn of(bound: Option<&Bound>) -> &[Path] {
            match bound {
                Some(Bound::Paths(paths)) => paths,
                _ => &[],
            }
        }
        let when = self.when.as_ref().map(Condition::paths).unwrap_or_default();
        when.into_iter()
            .chain(&self.path)
            .chain(of(self.at_least.as_ref()))
            .chain(of(self.at_most.as_ref()))
    }
}
