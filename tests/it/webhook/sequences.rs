//! Sequences that break naive designs, and the traces that broke a promise of the executable model while one of its rules
//! was as first written, each asked at the webhook. The same traces are told to the rules themselves in `rules/traces.rs`.

use super::company::{Company, create};
use crate::through::{Between, Through};
use bizrq::{
    domain::event::Position,
    event_log::{AppendError, Appended, EventLog, NewEvent, memory::MemoryLog},
};
use tokio::sync::Semaphore;

type Hard = &'static [(&'static str, &'static str)];
const A: Hard = &[("limits.cpu", "4")];
const B: Hard = &[("limits.nvidia.com/gpu", "2")];
const TEN: Hard = &[("limits.cpu", "10")];

async fn company() -> Company<MemoryLog> {
    Company::of(MemoryLog::default()).await
}

/// With a group t of ten cores.
async fn ten_cores() -> Company<MemoryLog> {
    let company = company().await;
    company.declared("t", 1, "", TEN).await;
    company
}

/// A log that writes when the test lets it.
type Slow = Through<Turns>;

#[derive(Default)]
struct Turns(Option<Semaphore>);

impl Between for Turns {
    async fn decide(
        &self,
        log: &MemoryLog,
        expected: Position,
        event: NewEvent,
    ) -> Result<Appended, AppendError> {
        if let Some(turns) = &self.0 {
            turns.acquire().await.unwrap().forget();
        }
        log.decide(expected, event).await
    }
}

#[tokio::test]
async fn ten_become_one_here_and_are_refused_elsewhere_while_another_workload_asks_for_nine() {
    let t = ten_cores().await;
    t.observed_pods("w0", 5, "t", 10).await;
    t.scale("w0", 5, "t", 10, 1).await.passed();
    // Another webhook refuses that scale: w0 is what it was.
    t.create("w1", ("t", (9, 0))).await.refused("QuotaExceeded");
    // The next time it comes through; its pods end, and that is told.
    t.scale("w0", 5, "t", 10, 1).await.passed();
    t.observed_pods("w0", 6, "t", 1).await;
    t.create("w1", ("t", (9, 0))).await.refused("QuotaExceeded");
}

#[tokio::test]
async fn of_two_updates_of_one_object_the_one_that_loses_its_race_holds_nothing_for_long() {
    for (wins, left) in [(6, 4), (8, 2)] {
        let t = ten_cores().await;
        t.observed("w0", 5, ("t", (2, 0))).await;
        t.update("w0", 5, ("t", (2, 0)), ("t", (6, 0))).await.recorded();
        t.update("w0", 5, ("t", (2, 0)), ("t", (8, 0))).await.recorded();
        t.create("w1", ("t", (3, 0))).await.refused("QuotaExceeded");
        // One is stored, the other ends in a conflict, which nobody tells bizrq.
        t.observed("w0", 6, ("t", (wins, 0))).await;
        t.create("w2", ("t", (left + 1, 0))).await.refused("QuotaExceeded");
        t.create("w3", ("t", (left, 0))).await.recorded();
    }
}

#[tokio::test]
async fn creates_of_a_name_that_exists_hold_nothing_however_often_they_come() {
    let t = ten_cores().await;
    t.observed("w0", 5, ("t", (1, 0))).await;
    for n in 0..30 {
        t.create(&format!("w0#{n}"), ("t", (9, 0))).await.passed();
    }
    // Of a name that nobody has seen yet, only one of them can come to be.
    for n in 0..30 {
        assert!(t.create(&format!("w1#{n}"), ("t", (3, 0))).await.allowed);
    }
    t.create("w2", ("t", (6, 0))).await.recorded();
    t.create("w3", ("t", (1, 0))).await.refused("QuotaExceeded");
}

#[tokio::test]
async fn a_review_that_is_answered_too_late_is_found_again_and_ends_by_itself() {
    let log = Slow::new(MemoryLog::default(), Turns(Some(Semaphore::new(0))));
    let t = Company::of(log).await;
    let late = create(1000, "w0", ("s", (4, 0)));
    t.ask("workloads", late.clone()).await.refused("LogUnavailable");
    // It is written after its client gave up.
    t.log.0.as_ref().unwrap().add_permits(100);
    while t.log.head().await.unwrap().last_decision == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let position = t.log.head().await.unwrap().last_decision;
    t.create("w1", ("s", (1, 0))).await.refused("QuotaExceeded");
    // The client asks again, with the same review: it has the one decision.
    assert_eq!(t.ask("workloads", late).await.recorded(), position);
    // And gives up for good.
    t.expired(position, "w0").await;
    t.create("w1", ("s", (4, 0))).await.recorded();
}

#[tokio::test]
async fn a_recount_between_admission_and_observation_erases_nothing() {
    let t = company().await;
    let position = t.create("w0", ("s", (4, 0))).await.recorded();
    // The recount sees everything up to a version before w0's.
    t.synced(4).await;
    t.create("w1", ("s", (1, 0))).await.refused("QuotaExceeded");
    t.observed("w0", 5, ("s", (4, 0))).await;
    t.synced(6).await;
    // A sweeper that had looked before says that it is over.
    t.expired(position, "w0").await;
    t.create("w1", ("s", (1, 0))).await.refused("QuotaExceeded");
}

#[tokio::test]
async fn more_than_the_old_object_is_asked_for_though_the_charge_covers_it() {
    let t = company().await;
    t.create("w0", ("r", (1, 0))).await.recorded();
    t.observed("w0", 5, ("r", (1, 0))).await;
    t.pod("p6", "w0", ("r", (1, 0))).await;
    t.resize("p6", "w0", (1, 0), (4, 0)).await.recorded();
    t.update("w0", 5, ("r", (1, 0)), ("r", (2, 2))).await.refused("QuotaExceeded");
}

#[tokio::test]
async fn growth_is_judged_by_what_the_charge_becomes() {
    let t = company().await;
    t.create("w0", ("r", (1, 0))).await.recorded();
    // It is charged in r as well until it is in a: twice two cards and b's two are six of four.
    t.update("w0", 5, ("r", (1, 0)), ("a", (4, 2))).await.refused("QuotaExceeded");
    t.update("w0", 5, ("r", (1, 0)), ("a", (4, 1))).await.recorded();
    t.create("w1", ("r", (0, 1))).await.refused("QuotaExceeded");
}

#[tokio::test]
async fn a_move_asks_for_all_that_is_charged_though_the_new_object_asks_for_nothing() {
    let t = company().await;
    t.create("w0", ("r", (1, 0))).await.recorded();
    t.observed("w0", 5, ("r", (1, 0))).await;
    t.pod("p6", "w0", ("r", (1, 0))).await;
    t.create("w1", ("s", (4, 0))).await.recorded();
    t.update("w0", 5, ("r", (1, 0)), ("s", (0, 0))).await.refused("QuotaExceeded");
}

#[tokio::test]
async fn a_proposal_that_nobody_stored_is_over_like_an_admission() {
    let t = company().await;
    let position = t.delete("a", 1, ("r", A)).await.recorded();
    t.create("w0", ("a", (1, 0))).await.refused("UnknownGroup");
    t.withdrawn(position, "a").await;
    t.create("w0", ("a", (1, 0))).await.recorded();
}

#[tokio::test]
async fn a_later_version_ends_every_older_reservation_whoever_tells_it_how_often() {
    let t = company().await;
    t.create("w0", ("r", (2, 0))).await.recorded();
    t.update("w0", 5, ("r", (2, 0)), ("a", (0, 0))).await.recorded();
    t.observed("w0", 5, ("r", (2, 0))).await;
    t.observed("w0", 6, ("a", (0, 0))).await;
    let back = t.update("w0", 6, ("a", (0, 0)), ("r", (2, 0))).await.recorded();
    for _ in 0..2 {
        t.observed("w0", 7, ("r", (2, 0))).await;
        t.observed("w0", 6, ("a", (0, 0))).await;
        t.observed("w0", 5, ("r", (2, 0))).await;
    }
    // What was lowered on the way is kept until that is over, too.
    for position in 5..=back + 6 {
        t.expired(position, "w0").await;
    }
    t.create("w1", ("r", (3, 0))).await.refused("QuotaExceeded");
    t.create("w1", ("r", (2, 0))).await.recorded();
    t.create("w2", ("a", (4, 0))).await.recorded();
}

#[tokio::test]
async fn while_a_group_moves_both_parents_have_it_and_it_admits_nothing() {
    const BOTH: Hard = &[("limits.cpu", "4"), ("limits.nvidia.com/gpu", "2")];
    let t = company().await;
    t.declared("a", 2, "r", BOTH).await;
    t.change("b", 1, ("r", B), ("a", B)).await.recorded();
    t.delete("a", 2, ("r", BOTH)).await.refused("HasChildren");
    t.change("a", 2, ("r", BOTH), ("b", BOTH)).await.refused("Cycle");
    t.create("w0", ("b", (0, 1))).await.refused("UnknownGroup");
    t.declared("b", 2, "a", B).await;
    t.create("w0", ("b", (0, 1))).await.recorded();
}

#[tokio::test]
async fn a_group_that_is_being_removed_is_no_parent() {
    let t = company().await;
    t.delete("a", 1, ("r", A)).await.recorded();
    t.change("b", 1, ("r", B), ("a", B)).await.refused("ParentNotFound");
    t.removed("a").await;
    t.change("b", 1, ("r", B), ("a", B)).await.refused("ParentNotFound");
}

#[tokio::test]
async fn a_group_that_changes_its_tree_admits_nothing_until_it_has() {
    let t = company().await;
    t.change("a", 1, ("r", A), ("", A)).await.recorded();
    t.create("w0", ("a", (1, 0))).await.refused("UnknownGroup");
    t.declared("a", 2, "", A).await;
    t.create("w0", ("a", (1, 0))).await.recorded();
}

#[tokio::test]
async fn a_group_whose_child_holds_something_stays_in_its_tree() {
    const WIDE: Hard = &[("limits.cpu", "4"), ("limits.nvidia.com/gpu", "2")];
    let t = company().await;
    t.declared("b", 2, "r", WIDE).await;
    t.change("a", 1, ("r", A), ("b", A)).await.recorded();
    t.declared("a", 2, "b", A).await;
    t.create("w0", ("a", (1, 0))).await.recorded();
    t.change("b", 2, ("r", WIDE), ("", WIDE)).await.refused("DifferentTree");
}

#[tokio::test]
async fn of_several_creates_of_one_name_the_largest_counts() {
    let t = company().await;
    t.create("w0", ("r", (2, 0))).await.recorded();
    t.create("w0#2", ("r", (5, 0))).await.refused("QuotaExceeded");
    t.create("w1", ("r", (3, 0))).await.refused("QuotaExceeded");
    t.create("w1", ("r", (2, 0))).await.recorded();
}

#[tokio::test]
async fn pods_that_outlive_their_workload_are_charged_from_their_creation() {
    let t = company().await;
    t.create("w0", ("s", (1, 0))).await.recorded();
    t.observed("w0", 5, ("s", (1, 0))).await;
    t.pod("p6", "w0", ("s", (1, 0))).await;
    let kept = t.gone("w0").await;
    t.expired(kept, "w0").await;
    t.create("w1", ("s", (4, 0))).await.refused("QuotaExceeded");
    t.create("w1", ("s", (3, 0))).await.recorded();
}

#[tokio::test]
async fn a_resize_reserves_inside_its_workload() {
    let t = company().await;
    t.create("w0", ("s", (1, 0))).await.recorded();
    t.observed("w0", 5, ("s", (1, 0))).await;
    t.pod("p6", "w0", ("s", (1, 0))).await;
    // Four in all, not four beside the one.
    t.resize("p6", "w0", (1, 0), (4, 0)).await.recorded();
    t.create("w1", ("s", (1, 0))).await.refused("QuotaExceeded");
}

#[tokio::test]
async fn what_is_lowered_stays_charged_for_pods_that_may_still_come() {
    let t = company().await;
    t.create("w0", ("s", (3, 0))).await.recorded();
    t.observed("w0", 5, ("s", (3, 0))).await;
    t.update("w0", 5, ("s", (3, 0)), ("s", (1, 0))).await.passed();
    t.observed("w0", 6, ("s", (1, 0))).await;
    let kept = t.log.head().await.unwrap().position;
    t.create("w1", ("s", (3, 0))).await.refused("QuotaExceeded");
    t.expired(kept, "w0").await;
    t.create("w1", ("s", (3, 0))).await.recorded();
}

#[tokio::test]
async fn who_observed_twice_frees_and_charges_nothing_twice() {
    let t = company().await;
    t.create("w0", ("s", (1, 0))).await.recorded();
    for _ in 0..2 {
        t.observed("w0", 5, ("s", (1, 0))).await;
        t.pod("p6", "w0", ("s", (1, 0))).await;
    }
    let kept = t.gone("w0").await;
    t.observed("w0", 5, ("s", (1, 0))).await;
    t.expired(kept, "w0").await;
    t.create("w1", ("s", (4, 0))).await.refused("QuotaExceeded");
    t.create("w1", ("s", (3, 0))).await.recorded();
}
