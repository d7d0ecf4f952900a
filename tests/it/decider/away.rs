//! The log is away, or says nothing: nobody waits longer than they said, and what was written all the same is found.

use super::replica::{Replica, create, declared, observed, options, scale};
use crate::through::{Between, Through};
use bizrq::{
    decider::{Answer, Options, Unavailable},
    domain::event::Position,
    event_log::{AppendError, Appended, EventLog, NewEvent, memory::MemoryLog},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// A memory log that may stop answering decisions.
type Silent = Through<Silence>;

#[derive(Default)]
struct Silence {
    /// It takes them, and says nothing.
    is_silent: AtomicBool,
    /// It does not even take them.
    is_away: AtomicBool,
}

impl Between for Silence {
    async fn decide(
        &self,
        log: &MemoryLog,
        expected: Position,
        decision: NewEvent,
    ) -> Result<Appended, AppendError> {
        if self.is_away.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let appended = log.decide(expected, decision).await;
        if self.is_silent.load(Ordering::Relaxed) { std::future::pending().await } else { appended }
    }
}

async fn four_cores() -> Arc<Silent> {
    let log = Arc::new(Silent::default());
    log.append(vec![declared("team", "", 4), observed("w1", "team", 3)]).await.unwrap();
    log
}

fn one_second() -> Options {
    Options { append_within: Duration::from_secs(1), queue: 8, batch_items: 2, ..options() }
}

async fn asks(replica: &Replica, ask: bizrq::decider::Ask, ms: u64) -> Answer {
    replica.decider.decide(ask, Instant::now() + Duration::from_millis(ms)).await
}

#[tokio::test(start_paused = true)]
async fn what_lets_nothing_grow_is_answered_while_the_log_is_away() {
    let log = four_cores().await;
    let replica = Replica::start(Arc::clone(&log), one_second());
    assert!(asks(&replica, create("r0", "w0", "team", 1), 500).await.is_allowed());
    log.is_away.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let grown = asks(&replica, scale("r1", "w1", "team", 3, 4), 700);
    let shrunk = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        asks(&replica, scale("r2", "w1", "team", 3, 1), 700).await
    };
    let (grown, shrunk) = tokio::join!(grown, shrunk);
    // Four of four are used: refused without the log as well, since nothing was to be recorded.
    assert!(matches!(grown, Answer::Refused(_)), "{grown:?}");
    assert_eq!(shrunk, Answer::Allowed { recorded: None, warnings: Vec::new() });
    assert!(begun.elapsed() < Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_they_said_and_the_queue_has_an_end() {
    let log = four_cores().await;
    let replica = Arc::new(Replica::start(Arc::clone(&log), one_second()));
    log.is_away.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let callers: Vec<_> = (0..40)
        .map(|i| {
            let replica = Arc::clone(&replica);
            let ask = create(&format!("r{i}"), &format!("new-{i}"), "team", 1);
            tokio::spawn(async move { asks(&replica, ask, 700).await })
        })
        .collect();
    let (mut late, mut full) = (0, 0);
    for caller in callers {
        match caller.await.unwrap() {
            Answer::Unavailable(Unavailable::Late) => late += 1,
            Answer::Unavailable(Unavailable::QueueFull { waiting: 8 }) => full += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(late >= 8 && full >= 8, "{late} late, {full} full");
    assert_eq!(begun.elapsed().as_millis(), 700);
    assert_eq!(replica.decider.counts().queue_full, full);
    // What nobody waits for any more is not decided when the log is back.
    log.is_away.store(false, Ordering::Relaxed);
    assert!(asks(&replica, create("r", "w", "team", 1), 5000).await.is_allowed());
    assert_eq!(log.head().await.unwrap().position, 3);
}

#[tokio::test(start_paused = true)]
async fn a_decision_of_which_nothing_was_heard_is_found_when_it_is_asked_again() {
    let log = four_cores().await;
    let replica = Replica::start(Arc::clone(&log), one_second());
    log.is_silent.store(true, Ordering::Relaxed);
    let told = asks(&replica, create("r1", "w2", "team", 1), 300).await;
    assert_eq!(told, Answer::Unavailable(Unavailable::Late));
    log.is_silent.store(false, Ordering::Relaxed);
    let again = asks(&replica, create("r1", "w2", "team", 1), 5000).await;
    assert_eq!(again, Answer::Allowed { recorded: Some(3), warnings: Vec::new() });
    let full = asks(&replica, create("r2", "w3", "team", 1), 5000).await;
    assert!(matches!(full, Answer::Refused(_)), "{full:?}");
    assert_eq!(log.head().await.unwrap().position, 3);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_says_nothing_new_moves_the_last_decision_all_the_same() {
    use bizrq::decider::{Expired, Expiry};
    let log = four_cores().await;
    let replica = Replica::start(Arc::clone(&log), one_second());
    assert!(asks(&replica, create("r1", "w2", "team", 1), 5000).await.is_allowed());
    let over = || Expiry { position: 3, of: Expired::Workload(super::replica::object("w2")) };
    for told in 4..=5 {
        assert_eq!(replica.decider.expire("east", vec![over()]).await, Ok(told));
    }
    let allowed = asks(&replica, create("r2", "w3", "team", 1), 5000).await;
    assert!(matches!(allowed, Answer::Allowed { recorded: Some(6), .. }), "{allowed:?}");
    assert_eq!(replica.decider.counts().conflicts, 0);
}
