//! What one event costs on one core: scan, leaf, tree, decode, encode. Lines of about 600 bytes, half of them
//! starts, half stops, as a metered history has them.
//!
//! `cargo bench --bench event_log`
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use bizrq::{
    domain::{
        event::{
            Data, Event, EventId, ObjectRef, Period, PodStarted, PodStopped, StartBasis, StopBasis,
        },
        merkle::{Frontier, LeafHasher},
        quantity::Quantity,
        resources::{Models, ResourceList, Resources},
        time::{ORIGIN, Timestamp},
    },
    event_log::{
        EventLog, NewEvent, OpenError,
        bulk::{self, Batch, Source},
        codec::{Decoder, scan},
        file::{FileLog, Options, segments::SegmentReader},
    },
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::{hint::black_box, sync::Arc};

const EVENTS: u64 = 10_000;

fn time(ms: u64) -> Timestamp {
    Timestamp::from_millis(ORIGIN.millis().saturating_add_unsigned(ms)).unwrap()
}

fn resources(n: u64) -> Arc<Resources> {
    let quantity = |text: String| Quantity::parse(&text).unwrap();
    let list: ResourceList = [
        ("cpu", quantity(format!("{}m", 500 + n % 40 * 250))),
        ("memory", quantity(format!("{}Mi", 512 + n % 7 * 512))),
        ("nvidia.com/gpu", quantity((n % 8).to_string())),
    ]
    .into_iter()
    .collect();
    Arc::new(Resources { requests: list.clone(), limits: list })
}

fn event(n: u64) -> Event<'static> {
    let pod = n / 2;
    let uid = format!("{:08x}-52d1-4c1f-9a52-{:012x}", pod * 2_654_435_761 % (1 << 32), pod);
    let data = if n.is_multiple_of(2) {
        Data::PodStarted(PodStarted {
            uid: uid.into(),
            owner: Some(ObjectRef {
                api_version: "batch/v1".into(),
                kind: "Job".into(),
                namespace: None,
                name: format!("train-{}", pod / 8).into(),
                uid: format!("77a0f3c4-1111-4222-8333-{:012x}", pod / 8).into(),
            }),
            group: format!("team-{}", pod % 300).into(),
            models: Models { cpu: None, memory: None, gpu: Some("A30".into()) },
            node: format!("node-{}", pod % 1500).into(),
            held: resources(pod),
            reserved: None,
            basis: StartBasis::Bound,
        })
    } else {
        Data::PodStopped(PodStopped {
            uid: uid.into(),
            earliest: time(n * 1000),
            latest: time(n * 1000),
            basis: StopBasis::TerminalStatus,
            phase: "Succeeded".into(),
            reason: "".into(),
            ran: Some(Period { from: time(n * 500), to: time(n * 1000) }),
        })
    };
    Event {
        id: EventId(u128::from(n) * 0x0123_4567_89ab_cdef_0123_4567_89ab),
        source: "/clusters/east".into(),
        subject: format!("pods/ml/train-{}-{pod}", pod / 8).into(),
        time: time(n * 1000),
        recorded_at: time(n * 1000 + 412),
        data,
    }
}

fn codec(c: &mut Criterion) {
    let events: Vec<_> = (0..EVENTS).map(event).collect();
    let mut hasher = LeafHasher::default();
    let lines: Vec<_> = (1..)
        .zip(&events)
        .map(|(position, event)| {
            let mut line = Vec::new();
            NewEvent::new(event).unwrap().write_line(position, &mut hasher, &mut line);
            line.pop();
            line
        })
        .collect();
    let bytes: usize = lines.iter().map(Vec::len).sum();
    println!("{} bytes a line", bytes / lines.len());
    let scanned: Vec<_> = lines.iter().map(|line| scan(line).unwrap()).collect();
    let leaves: Vec<_> =
        (1..).zip(&scanned).map(|(p, s)| hasher.leaf(p, &s.leaf_input())).collect();
    let mut decoder = Decoder::default();

    let mut group = c.benchmark_group("event");
    group.throughput(Throughput::Elements(EVENTS));
    group.bench_function("scan", |b| {
        b.iter(|| lines.iter().for_each(|line| drop(black_box(scan(line).unwrap()))));
    });
    group.bench_function("leaf", |b| {
        b.iter(|| {
            for (position, scanned) in (1..).zip(&scanned) {
                black_box(hasher.leaf(position, &scanned.leaf_input()));
            }
        });
    });
    group.bench_function("tree", |b| {
        b.iter(|| {
            let mut tree = Frontier::default();
            leaves.iter().for_each(|leaf| tree.append(*leaf));
            black_box(tree)
        });
    });
    group.bench_function("decode", |b| {
        b.iter(|| scanned.iter().for_each(|s| drop(black_box(decoder.decode(s).unwrap()))));
    });
    group.bench_function("encode", |b| {
        let mut line = Vec::new();
        b.iter(|| {
            for (position, event) in (1..).zip(&events) {
                line.clear();
                let new = NewEvent::new(event).unwrap();
                black_box(new.write_line(position, &mut hasher, &mut line));
            }
        });
    });
    group.finish();
}

/// A log on disk (read from the page cache): splitting alone, proving, proving and decoding on two threads.
fn bulk(c: &mut Criterion) {
    const EVENTS: u64 = 200_000;
    let dir = tempfile::tempdir().unwrap();
    let log = FileLog::open(dir.path(), &Options::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for first in (0..EVENTS).step_by(1000) {
        let events = (first..first + 1000).map(|n| NewEvent::new(&event(n)).unwrap()).collect();
        runtime.block_on(log.append(events)).unwrap();
    }
    log.close().unwrap();
    let source = || Source::Log { dir: dir.path(), limit: u64::MAX };

    let mut group = c.benchmark_group("bulk");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(10);
    group.bench_function("split", |b| {
        b.iter(|| {
            let mut reader = SegmentReader::open(dir.path(), 1).unwrap();
            while let Some(records) = reader.next(u64::MAX).unwrap() {
                reader.recycle(black_box(records).into_bytes());
            }
        });
    });
    group.bench_function("prove", |b| {
        let each = |batch: &Batch| {
            black_box(batch);
            Ok::<_, OpenError>(())
        };
        b.iter(|| bulk::read(source(), each).unwrap());
    });
    group.bench_function("prove and decode", |b| {
        b.iter(|| {
            let each = |batch: &Batch| {
                for (_, decoded) in batch.events() {
                    black_box(decoded.unwrap());
                }
                Ok::<_, OpenError>(())
            };
            bulk::read(source(), each).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, codec, bulk);
criterion_main!(benches);
