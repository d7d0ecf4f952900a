//! The vocabulary of the traces, in small whole numbers, and the real book behind it. One unit is one core or
//! one card; one tick is one hour, so that cash counts core-ticks.

use bizrq::domain::{
    admission::{Decision, Former, QuotaReview, Refusal, Review, decide, decide_quota},
    book::{Book, Declared, Pace, Spend, Stamp, Trial},
    event::{
        Admission, Data, Event, ObjectRef, Operation, PodResize, QuotaDeclared, QuotaProposed,
        QuotaRemoved, QuotaSpec, ReservationExpired, Role, WorkloadGone, WorkloadObserved,
        WorkloadsAdmitted,
    },
    label_keys::LabelKeys,
    names::{ClusterId, GroupId, KeyId, Names, ObjectId, Uid},
    quantity::{Format, Quantity},
    quota::pod_demand,
    resources::{Models, ResourceList, Resources},
    text::Text,
    time::{HOUR_MS, ORIGIN, Timestamp},
};
use std::{collections::BTreeMap, sync::Arc};

/// Cores and cards.
pub(crate) type Dem = [i64; 2];
pub(crate) const CPU: &str = "limits.cpu";
pub(crate) const GPU: &str = "limits.nvidia.com/gpu";
pub(crate) const CASH: &str = "cash/limits.cpu";
pub(crate) const KEYS: [&str; 2] = [CPU, GPU];
pub(crate) const GROUPS: [&str; 6] = ["R", "A", "B", "D", "S", ""];

/// Limits: cores, cards, core-ticks; absent where not listed.
pub(crate) type Hard = [Option<i64>; 3];

/// A parent (empty for a root) and limits.
pub(crate) type QSpec = (&'static str, Hard);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Adm {
    pub(crate) op: Operation,
    pub(crate) uid: u32,
    pub(crate) name: &'static str,
    pub(crate) old_rv: u64,
    pub(crate) group: &'static str,
    pub(crate) dem: Dem,
    /// Of an update: group and demand before.
    pub(crate) old: Option<(&'static str, Dem)>,
    /// Of a resize: pod, before, after.
    pub(crate) resize: Option<(u32, Dem, Dem)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prop {
    pub(crate) op: Operation,
    pub(crate) name: &'static str,
    pub(crate) uid: u32,
    pub(crate) old_rv: u64,
    pub(crate) spec: Option<QSpec>,
}

/// A record, in the traces' words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rec {
    Admitted(Vec<Adm>),
    Proposed(Prop),
    /// Of a workload's admission or kept charge, or of a quota's proposal.
    Expired {
        position: u64,
        uid: Option<u32>,
        quota: &'static str,
    },
    Observed {
        uid: u32,
        name: &'static str,
        rv: u64,
        group: &'static str,
        dem: Dem,
    },
    Gone {
        uid: u32,
    },
    Pod {
        uid: u32,
        top: u32,
        group: &'static str,
        dem: Dem,
        bound: bool,
    },
    Ended {
        uid: u32,
    },
    Declared {
        name: &'static str,
        uid: u32,
        rv: u64,
        spec: QSpec,
    },
    Removed {
        name: &'static str,
        uid: u32,
    },
}

/// What each group spends: the meter of these tests, by the groups that the pods' records name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Till {
    /// Group, cores, from, to.
    closed: Vec<(&'static str, i64, i64, i64)>,
    running: BTreeMap<u32, (&'static str, i64, i64)>,
    key: Option<KeyId>,
    newest: i64,
    groups: BTreeMap<GroupId, &'static str>,
}

impl Till {
    fn run(&mut self, pod: u32, group: &'static str, cpu: i64, now: i64) {
        self.halt(pod, now);
        self.running.insert(pod, (group, cpu, now));
    }

    fn halt(&mut self, pod: u32, now: i64) {
        self.newest = now;
        if let Some((group, cpu, since)) = self.running.remove(&pod) {
            self.closed.push((group, cpu, since, now));
        }
    }

    /// What ran in `group`: cores, from, to.
    fn segments(&self, group: &str) -> impl Iterator<Item = (i64, i64, i64)> {
        let running =
            self.running.values().map(|(group, cpu, since)| (*group, *cpu, *since, i64::MAX));
        let all = self.closed.iter().copied().chain(running);
        all.filter(move |(g, ..)| *g == group).map(|(_, cpu, from, to)| (cpu, from, to))
    }

    /// Core-ticks by `now`.
    pub(crate) fn spent(&self, group: &str, now: i64) -> i128 {
        self.segments(group)
            .map(|(cpu, from, to)| i128::from(cpu * (to.min(now) - from).max(0)))
            .sum()
    }

    pub(crate) fn busy(&self, group: &str, now: i64) -> bool {
        self.spent(group, now) > 0
            || self.running.values().any(|(g, cpu, _)| *g == group && *cpu > 0)
    }
}

impl Spend for Till {
    fn spent(&self, group: GroupId, key: KeyId, at: Timestamp) -> i128 {
        if Some(key) != self.key {
            return 0;
        }
        let group = self.groups.get(&group).copied().unwrap_or("?");
        let at = i128::from(at.millis() - ORIGIN.millis());
        let spent = |(cpu, from, to): (i64, i64, i64)| {
            let [from, to] = [from, to].map(|tick| i128::from(tick) * i128::from(HOUR_MS));
            1000 * i128::from(cpu) * (to.min(at) - from).max(0)
        };
        self.segments(group).map(spent).sum()
    }

    fn pace(&self, group: GroupId, key: KeyId) -> Option<Pace> {
        let at = ORIGIN.shifted(self.newest * HOUR_MS);
        let name = self.groups.get(&group).copied().unwrap_or("?");
        let running = self.running.values().filter(|(g, ..)| *g == name).map(|(_, cpu, _)| *cpu);
        let rate = if Some(key) == self.key { 1000 * i128::from(running.sum::<i64>()) } else { 0 };
        let base = Spend::spent(self, group, key, at) - rate * i128::from(self.newest * HOUR_MS);
        Some(Pace { base, rate, from: at })
    }

    fn has_spent(&self, group: GroupId, at: Timestamp) -> bool {
        let group = self.groups.get(&group).copied().unwrap_or("?");
        self.busy(group, (at.millis() - ORIGIN.millis()) / HOUR_MS)
    }
}

/// The real thing, told in the traces' words.
#[derive(Clone, Debug)]
pub(crate) struct Real {
    pub(crate) book: Book,
    pub(crate) names: Names,
    pub(crate) till: Till,
    pub(crate) position: u64,
    pub(crate) now: i64,
    /// What was told, as events: for those who fold it with a whole ledger.
    pub(crate) told: Vec<Event<'static>>,
    pub(super) pods: BTreeMap<u32, (u32, &'static str, i64, bool)>,
}

impl Real {
    pub(crate) fn new() -> Self {
        let mut names = Names::default();
        let key = Some(names.key(CPU));
        let groups = GROUPS.iter().map(|g| (names.group(g), *g)).collect();
        names.key(GPU);
        let till = Till { key, groups, ..Till::default() };
        Self {
            book: Book::default(),
            names,
            till,
            position: 0,
            now: 0,
            told: vec![],
            pods: BTreeMap::new(),
        }
    }

    pub(crate) fn time(&self) -> Timestamp {
        ORIGIN.shifted(self.now * HOUR_MS)
    }

    /// As the ledger does it, but of every group.
    fn keep_pace(&mut self) {
        for group in GROUPS {
            let group = self.names.group(group);
            self.book.paced(group, &self.till);
        }
    }

    pub(crate) fn stamp(&mut self) -> Stamp {
        self.position += 1;
        Stamp {
            position: self.position,
            time: self.time(),
            cluster: self.names.cluster("/clusters/east"),
        }
    }

    pub(crate) fn group(&mut self, name: &str) -> GroupId {
        self.names.group(name)
    }

    /// What `group` uses, its children's carve-outs included.
    pub(crate) fn used(&self, group: &str) -> Dem {
        self.of(group, |line| line.used)
    }

    pub(crate) fn own(&self, group: &str) -> Dem {
        self.of(group, |line| line.self_used)
    }

    pub(crate) fn unreviewed(&self, group: &str) -> Dem {
        let group = self.names.known_group(group).unwrap();
        KEYS.map(|key| whole(self.book.unreviewed(group, self.names.known_key(key).unwrap())))
    }

    pub(crate) fn of(&self, group: &str, of: fn(bizrq::domain::book::Line) -> i128) -> Dem {
        let group = self.names.known_group(group).unwrap();
        KEYS.map(|key| {
            self.names.known_key(key).map_or(0, |key| whole(of(self.book.line(group, key))))
        })
    }

    pub(crate) fn apply(&mut self, record: &Rec) -> Option<Declared> {
        let declared = self.tell(record);
        self.keep_pace();
        declared
    }

    fn tell(&mut self, record: &Rec) -> Option<Declared> {
        let stamp = self.stamp();
        match record {
            Rec::Admitted(batch) => {
                let admissions = batch.iter().map(admission).collect();
                let batch = WorkloadsAdmitted { seen: stamp.position - 1, admissions };
                self.book.admitted(&mut self.names, stamp, &batch).unwrap();
                self.note("decisions", Data::WorkloadsAdmitted(batch));
            }
            Rec::Proposed(proposal) => {
                let group = self.names.group(proposal.name);
                let spec = proposal.spec.as_ref().map(spec);
                let fact = proposed(proposal, spec);
                self.book.proposed(&mut self.names, stamp, group, &fact).unwrap();
                self.note(&format!("quotas/{}", proposal.name), Data::QuotaProposed(fact));
            }
            Rec::Expired { position, uid, quota } => {
                let group = self.names.group(quota);
                let workload = uid.map(|uid| object(uid, ""));
                let fact =
                    ReservationExpired { position: *position, workload, cluster: "east".into() };
                self.book.expired(&mut self.names, stamp, group, &fact);
                self.note(&format!("quotas/{quota}"), Data::ReservationExpired(fact));
            }
            Rec::Observed { uid, name, rv, group, dem } => {
                let fact = WorkloadObserved {
                    workload: object(*uid, name),
                    resource_version: rv.to_string().into(),
                    generation: 0,
                    group: (*group).into(),
                    roles: roles(*dem),
                };
                self.book.workload_observed(&mut self.names, stamp, &fact).unwrap();
                self.note("workloads/x", Data::WorkloadObserved(fact));
            }
            Rec::Gone { uid } => {
                let fact = WorkloadGone { workload: object(*uid, ""), cause: "Deleted".into() };
                self.book.workload_gone(stamp, &fact);
                self.note("workloads/x", Data::WorkloadGone(fact));
            }
            Rec::Pod { uid, top, group, dem, bound } => {
                let reserved = resources(*dem);
                let amounts = pod_demand(&reserved, &Models::default(), &mut self.names).unwrap();
                let group_id = self.names.group(group);
                let (pod, work) = (id(stamp.cluster, *uid), id(stamp.cluster, *top));
                self.book.pod_charged(pod, work, group_id, &Arc::new(amounts)).unwrap();
                self.note_pod(*uid, *top, group, *dem, *bound);
                if *bound {
                    self.till.run(*uid, group, dem[0], self.now);
                }
                self.pods.insert(*uid, (*top, group, dem[0], *bound));
            }
            Rec::Ended { uid } => {
                self.book.pod_ended(id(stamp.cluster, *uid));
                self.note_end(*uid);
                self.till.halt(*uid, self.now);
                self.pods.remove(uid);
            }
            Rec::Declared { name, uid, rv, spec: says } => {
                let group = self.names.group(name);
                let fact = QuotaDeclared {
                    uid: format!("u{uid}").into(),
                    resource_version: rv.to_string().into(),
                    generation: 1,
                    spec: spec(says),
                };
                self.note(&format!("quotas/{name}"), Data::QuotaDeclared(fact.clone()));
                return Some(
                    self.book
                        .quota_declared(&mut self.names, stamp, group, &fact, &self.till)
                        .unwrap(),
                );
            }
            Rec::Removed { name, uid } => {
                let group = self.names.group(name);
                let fact = QuotaRemoved { uid: format!("u{uid}").into() };
                self.book.quota_removed(stamp, group, &fact, &self.till);
                self.note(&format!("quotas/{name}"), Data::QuotaRemoved(fact));
            }
        }
        None
    }

    /// Reviews a batch, one after another; what is allowed and must be recorded is returned.
    pub(crate) fn review(&mut self, asked: &[Adm]) -> Vec<Result<Option<Adm>, Refusal>> {
        let now = self.time();
        let mut trial = Trial::new(&mut self.book);
        asked
            .iter()
            .map(|adm| {
                let workload = object(adm.uid, adm.name);
                let (new, old) = (roles(adm.dem), adm.old.map(|(g, dem)| (g, roles(dem))));
                let resize = adm.resize.map(|(pod, from, to)| pod_resize(pod, from, to));
                let old_rv = adm.old_rv.to_string();
                let review = Review {
                    request: "r",
                    cluster: "east",
                    operation: adm.op,
                    workload: &workload,
                    old_resource_version: (adm.old_rv > 0).then_some(&*old_rv),
                    group: Some(adm.group),
                    missing: Default::default(),
                    labels: &LabelKeys::USUAL,
                    roles: &new,
                    old: old.as_ref().map(|(group, roles)| Former { group, roles }),
                    resize: resize.as_ref(),
                    undeclared: &[],
                    name_is_taken: false,
                    draws_on: None,
                    drawn: &[],
                    makes: &[],
                    invalid: None,
                };
                let verdict = decide(&mut trial, &mut self.names, &self.till, &review, now);
                match verdict.decision {
                    Decision::Allowed => Ok(None),
                    Decision::Record(record) => {
                        let reserved_until = record.reserved_until;
                        let expected = Admission { reserved_until, ..admission(adm) };
                        assert_eq!(record, expected, "the record says what was asked");
                        Ok(Some(adm.clone()))
                    }
                    Decision::Refused(refusal) => Err(*refusal),
                }
            })
            .collect()
    }

    /// Reviews a change of a quota object.
    pub(crate) fn review_quota(
        &mut self,
        asked: &Prop,
        allow_orphans: bool,
    ) -> Result<Prop, Refusal> {
        let now = self.time();
        let says = asked.spec.as_ref().map(spec);
        let (uid, old_rv) = (format!("u{}", asked.uid), asked.old_rv.to_string());
        let review = QuotaReview {
            seen: self.position,
            request: None,
            operation: asked.op,
            name: asked.name,
            uid: &uid,
            old_resource_version: (asked.old_rv > 0).then_some(&*old_rv),
            spec: says.as_ref(),
            allow_orphans,
        };
        let mut trial = Trial::new(&mut self.book);
        match decide_quota(&mut trial, &mut self.names, &self.till, &review, now).decision {
            Decision::Record(record) => {
                let expected = QuotaProposed { seen: review.seen, ..proposed(asked, says.clone()) };
                assert_eq!(record, expected);
                Ok(asked.clone())
            }
            Decision::Refused(refusal) => Err(*refusal),
            Decision::Allowed => panic!("every change of a quota object is recorded (rule 9)"),
        }
    }
}

fn whole(milli: i128) -> i64 {
    assert_eq!(milli % 1000, 0);
    i64::try_from(milli / 1000).unwrap_or(i64::MAX)
}

fn id(cluster: ClusterId, uid: u32) -> ObjectId {
    ObjectId { cluster, uid: Uid::of(&format!("u{uid}")) }
}

pub(crate) fn object(uid: u32, name: &str) -> ObjectRef<'static> {
    ObjectRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: Some("web".into()),
        name: name.to_owned().into(),
        uid: format!("u{uid}").into(),
    }
}

pub(super) fn resources(dem: Dem) -> Resources {
    let list = [("cpu", dem[0]), ("nvidia.com/gpu", dem[1])];
    let q = |n: i64| Quantity::from_milli(i128::from(n) * 1000, Format::DecimalSI);
    let limits = ResourceList::from_iter(list.map(|(name, n)| (name, q(n))));
    Resources { requests: ResourceList::default(), limits }
}

pub(crate) fn roles(dem: Dem) -> Vec<Role<'static>> {
    let pod = Arc::new(resources(dem));
    vec![Role { name: Text::EMPTY, count: 1, peak: 1, models: Models::default(), pod }]
}

pub(crate) fn pod_resize(pod: u32, from: Dem, to: Dem) -> PodResize<'static> {
    PodResize {
        uid: format!("u{pod}").into(),
        models: Models::default(),
        from: Arc::new(resources(from)),
        to: Arc::new(resources(to)),
    }
}

pub(crate) fn admission(adm: &Adm) -> Admission<'static> {
    let moved = adm.old.filter(|(group, _)| *group != adm.group && adm.resize.is_none());
    Admission {
        request: "r".into(),
        cluster: "east".into(),
        operation: adm.op,
        workload: object(adm.uid, adm.name),
        old_resource_version: (adm.old_rv > 0).then(|| adm.old_rv.to_string().into()),
        group: adm.group.into(),
        roles: roles(adm.dem),
        old_roles: moved.map(|(_, dem)| roles(dem)),
        resize: adm.resize.map(|(pod, from, to)| pod_resize(pod, from, to)),
        reserved_until: ORIGIN,
    }
}

pub(crate) fn spec((parent, hard): &QSpec) -> QuotaSpec<'static> {
    let q = |n: i64| Quantity::from_milli(i128::from(n) * 1000, Format::DecimalSI);
    let hard =
        [CPU, GPU, CASH].into_iter().zip(hard).filter_map(|(k, n)| Some((k.into(), q((*n)?))));
    QuotaSpec { parent: (*parent).into(), hard: hard.collect(), ..QuotaSpec::default() }
}

pub(crate) fn proposed(
    proposal: &Prop,
    spec: Option<QuotaSpec<'static>>,
) -> QuotaProposed<'static> {
    QuotaProposed {
        seen: 0,
        operation: proposal.op,
        uid: format!("u{}", proposal.uid).into(),
        old_resource_version: (proposal.old_rv > 0).then(|| proposal.old_rv.to_string().into()),
        spec,
        request: None,
    }
}
