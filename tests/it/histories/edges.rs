//! Scenarios at the edges, each folded, asked at every instant of interest, and held against the oracle.

use crate::oracle::{
    Oracle,
    fold::{Fold, by, differences, within},
    history::{Amounts, Content, HOUR, MARCH, Pod, Scale, Stop},
    walk::Basis,
    world,
};
use bizrq::domain::{
    event::{Event, ResizeBasis, StartBasis, StopBasis},
    history::Unit,
    ledger::Applied,
};
use rand::SeedableRng;
use std::collections::BTreeSet;

const SCALE: Scale = Scale::MILLIS;
const END: i64 = 400;

const ONE: Content = Content {
    group: "team-a",
    cpu_model: Some("A4"),
    gpu_model: None,
    amounts: Amounts { cpu: 1000, memory: 1 << 20, gpu: 0 },
};
const OTHER: Content = Content { group: "team-b", gpu_model: Some("A30"), ..ONE };
const TWO: Amounts = Amounts { cpu: 2000, memory: 0, gpu: 500 };

fn pod() -> Pod {
    Pod::new(SCALE, "/clusters/east", "p-0")
}

fn bound(t: i64) -> Event<'static> {
    pod().started(t, StartBasis::Bound, &ONE)
}

fn ended(t: i64) -> Event<'static> {
    pod().stopped(Stop::certain(StopBasis::TerminalStatus, t))
}

fn absent(t: i64, latest: i64) -> Event<'static> {
    pod().stopped(Stop { latest, ..Stop::certain(StopBasis::Absent, t) })
}

fn resized(t: i64, amounts: Amounts) -> Event<'static> {
    pod().resized(t, ResizeBasis::KubeletStatus, amounts)
}

/// The fold agrees with the oracle: at the end, at every instant of the history and a millisecond beside it, as
/// known after each record, in the order given and in others.
fn agree(events: &[Event<'static>]) {
    let from = SCALE.millis(-1);
    let end = SCALE.millis(END);
    let oracle = Oracle::read(SCALE.grain, events);
    let instants: BTreeSet<i64> = oracle
        .pods
        .values()
        .flat_map(|pod| pod.instants())
        .flat_map(|t| [t - 1, t, t + 1])
        .chain([end])
        .filter(|t| *t > from)
        .collect();
    for basis in [Basis::Held, Basis::Ran] {
        for at in instants.iter().copied() {
            let lines = Fold::of(within(basis, None, Some(at)), events).lines(at);
            let found = differences(&lines, &oracle.tally(basis, from, at), false);
            assert!(found.is_empty(), "{basis:?} at +{}: {found:#?}\n{events:#?}", at - from - 1);
        }
    }
    let mut fold = Fold::new(by(Basis::Held));
    for (i, event) in events.iter().enumerate() {
        fold.apply(event);
        let known = Oracle::read(SCALE.grain, &events[..=i]).tally(Basis::Held, from, end);
        let found = differences(&fold.lines(end), &known, true);
        assert!(found.is_empty(), "after record {i}: {found:#?}\n{events:#?}");
    }
    let once = fold.lines(end);
    let mut dice = world::Dice::seed_from_u64(7);
    for _ in 0..4 {
        let other = world::permuted(&mut dice, events);
        let other = world::repeated(&mut dice, other);
        assert_eq!(once, Fold::of(by(Basis::Held), &other).lines(end), "{other:#?}");
    }
}

#[test]
fn segments_begin_and_end_on_the_boundary_of_hour_day_and_month() {
    let boundary = 200; // number 200 begins March
    agree(&[bound(boundary), ended(boundary + 50)]);
    agree(&[bound(boundary - 50), ended(boundary)]);
    agree(&[bound(boundary - 50), resized(boundary, TWO), ended(boundary + 50)]);
    let hourly = Scale { base: MARCH, grain: HOUR };
    let pod = Pod::new(hourly, "/clusters/east", "p-0");
    let events = [
        pod.started(-24, StartBasis::Bound, &ONE),
        pod.resized(0, ResizeBasis::KubeletStatus, TWO),
        pod.stopped(Stop::certain(StopBasis::TerminalStatus, 24)),
    ];
    let fold = Fold::of(by(Basis::Held), &events);
    let row = ("team-a", "requests.cpu");
    let hour = |h: i64| fold.period(Unit::Hour, row, MARCH + h * HOUR);
    let day = |d: i64| fold.period(Unit::Day, row, MARCH + d * 24 * HOUR);
    let ms = i128::from(HOUR);
    assert_eq!([-25, -24, -1, 0, 23, 24].map(hour), [0, 1000, 1000, 2000, 2000, 0].map(|m| m * ms));
    assert_eq!([-2, -1, 0, 1].map(day), [0, 24_000, 48_000, 0].map(|m| m * ms));
    assert_eq!(fold.period(Unit::Month, row, MARCH), 48_000 * ms);
}

#[test]
fn a_pod_that_held_for_no_time_counts_nothing() {
    agree(&[bound(100), ended(100)]);
    agree(&[bound(100), absent(100, 100), pod().withdrawn(150), ended(160)]);
}

#[test]
fn what_changes_twice_at_one_instant_counts_as_it_was_read_last() {
    let back = ONE.amounts;
    agree(&[bound(100), resized(150, TWO), resized(150, back), ended(200)]);
    agree(&[bound(100), pod().moved(150, &OTHER), pod().moved(150, &ONE), ended(200)]);
    agree(&[bound(100), resized(150, TWO), pod().moved(150, &OTHER), ended(200)]);
}

#[test]
fn a_change_at_the_instant_of_the_start_is_the_start() {
    agree(&[bound(100), resized(100, TWO), ended(200)]);
    agree(&[bound(100), pod().moved(100, &OTHER)]);
}

#[test]
fn a_change_at_or_after_the_stop_counts_nothing() {
    agree(&[bound(100), resized(200, TWO), ended(200)]);
    agree(&[bound(100), ended(200), resized(200, TWO)]);
    agree(&[bound(100), ended(200), pod().moved(250, &OTHER)]);
    agree(&[bound(100), pod().moved(250, &OTHER), resized(260, TWO), ended(200)]);
}

#[test]
fn a_change_after_a_withdrawn_stop_counts_from_its_own_instant() {
    agree(&[bound(100), absent(150, 160), resized(170, TWO), pod().withdrawn(180), ended(220)]);
    agree(&[bound(100), absent(150, 160), pod().moved(150, &OTHER), pod().withdrawn(180)]);
}

#[test]
fn a_pod_starts_at_the_instant_at_which_another_stops() {
    let next = Pod::new(SCALE, "/clusters/east", "p-1");
    agree(&[bound(100), ended(200), next.started(200, StartBasis::Bound, &ONE)]);
}

#[test]
fn a_change_before_the_start_is_superseded_if_read_before_it_else_it_holds_from_the_start_on() {
    agree(&[pod().created(50, &ONE), pod().moved(60, &OTHER), bound(100), ended(200)]);
    agree(&[bound(100), pod().moved(60, &OTHER), ended(200)]);
    agree(&[resized(60, TWO), bound(100)]);
}

#[test]
fn records_without_a_start_count_nothing() {
    agree(&[pod().created(50, &ONE), resized(100, TWO), pod().moved(120, &OTHER)]);
    agree(&[ended(200), pod().ran(100), pod().withdrawn(150)]);
}

#[test]
fn everything_read_before_the_start_waits_for_it() {
    agree(&[ended(200), resized(150, TWO), pod().moved(170, &OTHER), bound(100)]);
    agree(&[absent(150, 170), pod().withdrawn(160), pod().ran(103), bound(100)]);
    agree(&[pod().withdrawn(160), absent(150, 170), absent(180, 181), bound(100), ended(300)]);
}

#[test]
fn a_late_change_divides_what_was_already_counted() {
    agree(&[bound(100), pod().moved(200, &OTHER), resized(150, TWO), ended(300)]);
    agree(&[bound(100), ended(300), pod().moved(200, &OTHER), resized(150, TWO)]);
}

#[test]
fn a_withdrawn_pod_may_stop_again() {
    agree(&[bound(100), absent(150, 160), pod().withdrawn(180), absent(220, 230)]);
    let twice = [absent(150, 160), pod().withdrawn(180), absent(220, 230), pod().withdrawn(240)];
    agree(&[&[bound(100)], &twice[..], &[ended(260)]].concat());
    // Seen alive at the very instant of the stop: that does not disprove it.
    agree(&[bound(100), absent(150, 160), pod().withdrawn(150)]);
    // A withdrawal is no word against a final stop.
    agree(&[bound(100), ended(150), pod().withdrawn(180)]);
}

#[test]
fn a_better_basis_replaces_what_was_counted() {
    let by = |basis, t| pod().stopped(Stop { latest: t + 5, ..Stop::certain(basis, t) });
    let from_worst = [
        bound(100),
        by(StopBasis::Absent, 150),
        by(StopBasis::NodeLost, 160),
        by(StopBasis::Deleted, 140),
        by(StopBasis::Imported, 170),
        by(StopBasis::ContainersFinished, 155),
        by(StopBasis::Received, 190),
        by(StopBasis::TerminalStatus, 180),
    ];
    agree(&from_worst);
    let from_best: Vec<_> = from_worst.iter().rev().cloned().collect();
    agree(&from_best);
    agree(&[
        pod().started(110, StartBasis::Observed, &ONE),
        resized(120, TWO),
        by(StopBasis::Deleted, 200),
        pod().started(104, StartBasis::KubeletStart, &ONE),
        pod().started(100, StartBasis::Bound, &ONE),
    ]);
    // The better start may be the later one.
    agree(&[pod().started(90, StartBasis::Observed, &ONE), bound(100), ended(200)]);
    agree(&[bound(100), pod().started(90, StartBasis::Observed, &ONE), ended(200)]);
}

#[test]
fn of_one_basis_the_earlier_time_counts() {
    agree(&[bound(100), ended(200), ended(190), ended(195)]);
    agree(&[bound(100), bound(95), bound(97), ended(200)]);
    agree(&[bound(100), absent(200, 210), absent(150, 155)]);
    // The earlier absence is disproved, the later one stands.
    agree(&[bound(100), absent(200, 210), absent(150, 155), pod().withdrawn(160)]);
}

#[test]
fn what_is_uncertain_belongs_to_what_was_held_last() {
    let lost = Stop { earliest: 180, latest: 230, ..Stop::certain(StopBasis::NodeLost, 200) };
    agree(&[bound(100), pod().stopped(lost)]);
    agree(&[bound(100), resized(150, TWO), pod().moved(160, &OTHER), pod().stopped(lost)]);
    agree(&[bound(100), resized(200, TWO), pod().stopped(lost)]);
}

#[test]
fn a_stop_before_its_start_by_another_clock_closes_it_there() {
    let finished = |t| pod().stopped(Stop::certain(StopBasis::ContainersFinished, t));
    agree(&[bound(100), finished(93)]);
    agree(&[finished(93), bound(100)]);
    // The better start that is read later lies before the stop.
    agree(&[pod().started(104, StartBasis::Observed, &ONE), finished(102), bound(100)]);
    agree(&[finished(102), pod().started(104, StartBasis::Observed, &ONE), bound(100)]);
}

#[test]
fn a_stop_before_its_start_by_the_same_clock_is_quarantined() {
    agree(&[bound(100), ended(93)]);
    agree(&[ended(93), bound(100)]);
    agree(&[bound(100), ended(93), ended(200)]);
}

#[test]
fn a_uid_on_a_second_node_is_quarantined() {
    let elsewhere = pod().started_on(90, StartBasis::Bound, &OTHER, "n2");
    agree(&[bound(100), elsewhere.clone(), ended(200)]);
    agree(&[pod().started(100, StartBasis::Observed, &ONE), elsewhere.clone(), ended(200)]);
    let mut fold = Fold::of(by(Basis::Held), &[bound(100)]);
    assert_eq!(fold.apply(&elsewhere), Applied::Quarantined);
    assert_eq!(fold.ledger.quarantined().len(), 1);
}

#[test]
fn containers_run_within_by_the_nodes_clock() {
    let stop = |ran| Stop { ran: Some(ran), ..Stop::certain(StopBasis::TerminalStatus, 200) };
    agree(&[bound(100), pod().ran(110), pod().stopped(stop((110, 190)))]);
    agree(&[bound(100), pod().ran(110), resized(150, TWO), pod().stopped(stop((110, 190)))]);
    // The node's clock is behind: it ran "before" it was bound.
    agree(&[bound(100), pod().ran(95), pod().stopped(stop((95, 190)))]);
    // No record but the stop says when it ran.
    agree(&[bound(100), pod().stopped(stop((110, 190)))]);
    agree(&[bound(100), pod().ran(110)]);
    agree(&[pod().ran(110), bound(100), absent(150, 155), pod().withdrawn(170)]);
}

#[test]
fn a_start_or_stop_ahead_of_the_question_takes_effect_at_its_own_instant() {
    let later = Pod::new(SCALE, "/clusters/west", "p-0");
    let events = [bound(100), ended(300), later.started(250, StartBasis::Bound, &ONE)];
    let fold = Fold::of(by(Basis::Held), &events);
    let oracle = Oracle::read(SCALE.grain, &events);
    for t in [101, 249, 250, 251, 299, 300, 301] {
        let at = SCALE.millis(t);
        let tally = oracle.tally(Basis::Held, SCALE.millis(0), at);
        let found = differences(&fold.lines(at), &tally, false);
        assert!(found.is_empty(), "at +{t}: {found:#?}");
    }
}
