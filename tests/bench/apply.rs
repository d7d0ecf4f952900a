//! `Ledger::apply`: an event on one core with 150,000 live pods in 10,000 groups, six keys a pod and model
//! keys beside them, hourly differences and leaves on.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use bizrq::domain::{
    event::*,
    ledger::{Ledger, Options},
    merkle::Hash,
    quantity::{Format, Quantity},
    resources::{Models, Resources},
    time::Timestamp,
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::sync::Arc;

const LIVE: u64 = 150_000;
const GROUPS: u64 = 10_000;
const BATCH: u64 = 100_000;
const T0: i64 = 1_796_000_400_000;

struct Texts {
    uids: Vec<String>,
    groups: Vec<String>,
    owners: Vec<String>,
    held: Vec<Arc<Resources>>,
}

impl Texts {
    fn new() -> Self {
        let uid = |n: u64| {
            format!("{:08x}-0000-4000-8000-{:012x}", n.wrapping_mul(0x9e37_79b9) as u32, n)
        };
        let shape = |n: i128| {
            let mut r = Resources::default();
            for (name, milli) in
                [("cpu", 500 * n), ("memory", n << 40), ("ephemeral-storage", n << 35)]
            {
                r.requests.set(name, Quantity::from_milli(milli, Format::DecimalSI));
                r.limits.set(name, Quantity::from_milli(milli * 2, Format::DecimalSI));
            }
            Arc::new(r)
        };
        Self {
            uids: (0..LIVE + 64 * BATCH).map(uid).collect(),
            groups: (0..GROUPS).map(|n| format!("team-{n:05}")).collect(),
            owners: (0..GROUPS * 4).map(|n| uid(n + (1 << 40))).collect(),
            held: (1..=8).map(shape).collect(),
        }
    }

    fn pick<T>(list: &[T], n: u64) -> &T {
        let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        &list[n as usize % list.len()]
    }

    fn event<'a>(&'a self, n: u64, time: i64, data: Data<'a>) -> Event<'a> {
        let time = Timestamp::from_millis(time).unwrap();
        let source = "/clusters/east".into();
        Event {
            id: EventId(u128::from(n)),
            source,
            subject: "pods/ml/p".into(),
            time,
            recorded_at: time,
            data,
        }
    }

    fn start(&self, n: u64, time: i64) -> Event<'_> {
        let owner = ObjectRef {
            api_version: "batch/v1".into(),
            kind: "Job".into(),
            namespace: None,
            name: "train".into(),
            uid: Self::pick(&self.owners, n).as_str().into(),
        };
        let data = PodStarted {
            uid: self.uids[n as usize].as_str().into(),
            owner: Some(owner),
            group: Self::pick(&self.groups, n).as_str().into(),
            models: Models { cpu: Some("A4".into()), memory: None, gpu: None },
            node: "n1".into(),
            held: Arc::clone(Self::pick(&self.held, n / 7)),
            reserved: None,
            basis: StartBasis::Bound,
        };
        self.event(n, time, Data::PodStarted(data))
    }

    fn stop(&self, n: u64, time: i64) -> Event<'_> {
        let t = Timestamp::from_millis(time).unwrap();
        let data = PodStopped {
            uid: self.uids[n as usize].as_str().into(),
            earliest: t,
            latest: t,
            basis: StopBasis::TerminalStatus,
            phase: "Succeeded".into(),
            reason: "".into(),
            ran: None,
        };
        self.event(n + (1 << 40), time, Data::PodStopped(data))
    }
}

fn apply(c: &mut Criterion) {
    let whole = Options::default();
    run(c, "whole", whole);
    run(c, "usage and hours", Options { quotas: false, ..whole });
    run(c, "usage alone", Options { quotas: false, history: false, ..whole });
}

fn run(c: &mut Criterion, name: &str, options: Options) {
    let texts = Texts::new();
    let leaf = Hash([7; 32]);
    let mut ledger = Ledger::new(options);
    let mut next = 0;
    let put = |ledger: &mut Ledger, event: Event<'_>| {
        let position = ledger.position() + 1;
        ledger.apply(position, leaf, &event).unwrap();
    };
    while next < LIVE {
        put(&mut ledger, texts.start(next, T0 + next as i64));
        next += 1;
    }
    let mut group = c.benchmark_group("apply");
    group.throughput(Throughput::Elements(BATCH)).sample_size(10);
    // Every second event stops the oldest pod, every other one starts a new one: 150,000 stay alive.
    group.bench_function(name, |b| {
        b.iter_batched(
            || {
                let events: Vec<_> = (0..BATCH / 2)
                    .flat_map(|i| {
                        let n = next + i;
                        let time = T0 + (n * 30) as i64;
                        [texts.start(n, time), texts.stop(n - LIVE, time + 10)]
                    })
                    .collect();
                next += BATCH / 2;
                events
            },
            |events| {
                for event in events {
                    put(&mut ledger, event);
                }
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
    let (pods, quarantined) = (ledger.meter().remembered(), ledger.quarantined().len());
    println!("{pods} remembered pods, {quarantined} quarantined");
}

criterion_group!(benches, apply);
criterion_main!(benches);
