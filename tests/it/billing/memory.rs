//! What a bill keeps of pods that ended, counted: it follows the pods that run, and a few bytes of each that ended.

use super::{terms, totals};
use crate::oracle::{fold::instant, walk::Basis};
use bizrq::domain::{
    billing::{Billing, Told},
    event::{
        Data, Event, EventId, ObjectRef, ObserverSynced, PodStarted, PodStopped, Position,
        StartBasis, StopBasis,
    },
    ledger::Record,
    meter::seals::Seals,
    names::Set,
    quantity::Quantity,
    resources::{Models, Resources},
};
use std::sync::{Arc, LazyLock};

/// Pods that run at any time.
const RUNNING: u64 = 50;
/// Records about pods before one that ended is forgotten.
const WAIT: u64 = 200;
/// Between two starts: 6,000 pods a day.
const APART: i64 = 14_400;

static HELD: LazyLock<Arc<Resources>> = LazyLock::new(|| {
    let mut held = Resources::default();
    held.limits.set("cpu", Quantity::parse("1500m").expect("a quantity"));
    Arc::new(held)
});

fn event(n: u64, ms: i64, data: Data<'static>) -> Event<'static> {
    let time = instant(ms);
    Event {
        id: EventId(n.into()),
        source: "/clusters/east".into(),
        subject: format!("pods/ml/train-{n}").into(),
        time,
        recorded_at: time,
        data,
    }
}

fn start(n: u64) -> Event<'static> {
    let owner = ObjectRef {
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        namespace: None,
        name: "train".into(),
        uid: "train".into(),
    };
    let data = PodStarted {
        uid: format!("pod-{n}").into(),
        owner: Some(owner),
        group: "team-a".into(),
        models: Models::default(),
        node: "n".into(),
        held: Arc::clone(&HELD),
        reserved: None,
        basis: StartBasis::Bound,
    };
    event(2 * n, at(n), Data::PodStarted(data))
}

/// When pod `n` starts.
fn at(n: u64) -> i64 {
    APART * i64::try_from(n).unwrap()
}

/// Pod `n` ends, when the one that takes its place starts.
fn stop(n: u64) -> Event<'static> {
    let ms = at(n + RUNNING);
    let data = PodStopped {
        uid: format!("pod-{n}").into(),
        earliest: instant(ms),
        latest: instant(ms),
        basis: StopBasis::TerminalStatus,
        phase: "Succeeded".into(),
        reason: "".into(),
        ran: None,
    };
    event(2 * n + 1, ms, Data::PodStopped(data))
}

/// Nothing was missed in the 10 minutes before pod `n` started.
fn beat(n: u64) -> Event<'static> {
    let (resource_versions, since) = (Default::default(), instant((at(n) - 600_000).max(0)));
    event((1 << 60) + n, at(n), Data::ObserverSynced(ObserverSynced { resource_versions, since }))
}

/// A bill of `pods` pods, one after another, and the most rows that it had.
fn billed(pods: u64, seals: Option<Seals>) -> (Billing, usize) {
    let terms = terms(Basis::Held, 0, at(pods));
    let mut billing = Billing::new(terms, Vec::new());
    if let Some(seals) = seals {
        billing = billing.sealing(seals);
    }
    let (mut most, mut position): (usize, Position) = (0, 0);
    let mut take = |event: &Event<'_>| {
        position += 1;
        assert_eq!(billing.take(position, &Record::Event(event)), Ok(Told::More));
        most = most.max(billing.ledger().meter().remembered());
    };
    for n in 0..pods {
        take(&start(n));
        if let Some(ended) = n.checked_sub(RUNNING) {
            take(&stop(ended));
        }
        if n % 40 == 0 {
            take(&beat(n));
        }
    }
    (billing, most)
}

#[test]
fn memory_follows_the_pods_that_run_and_a_few_bytes_of_those_that_ended() {
    let rows = |pods| {
        let (billing, most) = billed(pods, Some(Seals::new(WAIT, Set::default())));
        assert_eq!(billing.late(), None);
        (most, billing.ledger().meter().seals().unwrap().bytes())
    };
    let ((few, few_bytes), (many, many_bytes)) = (rows(5_000), rows(20_000));
    // Of a start and a stop in turn, half are stops.
    let bound = usize::try_from(RUNNING + WAIT / 2 + 3).unwrap();
    assert!(few <= bound && many == few, "{few} and {many} rows, at most {bound}");
    assert!(few_bytes <= 5_000 * 8 && many_bytes <= 20_000 * 8, "{few_bytes}, {many_bytes}");
    let (whole, remembered) = billed(5_000, None);
    assert_eq!(remembered, 5_000, "else all pods of 35 days are remembered");
    let (brief, _) = billed(5_000, Some(Seals::new(WAIT, Set::default())));
    assert_eq!(totals(&brief), totals(&whole));
}
