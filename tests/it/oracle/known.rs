//! Cases whose answer was worked out by hand: what keeps the oracle itself honest.

use super::{
    Oracle,
    history::{Amounts, Content, Pod, Scale, Stop},
    walk::{Basis, Line, Provisional},
};
use bizrq::domain::event::{Event, ResizeBasis, StartBasis, StopBasis};

const SCALE: Scale = Scale::MILLIS;
const END: i64 = 400;

/// One core (its limit is two), nothing else, for team-a.
const ONE: Content = Content {
    group: "team-a",
    cpu_model: None,
    gpu_model: None,
    amounts: Amounts { cpu: 1000, memory: 0, gpu: 0 },
};

fn pod() -> Pod {
    Pod::new(SCALE, "/clusters/east", "p-0")
}

fn line(events: &[Event<'static>], group: &str, key: &str) -> Line {
    let tally = Oracle::read(1, events).tally(Basis::Held, SCALE.millis(0), SCALE.millis(END));
    tally.get(&(group.to_owned(), key.to_owned())).cloned().unwrap_or_default()
}

fn cpu(events: &[Event<'static>]) -> Line {
    line(events, "team-a", "requests.cpu")
}

#[test]
fn a_pod_counts_from_its_start_to_its_stop() {
    let events = [
        pod().started(100, StartBasis::Bound, &ONE),
        pod().stopped(Stop::certain(StopBasis::TerminalStatus, 250)),
    ];
    let line = |exact| Line { exact, ..Line::default() };
    assert_eq!(cpu(&events), line(150_000));
    assert_eq!(self::line(&events, "team-a", "limits.cpu"), line(300_000));
    let reversed: Vec<_> = events.iter().rev().cloned().collect();
    assert_eq!(cpu(&reversed), line(150_000));
}

#[test]
fn an_open_pod_runs_and_is_provisional() {
    let open = cpu(&[pod().started(100, StartBasis::Bound, &ONE)]);
    let sure = Provisional::Yes;
    assert_eq!(open, Line { exact: 300_000, running: 1000, provisional: sure, uncertain: 0 });
}

#[test]
fn a_resize_and_a_move_divide_the_interval() {
    let two = Amounts { cpu: 2000, memory: 0, gpu: 0 };
    let elsewhere = Content { group: "team-b", cpu_model: Some("A4"), ..ONE };
    let events = [
        pod().started(100, StartBasis::Bound, &ONE),
        pod().moved(300, &elsewhere),
        pod().resized(200, ResizeBasis::KubeletStatus, two),
        pod().stopped(Stop::certain(StopBasis::Deleted, 350)),
    ];
    assert_eq!(cpu(&events).exact, 100 * 1000 + 100 * 2000);
    assert_eq!(line(&events, "team-b", "requests.cpu").exact, 50 * 2000);
    assert_eq!(line(&events, "team-b", "limits.cpu.A4").exact, 50 * 4000);
    assert_eq!(line(&events, "team-a", "limits.cpu.A4").exact, 0);
}

#[test]
fn cards_count_under_limits_and_a_text_that_is_no_model_under_the_generic_key() {
    let cards = Amounts { cpu: 0, memory: 1 << 20, gpu: 2000 };
    let mixed = Content { gpu_model: Some("V100|T4"), amounts: cards, ..ONE };
    let held = Content { gpu_model: Some("A30"), amounts: cards, ..ONE };
    let events = [
        pod().started(100, StartBasis::Bound, &mixed),
        pod().moved(200, &held),
        pod().stopped(Stop::certain(StopBasis::Deleted, 210)),
    ];
    let exact = |key| line(&events, "team-a", key).exact;
    assert_eq!(exact("limits.nvidia.com/gpu"), 110 * 2000);
    assert_eq!(exact("limits.nvidia.com/gpu.A30"), 10 * 2000);
    assert_eq!(exact("limits.nvidia.com/gpu.V100|T4"), 0);
    assert_eq!(exact("requests.nvidia.com/gpu"), 0);
    assert_eq!(exact("requests.memory"), 110 * 1000 * (1 << 20));
}

#[test]
fn the_better_basis_wins_then_the_earlier_time() {
    let events = [
        pod().started(90, StartBasis::Observed, &ONE),
        pod().started(100, StartBasis::Bound, &ONE),
        pod().stopped(Stop::certain(StopBasis::Deleted, 200)),
        pod().stopped(Stop::certain(StopBasis::TerminalStatus, 260)),
        pod().stopped(Stop::certain(StopBasis::TerminalStatus, 250)),
    ];
    assert_eq!(cpu(&events).exact, 150_000);
}

#[test]
fn a_withdrawal_voids_the_provisional_stops_before_it_in_any_order() {
    let lost = Stop { earliest: 190, latest: 240, ..Stop::certain(StopBasis::NodeLost, 200) };
    let (start, stop) = (pod().started(100, StartBasis::Bound, &ONE), pod().stopped(lost));
    let believed = cpu(&[start.clone(), stop.clone()]);
    let yes = Provisional::Yes;
    assert_eq!(believed, Line { exact: 100_000, running: 0, provisional: yes, uncertain: 50_000 });
    for alive in [pod().withdrawn(201), pod().withdrawn(390)] {
        let revived = cpu(&[alive, start.clone(), stop.clone()]);
        assert_eq!((revived.exact, revived.running, revived.uncertain), (300_000, 1000, 0));
    }
    assert_eq!(cpu(&[start, stop, pod().withdrawn(200)]), believed);
}

#[test]
fn a_stop_before_its_start_closes_it_there_by_another_clock_and_not_by_the_same() {
    let start = pod().started(100, StartBasis::Bound, &ONE);
    let by = |basis| {
        let stop = pod().stopped(Stop::certain(basis, 93));
        let line = cpu(&[start.clone(), stop]);
        (line.exact, line.running, line.uncertain)
    };
    assert_eq!(by(StopBasis::ContainersFinished), (0, 0, 7000));
    assert_eq!(by(StopBasis::TerminalStatus), (300_000, 1000, 0));
}

#[test]
fn containers_run_by_their_own_clock() {
    let events = [
        pod().started(100, StartBasis::Bound, &ONE),
        pod().ran(120),
        pod().stopped(Stop {
            ran: Some((120, 240)),
            ..Stop::certain(StopBasis::TerminalStatus, 250)
        }),
    ];
    let oracle = Oracle::read(1, &events);
    let tally = oracle.tally(Basis::Ran, SCALE.millis(0), SCALE.millis(END));
    let row = ("team-a".to_owned(), "requests.cpu".to_owned());
    assert_eq!(tally[&row].exact, 120_000);
}

#[test]
fn pods_of_two_clusters_may_share_a_uid_and_a_record_counts_once() {
    let west = Pod::new(SCALE, "/clusters/west", "p-0");
    let events = [
        pod().started(100, StartBasis::Bound, &ONE),
        pod().started(100, StartBasis::Bound, &ONE),
        west.started(300, StartBasis::Bound, &ONE),
        pod().stopped(Stop::certain(StopBasis::Deleted, 200)),
        pod().started(100, StartBasis::Bound, &ONE),
    ];
    assert_eq!(cpu(&events).exact, 100_000 + 100_000);
}
