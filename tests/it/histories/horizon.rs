//! How long the ledger remembers: a record that is read again, however late, changes nothing.

use crate::oracle::{
    Oracle,
    fold::{Fold, by, differences},
    history::{self, Amounts, Content, HOUR, MARCH, Pod, Scale, Stop},
    walk::Basis,
    world::{self, Dice, World},
};
use bizrq::domain::{
    event::{Event, ResizeBasis, StartBasis, StopBasis},
    ledger::Applied,
};
use rand::{RngExt, SeedableRng};

/// Hours since the start of March.
const SCALE: Scale = Scale { base: MARCH, grain: HOUR };
const DAY: i64 = 24;
const EAST: &str = "/clusters/east";

const ONE: Content = Content {
    group: "team-a",
    cpu_model: None,
    gpu_model: None,
    amounts: Amounts { cpu: 1000, memory: 1 << 20, gpu: 1000 },
};
const TWO: Amounts = Amounts { cpu: 2000, memory: 0, gpu: 0 };

/// The whole life of one pod within a few hours: withdrawn once, resized, moved, stopped.
fn life(pod: &Pod) -> Vec<Event<'static>> {
    let believed = Stop { latest: 4, ..Stop::certain(StopBasis::Absent, 3) };
    vec![
        pod.created(0, &ONE),
        pod.started(1, StartBasis::Bound, &ONE),
        pod.ran(1),
        pod.resized(2, ResizeBasis::KubeletStatus, TWO),
        pod.stopped(believed),
        pod.withdrawn(5),
        pod.moved(6, &Content { group: "team-b", ..ONE }),
        pod.stopped(Stop { ran: Some((1, 8)), ..Stop::certain(StopBasis::TerminalStatus, 8) }),
    ]
}

/// Heartbeats of `source` every six hours in `(from, to]`, in sync since `since`.
fn beats(source: &'static str, from: i64, to: i64, since: i64) -> Vec<Event<'static>> {
    let times = (from + 6..=to).step_by(6).chain((to > from).then_some(to));
    times.map(|t| history::synced(SCALE, source, t, since)).collect()
}

/// Reads `events`, then each of `again`, and asks after each whether anything changed.
fn unchanged(events: &[Event<'static>], again: &[Event<'static>], at: i64, what: &str) {
    for basis in [Basis::Held, Basis::Ran] {
        let mut fold = Fold::of(by(basis), events);
        let before = fold.lines(SCALE.millis(at));
        for event in again {
            let applied = fold.apply(event);
            assert!(!matches!(applied, Applied::Quarantined), "{what}: {applied:?} of {event:?}");
            assert_eq!(before, fold.lines(SCALE.millis(at)), "{what}: {event:?}");
        }
        let (from, to) = (SCALE.millis(-1), SCALE.millis(at));
        let tally = Oracle::read(SCALE.grain, events).tally(basis, from, to);
        let found = differences(&before, &tally, basis == Basis::Held);
        assert!(found.is_empty(), "{what}: {found:#?}");
    }
}

#[test]
fn a_life_that_is_told_again_after_any_time_changes_nothing() {
    let pod = Pod::new(SCALE, EAST, "p-0");
    for days in [0, 1, 30, 34, 35, 36, 70, 400] {
        let told = life(&pod);
        let events = [told.clone(), beats(EAST, 8, 9 + days * DAY, 0)].concat();
        unchanged(&events, &told, 10 + days * DAY, &format!("{days} days later"));
    }
}

#[test]
fn seconds_later_is_a_repetition_too() {
    let second = Scale { base: MARCH, grain: 1000 };
    let pod = Pod::new(second, EAST, "p-0");
    for later in [1, 2, 119, 120, 121] {
        let told = life(&pod);
        let mut events = told.clone();
        events.push(history::synced(second, EAST, 8 + later, 0));
        let mut fold = Fold::of(by(Basis::Held), &events);
        let before = fold.lines(second.millis(1000));
        for event in &told {
            assert!(matches!(fold.apply(event), Applied::Repeated), "{later} s later: {event:?}");
        }
        assert_eq!(before, fold.lines(second.millis(1000)), "{later} s later");
    }
}

#[test]
fn records_read_again_piece_by_piece_change_nothing_either() {
    let pod = Pod::new(SCALE, EAST, "p-0");
    let told = life(&pod);
    let events = [told.clone(), beats(EAST, 8, 36 * DAY, 0)].concat();
    for event in &told {
        unchanged(&events, std::slice::from_ref(event), 37 * DAY, "one record alone");
    }
}

#[test]
fn a_source_without_heartbeats_is_remembered_for_ever() {
    let imported = Pod::new(SCALE, "/imports/old", "p-0");
    let told = life(&imported);
    let elsewhere = Pod::new(SCALE, EAST, "p-1");
    let events = [told.clone(), life(&elsewhere), beats(EAST, 8, 400 * DAY, 0)].concat();
    unchanged(&events, &told, 401 * DAY, "an import, 400 days later");
}

#[test]
fn heartbeats_of_another_source_age_nothing() {
    let west = Pod::new(SCALE, "/clusters/west", "p-0");
    let told = life(&west);
    let beaten = [beats("/clusters/west", 8, 2 * DAY, 0), beats(EAST, 8, 100 * DAY, 0)].concat();
    unchanged(&[told.clone(), beaten].concat(), &told, 101 * DAY, "west, east beats");
}

#[test]
fn an_open_pod_is_never_forgotten() {
    let pod = Pod::new(SCALE, EAST, "p-0");
    let opened: Vec<_> = life(&pod).drain(..7).collect();
    let mut events = [opened.clone(), beats(EAST, 8, 60 * DAY, 0)].concat();
    unchanged(&events, &opened, 61 * DAY, "still open after 60 days");
    events.push(pod.stopped(Stop::certain(StopBasis::TerminalStatus, 60 * DAY)));
    unchanged(&events, &opened, 61 * DAY, "stopped after 60 days");
}

#[test]
fn a_provisional_stop_is_kept_for_ever_and_may_be_withdrawn_late() {
    let pod = Pod::new(SCALE, EAST, "p-0");
    let start = pod.started(1, StartBasis::Bound, &ONE);
    let lost = Stop { latest: 9, ..Stop::certain(StopBasis::NodeLost, 5) };
    let told = vec![start, pod.stopped(lost)];
    let mut events = [told.clone(), beats(EAST, 8, 40 * DAY, 0)].concat();
    unchanged(&events, &told, 50 * DAY, "lost 40 days ago");
    events.push(pod.withdrawn(40 * DAY));
    unchanged(&events, &told, 50 * DAY, "alive after 40 days");
    events.extend(beats(EAST, 40 * DAY, 80 * DAY, 0));
    unchanged(&events, &told, 90 * DAY, "told again 80 days later");
}

#[test]
fn an_observation_from_before_the_horizon_of_a_source_in_sync_is_dropped() {
    let known = Pod::new(SCALE, EAST, "p-0");
    let unheard = Pod::new(SCALE, EAST, "p-1");
    let events = [life(&known), beats(EAST, 8, 40 * DAY, 0)].concat();
    let mut fold = Fold::of(by(Basis::Held), &events);
    let before = fold.lines(SCALE.millis(41 * DAY));
    for event in life(&unheard) {
        let applied = fold.apply(&event);
        assert!(matches!(applied, Applied::Dropped), "{applied:?} {event:?}");
    }
    assert_eq!(before, fold.lines(SCALE.millis(41 * DAY)));
}

/// Heartbeats of `EAST`, one an hour, in `(from, to]`, in sync since hour 0.
fn hourly(from: i64, to: i64) -> Vec<Event<'static>> {
    (from + 1..=to).map(|t| history::synced(SCALE, EAST, t, 0)).collect()
}

#[test]
fn the_horizon_lies_35_days_of_heartbeats_back() {
    let (known, late) = (Pod::new(SCALE, EAST, "p-0"), Pod::new(SCALE, EAST, "p-1"));
    let start = late.started(100, StartBasis::Bound, &ONE);
    for (back, wanted) in [(35 * DAY - 2, Applied::Changed), (35 * DAY + 2, Applied::Dropped)] {
        let events = [life(&known), hourly(0, 100 + back)].concat();
        let mut fold = Fold::of(by(Basis::Held), &events);
        assert_eq!(fold.apply(&start), wanted, "{back} hours back");
    }
}

#[test]
fn what_forgotten_pods_used_counts_at_every_instant_that_can_be_asked_for() {
    let (gone, open) = (Pod::new(SCALE, EAST, "p-0"), Pod::new(SCALE, EAST, "p-1"));
    let ahead = [
        open.started(20, StartBasis::Bound, &ONE),
        open.stopped(Stop::certain(StopBasis::TerminalStatus, 60 * DAY)),
    ];
    let events = [life(&gone), ahead.to_vec(), hourly(0, 50 * DAY)].concat();
    let fold = Fold::of(by(Basis::Held), &events);
    let oracle = Oracle::read(SCALE.grain, &events);
    for at in [30, 20 * DAY, 50 * DAY, 61 * DAY] {
        let tally = oracle.tally(Basis::Held, SCALE.millis(-1), SCALE.millis(at));
        let found = differences(&fold.lines(SCALE.millis(at)), &tally, false);
        assert!(found.is_empty(), "at hour {at}: {found:#?}");
    }
}

/// By the node's clock, which is ahead, the forgotten pod ran beyond its stop: no answer for an instant in between
/// may count more than had run by then.
#[test]
fn an_instant_within_what_was_forgotten_is_not_answered_wrongly() {
    let (gone, open) = (Pod::new(SCALE, EAST, "p-0"), Pod::new(SCALE, EAST, "p-1"));
    let stop = Stop { ran: Some((1, 12)), ..Stop::certain(StopBasis::TerminalStatus, 8) };
    let events = [
        vec![gone.started(1, StartBasis::Bound, &ONE), gone.stopped(stop)],
        vec![open.started(20, StartBasis::Bound, &ONE), open.ran(20)],
        hourly(0, 50 * DAY),
    ]
    .concat();
    let fold = Fold::of(by(Basis::Ran), &events);
    let oracle = Oracle::read(SCALE.grain, &events);
    for at in [2, 7, 8, 9, 11, 12, 13, 19, 30] {
        let millis = SCALE.millis(at);
        if fold.ledger.usage(crate::oracle::fold::instant(millis)).is_ok() {
            let tally = oracle.tally(Basis::Ran, SCALE.millis(-1), millis);
            let found = differences(&fold.lines(millis), &tally, false);
            assert!(found.is_empty(), "at hour {at}: {found:#?}");
        }
    }
}

/// Records of one pod that lie apart, on both sides of its billed stop: while the horizon passes over them, hour by
/// hour, some are forgotten already and others are not.
#[test]
fn a_life_that_is_told_again_while_it_is_being_forgotten_changes_nothing() {
    let pod = Pod::new(SCALE, EAST, "p-0");
    let bound = |t| pod.started(t, StartBasis::Bound, &ONE);
    let stop = |basis, t| pod.stopped(Stop::certain(basis, t));
    let by_another_clock = vec![bound(9), stop(StopBasis::ContainersFinished, 3)];
    let worse_start = vec![
        pod.created(1, &ONE),
        bound(2),
        pod.started(9, StartBasis::KubeletStart, &ONE),
        stop(StopBasis::TerminalStatus, 4),
    ];
    let worse_stop =
        vec![bound(1), stop(StopBasis::TerminalStatus, 3), stop(StopBasis::Deleted, 9)];
    let believed = vec![
        bound(1),
        stop(StopBasis::Absent, 2),
        stop(StopBasis::TerminalStatus, 4),
        pod.withdrawn(6),
        stop(StopBasis::Absent, 9),
    ];
    let changed_late = vec![
        bound(1),
        stop(StopBasis::TerminalStatus, 3),
        pod.moved(6, &Content { group: "team-b", ..ONE }),
        pod.resized(9, ResizeBasis::KubeletStatus, TWO),
    ];
    for told in [life(&pod), by_another_clock, worse_start, worse_stop, believed, changed_late] {
        for hour in 0..14 {
            let events = [told.clone(), hourly(0, 35 * DAY + hour)].concat();
            unchanged(&events, &told, 36 * DAY, &format!("the horizon is at hour {hour}"));
            for record in &told {
                let one = std::slice::from_ref(record);
                unchanged(&events, one, 36 * DAY, &format!("one record, horizon at hour {hour}"));
            }
        }
    }
}

/// Worlds of months, every record read when it happened, heartbeats all along: what is told again at any later place
/// finds pods remembered, being forgotten, forgotten.
#[test]
fn a_world_that_is_told_again_among_heartbeats_changes_nothing() {
    let scale = Scale { base: MARCH - 200 * 12 * HOUR, grain: 12 * HOUR };
    let end = scale.millis(world::END + 100);
    for seed in 0..80 {
        let mut told = World::at(seed, scale).events;
        told.sort_by_key(|event| event.time); // stable
        let beat = |t, source| history::synced(scale, source, t, 0);
        let beats = (1..world::END + 100).flat_map(|t| [beat(t, EAST), beat(t, "/clusters/west")]);
        let mut events: Vec<_> = told.iter().cloned().chain(beats).collect();
        events.sort_by_key(|event| event.time);

        let once = Fold::of(by(Basis::Held), &events);
        let tally = Oracle::read(scale.grain, &events).tally(Basis::Held, scale.millis(-1), end);
        let found = differences(&once.lines(end), &tally, true);
        assert!(found.is_empty(), "seed {seed}: {found:#?}\n{told:#?}");

        let mut dice = Dice::seed_from_u64(seed);
        let (mut twice, mut read) = (Fold::new(by(Basis::Held)), 0);
        for event in &events {
            twice.apply(event);
            read += told[read..].iter().take_while(|t| t.time <= event.time).count();
            if read > 0 && dice.random_bool(0.2) {
                twice.apply(&told[dice.random_range(0..read)]);
            }
        }
        assert_eq!(once.lines(end), twice.lines(end), "seed {seed}: {told:#?}");
        for event in &told {
            twice.apply(event);
            assert_eq!(once.lines(end), twice.lines(end), "seed {seed}: {event:#?}\n{told:#?}");
        }
    }
}

#[test]
fn an_observation_from_a_gap_is_taken_however_old() {
    // In sync again for five days only: nobody could have recorded what happened on the first day.
    let late = Pod::new(SCALE, EAST, "p-1");
    let beaten = [beats(EAST, 0, 6, 0), beats(EAST, 35 * DAY, 40 * DAY, 35 * DAY)].concat();
    let told: Vec<_> = life(&late);
    let events = [beaten, told.clone()].concat();
    unchanged(&events, &told, 41 * DAY, "from a gap");
}
