//! What must hold whatever happens to real servers, real processes and real files: kills in any order, records that
//! are told again, histories that are changed behind our back, a server that is away.

mod away;
mod behind;
mod child;
pub(crate) mod kills;
mod repeats;
mod rows;

use crate::{
    nats::server::{PATIENCE, Server, Setup, Version},
    oracle::history::{Amounts, Content, Pod, Scale, Stop},
};
use bizrq::{
    domain::{
        event::{Event, ResizeBasis, StartBasis, StopBasis},
        ledger::Ledger,
        merkle::LeafHasher,
    },
    event_log::{
        EventLog, NewEvent, Reader,
        codec::Decoder,
        jetstream::{JetStreamLog, Options},
    },
    projection::fold::Read,
};
use std::time::{Duration, Instant};

/// A server that synchronises every write where it can.
fn server(version: Version) -> Server {
    Setup::new(version).start()
}

/// Gives up soon, and lets the server forget ids at once: what is told again shall stand on the log again.
fn options(url: &str) -> Options {
    Options {
        deadline: Duration::from_secs(1),
        duplicate_window: Duration::from_millis(100),
        ..Options::new(url)
    }
}

/// However busy the machine is, it answers in the end.
async fn open(url: &str) -> JetStreamLog {
    let begun = Instant::now();
    loop {
        match JetStreamLog::open(options(url)).await {
            Ok(log) => return log,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
    }
}

/// All that is told of pod `number`: four events, of each fifth three.
fn pod(number: u64) -> Vec<Event<'static>> {
    let pod = Pod::new(Scale::MILLIS, "/clusters/east", &format!("pod-{number}"));
    let at = i64::try_from(number % 300).unwrap();
    let group = if number.is_multiple_of(2) { "team-a" } else { "team-b" };
    let amounts = |cpu| Amounts { cpu, memory: 1 << 20, gpu: 1000 };
    let content =
        Content { group, cpu_model: None, gpu_model: Some("A30"), amounts: amounts(1500) };
    let mut told = vec![
        pod.created(at, &content),
        pod.started(at + 3, StartBasis::Bound, &content),
        pod.resized(at + 7, ResizeBasis::KubeletStatus, amounts(250)),
    ];
    if !number.is_multiple_of(5) {
        told.push(pod.stopped(Stop::certain(StopBasis::TerminalStatus, at + 13)));
    }
    told
}

fn new_events<'e>(events: impl IntoIterator<Item = &'e Event<'e>>) -> Vec<NewEvent> {
    events.into_iter().map(|event| NewEvent::new(event).unwrap()).collect()
}

/// A fold of the whole log and the id of each record, without store or runner.
async fn folded(log: &impl EventLog) -> (Ledger, Vec<String>) {
    let (mut ledger, mut decoder, mut hasher) =
        (Ledger::default(), Decoder::default(), LeafHasher::default());
    let (mut ids, mut reader) = (Vec::new(), log.read(1).unwrap());
    while let Some(records) = reader.next().await.unwrap() {
        for (position, raw) in records.iter() {
            let scanned = raw.scan().unwrap();
            ids.push(scanned.id.to_string());
            assert_eq!(position, ids.len() as u64, "positions have no holes");
            let leaf = hasher.leaf(position, &scanned.leaf_input());
            Read::new(&mut decoder, &scanned).apply(&mut ledger, position, leaf).unwrap();
        }
    }
    (ledger, ids)
}
