//! Refusals: named, ordered, and in the words of Kubernetes' own quota.

use crate::domain::{
    book::{Exceeded, Fault, TooFew},
    event::ObjectRef,
    names::{GroupId, KeyId, Names},
    quantity::{Format, Milli, Quantity},
    time::HOUR_MS,
};
use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Why something is refused, in the order in which reasons win.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[$doc])* $name,)+ }

        impl Reason {
            /// The name that users, events and metrics see.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// The reason of this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                $(if name == stringify!($name) { return Some(Self::$name); })+
                None
            }
        }
    };
}

reasons! {
    /// The object cannot be understood.
    MalformedObject,
    /// The object names no group.
    GroupMissing,
    /// The group is not declared, or admits nothing now.
    UnknownGroup,
    /// An amount is no quantity, negative, or too large.
    InvalidQuantity,
    /// A container does not declare what its group limits.
    UnspecifiedResource,
    /// The group wants to know the model.
    ModelRequired,
    /// A time budget is used up.
    CashExhausted,
    /// A limit would be exceeded.
    QuotaExceeded,
    /// The log cannot be reached.
    LogUnavailable,
    /// The parent is not there.
    ParentNotFound,
    /// The parent is below the group.
    Cycle,
    /// The group would change its tree.
    DifferentTree,
    /// Nothing above limits a key.
    KeyNotInParent,
    /// Something above has too little.
    ParentExceeded,
    /// Children have been given more.
    BelowChildren,
    /// Groups count in it.
    HasChildren,
    /// Workloads count in it.
    HasWorkloads,
    /// The root has spent or holds something.
    HasSpent,
    /// It is a copy of another cluster's object.
    Mirror,
}

/// A "no", with everything that a person needs to make it a "yes".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// For people: which number is in the way, and what would be accepted.
    pub message: String,
    /// Every limit that is in the way.
    pub exceeded: Vec<Exceeded>,
    /// How many replicas would be accepted, where one role grows.
    pub fit: Option<Fit>,
}

/// How many replicas would be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// So many.
    pub replicas: u64,
    /// Of so many asked for.
    pub of: u64,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl Refusal {
    /// A refusal for which no number is in the way.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), exceeded: Vec::new(), fit: None }
    }

    /// Limits that would be exceeded.
    pub(super) fn exceeded(names: &Names, exceeded: Vec<Exceeded>, fit: Option<Fit>) -> Self {
        let message = over(names, &exceeded);
        Self { exceeded, ..Self::new(Reason::QuotaExceeded, message) }.with(fit)
    }

    /// The same, and how many replicas would be accepted.
    pub(super) fn with(mut self, fit: Option<Fit>) -> Self {
        if let Some(fit) = fit {
            self.message.push_str(&format!("; {} of {} replicas would fit", fit.replicas, fit.of));
        }
        self.fit = fit;
        self
    }

    /// Limits that what `object` makes would exceed even if nothing else were there.
    pub(super) fn never(names: &Names, object: &ObjectRef<'_>, exceeded: Vec<Exceeded>) -> Self {
        let message = format!(
            "nothing that {} `{}` makes can ever run: {}",
            &*object.kind,
            &*object.name,
            over(names, &exceeded)
        );
        Self { exceeded, ..Self::new(Reason::QuotaExceeded, message) }
    }

    /// A quota object that breaks a rule.
    #[must_use]
    pub fn fault(names: &Names, group: GroupId, fault: &Fault) -> Self {
        let exceeded = match fault {
            Fault::ParentExceeded(exceeded) => exceeded.clone(),
            _ => Vec::new(),
        };
        Self { exceeded, ..Self::new(Reason::of(fault), explain(names, group, fault)) }
    }
}

impl Reason {
    /// The name of a rule.
    #[must_use]
    pub const fn of(fault: &Fault) -> Self {
        match fault {
            Fault::ParentNotFound(_) => Self::ParentNotFound,
            Fault::Cycle(_) => Self::Cycle,
            Fault::DifferentTree(_) => Self::DifferentTree,
            Fault::KeyNotInParent(_) => Self::KeyNotInParent,
            Fault::ParentExceeded(_) => Self::ParentExceeded,
            Fault::BelowChildren(_) => Self::BelowChildren,
            Fault::HasChildren(_) => Self::HasChildren,
            Fault::HasWorkloads => Self::HasWorkloads,
            Fault::HasSpent(_) => Self::HasSpent,
        }
    }
}

/// An amount under `key` as people write it: `cash/` in hours (what has begun counts), bytes in binary units.
#[must_use]
pub fn amount(names: &Names, key: KeyId, milli: Milli) -> String {
    let name = names.key_name(key);
    let resource = name.strip_prefix("cash/").unwrap_or(name);
    let binary = ["memory", "storage", "hugepages"].iter().any(|r| resource.contains(r));
    let format = if binary { Format::BinarySI } else { Format::DecimalSI };
    let milli = match names.budgeted(key) {
        Some(_) => milli.div_euclid(i128::from(HOUR_MS)),
        None => milli,
    };
    Quantity::from_milli(milli, format).to_string()
}

/// `exceeded quota: team-a, requested: limits.cpu=4, used: limits.cpu=8, limited: limits.cpu=10`, for each group.
fn over(names: &Names, exceeded: &[Exceeded]) -> String {
    let mut groups: Vec<GroupId> = Vec::new();
    for e in exceeded {
        if !groups.contains(&e.group) {
            groups.push(e.group);
        }
    }
    let list = |group: GroupId, of: fn(&Exceeded) -> Milli| {
        let mut lines: Vec<_> = exceeded
            .iter()
            .filter(|e| e.group == group)
            .map(|e| format!("{}={}", names.key_name(e.key), amount(names, e.key, of(e))))
            .collect();
        lines.sort();
        lines.join(",")
    };
    let sentence = |group: &GroupId| {
        format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            names.group_name(*group),
            list(*group, |e| e.requested),
            list(*group, |e| e.used),
            list(*group, |e| e.limited)
        )
    };
    groups.iter().map(sentence).collect::<Vec<_>>().join("; ")
}

fn explain(names: &Names, group: GroupId, fault: &Fault) -> String {
    let name = |g: GroupId| names.group_name(g);
    match fault {
        Fault::ParentNotFound(parent) => format!(
            "spec.parent: `{}` is not declared or is being removed; declare it first, or name another",
            name(*parent)
        ),
        Fault::Cycle(parent) => format!(
            "spec.parent: `{}` is `{}` itself or below it; name a group that is not",
            name(*parent),
            name(group)
        ),
        Fault::DifferentTree(busy) => format!(
            "spec.parent: `{}` would leave its tree, but `{}` holds or has spent something; \
             choose a parent in the same tree",
            name(group),
            name(*busy)
        ),
        Fault::KeyNotInParent(keys) => format!(
            "no group above `{}` limits {}; add it to spec.hard there, or leave it out here",
            name(group),
            keys.iter().map(|k| names.key_name(*k)).collect::<Vec<_>>().join(", ")
        ),
        Fault::ParentExceeded(exceeded) => format!(
            "{}; lower spec.hard of `{}` or raise the limit above",
            over(names, exceeded),
            name(group)
        ),
        Fault::BelowChildren(short) => format!(
            "groups below `{}` have been given more: {}; lower theirs first",
            name(group),
            short.iter().map(|s| too_few(names, s)).collect::<Vec<_>>().join(", ")
        ),
        Fault::HasChildren(children) => format!(
            "groups count in `{}`: {}; remove or move them first",
            name(group),
            children.iter().map(|c| name(*c)).collect::<Vec<_>>().join(", ")
        ),
        Fault::HasWorkloads => format!(
            "workloads are charged in `{}`; end them first, or annotate it with \
             bizrq.io/allow-orphans: \"true\"",
            name(group)
        ),
        Fault::HasSpent(busy) => format!(
            "`{}` is a root, and `{}` holds or has spent something; a root keeps its account",
            name(group),
            name(*busy)
        ),
    }
}

fn too_few(names: &Names, short: &TooFew) -> String {
    let key = names.key_name(short.key);
    let claimed = amount(names, short.key, short.claimed);
    match short.hard {
        Some(hard) => {
            format!("spec.hard[{key}]={}, given: {claimed}", amount(names, short.key, hard))
        }
        None => format!("spec.hard[{key}] left out, given: {claimed}"),
    }
}
