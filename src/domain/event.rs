//! What can be said in the log: every event type of the design, version 1.
//!
//! An event is past tense and never edited. JSON names are the contract with auditors; a field that is added
//! later is optional for ever. The bytes themselves are known to `event_log/codec.rs` only.

use super::{
    text::{Text, hex16},
    time::Timestamp,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

mod accounts;
mod cash;
mod clusters;
mod logs;
mod owned;
mod pods;
mod quotas;
mod workloads;

pub use accounts::{PeriodClosed, UsageAdjusted};
pub use cash::{CarryOver, CashPeriod};
pub use clusters::{ClusterBound, ClusterRetired, NodeClock, NodeObserved, ObserverSynced};
pub use logs::{LogOpened, LogVersionRaised};
pub use pods::{
    PodCreated, PodMoved, PodRan, PodResized, PodStarted, PodStopWithdrawn, PodStopped,
    ResizeBasis, StartBasis, StopBasis,
};
pub use quotas::{Charge, ModelPolicy, QuotaDeclared, QuotaProposed, QuotaRemoved, QuotaSpec};
pub use workloads::{
    Admission, Operation, PodResize, Refused, ReservationExpired, Role, WorkloadGone,
    WorkloadObserved, WorkloadsAdmitted, WorkloadsRefused,
};

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

/// An interval `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Period {
    /// First instant inside.
    pub from: Timestamp,
    /// First instant after it.
    pub to: Timestamp,
}
