//! One replica on a memory log: given, when, then.

use super::replica::{Replica, create, declared, dry, options, propose};
use crate::through::{Between, Through};
use bizrq::{
    decider::{Answer, Expired, Expiry, Options, Unavailable, transport::Alone},
    domain::{
        admission::Reason,
        event::Position,
        names::{ObjectId, Uid},
    },
    event_log::{
        AppendError, Appended, EventLog, NewEvent, ReadError, Reader, Records,
        memory::{MemoryLog, MemoryReader},
    },
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Records are read a second after they were acknowledged.
pub(super) struct Late;

impl Between for Late {
    async fn decide(
        &self,
        log: &MemoryLog,
        expected: Position,
        event: NewEvent,
    ) -> Result<Appended, AppendError> {
        // As long as a disk: who appends again and again does not stop the clock.
        sleep(Duration::from_millis(1)).await;
        log.decide(expected, event).await
    }

    async fn tail(&self, reader: &mut MemoryReader) -> Result<Records, ReadError> {
        let records = reader.tail().await;
        sleep(Duration::from_secs(1)).await;
        records
    }
}

/// A log in which `team` may use four cores.
async fn four_cores() -> Arc<MemoryLog> {
    let log = Arc::new(MemoryLog::default());
    log.append(vec![declared("team", "", 4)]).await.unwrap();
    log
}

#[tokio::test(start_paused = true)]
async fn what_was_promised_to_a_new_workload_is_shown_as_its_charge() {
    let replica = Replica::start(four_cores().await, options());
    assert!(replica.ask(create("r1", "w1", "team", 3)).await.is_allowed());
    replica.projection.clone().wait_for(2).await.unwrap();
    let ledger = replica.projection.ledger();
    let (names, book) = (ledger.names(), ledger.book().unwrap());
    let cluster = names.known_cluster_of("east").unwrap();
    let (groups, charge) = book.shown_charge_of(ObjectId { cluster, uid: Uid::of("w1") });
    assert_eq!(groups, [names.known_group("team").unwrap()]);
    let key = names.known_key("limits.cpu").unwrap();
    assert_eq!(charge.get(key), 3000);
    assert_eq!(charge.get(key), book.line(groups[0], key).used);
}

async fn position(log: &MemoryLog) -> u64 {
    log.head().await.unwrap().position
}

fn recorded(at: u64) -> Answer {
    Answer::Allowed { recorded: Some(at), warnings: Vec::new() }
}

pub(super) fn reason(answer: &Answer) -> Option<Reason> {
    match answer {
        Answer::Refused(refused) => Some(refused.reason),
        _ => None,
    }
}

#[tokio::test]
async fn what_fits_is_on_the_log_and_what_does_not_is_not() {
    let log = four_cores().await;
    let replica = Replica::start(Arc::clone(&log), options());
    assert_eq!(replica.ask(create("r1", "w1", "team", 3)).await, recorded(2));
    let refused = replica.ask(create("r2", "w2", "team", 2)).await;
    assert_eq!(reason(&refused), Some(Reason::QuotaExceeded), "{refused:?}");
    assert_eq!(position(&log).await, 2);
    replica.stop().await;
}

#[tokio::test]
async fn a_request_that_is_repeated_gets_the_same_answer_and_one_record() {
    let log = four_cores().await;
    let replica = Replica::start(Arc::clone(&log), options());
    let first = replica.ask(create("r1", "w1", "team", 3)).await;
    assert_eq!(replica.ask(create("r1", "w1", "team", 3)).await, first);
    let refused = replica.ask(create("r2", "w2", "team", 2)).await;
    assert_eq!(replica.ask(create("r2", "w2", "team", 2)).await, refused);
    let both = tokio::join!(
        replica.ask(create("r3", "w3", "team", 1)),
        replica.ask(create("r3", "w3", "team", 1))
    );
    assert_eq!((&both.0, position(&log).await), (&both.1, 3));
    replica.stop().await;
    // Another replica finds it in the log.
    let other = Replica::start(Arc::clone(&log), options());
    assert_eq!(other.ask(create("r1", "w1", "team", 3)).await, first);
    assert_eq!(position(&log).await, 3);
    assert_eq!(other.decider.counts().repeated, 1);
    other.stop().await;
}

#[tokio::test]
async fn a_dry_run_is_decided_and_leaves_no_trace() {
    let log = four_cores().await;
    let replica = Replica::start(Arc::clone(&log), options());
    let allowed = replica.ask(dry(create("r1", "w1", "team", 3))).await;
    assert!(matches!(allowed, Answer::Allowed { recorded: None, .. }), "{allowed:?}");
    let refused = replica.ask(dry(create("r2", "w2", "team", 5))).await;
    assert_eq!(reason(&refused), Some(Reason::QuotaExceeded));
    assert_eq!(position(&log).await, 1);
    assert!(replica.ask(create("r3", "w3", "team", 4)).await.is_allowed());
    replica.stop().await;
}

#[tokio::test]
async fn many_who_wait_become_few_records_and_no_limit_is_passed() {
    let log = Arc::new(MemoryLog::default());
    log.append(vec![declared("team", "", 100)]).await.unwrap();
    let replica = Arc::new(Replica::start(Arc::clone(&log), options()));
    let asks = (0..300).map(|i| {
        let replica = Arc::clone(&replica);
        tokio::spawn(async move {
            replica.ask(create(&format!("r{i}"), &format!("w{i}"), "team", 1)).await
        })
    });
    let mut allowed = 0;
    for ask in asks.collect::<Vec<_>>() {
        allowed += u32::from(ask.await.unwrap().is_allowed());
    }
    assert_eq!(allowed, 100);
    assert!(position(&log).await < 50, "{} records", position(&log).await);
}

#[tokio::test(start_paused = true)]
async fn what_is_acknowledged_and_not_read_yet_counts_once() {
    let log = Through::new(MemoryLog::default(), Late);
    log.append(vec![declared("team", "", 4)]).await.unwrap();
    let replica = Replica::start(Arc::new(log), options());
    for n in 0..4 {
        let asked = create(&format!("r{n}"), &format!("w{n}"), "team", 1);
        let told = replica.ask(asked).await;
        let stands = matches!(told, Answer::Allowed { recorded: Some(at), .. } if at == n + 2);
        assert!(stands, "{told:?}");
    }
    let refused = replica.ask(create("r4", "w4", "team", 1)).await;
    assert_eq!(reason(&refused), Some(Reason::QuotaExceeded), "{refused:?}");
    assert_eq!(replica.decider.counts().conflicts, 0, "it knows its own decisions");
    replica.stop().await;
}

#[tokio::test]
async fn an_event_is_no_larger_than_it_may_be() {
    let log = Arc::new(MemoryLog::default());
    log.append(vec![declared("team", "", 1000)]).await.unwrap();
    let small = Options { batch_bytes: 3000, ..options() };
    let replica = Arc::new(Replica::start(Arc::clone(&log), small));
    let asks = (0..64).map(|i| {
        let replica = Arc::clone(&replica);
        tokio::spawn(async move {
            replica.ask(create(&format!("r{i}"), &format!("w{i}"), "team", 1)).await
        })
    });
    for ask in asks.collect::<Vec<_>>() {
        assert!(ask.await.unwrap().is_allowed());
    }
    let records = log.read(1).unwrap().next().await.unwrap().unwrap();
    let sizes = records.iter().map(|(_, raw)| raw.scan().unwrap().data.len()).collect::<Vec<_>>();
    assert!(sizes.len() > 7 && sizes.iter().all(|bytes| *bytes <= 3000), "{sizes:?}");
    let large = create("large", &"w".repeat(4000), "team", 1);
    assert_eq!(reason(&replica.ask(large).await), Some(Reason::MalformedObject));
    assert!(replica.ask(create("next", "next", "team", 1)).await.is_allowed());
}

#[tokio::test]
async fn a_proposal_counts_before_it_is_read_and_ends_with_its_expiry() {
    let log = Arc::new(MemoryLog::default());
    log.append(vec![declared("dept", "", 10), declared("team", "dept", 4)]).await.unwrap();
    let replica = Replica::start(Arc::clone(&log), options());
    let raised = replica.ask(propose("q1", "team", "dept", 8)).await;
    assert_eq!(raised, recorded(3));
    assert_eq!(replica.ask(propose("q1", "team", "dept", 8)).await, raised, "asked again");
    let other = replica.ask(create("r1", "w1", "dept", 3)).await;
    assert_eq!(reason(&other), Some(Reason::QuotaExceeded), "8 of 10 are spoken for");
    let over = Expiry { position: 3, of: Expired::Quota("team".into()) };
    assert_eq!(replica.decider.expire("east", vec![over]).await, Ok(4));
    assert!(replica.ask(create("r2", "w2", "dept", 3)).await.is_allowed());
    replica.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_projection_nothing_is_decided() {
    let log = four_cores().await;
    // Nobody projects the log: nothing can be decided.
    let (_, projection) = bizrq::projection::Runner::new(
        bizrq::projection::MemoryStore::default(),
        Default::default(),
    );
    let (decider, worker) = bizrq::decider::new(log, projection, Alone, options());
    let deadline = Instant::now() + Duration::from_millis(700);
    let work = tokio::spawn(worker.run(std::future::pending::<()>()));
    let answer = decider.decide(create("r1", "w1", "team", 1), deadline).await;
    assert!(matches!(answer, Answer::Unavailable(Unavailable::Stopped { .. })), "{answer:?}");
    work.abort();
}
