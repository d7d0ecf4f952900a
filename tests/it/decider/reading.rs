//! What a decider must have read before it decides again: the condition of an append would save it from being wrong, not
//! from trying in vain for ever.

use super::{
    basics::{Late, reason},
    replica::{Replica, create, declared, options},
};
use crate::through::{Between, Through};
use bizrq::{
    decider::{Answer, Expired, Expiry, Options},
    domain::{admission::Reason, event::Position},
    event_log::{
        AppendError, Appended, EventLog, NewEvent, ReadError, Records,
        memory::{MemoryLog, MemoryReader},
    },
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// A log that once takes a decision and does not say so; its records are read a second later.
struct Unsure(AtomicBool);

impl Between for Unsure {
    async fn decide(
        &self,
        log: &MemoryLog,
        expected: Position,
        event: NewEvent,
    ) -> Result<Appended, AppendError> {
        let appended = Late.decide(log, expected, event).await;
        match self.0.swap(false, Relaxed) {
            true => Err(AppendError::Unclear { why: "its answer was lost".into() }),
            false => appended,
        }
    }

    async fn tail(&self, reader: &mut MemoryReader) -> Result<Records, ReadError> {
        Late.tail(reader).await
    }
}

async fn four_cores() -> MemoryLog {
    let log = MemoryLog::default();
    log.append(vec![declared("team", "", 4)]).await.unwrap();
    log
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_came_first_is_read_before_anything_is_decided_again() {
    let log = four_cores().await;
    let replica = Replica::start(Arc::new(Through::new(log.clone(), Late)), options());
    let other = Options { replica: "other".into(), ..options() };
    let other = Replica::start(Arc::new(log.clone()), other);
    assert!(replica.ask(create("r1", "w1", "team", 1)).await.is_allowed());
    assert!(other.ask(create("r2", "w2", "team", 2)).await.is_allowed());
    // By what this one knows, two more fit.
    let refused = replica.ask(create("r3", "w3", "team", 2)).await;
    assert_eq!(reason(&refused), Some(Reason::QuotaExceeded), "{refused:?}");
    assert_eq!(replica.decider.counts().conflicts, 1, "it tries no second time before it has read");
    assert_eq!(log.head().await.unwrap().position, 3);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_written_is_looked_for_before_anything_is_decided_again() {
    let memory = four_cores().await;
    let log = Through::new(memory.clone(), Unsure(AtomicBool::new(true)));
    let replica = Replica::start(Arc::new(log), options());
    let told = replica.ask(create("r1", "w1", "team", 3)).await;
    assert!(matches!(told, Answer::Allowed { recorded: Some(2), .. }), "{told:?}");
    let counts = replica.decider.counts();
    assert_eq!((counts.unclear, counts.conflicts, counts.repeated), (1, 0, 1), "{counts:?}");
    assert_eq!(memory.head().await.unwrap().position, 2);
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_read_counts_as_it_is_now_and_not_once_more() {
    let log = four_cores().await;
    let replica = Replica::start(Arc::new(log.clone()), options());
    assert!(replica.ask(create("r1", "w1", "team", 4)).await.is_allowed());
    replica.projection.clone().wait_for(2).await.unwrap();
    let over = Expired::Workload(super::replica::object("w1"));
    let over = vec![Expiry { position: 2, of: over }];
    assert_eq!(replica.decider.expire("east", over).await, Ok(3));
    // Told again from what was acknowledged a moment ago, the first would stand here once more.
    assert!(replica.ask(create("r2", "w2", "team", 4)).await.is_allowed());
    assert_eq!(log.head().await.unwrap().position, 4);
}
