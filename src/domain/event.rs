//! What can be said in the log: every event type of the design, version 1.
//!
//! An event is past tense and never edited. JSON names are the contract with auditors; a field that is added
//! later is optional for ever. The bytes themselves are known to `event_log/codec.rs` only.

use super::{
    resources::{Models, Resources},
    text::{Text, hex16},
    time::Timestamp,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

mod cash;
mod owned;

pub use cash::{CarryOver, CashPeriod};

/// Place in the log: 1, 2, 3 … without holes, across roll-overs and archives. 0 means "before the first".
pub type Position = u64;

/// What every type name begins with: `io.bizrq.pod.started.v1`.
pub const TYPE_PREFIX: &str = "io.bizrq.";

/// The newest version of a log that this build reads and, once it was permitted, writes. A log is at version 1 until
/// a `log.version_raised` says otherwise.
pub const LOG_VERSION: u32 = 1;

/// 128 bits that name an event: 32 lower-case hex digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId(pub u128);

/// One event: the CloudEvents attributes that the ledger uses, and what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Names the event; the fold ignores a second one of the same name.
    pub id: EventId,
    /// Who says it: `/clusters/NAME`, `/imports/NAME`, `/operators/NAME`.
    pub source: Text<'a>,
    /// What it is about: `pods/NAMESPACE/NAME`, `quotas/NAME`, …
    pub subject: Text<'a>,
    /// When it happened.
    pub time: Timestamp,
    /// When it was published, by the publisher's clock.
    pub recorded_at: Timestamp,
    /// What happened.
    pub data: Data<'a>,
}

/// How far the log lets a type be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeName {
    /// A type and version that this build reads.
    Known(Kind),
    /// A known type in a version that only a newer build reads: the reader must stop.
    Newer {
        /// The known type.
        kind: Kind,
        /// Its version.
        version: u32,
    },
    /// A type that this build has never heard of: kept and ignored.
    Unknown,
}

macro_rules! event_types {
    ($($(#[$doc:meta])* $variant:ident($data:ty) = $name:literal $room:ident;)+) => {
        /// Every event type, in the order of the design's table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind { $($(#[$doc])* $variant,)+ }

        /// What happened, typed.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Data<'a> {
            $($(#[$doc])* $variant($data),)+
            /// An event of a type that this build does not know: kept, ignored.
            Unknown,
        }

        impl Kind {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name between `io.bizrq.` and the version: `pod.started`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What kind of statement it is.
            #[must_use]
            pub const fn room(self) -> Room {
                match self { $(Self::$variant => Room::$room,)+ }
            }
        }

        impl<'a> Data<'a> {
            /// The type, or `None` for [`Data::Unknown`].
            #[must_use]
            pub const fn kind(&self) -> Option<Kind> {
                match self { $(Self::$variant(_) => Some(Kind::$variant),)+ Self::Unknown => None }
            }

            /// The JSON Schema of the `data` of events of type `kind`.
            #[cfg(feature = "cli")]
            #[must_use]
            pub fn schema(kind: Kind) -> schemars::Schema {
                match kind { $(Kind::$variant => schemars::schema_for!($data),)+ }
            }

            /// Decodes the `data` value of an event of type `kind`.
            ///
            /// # Errors
            /// What the format's deserializer says.
            pub fn deserialize<D: Deserializer<'a>>(kind: Kind, data: D) -> Result<Self, D::Error> {
                match kind { $(Kind::$variant => Deserialize::deserialize(data).map(Self::$variant),)+ }
            }
        }

        impl Serialize for Data<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(data) => data.serialize(serializer),)+
                    Self::Unknown => Err(serde::ser::Error::custom("an unknown event is not written")),
                }
            }
        }
    };
}

/// What kind of statement an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Something that happened.
    Fact,
    /// Something that bizrq or an operator decided.
    Decision,
    /// Something for people.
    Note,
    /// Something about the log itself; travels with the decisions.
    Log,
}

event_types! {
    /// A pod came into being; it is charged from here, not yet metered.
    PodCreated(PodCreated<'a>) = "pod.created" Fact;
    /// A pod began to hold a node's resources.
    PodStarted(PodStarted<'a>) = "pod.started" Fact;
    /// A pod's first container began to run.
    PodRan(PodRan<'a>) = "pod.ran" Fact;
    /// A pod holds other amounts from here on.
    PodResized(PodResized<'a>) = "pod.resized" Fact;
    /// A pod belongs to another group, model or owner from here on.
    PodMoved(PodMoved<'a>) = "pod.moved" Fact;
    /// A pod gave its resources back.
    PodStopped(PodStopped<'a>) = "pod.stopped" Fact;
    /// A pod that was believed stopped was seen alive later.
    PodStopWithdrawn(PodStopWithdrawn<'a>) = "pod.stop_withdrawn" Fact;
    /// A workload as it really is.
    WorkloadObserved(WorkloadObserved<'a>) = "workload.observed" Fact;
    /// A workload is no more.
    WorkloadGone(WorkloadGone<'a>) = "workload.gone" Fact;
    /// A node's models and readiness.
    NodeObserved(NodeObserved<'a>) = "node.observed" Fact;
    /// Which real cluster a name stands for.
    ClusterBound(ClusterBound<'a>) = "cluster.bound" Fact;
    /// A cluster is no more.
    ClusterRetired(ClusterRetired) = "cluster.retired" Fact;
    /// The heartbeat of an observer: nothing was missed since.
    ObserverSynced(ObserverSynced<'a>) = "observer.synced" Fact;
    /// A quota object as it really is.
    QuotaDeclared(QuotaDeclared<'a>) = "quota.declared" Fact;
    /// A quota object is no more.
    QuotaRemoved(QuotaRemoved<'a>) = "quota.removed" Fact;
    /// Reservations that were granted, in order.
    WorkloadsAdmitted(WorkloadsAdmitted<'a>) = "workloads.admitted" Decision;
    /// A change of a quota object was let through its review.
    QuotaProposed(QuotaProposed<'a>) = "quota.proposed" Decision;
    /// An admission or proposal that never became real.
    ReservationExpired(ReservationExpired<'a>) = "reservation.expired" Decision;
    /// Refusals, aggregated.
    WorkloadsRefused(WorkloadsRefused<'a>) = "workloads.refused" Note;
    /// A signed correction of an account.
    UsageAdjusted(UsageAdjusted<'a>) = "usage.adjusted" Decision;
    /// A period whose invoice never changes again.
    PeriodClosed(PeriodClosed<'a>) = "period.closed" Decision;
    /// A log that continues another.
    LogOpened(LogOpened<'a>) = "log.opened" Log;
    /// Permission to write a newer version.
    LogVersionRaised(LogVersionRaised) = "log.version_raised" Log;
}

impl Kind {
    /// The full type name that this build writes: `io.bizrq.pod.started.v1`.
    #[must_use]
    pub fn type_name(self) -> String {
        format!("{TYPE_PREFIX}{}.v{}", self.name(), self.version())
    }

    /// The newest version that this build reads.
    #[must_use]
    pub const fn version(self) -> u32 {
        1
    }

    /// Whether it takes part in the order of decisions (conditional appends).
    #[must_use]
    pub const fn is_decision(self) -> bool {
        matches!(self.room(), Room::Decision | Room::Log)
    }
}

impl Data<'_> {
    /// The uid of the pod that it is about, if it is about one.
    #[must_use]
    pub fn pod(&self) -> Option<&str> {
        Some(match self {
            Self::PodCreated(data) => &data.uid,
            Self::PodStarted(data) => &data.uid,
            Self::PodRan(data) => &data.uid,
            Self::PodResized(data) => &data.uid,
            Self::PodMoved(data) => &data.uid,
            Self::PodStopped(data) => &data.uid,
            Self::PodStopWithdrawn(data) => &data.uid,
            _ => return None,
        })
    }

    /// The version to which it raises the log, if this build does not read it.
    #[must_use]
    pub fn newer_log(&self) -> Option<u32> {
        match self {
            Self::LogVersionRaised(raised) => Some(raised.version).filter(|v| *v > LOG_VERSION),
            _ => None,
        }
    }
}

impl TypeName {
    /// Understands a full type name.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        let Some((base, version)) =
            name.strip_prefix(TYPE_PREFIX).and_then(|n| n.rsplit_once(".v"))
        else {
            return Self::Unknown;
        };
        let Some(kind) = Kind::ALL.iter().copied().find(|k| k.name() == base) else {
            return Self::Unknown;
        };
        match u32::from_str(version) {
            Ok(v) if v >= 1 && v <= kind.version() => Self::Known(kind),
            Ok(version) if version > kind.version() => Self::Newer { kind, version },
            _ => Self::Unknown,
        }
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// `"32 lower-case hex digits"` is no event id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event id is 32 lower-case hex digits")]
pub struct InvalidEventId;

impl FromStr for EventId {
    type Err = InvalidEventId;
    fn from_str(text: &str) -> Result<Self, InvalidEventId> {
        let (halves, rest) = text.as_bytes().as_chunks::<16>();
        let id = match (halves, rest) {
            ([high, low], []) => hex16(high).zip(hex16(low)),
            _ => None,
        };
        let id = id.map(|(high, low)| u128::from(high) << 64 | u128::from(low));
        id.map(Self).ok_or(InvalidEventId)
    }
}

/// A Kubernetes object, named and identified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct ObjectRef<'a> {
    /// `apps/v1`.
    #[serde(borrow)]
    pub api_version: Text<'a>,
    /// `Deployment`.
    #[serde(borrow)]
    pub kind: Text<'a>,
    /// Absent for an owner (it is in the pod's namespace) and for what has none.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Text<'a>>,
    /// Name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// Identity: a name that is used again has another.
    #[serde(borrow)]
    pub uid: Text<'a>,
}

/// Where a start's time comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum StartBasis {
    /// The transition of the condition `PodScheduled` (API server's clock).
    Bound,
    /// The creation of a pod that came with its node (API server's clock).
    Created,
    /// `status.startTime` (the node's clock).
    KubeletStart,
    /// The observer first saw it on a node (the observer's clock).
    Observed,
    /// An imported row.
    Imported,
}

/// Where a stop's time comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum StopBasis {
    /// The kubelet's status write that showed the end (API server's clock).
    TerminalStatus,
    /// Arrival of that version over an unbroken watch (the observer's clock).
    Received,
    /// The last container's `finishedAt` (the node's clock).
    ContainersFinished,
    /// An imported row.
    Imported,
    /// The object was deleted (API server's clock).
    Deleted,
    /// The node was lost; provisional.
    NodeLost,
    /// Absent from a list; provisional.
    Absent,
}

/// Where a resize's time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum ResizeBasis {
    /// The kubelet's status write (API server's clock).
    KubeletStatus,
    /// Arrival over the watch (the observer's clock).
    Received,
    /// An imported row.
    Imported,
}

/// Data of `pod.created`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodCreated<'a> {
    /// The pod; of a mirror pod `UID@NODE`.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Its top-level workload; absent when it is its own.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ObjectRef<'a>>,
    /// The group that is charged; empty for none.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// Models.
    #[serde(borrow)]
    pub models: Models<'a>,
    /// What is charged against quota.
    pub reserved: Arc<Resources>,
}

/// Data of `pod.started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodStarted<'a> {
    /// The pod; of a mirror pod `UID@NODE`.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Its top-level workload; absent when it is its own.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ObjectRef<'a>>,
    /// The group that is billed; empty for none.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// Models.
    #[serde(borrow)]
    pub models: Models<'a>,
    /// The node.
    #[serde(borrow)]
    pub node: Text<'a>,
    /// What is metered.
    pub held: Arc<Resources>,
    /// What is charged against quota, where it differs from `held`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Arc<Resources>>,
    /// Where `time` comes from.
    pub basis: StartBasis,
}

/// Data of `pod.ran`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodRan<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// First `startedAt` (the node's clock).
    pub from: Timestamp,
}

/// Data of `pod.resized`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodResized<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// What is metered from here on.
    pub held: Arc<Resources>,
    /// What is charged against quota, where it differs from `held`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Arc<Resources>>,
    /// Where `time` comes from.
    pub basis: ResizeBasis,
}

/// Data of `pod.moved`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodMoved<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Its top-level workload from here on.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ObjectRef<'a>>,
    /// Its group from here on.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// Its models from here on.
    #[serde(borrow)]
    pub models: Models<'a>,
}

/// Data of `pod.stopped`; the event's `time` is the billed instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodStopped<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// It held its resources until here at least.
    pub earliest: Timestamp,
    /// It held none after this.
    pub latest: Timestamp,
    /// Where `time` comes from.
    pub basis: StopBasis,
    /// `status.phase`.
    #[serde(borrow, default)]
    pub phase: Text<'a>,
    /// `status.reason`.
    #[serde(borrow, default)]
    pub reason: Text<'a>,
    /// First `startedAt` to last `finishedAt` (the node's clock).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Period>,
}

/// An interval `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Period {
    /// First instant inside.
    pub from: Timestamp,
    /// First instant after it.
    pub to: Timestamp,
}

/// Data of `pod.stop_withdrawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodStopWithdrawn<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// It was alive then: every provisional stop before this is void.
    pub alive_at: Timestamp,
}

/// One role of a workload: so many pods like this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Role<'a> {
    /// Empty where the kind has one role only; else `Worker`, `head`, …
    #[serde(borrow, default)]
    pub name: Text<'a>,
    /// Pods that are wanted.
    pub count: u64,
    /// Pods that may be wanted at once while the workload is updated; not below `count`.
    pub peak: u64,
    /// Declared models.
    #[serde(borrow, default)]
    pub models: Models<'a>,
    /// What one pod reserves.
    pub pod: Arc<Resources>,
}

/// Data of `workload.observed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct WorkloadObserved<'a> {
    /// The workload.
    #[serde(borrow)]
    pub workload: ObjectRef<'a>,
    /// The version that was observed.
    #[serde(borrow)]
    pub resource_version: Text<'a>,
    /// `metadata.generation`.
    #[serde(default)]
    pub generation: i64,
    /// Its group; empty for none.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// What it asks for.
    #[serde(borrow)]
    pub roles: Vec<Role<'a>>,
}

/// Data of `workload.gone`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct WorkloadGone<'a> {
    /// The workload.
    #[serde(borrow)]
    pub workload: ObjectRef<'a>,
    /// `Deleted`, `Finished`, `Absent`.
    #[serde(borrow)]
    pub cause: Text<'a>,
}

/// Data of `node.observed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct NodeObserved<'a> {
    /// Models by node label.
    #[serde(borrow)]
    pub models: Models<'a>,
    /// Status of the condition `Ready`: `True`, `False`, `Unknown`.
    #[serde(borrow)]
    pub ready: Text<'a>,
    /// Where its clock is more than two seconds off the API server's, or was and is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<NodeClock>,
}

/// One write of a node's status by two clocks, both cut to whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct NodeClock {
    /// When the kubelet said it, by the node's clock.
    pub node: Timestamp,
    /// When it was taken, by the API server's clock.
    pub api: Timestamp,
}

impl NodeClock {
    /// Milliseconds by which the node is ahead; negative: behind.
    #[must_use]
    pub fn ahead(&self) -> i64 {
        self.node.since(self.api)
    }
}

/// Data of `cluster.bound`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct ClusterBound<'a> {
    /// Uid of its namespace `kube-system`.
    #[serde(borrow)]
    pub uid: Text<'a>,
}

/// Data of `cluster.retired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct ClusterRetired {
    /// When it ended.
    pub at: Timestamp,
}

/// Data of `observer.synced`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct ObserverSynced<'a> {
    /// Per kind, the version that everything is known up to.
    #[serde(borrow)]
    pub resource_versions: BTreeMap<Text<'a>, Text<'a>>,
    /// Nothing was missed since then.
    pub since: Timestamp,
}

/// Whether a group charges the surge of rolling updates in advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum Charge {
    /// Charge `count`.
    #[default]
    Steady,
    /// Charge `peak`.
    Peak,
}

/// Whether a workload must declare the model of what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum ModelPolicy {
    /// A workload without a model is charged under the generic key only.
    #[default]
    Declared,
    /// A workload without a model is refused where the group limits models.
    Required,
}

/// `spec` of a quota object as it was accepted: keys normalised, amounts canonical.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct QuotaSpec<'a> {
    /// The parent's name; empty for a root.
    #[serde(borrow, default)]
    pub parent: Text<'a>,
    /// Limits by key, `cash/KEY` for time budgets.
    #[serde(borrow, default, deserialize_with = "distinct")]
    pub hard: BTreeMap<Text<'a>, super::quantity::Quantity>,
    /// Steady or peak.
    #[serde(default)]
    pub charge: Charge,
    /// Declared or required.
    #[serde(default)]
    pub models: ModelPolicy,
    /// Percentages of its own cash at which the group is told. Absent: the usual ones; empty: none.
    #[serde(rename = "notifyCash", default, skip_serializing_if = "Option::is_none")]
    pub notify_cash: Option<Vec<u16>>,
    /// The same of what its whole subtree spends of the budget.
    #[serde(rename = "notifyConsumed", default, skip_serializing_if = "Option::is_none")]
    pub notify_consumed: Option<Vec<u16>>,
    /// Of a root: when the budgets of its tree begin anew. Absent: never.
    #[serde(rename = "cashPeriod", default, skip_serializing_if = "Option::is_none")]
    pub cash_period: Option<Arc<CashPeriod>>,
}

/// Data of `quota.declared`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct QuotaDeclared<'a> {
    /// The object.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Its version; empty where there is no API server.
    #[serde(borrow, default)]
    pub resource_version: Text<'a>,
    /// `metadata.generation`.
    pub generation: i64,
    /// What it says.
    #[serde(borrow)]
    pub spec: QuotaSpec<'a>,
}

/// Data of `quota.removed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct QuotaRemoved<'a> {
    /// The object.
    #[serde(borrow)]
    pub uid: Text<'a>,
}

/// What a review was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// A removed object.
    Delete,
}

/// Data of `workloads.admitted`: granted in this order, each judged with those before it in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct WorkloadsAdmitted<'a> {
    /// Position of the last record that the decider had applied.
    pub seen: Position,
    /// The admissions.
    #[serde(borrow)]
    pub admissions: Vec<Admission<'a>>,
}

/// One granted reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Admission<'a> {
    /// Uid of the review.
    #[serde(borrow)]
    pub request: Text<'a>,
    /// The cluster that asked.
    #[serde(borrow)]
    pub cluster: Text<'a>,
    /// What was asked.
    pub operation: Operation,
    /// The workload; of a resize the resized pod's top-level workload.
    #[serde(borrow)]
    pub workload: ObjectRef<'a>,
    /// Version of the object that is changed (of a resize, the pod's); absent for a create.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub old_resource_version: Option<Text<'a>>,
    /// The group that is asked.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// What the workload is to become.
    #[serde(borrow)]
    pub roles: Vec<Role<'a>>,
    /// Of a change of group: what the workload was, which the new group is asked for as well.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub old_roles: Option<Vec<Role<'a>>>,
    /// Of a pod's resize: the pod, and what it reserves before and after.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<PodResize<'a>>,
    /// Advice for people; expiry follows a consistent read.
    pub reserved_until: Timestamp,
}

/// A resize of one pod inside its workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PodResize<'a> {
    /// The pod.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Its models.
    #[serde(borrow, default)]
    pub models: Models<'a>,
    /// What it reserves.
    pub from: Arc<Resources>,
    /// What it is to reserve.
    pub to: Arc<Resources>,
}

/// Data of `quota.proposed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct QuotaProposed<'a> {
    /// Position of the last record that the decider had applied.
    pub seen: Position,
    /// What was asked.
    pub operation: Operation,
    /// The object.
    #[serde(borrow)]
    pub uid: Text<'a>,
    /// Version of the object that is changed; absent for a create.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub old_resource_version: Option<Text<'a>>,
    /// What it is to say; absent for a removal.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<QuotaSpec<'a>>,
    /// Uid of the review; absent where nobody asked a webhook.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Text<'a>>,
}

/// Data of `reservation.expired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct ReservationExpired<'a> {
    /// Position of the admission, of the proposal, or of the fact whose former charge was kept.
    pub position: Position,
    /// The workload that was admitted (a batch holds many); absent for a proposal, whose name is in the subject.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<ObjectRef<'a>>,
    /// The cluster that asked.
    #[serde(borrow)]
    pub cluster: Text<'a>,
}

/// Data of `workloads.refused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct WorkloadsRefused<'a> {
    /// The refusals.
    #[serde(borrow)]
    pub refusals: Vec<Refused<'a>>,
}

/// Refusals of one workload for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Refused<'a> {
    /// The cluster that asked.
    #[serde(borrow)]
    pub cluster: Text<'a>,
    /// The workload.
    #[serde(borrow)]
    pub workload: ObjectRef<'a>,
    /// The group that was asked.
    #[serde(borrow)]
    pub group: Text<'a>,
    /// `QuotaExceeded`, …
    #[serde(borrow)]
    pub reason: Text<'a>,
    /// What the user was told last.
    #[serde(borrow)]
    pub message: Text<'a>,
    /// How often.
    pub count: u64,
    /// First time.
    pub first: Timestamp,
    /// Last time.
    pub last: Timestamp,
}

/// Data of `usage.adjusted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct UsageAdjusted<'a> {
    /// The key that is corrected.
    #[serde(borrow)]
    pub key: Text<'a>,
    /// Signed milli-units × milliseconds.
    #[serde(with = "exact")]
    #[cfg_attr(feature = "cli", schemars(with = "String"))]
    pub exact: i128,
    /// The period that it belongs to.
    pub period: Period,
    /// Why.
    #[serde(borrow)]
    pub why: Text<'a>,
    /// Who.
    #[serde(borrow)]
    pub by: Text<'a>,
}

/// Data of `period.closed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct PeriodClosed<'a> {
    /// First instant inside.
    pub from: Timestamp,
    /// First instant after it.
    pub to: Timestamp,
    /// What was known when it was closed.
    pub position: Position,
    /// Root of the log at that position.
    #[serde(borrow)]
    pub root: Text<'a>,
}

/// Data of `log.opened`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct LogOpened<'a> {
    /// Position of the last record before it.
    pub base: Position,
    /// Root at that position.
    #[serde(borrow)]
    pub root: Text<'a>,
    /// Frontier of the Merkle tree at that position.
    #[serde(borrow)]
    pub frontier: Vec<Text<'a>>,
    /// The log that it continues.
    #[serde(borrow)]
    pub previous: Text<'a>,
}

/// Data of `log.version_raised`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct LogVersionRaised {
    /// The newest version that may be written from here on.
    pub version: u32,
}

/// A map in which no key comes twice: of two the last would win silently.
fn distinct<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Text<'a>, super::quantity::Quantity>, D::Error> {
    struct Visitor;
    impl<'de> de::Visitor<'de> for Visitor {
        type Value = BTreeMap<Text<'de>, super::quantity::Quantity>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of key to quantity")
        }
        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some((key, quantity)) = map.next_entry::<Text<'de>, _>()? {
                if entries.insert(key.clone(), quantity).is_some() {
                    return Err(de::Error::custom(format!("`{key}` is listed twice; keep one")));
                }
            }
            Ok(entries)
        }
    }
    deserializer.deserialize_map(Visitor)
}

/// Exact amounts travel as decimal strings: JSON numbers lose digits in many readers.
mod exact {
    use super::{Deserializer, Serializer, Text, de};
    use serde::Deserialize;

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(exact: &i128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(exact)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<i128, D::Error> {
        let text = Text::deserialize(deserializer)?;
        text.parse().map_err(|_| de::Error::custom(format!("`{text}` is no whole number")))
    }
}
