//! Records as literals: a scale for instants, contents for pods, and one function a kind of record.

use bizrq::domain::{
    event::*,
    quantity::{Format, Quantity},
    resources::{Models, ResourceList, Resources},
    text::Text,
    time::Timestamp,
};
use std::sync::Arc;

/// Instants as small numbers: `base + n × grain` milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Number 0, in milliseconds since 1970.
    pub(crate) base: i64,
    /// Milliseconds between two numbers.
    pub(crate) grain: i64,
}

/// 2026-03-01T00:00:00Z: the start of an hour, of a day and of a month.
pub(crate) const MARCH: i64 = 1_772_323_200_000;
/// Milliseconds of an hour.
pub(crate) const HOUR: i64 = 3_600_000;

impl Scale {
    /// Milliseconds; number 200 begins March.
    pub(crate) const MILLIS: Self = Self { base: MARCH - 200, grain: 1 };
    /// Seven minutes; number 200 begins March, so that hours, days and a month are crossed.
    pub(crate) const MINUTES: Self = Self { base: MARCH - 200 * 420_000, grain: 420_000 };

    /// Number `n` in milliseconds since 1970.
    pub(crate) fn millis(self, n: i64) -> i64 {
        self.base + n * self.grain
    }

    /// Number `n`.
    pub(crate) fn at(self, n: i64) -> Timestamp {
        Timestamp::from_millis(self.millis(n)).expect("a small number")
    }
}

/// What a pod holds, for whom, on what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    pub(crate) group: &'static str,
    pub(crate) cpu_model: Option<&'static str>,
    pub(crate) gpu_model: Option<&'static str>,
    pub(crate) amounts: Amounts,
}

/// Milli-cores, bytes and milli-cards; none of a zero amount of memory or cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Amounts {
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) gpu: i64,
}

impl Amounts {
    /// As requests and limits: the limit of cpu is twice its request.
    pub(crate) fn resources(self) -> Arc<Resources> {
        let milli = |m: i64| Quantity::from_milli(i128::from(m), Format::DecimalSI);
        let bytes = Quantity::from_milli(i128::from(self.memory) * 1000, Format::BinarySI);
        let mut requests = ResourceList::default();
        let mut limits = ResourceList::default();
        requests.set("cpu", milli(self.cpu));
        limits.set("cpu", milli(self.cpu.saturating_mul(2)));
        if self.memory > 0 {
            requests.set("memory", bytes);
        }
        if self.gpu > 0 {
            requests.set("nvidia.com/gpu", milli(self.gpu));
            limits.set("nvidia.com/gpu", milli(self.gpu));
        }
        Arc::new(Resources { requests, limits })
    }
}

impl Content {
    fn models(&self) -> Models<'static> {
        Models {
            cpu: self.cpu_model.map(Text::from),
            memory: None,
            gpu: self.gpu_model.map(Text::from),
        }
    }
}

/// One pod that records are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) source: &'static str,
    pub(crate) uid: String,
    pub(crate) scale: Scale,
}

/// A stop's particulars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) basis: StopBasis,
    /// The billed instant.
    pub(crate) at: i64,
    pub(crate) earliest: i64,
    pub(crate) latest: i64,
    pub(crate) ran: Option<(i64, i64)>,
}

impl Stop {
    /// A stop that is certain.
    pub(crate) fn certain(basis: StopBasis, at: i64) -> Self {
        Self { basis, at, earliest: at, latest: at, ran: None }
    }
}

impl Pod {
    /// Pod `uid` of `source`.
    pub(crate) fn new(scale: Scale, source: &'static str, uid: &str) -> Self {
        Self { source, uid: uid.to_owned(), scale }
    }

    pub(crate) fn created(&self, t: i64, content: &Content) -> Event<'static> {
        let data = Data::PodCreated(PodCreated {
            uid: self.uid(),
            owner: None,
            group: content.group.into(),
            models: content.models(),
            reserved: content.amounts.resources(),
        });
        self.event(t, "created", "", data)
    }

    pub(crate) fn started(&self, t: i64, basis: StartBasis, content: &Content) -> Event<'static> {
        self.started_on(t, basis, content, "n1")
    }

    pub(crate) fn started_on(
        &self,
        t: i64,
        basis: StartBasis,
        content: &Content,
        node: &'static str,
    ) -> Event<'static> {
        let data = Data::PodStarted(PodStarted {
            uid: self.uid(),
            owner: None,
            group: content.group.into(),
            models: content.models(),
            node: node.into(),
            held: content.amounts.resources(),
            reserved: None,
            basis,
        });
        self.event(
            t,
            "started",
            &format!("{basis:?}{}", if node == "n1" { "" } else { node }),
            data,
        )
    }

    pub(crate) fn ran(&self, t: i64) -> Event<'static> {
        let data = Data::PodRan(PodRan { uid: self.uid(), from: self.scale.at(t) });
        self.event(t, "ran", "", data)
    }

    pub(crate) fn resized(&self, t: i64, basis: ResizeBasis, amounts: Amounts) -> Event<'static> {
        let data = Data::PodResized(PodResized {
            uid: self.uid(),
            held: amounts.resources(),
            reserved: None,
            basis,
        });
        self.event(t, "resized", &format!("{amounts:?}"), data)
    }

    pub(crate) fn moved(&self, t: i64, content: &Content) -> Event<'static> {
        let models = content.models();
        let distinct = format!("{}{models:?}", content.group);
        let data = Data::PodMoved(PodMoved {
            uid: self.uid(),
            owner: None,
            group: content.group.into(),
            models,
        });
        self.event(t, "moved", &distinct, data)
    }

    pub(crate) fn stopped(&self, stop: Stop) -> Event<'static> {
        let at = |n| self.scale.at(n);
        let data = Data::PodStopped(PodStopped {
            uid: self.uid(),
            earliest: at(stop.earliest),
            latest: at(stop.latest),
            basis: stop.basis,
            phase: "Succeeded".into(),
            reason: Text::EMPTY,
            ran: stop.ran.map(|(from, to)| Period { from: at(from), to: at(to) }),
        });
        self.event(stop.at, "stopped", &format!("{:?}", stop.basis), data)
    }

    pub(crate) fn withdrawn(&self, alive_at: i64) -> Event<'static> {
        let data = Data::PodStopWithdrawn(PodStopWithdrawn {
            uid: self.uid(),
            alive_at: self.scale.at(alive_at),
        });
        self.event(alive_at, "stop_withdrawn", "", data)
    }

    fn uid(&self) -> Text<'static> {
        self.uid.clone().into()
    }

    fn event(&self, t: i64, what: &str, distinct: &str, data: Data<'static>) -> Event<'static> {
        let subject = format!("pods/ml/{}", self.uid);
        let id = id(&[self.source, &self.uid, what, distinct, &t.to_string()]);
        event(self.source, subject, self.scale.at(t), id, data)
    }
}

/// The heartbeat of an observer of `source`: nothing was missed since number `since`.
pub(crate) fn synced(scale: Scale, source: &'static str, t: i64, since: i64) -> Event<'static> {
    let data = Data::ObserverSynced(ObserverSynced {
        resource_versions: [("pods".into(), (812_000 + t).to_string().into())].into(),
        since: scale.at(since),
    });
    let id = id(&[source, "synced", &t.to_string(), &since.to_string()]);
    event(source, "observers/east".to_owned(), scale.at(t), id, data)
}

/// A quota object as it was seen: generation and parent.
pub(crate) fn declared(
    scale: Scale,
    t: i64,
    (group, uid): (&str, &str),
    generation: i64,
    parent: &str,
) -> Event<'static> {
    let hard = Quantity::from_milli(1_000_000, Format::DecimalSI);
    let data = Data::QuotaDeclared(QuotaDeclared {
        uid: uid.to_owned().into(),
        resource_version: (1000 + t).to_string().into(),
        generation,
        spec: QuotaSpec {
            parent: parent.to_owned().into(),
            hard: [("limits.cpu".into(), hard)].into(),
            ..QuotaSpec::default()
        },
    });
    let id = id(&["declared", group, uid, &t.to_string()]);
    event("/clusters/east", format!("quotas/{group}"), scale.at(t), id, data)
}

/// A quota object that is gone.
pub(crate) fn removed(scale: Scale, t: i64, group: &str, uid: &str) -> Event<'static> {
    let data = Data::QuotaRemoved(QuotaRemoved { uid: uid.to_owned().into() });
    let id = id(&["removed", group, uid, &t.to_string()]);
    event("/clusters/east", format!("quotas/{group}"), scale.at(t), id, data)
}

/// A correction of team-a's `requests.memory`.
pub(crate) fn adjusted(scale: Scale, t: i64, exact: i128) -> Event<'static> {
    let data = Data::UsageAdjusted(UsageAdjusted {
        key: "requests.memory".into(),
        exact,
        period: Period { from: scale.at(0), to: scale.at(1) },
        why: "a test".into(),
        by: "a tester".into(),
    });
    let id = id(&["adjusted", &t.to_string(), &exact.to_string()]);
    event("/operators/test", "accounts/team-a".to_owned(), scale.at(t), id, data)
}

fn event(
    source: &'static str,
    subject: String,
    time: Timestamp,
    id: EventId,
    data: Data<'static>,
) -> Event<'static> {
    Event { id, source: source.into(), subject: subject.into(), time, recorded_at: time, data }
}

/// Contract §4: 128 bits of BLAKE3 over length-prefixed parts.
fn id(parts: &[&str]) -> EventId {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut bits = [0; 16];
    bits.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    EventId(u128::from_be_bytes(bits))
}
