//! How long a decision takes, and a pod's record in the book: `cargo bench --bench decide`.
//!
//! Trees of 100, 1,000 and 10,000 groups, sixteen deep at their deepest, each group with a workload. A review asks
//! in the deepest group for one replica more of a Deployment (cpu and memory as requests and limits, a card of a
//! model). In `carved` every group lists every key, so that a change ends where it is covered; in `drawn` only
//! the root does, so that every change goes up all sixteen levels; in `cash` the root limits core-hours too, in
//! `cash by the day` each day anew, and in `cash carried` every group does, and what was not used goes over; `cash of
//! another day` looks at every group, as questions about a period do that no record was in yet.
#![allow(missing_docs, clippy::unwrap_used)]

use bizrq::domain::{
    admission::{Decision, Former, MissingGroup, Review, decide},
    book::{Book, Pace, Spend, Stamp, Trial},
    calendar::{Calendar, Every, Zone},
    event::{
        CarryOver, CashPeriod, ModelPolicy, ObjectRef, Operation, QuotaDeclared, QuotaSpec, Role,
        WorkloadObserved,
    },
    label_keys::LabelKeys,
    names::{ClusterId, GroupId, KeyId, Names, ObjectId, Uid},
    quantity::Quantity,
    quota::pod_demand,
    resources::{Models, ResourceList, Resources},
    time::{ORIGIN, Timestamp},
};
use criterion::{Criterion, criterion_group, criterion_main};
use std::{hint::black_box, sync::Arc};

const DEPTH: usize = 16;
const DAY_MS: i64 = 86_400_000;

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Carved,
    Drawn,
    Cash,
    Daily,
    Carried,
}

struct Nothing;

impl Spend for Nothing {
    fn spent(&self, group: GroupId, _: KeyId, _: Timestamp) -> i128 {
        i128::from(group.0)
    }
    fn pace(&self, group: GroupId, _: KeyId) -> Option<Pace> {
        Some(Pace { base: i128::from(group.0), rate: 0, from: Timestamp::MIN })
    }
    fn has_spent(&self, _: GroupId, _: Timestamp) -> bool {
        true
    }
}

fn object(i: usize) -> ObjectRef<'static> {
    ObjectRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: Some("web".into()),
        name: format!("shop-{i}").into(),
        uid: format!("3e9c0000-0000-0000-0000-{i:012x}").into(),
    }
}

fn pod() -> Arc<Resources> {
    let q = |text| Quantity::parse(text).unwrap();
    let basic = [("cpu", q("500m")), ("memory", q("1Gi"))];
    let requests = ResourceList::from_iter(basic);
    let limits = ResourceList::from_iter(basic.into_iter().chain([("nvidia.com/gpu", q("1"))]));
    Arc::new(Resources { requests, limits })
}

fn roles(count: u64) -> Vec<Role<'static>> {
    let models = Models { gpu: Some("A30".into()), ..Models::default() };
    vec![Role { name: "".into(), count, peak: count, models, pod: pod() }]
}

/// Days of Kolkata.
fn days(carry_over: CarryOver) -> Arc<CashPeriod> {
    let zone = Zone::new(Vec::new(), "IST-5:30").unwrap();
    let calendar = Calendar { every: Every::Day, anchor: "2024-01-01".parse().unwrap(), zone };
    Arc::new(CashPeriod {
        calendar,
        time_zone: "Asia/Kolkata".into(),
        carry_over,
        max_percent: None,
    })
}

fn spec(parent: String, amount: &str, all: bool, cash: bool) -> QuotaSpec<'static> {
    let keys = [
        "requests.cpu",
        "requests.memory",
        "limits.cpu",
        "limits.memory",
        "limits.nvidia.com/gpu",
        "limits.nvidia.com/gpu.A30",
        "pods",
        "count/deployments.apps",
    ];
    let q = Quantity::parse(amount).unwrap();
    let mut hard: std::collections::BTreeMap<_, _> =
        keys.iter().filter(|_| all).map(|k| ((*k).into(), q)).collect();
    if cash {
        hard.insert("cash/limits.cpu".into(), q);
    }
    QuotaSpec { parent: parent.into(), hard, models: ModelPolicy::Declared, ..Default::default() }
}

/// Groups g0 (the root), then a chain of sixteen, then bushes of ten children each.
fn parent(i: usize) -> usize {
    if i < DEPTH { i - 1 } else { (i - DEPTH) / 10 }
}

fn build(groups: usize, shape: Shape) -> (Book, Names) {
    let (mut book, mut names) = (Book::default(), Names::default());
    let cluster = names.cluster("/clusters/east");
    let mut stamp = Stamp { position: 0, time: ORIGIN, cluster };
    for i in 0..groups {
        stamp.position += 1;
        let group = names.group(&format!("g{i}"));
        let above = if i == 0 { String::new() } else { format!("g{}", parent(i)) };
        // Each level of the chain has room for its bushes beside the next one, each bush for those below it.
        let up = |at: &usize| (*at >= DEPTH).then(|| parent(*at));
        let amount = match std::iter::successors(Some(i), up).count() {
            1 => format!("{}Gi", 100_000 - 5000 * i),
            2 => "400Gi".to_owned(),
            3 => "35Gi".to_owned(),
            _ => "3Gi".to_owned(),
        };
        let in_days = matches!(shape, Shape::Daily | Shape::Carried);
        let has_cash = shape == Shape::Carried || (i == 0 && (shape == Shape::Cash || in_days));
        let mut spec = spec(above, &amount, i == 0 || shape == Shape::Carved, has_cash);
        if i == 0 && in_days {
            let over = if shape == Shape::Carried { CarryOver::Both } else { CarryOver::None };
            spec.cash_period = Some(days(over));
        }
        let fact = QuotaDeclared {
            uid: format!("q{i}").into(),
            resource_version: (i + 1).to_string().into(),
            generation: 1,
            spec,
        };
        let declared = book.quota_declared(&mut names, stamp, group, &fact, &Nothing).unwrap();
        book.paced(group, &Nothing);
        assert_eq!(declared.outcome, bizrq::domain::book::Outcome::InForce, "g{i}");
        let fact = WorkloadObserved {
            workload: object(i),
            resource_version: "7".into(),
            generation: 1,
            group: format!("g{i}").into(),
            roles: roles(2),
        };
        book.workload_observed(&mut names, stamp, &fact).unwrap();
    }
    // A day later, as the fold does after each record.
    book.close_periods(1, ORIGIN.shifted(DAY_MS), &Nothing);
    (book, names)
}

fn decisions(c: &mut Criterion) {
    let shapes = [
        (Shape::Carved, "carved"),
        (Shape::Drawn, "drawn"),
        (Shape::Cash, "cash"),
        (Shape::Daily, "cash by the day"),
        (Shape::Carried, "cash carried"),
        (Shape::Daily, "cash of another day"),
    ];
    for (shape, name) in shapes {
        // Of a day that no record was in yet nothing is summed up.
        let now = ORIGIN.shifted(if name.ends_with("another day") { 3 * DAY_MS } else { DAY_MS });
        for groups in [100, 1000, 10_000] {
            let (mut book, mut names) = build(groups, shape);
            let (workload, old, new) = (object(DEPTH - 1), roles(2), roles(3));
            let group = format!("g{}", DEPTH - 1);
            let review = Review {
                request: "0df2",
                cluster: "east",
                operation: Operation::Update,
                workload: &workload,
                old_resource_version: Some("7"),
                group: Some(&group),
                missing: MissingGroup::Allow,
                labels: &LabelKeys::USUAL,
                roles: &new,
                old: Some(Former { group: &group, roles: &old }),
                resize: None,
                undeclared: &[],
                name_is_taken: false,
                draws_on: None,
                drawn: &[],
                makes: &[],
                invalid: None,
            };
            c.bench_function(&format!("decide/{name}/{groups}"), |b| {
                b.iter(|| {
                    let mut trial = Trial::new(&mut book);
                    let verdict = decide(&mut trial, &mut names, &Nothing, black_box(&review), now);
                    assert!(matches!(verdict.decision, Decision::Record(_)));
                    verdict
                });
            });
        }
    }
}

/// A pod comes and goes: two records.
fn pods(c: &mut Criterion) {
    for (shape, name) in
        [(Some(Shape::Carved), "carved"), (Some(Shape::Drawn), "drawn"), (None, "none")]
    {
        let (mut book, mut names) = match shape {
            Some(shape) => build(10_000, shape),
            None => (Book::default(), Names::default()),
        };
        let models = Models { gpu: Some("A30".into()), ..Models::default() };
        let reserved = Arc::new(pod_demand(&pod(), &models, &mut names).unwrap());
        let id = |i: u32| ObjectId { cluster: ClusterId(0), uid: Uid::of(&format!("pod-{i}")) };
        let ids: Vec<_> = (0..150_000).map(id).collect();
        let group = |i: usize| GroupId(u32::try_from(i % 10_000 + 1).unwrap());
        for (i, id) in ids.iter().enumerate() {
            book.pod_charged(*id, *id, group(i), &reserved).unwrap();
        }
        let mut i = 0;
        c.bench_function(&format!("pod/comes and goes/{name}/150000"), |b| {
            b.iter(|| {
                i = (i + 7919) % ids.len();
                book.pod_ended(ids[i]);
                book.pod_charged(ids[i], ids[i], group(i), &reserved).unwrap();
            });
        });
    }
}

criterion_group!(benches, decisions, pods);
criterion_main!(benches);
