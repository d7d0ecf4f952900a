//! The suite that every provider passes: the contract on [`EventLog`], checked from outside.
//!
//! Not a test itself: a provider's test calls [`run`] with a way to make an empty log, and [`reopened`] with a
//! way to open one again, on a runtime with more than one thread. A broken promise panics with its sentence.

// A suite fails by panicking; it is called by tests only.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)]

use super::{
    AppendError, EventLog, NewEvent, Reader,
    codec::{Decoded, decode},
    records::Raw,
};
use crate::domain::{
    event::{ClusterBound, Data, Event, EventId, Position, ReservationExpired},
    merkle::{Frontier, LeafHasher},
    time::{ORIGIN, Timestamp},
};
use std::{sync::Arc, time::Duration};

/// A fact that says `n`.
#[must_use]
pub fn fact(n: u64) -> NewEvent {
    new(n, Data::ClusterBound(ClusterBound { uid: format!("uid-{n}").into() }))
}

/// A decision that says `n`.
#[must_use]
pub fn decision(n: u64) -> NewEvent {
    let cluster = "east".into();
    new(n, Data::ReservationExpired(ReservationExpired { position: n, workload: None, cluster }))
}

fn new(n: u64, data: Data<'_>) -> NewEvent {
    let time = Timestamp::from_millis(ORIGIN.millis().saturating_add_unsigned(n)).unwrap();
    NewEvent::new(&Event {
        id: EventId(n.into()),
        source: "/clusters/east".into(),
        subject: "clusters/east".into(),
        time,
        recorded_at: time,
        data,
    })
    .unwrap()
}

/// Reads from `from` to the end and gives the `n` of each event.
///
/// Checks on the way that positions have no holes and that lines decode.
pub async fn numbers<L: EventLog>(log: &L, from: Position) -> Vec<u64> {
    let (mut reader, mut numbers, mut next) = (log.read(from).unwrap(), Vec::new(), from);
    while let Some(records) = reader.next().await.unwrap() {
        assert!(!records.is_empty(), "a reader gives at least one record");
        for (position, raw) in records.iter() {
            assert_eq!(position, next, "positions have no holes");
            next += 1;
            numbers.push(number(raw));
        }
    }
    numbers
}

fn number(raw: Raw<'_>) -> u64 {
    let Decoded::Event(event) = decode(&raw.scan().unwrap()).unwrap() else { panic!("no event") };
    u64::try_from(event.id.0).unwrap()
}

/// Everything that can be checked on logs that `empty` makes, each of them new.
pub async fn run<L: EventLog + 'static>(empty: impl Fn() -> L) {
    an_empty_log_has_nothing(&empty()).await;
    positions_are_given_in_order(&empty()).await;
    the_tree_proves_what_was_appended_and_what_is_read(&empty()).await;
    a_decision_is_compared_with_the_last_decision_only(&empty()).await;
    plain_appends_move_the_last_decision(&empty()).await;
    only_decisions_are_decided(&empty()).await;
    of_competing_deciders_one_wins(Arc::new(empty())).await;
    concurrent_appends_keep_each_ones_order(Arc::new(empty())).await;
    a_tail_wakes_up(Arc::new(empty())).await;
    a_reader_beside_writers_sees_everything_once(Arc::new(empty())).await;
}

/// A log that was closed and opened again is the same log.
pub async fn reopened<L: EventLog>(open: impl Fn() -> L) {
    let log = open();
    let mut expected = 0;
    for n in 1..=2500 {
        if n % 1000 == 7 {
            expected = log.decide(expected, decision(n)).await.unwrap().last;
        } else if n % 100 == 0 {
            log.append((n - 92..=n).map(fact).collect()).await.unwrap();
        } else if n % 100 < 8 {
            log.append(vec![fact(n)]).await.unwrap();
        }
    }
    let (head, all) = (log.head().await.unwrap(), numbers(&log, 1).await);
    let tree = log.tree().await.unwrap();
    drop(log);
    for _ in 0..2 {
        let log = open();
        assert_eq!(log.head().await.unwrap(), head, "the head is the same");
        assert_eq!(log.tree().await.unwrap(), tree, "the tree is the same");
        assert_eq!(numbers(&log, 1).await, all, "the records are the same");
    }
    let log = open();
    let conflict = log.decide(expected - 1, decision(9001)).await;
    assert_eq!(
        conflict,
        Err(AppendError::Conflict { expected: expected - 1, last_decision: expected })
    );
    let next = log.decide(expected, decision(9002)).await.unwrap().first;
    assert_eq!(next, head.position + 1, "positions run on");
}

async fn an_empty_log_has_nothing<L: EventLog>(log: &L) {
    let head = log.head().await.unwrap();
    assert_eq!((head.position, head.last_decision), (0, 0));
    assert_eq!(log.tree().await.unwrap(), Frontier::default());
    assert!(numbers(log, 1).await.is_empty());
    let none = log.append(Vec::new()).await.unwrap();
    assert_eq!((none.first, none.last), (1, 0), "appending nothing does nothing");
}

async fn positions_are_given_in_order<L: EventLog>(log: &L) {
    let one = log.append(vec![fact(1)]).await.unwrap();
    assert_eq!((one.first, one.last), (1, 1));
    let more = log.append((2..=5).map(fact).collect()).await.unwrap();
    assert_eq!((more.first, more.last), (2, 5));
    assert_eq!(numbers(log, 1).await, [1, 2, 3, 4, 5]);
    assert_eq!(numbers(log, 4).await, [4, 5], "reading begins where it is told to");
    assert!(numbers(log, 6).await.is_empty());
    let mut ahead = log.read(7).unwrap();
    assert!(ahead.next().await.unwrap().is_none());
    log.append((6..=8).map(fact).collect()).await.unwrap();
    let records = ahead.next().await.unwrap().unwrap();
    assert_eq!(records.first(), 7, "a reader waits for a record that was not there yet");
}

async fn the_tree_proves_what_was_appended_and_what_is_read<L: EventLog>(log: &L) {
    let events: Vec<_> = (1..=3000).map(fact).collect();
    let (mut hasher, mut appended, mut read) = <(LeafHasher, Frontier, Frontier)>::default();
    for (position, event) in (1..).zip(&events) {
        appended.append(hasher.leaf(position, &event.leaf_input()));
    }
    log.append(events).await.unwrap();
    let mut reader = log.read(1).unwrap();
    while let Some(records) = reader.next().await.unwrap() {
        for (position, raw) in records.iter() {
            read.append(hasher.leaf(position, &raw.scan().unwrap().leaf_input()));
        }
    }
    assert_eq!(read, appended, "attributes and data come back byte for byte");
    assert_eq!(log.tree().await.unwrap(), appended);
    assert_eq!(log.head().await.unwrap().position, 3000);
}

async fn a_decision_is_compared_with_the_last_decision_only<L: EventLog>(log: &L) {
    log.append(vec![fact(1)]).await.unwrap();
    let first = log.decide(0, decision(2)).await.unwrap().last;
    assert_eq!(first, 2);
    log.append(vec![fact(3), fact(4)]).await.unwrap();
    let second = log.decide(first, decision(5)).await;
    assert_eq!(second.unwrap().last, 5, "facts in between do not matter");
    for expected in [0, first, 4, 6] {
        let refused = log.decide(expected, decision(99)).await;
        assert_eq!(refused, Err(AppendError::Conflict { expected, last_decision: 5 }));
    }
    assert_eq!(numbers(log, 1).await, [1, 2, 3, 4, 5], "a conflict writes nothing");
    assert_eq!(log.head().await.unwrap().last_decision, 5);
}

async fn plain_appends_move_the_last_decision<L: EventLog>(log: &L) {
    log.append(vec![fact(1), decision(2), fact(3)]).await.unwrap();
    assert!(log.decide(0, decision(4)).await.is_err());
    assert_eq!(log.decide(2, decision(4)).await.unwrap().last, 4);
}

async fn only_decisions_are_decided<L: EventLog>(log: &L) {
    let refused = log.decide(0, fact(1)).await;
    assert!(matches!(refused, Err(AppendError::NotADecision { .. })), "{refused:?}");
    assert!(numbers(log, 1).await.is_empty());
}

async fn of_competing_deciders_one_wins<L: EventLog + 'static>(log: Arc<L>) {
    for round in 0..8_u64 {
        let expected = log.head().await.unwrap().last_decision;
        let deciders = (0..16).map(|n| {
            let log = Arc::clone(&log);
            tokio::spawn(async move { log.decide(expected, decision(round * 16 + n)).await })
        });
        let mut winners = 0;
        for decider in deciders.collect::<Vec<_>>() {
            winners += u32::from(decider.await.unwrap().is_ok());
        }
        assert_eq!(winners, 1, "one of the deciders that knew the same wins");
    }
    assert_eq!(numbers(&*log, 1).await.len(), 8);
}

async fn concurrent_appends_keep_each_ones_order<L: EventLog + 'static>(log: Arc<L>) {
    let writers = (0..8_u64).map(|writer| {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            for n in (0..25).map(|n| writer * 1000 + n * 2) {
                let at = log.append(vec![fact(n), fact(n + 1)]).await.unwrap();
                assert!(at.last > at.first, "a batch stands in its order, others' perhaps between");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let all = numbers(&*log, 1).await;
    for writer in 0..8 {
        let of_one: Vec<_> = all.iter().copied().filter(|n| n / 1000 == writer).collect();
        assert_eq!(of_one, (0..50).map(|n| writer * 1000 + n).collect::<Vec<_>>());
    }
}

async fn a_tail_wakes_up<L: EventLog + 'static>(log: Arc<L>) {
    let mut reader = log.read(1).unwrap();
    let tail = tokio::spawn(async move {
        let first = reader.tail().await.unwrap();
        let second = reader.tail().await.unwrap();
        [first, second].map(|records| number(records.iter().next().unwrap().1))
    });
    for n in [1, 2] {
        tokio::time::sleep(Duration::from_millis(5)).await;
        log.append(vec![fact(n)]).await.unwrap();
        // The reader must have the first before the second comes, or it may get both at once.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let seen = tokio::time::timeout(Duration::from_secs(10), tail).await;
    assert_eq!(seen.unwrap().unwrap(), [1, 2]);
}

async fn a_reader_beside_writers_sees_everything_once<L: EventLog + 'static>(log: Arc<L>) {
    let writer = tokio::spawn({
        let log = Arc::clone(&log);
        async move {
            for batch in 0..40_u64 {
                log.append((0..25).map(|n| fact(batch * 25 + n)).collect()).await.unwrap();
            }
        }
    });
    let (mut reader, mut seen) = (log.read(1).unwrap(), Vec::new());
    while seen.len() < 1000 {
        let records = tokio::time::timeout(Duration::from_secs(10), reader.tail()).await;
        let records = records.unwrap().unwrap();
        assert_eq!(records.first(), seen.len() as u64 + 1);
        seen.extend(records.iter().map(|(_, raw)| number(raw)));
    }
    assert_eq!(seen, (0..1000).collect::<Vec<_>>());
    writer.await.unwrap();
}
