//! `Ledger::apply`: an event on one core with 150,000 live pods in 10,000 groups, six keys a pod and model
//! keys beside them, hourly differences and leaves on. With budgets every group has one, below a company's, for ever or
//! by the day (of Kolkata: days begin inside an hour); then also how long it takes to read off the whole tree. Events come
//! in batches, as whoever reads a log has them.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use bizrq::domain::{
    calendar::{Calendar, Every, Zone},
    event::*,
    ledger::{Ledger, Options, ahead::TOGETHER},
    merkle::Hash,
    quantity::{Format, Quantity},
    resources::{Models, Resources},
    standing::Tree,
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

/// What every group has, and the company above them.
#[derive(Clone, Copy, PartialEq)]
enum Budgets {
    None,
    ForEver,
    Daily(CarryOver),
}

/// `group` below `parent`, with so many core-hours.
fn budget<'a>(group: &'a str, parent: &'a str, hours: u64, budgets: Budgets) -> Data<'a> {
    let hours = Quantity::parse(&hours.to_string()).unwrap();
    let days = |carry_over| {
        let zone = Zone::new(Vec::new(), "IST-5:30").unwrap();
        let calendar = Calendar { every: Every::Day, anchor: "2024-01-01".parse().unwrap(), zone };
        let time_zone = "Asia/Kolkata".into();
        Arc::new(CashPeriod { calendar, time_zone, carry_over, max_percent: None })
    };
    let cash_period = match budgets {
        Budgets::Daily(carry_over) if parent.is_empty() => Some(days(carry_over)),
        _ => None,
    };
    let hard = [("cash/limits.cpu".into(), hours)].into_iter().collect();
    let spec = QuotaSpec { parent: parent.into(), hard, cash_period, ..QuotaSpec::default() };
    let uid = format!("quota of {group}").into();
    Data::QuotaDeclared(QuotaDeclared { uid, resource_version: "".into(), generation: 1, spec })
}

fn apply(c: &mut Criterion) {
    let whole = Options::default();
    run(c, "whole", whole, Budgets::None);
    run(c, "usage and hours", Options { quotas: false, ..whole }, Budgets::None);
    run(c, "usage alone", Options { quotas: false, history: false, ..whole }, Budgets::None);
    run(c, "budgets", whole, Budgets::ForEver);
    run(c, "budgets by the day", whole, Budgets::Daily(CarryOver::None));
    run(c, "budgets carried", whole, Budgets::Daily(CarryOver::Both));
}

fn run(c: &mut Criterion, name: &str, options: Options, budgets: Budgets) {
    let texts = Texts::new();
    let leaf = Hash([7; 32]);
    let mut ledger = Ledger::new(options);
    let mut next = 0;
    let put = |ledger: &mut Ledger, event: &Event<'_>| {
        let position = ledger.position() + 1;
        ledger.apply(position, leaf, event).unwrap();
    };
    if budgets != Budgets::None {
        let teams = texts.groups.iter().map(|group| (group.as_str(), "company", 10_000));
        for (group, parent, hours) in [("company", "", 1_000_000_000)].into_iter().chain(teams) {
            let mut event = texts.event(0, T0, budget(group, parent, hours, budgets));
            event.subject = format!("quotas/{group}").into();
            put(&mut ledger, &event);
        }
    }
    while next < LIVE {
        put(&mut ledger, &texts.start(next, T0 + next as i64));
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
                for events in events.chunks(TOGETHER) {
                    ledger.look_ahead(events.iter());
                    events.iter().for_each(|event| put(&mut ledger, event));
                }
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
    if budgets != Budgets::None {
        let now = ledger.meter().newest().unwrap();
        c.bench_function(&format!("standing/{name}"), |b| {
            b.iter(|| Tree::of(&ledger, now, false).unwrap());
        });
    }
    let (pods, quarantined) = (ledger.meter().remembered(), ledger.quarantined().len());
    println!("{pods} remembered pods, {quarantined} quarantined");
}

criterion_group!(benches, apply);
criterion_main!(benches);
