//! The judge: from the records of a log alone, by the executable model's fold, whether every decision was right
//! when it was made, and nothing was decided twice.

use super::company::{CLUSTERS, number};
use crate::rules::{
    model::Model,
    world::{Adm, CASH, CPU, Dem, GPU, GROUPS, Hard, Prop, QSpec, Rec, Till},
};
use bizrq::{
    decider::Answer,
    domain::{
        event::{Admission, Data, Event, ObjectRef, Position, QuotaProposed, QuotaSpec, Role},
        ledger::Ledger,
        quantity::Quantity,
    },
    event_log::{
        EventLog, Reader,
        codec::{Decoded, Decoder},
    },
};
use std::collections::BTreeMap;

/// What a log says, read by the judge.
pub(crate) struct Verdict {
    /// By request: the records that allowed it.
    pub(crate) recorded: BTreeMap<String, Vec<Position>>,
    /// Admissions and proposals.
    pub(crate) decisions: u64,
    /// Events that hold more than one admission.
    pub(crate) batches: u64,
    /// Decisions that were made on a ledger behind which others stood already.
    pub(crate) overlaid: u64,
    /// Decisions between whose `seen` and place facts came.
    pub(crate) overtaken: u64,
    /// The fold of everything.
    model: Model,
}

/// A record, as the model takes it.
struct Told {
    rec: Option<Rec>,
    /// Of a decision: what its decider had applied.
    seen: Option<Position>,
    is_decision: bool,
    requests: Vec<String>,
}

pub(crate) async fn judge(log: &impl EventLog) -> Verdict {
    let records = read(log).await;
    let (till, now) = (Till::default(), 0);
    let mut base = Model::default();
    let mut verdict = Verdict {
        recorded: BTreeMap::new(),
        decisions: 0,
        batches: 0,
        overlaid: 0,
        overtaken: 0,
        model: Model::default(),
    };
    for (at, record) in records.iter().enumerate() {
        let position = at as u64 + 1;
        for request in &record.requests {
            verdict.recorded.entry(request.clone()).or_default().push(position);
        }
        let (Some(rec), Some(seen)) = (&record.rec, record.seen) else { continue };
        assert!(seen < position, "position {position} has seen {seen}");
        assert!(
            base.position <= seen,
            "position {position} has seen less than a decision before it"
        );
        while base.position < seen {
            base.read(&records, &till, now);
        }
        let mut ledger = base.clone();
        for between in &records[seen as usize..at] {
            if between.is_decision {
                ledger.read(&records, &till, now);
                verdict.overlaid += 1;
            } else {
                ledger.position += 1;
                verdict.overtaken += 1;
            }
        }
        verdict.decisions += raised_nothing_above_its_limit(&mut ledger, position, rec, &till, now);
        verdict.batches += u64::from(matches!(rec, Rec::Admitted(batch) if batch.len() > 1));
    }
    while base.position < records.len() as u64 {
        base.read(&records, &till, now);
    }
    verdict.model = base;
    verdict
}

/// Invariant 7, item by item.
fn raised_nothing_above_its_limit(
    ledger: &mut Model,
    position: Position,
    rec: &Rec,
    till: &Till,
    now: i64,
) -> u64 {
    match rec {
        Rec::Admitted(batch) => {
            let mut before = ledger.used();
            for (item, adm) in batch.iter().enumerate() {
                ledger.reserve(position, item, adm);
                let after = ledger.used();
                for group in GROUPS {
                    let (was, is, limit) = (before[group], after[group], ledger.limit(group));
                    let broken = (0..2).any(|k| is[k] > was[k] && is[k] > limit[k]);
                    assert!(
                        !broken,
                        "{position}.{item} raises {group} from {was:?} to {is:?} of {limit:?}: {adm:?}"
                    );
                }
                before = after;
            }
            batch.len() as u64
        }
        Rec::Proposed(proposal) => {
            let before = ledger.clone();
            ledger.propose(position, proposal);
            let grown = ledger.grown_from(&before, proposal.name, till, now);
            assert!(grown, "{position} gives away more than there is: {proposal:?}");
            1
        }
        _ => 0,
    }
}

impl Model {
    /// Takes the record behind the last.
    fn read(&mut self, records: &[Told], till: &Till, now: i64) {
        match &records[self.position as usize].rec {
            Some(rec) => self.apply(rec, till, now),
            None => self.position += 1,
        }
    }
}

impl Verdict {
    /// Each request was decided once, and whoever asked was told what the log says.
    pub(crate) fn agrees_with(&self, answers: &BTreeMap<String, Vec<Answer>>) {
        for (request, positions) in &self.recorded {
            assert_eq!(positions.len(), 1, "{request} was decided at {positions:?}");
        }
        for (request, told) in answers {
            let recorded = self.recorded.get(request).and_then(|p| p.first()).copied();
            for answer in told {
                match answer {
                    Answer::Allowed { recorded: at @ Some(_), .. } => {
                        assert_eq!(*at, recorded, "{request} was told {told:?}");
                    }
                    Answer::Allowed { recorded: None, .. } => {
                        assert_eq!(recorded, None, "{request} was told {told:?}");
                    }
                    // Asked again of another replica it may be allowed later; asked once it is not on the log.
                    Answer::Refused(_) => {
                        assert!(
                            recorded.is_none() || told.len() > 1,
                            "{request} was told {told:?}"
                        );
                    }
                    Answer::Unavailable(_) => {}
                }
            }
        }
    }

    /// The ledger says what the model says.
    pub(crate) fn agrees_with_ledger(&self, ledger: &Ledger) {
        let (names, used) = (ledger.names(), self.model.used());
        assert_eq!(ledger.quarantined(), []);
        for group in GROUPS {
            let Some(id) = names.known_group(group) else { continue };
            for (k, key) in [CPU, GPU].into_iter().enumerate() {
                let Some(key) = names.known_key(key) else { continue };
                let line = ledger.book().unwrap().line(id, key);
                assert_eq!(line.used, i128::from(used[group][k]) * 1000, "{group} {k}");
            }
        }
    }
}

async fn read(log: &impl EventLog) -> Vec<Told> {
    let (mut reader, mut decoder) = (log.read(1).unwrap(), Decoder::default());
    let mut told = Vec::new();
    while let Some(records) = reader.next().await.unwrap() {
        for (position, raw) in records.iter() {
            let scanned = raw.scan().unwrap();
            let Decoded::Event(event) = decoder.decode(&scanned).unwrap() else {
                panic!("position {position} is no event");
            };
            told.push(Told::from(&event));
        }
    }
    told
}

impl From<&Event<'_>> for Told {
    fn from(event: &Event<'_>) -> Self {
        let of = |workload: &ObjectRef<'_>| {
            number(event.source.strip_prefix("/clusters/").unwrap(), &workload.uid)
        };
        let quota = || listed(event.subject.strip_prefix("quotas/").unwrap_or_default());
        let mut told = Self {
            rec: None,
            seen: None,
            is_decision: event.data.kind().unwrap().is_decision(),
            requests: Vec::new(),
        };
        told.rec = match &event.data {
            Data::WorkloadsAdmitted(batch) => {
                told.seen = Some(batch.seen);
                let requests = batch.admissions.iter().map(|a| a.request.to_string());
                told.requests.extend(requests);
                Some(Rec::Admitted(batch.admissions.iter().map(adm).collect()))
            }
            Data::QuotaProposed(proposal) => {
                told.seen = Some(proposal.seen);
                told.requests.extend(proposal.request.iter().map(|r| r.to_string()));
                Some(Rec::Proposed(prop(quota(), proposal)))
            }
            Data::ReservationExpired(over) => {
                let uid = over.workload.as_ref().map(of);
                Some(Rec::Expired { position: over.position, uid, quota: quota() })
            }
            Data::WorkloadObserved(fact) => Some(Rec::Observed {
                uid: of(&fact.workload),
                name: "",
                rv: version(&fact.resource_version),
                group: listed(&fact.group),
                dem: dem(&fact.roles),
            }),
            Data::WorkloadGone(fact) => Some(Rec::Gone { uid: of(&fact.workload) }),
            Data::QuotaDeclared(fact) => Some(Rec::Declared {
                name: quota(),
                uid: number(CLUSTERS[0], &fact.uid),
                rv: version(&fact.resource_version),
                spec: qspec(&fact.spec),
            }),
            Data::QuotaRemoved(fact) => {
                Some(Rec::Removed { name: quota(), uid: number(CLUSTERS[0], &fact.uid) })
            }
            _ => None,
        };
        told
    }
}

fn adm(admission: &Admission<'_>) -> Adm {
    // Where it was does not matter, only that it was elsewhere.
    let old = admission.old_roles.as_ref().map(|roles| ("elsewhere", dem(roles)));
    Adm {
        op: admission.operation,
        uid: number(&admission.cluster, &admission.workload.uid),
        // Names are the clusters' own.
        name: Box::leak(format!("{}/{}", admission.cluster, admission.workload.name).into()),
        old_rv: admission.old_resource_version.as_ref().map_or(0, |rv| version(rv)),
        group: listed(&admission.group),
        dem: dem(&admission.roles),
        old,
        resize: None,
    }
}

fn prop(name: &'static str, proposal: &QuotaProposed<'_>) -> Prop {
    Prop {
        op: proposal.operation,
        name,
        uid: number(CLUSTERS[0], &proposal.uid),
        old_rv: proposal.old_resource_version.as_ref().map_or(0, |rv| version(rv)),
        spec: proposal.spec.as_ref().map(qspec),
    }
}

fn qspec(spec: &QuotaSpec<'_>) -> QSpec {
    let hard: Hard = [CPU, GPU, CASH].map(|key| {
        let listed = spec.hard.iter().find(|(k, _)| k.as_str() == key);
        listed.map(|(_, amount)| whole(*amount))
    });
    (listed(&spec.parent), hard)
}

fn dem(roles: &[Role<'_>]) -> Dem {
    let of = |role: &Role<'_>, resource: &str| {
        let found = role.pod.limits.iter().find(|(name, _)| *name == resource);
        found.map_or(0, |(_, amount)| whole(amount)) * i64::try_from(role.count).unwrap()
    };
    ["cpu", "nvidia.com/gpu"].map(|r| roles.iter().map(|role| of(role, r)).sum())
}

fn whole(amount: Quantity) -> i64 {
    i64::try_from(amount.milli() / 1000).unwrap()
}

fn listed(group: &str) -> &'static str {
    GROUPS.into_iter().find(|g| *g == group).unwrap_or_else(|| panic!("group {group}"))
}

fn version(text: &str) -> u64 {
    text.parse().unwrap()
}
