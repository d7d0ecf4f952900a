//! How long a review of a typical Deployment takes: `cargo bench --bench review`.
//!
//! The review is an update by one replica, 11 KiB with managedFields and two containers, as an API server sends it. `decode`
//! reads it, `ask` makes the question (what both versions ask for), `whole` does both, decides on a ledger with three
//! levels of groups, and writes the answer. `nothing grows` is the review of an update that changes a note.
#![allow(missing_docs, clippy::unwrap_used)]

use bizrq::{
    decider::{Answer, What},
    domain::{
        admission::{self, Decision},
        event::{Data, Event, EventId, QuotaDeclared, QuotaSpec, WorkloadObserved},
        ledger::Ledger,
        merkle::Hash,
        quota::TypedSpec,
        time::ORIGIN,
    },
    k8s::{context::Context, kinds::Kinds},
    webhook::{Next, Options, Question, Request, Response, Surroundings},
};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

const REVIEW: &str = include_str!("../fixtures/corpus/review/deployment.json");

fn apply(ledger: &mut Ledger, subject: &str, data: Data<'_>) {
    let position = ledger.position() + 1;
    let event = Event {
        id: EventId(u128::from(position)),
        source: "/clusters/east".into(),
        subject: subject.into(),
        time: ORIGIN,
        recorded_at: ORIGIN,
        data,
    };
    ledger.apply(position, Hash::default(), &event).unwrap();
}

/// org, dept and team-a, each with limits of cpu, memory and pods.
fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    for (name, parent, cpu) in
        [("org", "", "1000"), ("dept", "org", "500"), ("team-a", "dept", "100")]
    {
        let hard = vec![
            ("limits.cpu", cpu),
            ("requests.cpu", cpu),
            ("limits.memory", "1Ti"),
            ("pods", cpu),
        ];
        let typed = TypedSpec { parent, hard, ..TypedSpec::default() };
        let spec: QuotaSpec<'static> = typed.accept(name).unwrap();
        let data =
            QuotaDeclared { uid: name.into(), resource_version: "1".into(), generation: 1, spec };
        apply(&mut ledger, &format!("quotas/{name}"), Data::QuotaDeclared(data));
    }
    ledger
}

fn question(next: Next) -> Box<Question> {
    match next {
        Next::Ask(question) => question,
        Next::Said(response) => unreachable!("{response:?}"),
    }
}

fn decide(ledger: &mut Ledger, question: &Question) -> Response {
    let What::Workload(workload) = &question.ask.what else { unreachable!("a workload") };
    let open = workload.open();
    let review = workload.review(&question.ask, &open);
    let verdict = ledger
        .decide(|trial, names, meter| admission::decide(trial, names, meter, &review, ORIGIN))
        .unwrap();
    assert!(matches!(verdict.decision, Decision::Record(_)));
    question.response(&Answer::Allowed { recorded: Some(7), warnings: verdict.warnings })
}

fn reviews(c: &mut Criterion) {
    let (kinds, context) = (Kinds::builtin().unwrap(), Context::default());
    let options = Options::new("east");
    let around = Surroundings { kinds: &kinds, context: &context, options: &options };
    let mut ledger = ledger();
    let request = Request::decode(REVIEW.as_bytes(), &kinds).unwrap();
    let asked = question(request.next(&around));
    let What::Workload(workload) = &asked.ask.what else { unreachable!("a workload") };
    let old = workload.old.clone().unwrap();
    let observed = WorkloadObserved {
        workload: workload.workload.clone(),
        resource_version: "812004".into(),
        generation: 3,
        group: old.group.into(),
        roles: old.roles,
    };
    apply(&mut ledger, "workloads", Data::WorkloadObserved(observed));
    c.bench_function("review/decode", |b| {
        b.iter(|| Request::decode(black_box(REVIEW.as_bytes()), &kinds).unwrap());
    });
    c.bench_function("review/ask", |b| b.iter(|| question(request.next(&around))));
    c.bench_function("review/decide", |b| b.iter(|| decide(&mut ledger, &asked)));
    c.bench_function("review/whole", |b| {
        b.iter(|| {
            let request = Request::decode(black_box(REVIEW.as_bytes()), &kinds).unwrap();
            decide(&mut ledger, &question(request.next(&around))).to_json().unwrap()
        });
    });
    let same = REVIEW.replace("\"replicas\":5,\"selector\"", "\"replicas\":4,\"selector\"");
    c.bench_function("review/nothing grows", |b| {
        b.iter(|| {
            let request = Request::decode(black_box(same.as_bytes()), &kinds).unwrap();
            assert!(matches!(request.next(&around), Next::Said(_)));
        });
    });
}

criterion_group!(benches, reviews);
criterion_main!(benches);
