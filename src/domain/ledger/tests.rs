//! Histories a person can check by hand.
// Tests may overflow: that fails them.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use super::*;
use crate::domain::{
    event::*,
    history::Unit,
    meter::Window,
    quantity::Quantity,
    resources::{Models, Resources},
    time::HOUR_MS,
};
use std::sync::Arc;

/// A ledger under test; instants are milliseconds after an hour boundary.
struct Case {
    ledger: Ledger,
}

const T0: i64 = 1_796_000_400_000;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(T0 + ms).unwrap()
}

fn cores(milli: i128) -> Arc<Resources> {
    let mut resources = Resources::default();
    resources.limits.set("cpu", Quantity::from_milli(milli, Default::default()));
    Arc::new(resources)
}

impl Case {
    fn new() -> Self {
        Self { ledger: Ledger::default() }
    }

    fn tell(&mut self, ms: i64, data: Data<'static>) -> Applied {
        let position = self.ledger.position() + 1;
        let event = Event {
            id: EventId(u128::from(position)),
            source: "/clusters/east".into(),
            subject: "pods/ns/p".into(),
            time: at(ms),
            recorded_at: at(ms),
            data,
        };
        self.ledger.apply(position, Hash::default(), &event).unwrap()
    }

    fn start(&mut self, ms: i64, basis: StartBasis, milli: i128) -> Applied {
        self.tell(
            ms,
            Data::PodStarted(PodStarted {
                uid: "p".into(),
                owner: None,
                group: "a".into(),
                models: Models::default(),
                node: "n".into(),
                held: cores(milli),
                reserved: None,
                basis,
            }),
        )
    }

    fn stop(&mut self, ms: i64, basis: StopBasis) -> Applied {
        self.stop_between(ms, ms, ms, basis)
    }

    fn stop_between(&mut self, ms: i64, earliest: i64, latest: i64, basis: StopBasis) -> Applied {
        self.tell(
            ms,
            Data::PodStopped(PodStopped {
                uid: "p".into(),
                earliest: at(earliest),
                latest: at(latest),
                basis,
                phase: "".into(),
                reason: "".into(),
                ran: None,
            }),
        )
    }

    /// A root with a budget of so many thousandths of a core-hour.
    fn declare(&mut self, group: &str, milli: i128) {
        let position = self.ledger.position() + 1;
        let cash = Quantity::from_milli(milli, Default::default());
        let spec =
            QuotaSpec { hard: [("cash/limits.cpu".into(), cash)].into(), ..QuotaSpec::default() };
        let data =
            QuotaDeclared { uid: "q".into(), resource_version: "".into(), generation: 1, spec };
        let event = Event {
            id: EventId(u128::from(position)),
            source: "/operators/me".into(),
            subject: format!("quotas/{group}").into(),
            time: at(0),
            recorded_at: at(0),
            data: Data::QuotaDeclared(data),
        };
        assert_eq!(self.ledger.apply(position, Hash::default(), &event).unwrap(), Applied::Changed);
    }

    fn resize(&mut self, ms: i64, milli: i128) -> Applied {
        let basis = ResizeBasis::KubeletStatus;
        let held = cores(milli);
        self.tell(ms, Data::PodResized(PodResized { uid: "p".into(), held, reserved: None, basis }))
    }

    fn move_to(&mut self, ms: i64, group: &'static str) -> Applied {
        let (group, models) = (group.into(), Models::default());
        self.tell(ms, Data::PodMoved(PodMoved { uid: "p".into(), owner: None, group, models }))
    }

    fn alive(&mut self, ms: i64) -> Applied {
        self.tell(
            ms,
            Data::PodStopWithdrawn(PodStopWithdrawn { uid: "p".into(), alive_at: at(ms) }),
        )
    }

    /// `group exact running provisional uncertain` of `limits.cpu`, a line each.
    fn usage(&self, ms: i64) -> String {
        let line = |u: &Usage| {
            let sign = if u.provisional { " provisional" } else { "" };
            format!("{} {} {}{sign} {}", u.group, u.exact, u.running, u.uncertain)
        };
        let lines = self.ledger.usage(at(ms)).unwrap();
        lines.iter().filter(|u| u.key == "limits.cpu").map(line).collect::<Vec<_>>().join("; ")
    }
}

#[test]
fn a_second_of_two_cores_is_two_core_seconds() {
    let mut case = Case::new();
    case.start(0, StartBasis::Bound, 2000);
    assert_eq!(case.usage(500), "a 1000000 2000 provisional 0");
    case.stop(1000, StopBasis::TerminalStatus);
    assert_eq!(case.usage(5000), "a 2000000 0 0");
    assert_eq!(
        case.usage(500),
        "a 1000000 2000 0",
        "as of an earlier instant, by what is known now"
    );
}

#[test]
fn a_resize_splits_the_interval_and_a_move_changes_who_pays() {
    let mut case = Case::new();
    case.start(0, StartBasis::Bound, 1000);
    case.resize(100, 3000);
    case.move_to(150, "b");
    case.stop(200, StopBasis::TerminalStatus);
    assert_eq!(case.usage(200), format!("a {} 0 0; b {} 0 0", 100 * 1000 + 50 * 3000, 50 * 3000));
}

#[test]
fn repeated_late_and_out_of_order_records_change_nothing() {
    let mut case = Case::new();
    assert_eq!(
        case.stop(200, StopBasis::TerminalStatus),
        Applied::Changed,
        "it waits for its start"
    );
    assert_eq!(case.usage(1000), "");
    assert_eq!(case.resize(100, 3000), Applied::Changed);
    case.start(0, StartBasis::Bound, 1000);
    let usage = case.usage(1000);
    assert_eq!(usage, format!("a {} 0 0", 100 * 1000 + 100 * 3000));
    assert_eq!(case.start(0, StartBasis::Bound, 1000), Applied::Repeated);
    assert_eq!(case.start(0, StartBasis::KubeletStart, 1000), Applied::Repeated, "a worse basis");
    assert_eq!(case.stop(200, StopBasis::TerminalStatus), Applied::Repeated);
    assert_eq!(case.resize(100, 3000), Applied::Repeated);
    case.stop(900, StopBasis::Deleted);
    assert_eq!(case.usage(1000), usage);
}

#[test]
fn proof_of_life_voids_a_stop_that_nobody_saw() {
    let mut case = Case::new();
    case.start(0, StartBasis::Bound, 1000);
    case.stop_between(100, 100, 300, StopBasis::Absent);
    assert_eq!(case.usage(1000), "a 100000 0 provisional 200000");
    case.alive(400);
    assert_eq!(case.usage(1000), "a 1000000 1000 provisional 0");
    case.stop_between(300, 300, 350, StopBasis::NodeLost);
    assert_eq!(case.usage(1000), "a 1000000 1000 provisional 0", "void before it was told");
    case.stop(500, StopBasis::TerminalStatus);
    assert_eq!(case.usage(1000), "a 500000 0 0");
}

#[test]
fn a_stop_before_the_start_is_closed_at_the_start_or_quarantined() {
    let mut case = Case::new();
    case.stop(90, StopBasis::ContainersFinished);
    case.start(100, StartBasis::Bound, 1000);
    assert_eq!(case.usage(1000), "a 0 0 10000", "the node's clock: uncertain by the difference");
    let mut case = Case::new();
    case.stop(90, StopBasis::TerminalStatus);
    assert_eq!(case.start(100, StartBasis::Bound, 1000), Applied::Changed);
    assert_eq!(case.usage(1000), "a 900000 1000 provisional 0");
    assert_eq!(case.ledger.quarantined().len(), 1);
    assert_eq!(case.ledger.quarantined()[0].position, 1);
}

#[test]
fn hours_days_and_months_add_up() {
    let mut case = Case::new();
    let hour = HOUR_MS;
    case.start(hour / 2, StartBasis::Bound, 1000);
    case.stop(50 * 24 * hour, StopBasis::TerminalStatus);
    let (group, key) = {
        let names = case.ledger.names();
        (names.known_group("a").unwrap(), names.known_key("limits.cpu").unwrap())
    };
    let within =
        |unit, begin| case.ledger.meter().within(group, key, unit, begin).unwrap().unwrap();
    assert_eq!(within(Unit::Hour, at(0)), i128::from(hour / 2) * 1000);
    assert_eq!(within(Unit::Hour, at(hour)), i128::from(hour) * 1000);
    let mut total = 0;
    for h in -24..=51 * 24 {
        total += within(Unit::Hour, at(h * hour));
    }
    assert_eq!(total, i128::from(50 * 24 * hour - hour / 2) * 1000);
    let january = Timestamp::parse("2027-01-01T00:00:00Z").unwrap();
    assert_eq!(
        within(Unit::Month, Timestamp::parse("2026-12-01T00:00:00Z").unwrap()),
        i128::from(31 * 24 * hour) * 1000
    );
    let rest = at(50 * 24 * hour).since(january);
    assert_eq!(within(Unit::Month, january), i128::from(rest) * 1000);
}

#[test]
fn a_budget_counts_from_the_opening_of_its_account() {
    let mut case = Case::new();
    case.start(0, StartBasis::Bound, 1000);
    let (group, key) = {
        let names = case.ledger.names();
        (names.known_group("a").unwrap(), names.known_key("limits.cpu").unwrap())
    };
    case.ledger.meter.open_account(group, at(100)).unwrap();
    case.resize(50, 3000);
    assert_eq!(case.ledger.meter().spent(group, key, at(100)), Ok(0));
    assert_eq!(case.ledger.meter().spent(group, key, at(150)), Ok(50 * 3000));
    case.stop(40, StopBasis::TerminalStatus);
    assert_eq!(case.ledger.meter().spent(group, key, at(150)), Ok(0));
}

#[test]
fn what_leaves_128_bits_is_quarantined_and_changes_nothing() {
    let mut case = Case::new();
    case.start(0, StartBasis::Bound, 1000);
    let before = case.usage(100);
    let huge = Quantity::from_milli(i128::MAX / 2_000_000, Default::default());
    let mut held = Resources::default();
    held.limits.set("cpu", huge);
    held.limits.set("memory", huge);
    let basis = ResizeBasis::KubeletStatus;
    let resize = PodResized { uid: "p".into(), held: Arc::new(held), reserved: None, basis };
    assert_eq!(case.tell(1 << 40, Data::PodResized(resize)), Applied::Quarantined);
    assert_eq!(case.usage(100), before);
}

#[test]
fn a_budget_is_used_up_at_a_millisecond_past_or_to_come() {
    use crate::domain::book::{Exhaustion, Spend};
    let mut case = Case::new();
    case.declare("a", 2001);
    // One core from half past, seven from the next hour on: after 0.5 core-hours the other 1.501 take
    // 1.501 ÷ 7 hours, which are 771,942 ms and a bit.
    case.start(HOUR_MS / 2, StartBasis::Bound, 1000);
    case.resize(HOUR_MS, 7000);
    let ask = |case: &Case| {
        let (names, meter) = (case.ledger.names(), case.ledger.meter());
        let (group, key) =
            (names.known_group("a").unwrap(), names.known_key("limits.cpu").unwrap());
        let used = |ms| case.ledger.book().unwrap().budget_used(group, key, meter, at(ms));
        let limit = 2001 * i128::from(HOUR_MS);
        assert!(meter.is_remembered(at(0)));
        (
            case.ledger.book().unwrap().exhaustion(group, key, meter, at(0)),
            used(HOUR_MS + 771_942) < limit,
        )
    };
    let expected = (Some(Exhaustion::At(at(HOUR_MS + 771_943))), true);
    assert_eq!(ask(&case), expected, "to come");
    case.stop(3 * HOUR_MS, StopBasis::TerminalStatus);
    assert_eq!(ask(&case), expected, "past");
    case.stop(HOUR_MS + 1, StopBasis::TerminalStatus);
    assert_eq!(ask(&case).0, Some(Exhaustion::Never), "a correction takes it back");
}

#[test]
fn a_correction_counts_in_its_hour_its_day_and_the_sum_once() {
    let mut case = Case::new();
    case.start(0, StartBasis::Bound, 1000);
    case.stop(40 * 24 * HOUR_MS, StopBasis::TerminalStatus);
    let before = case.ledger.usage(at(50 * 24 * HOUR_MS)).unwrap()[0].exact;
    let period = Period { from: at(HOUR_MS / 2), to: at(HOUR_MS) };
    let data = |exact| UsageAdjusted {
        key: "limits.cpu".into(),
        exact,
        period,
        why: "double delivery".into(),
        by: "ada".into(),
    };
    let adjust = |case: &mut Case, id, exact| {
        let position = case.ledger.position() + 1;
        let event = Event {
            id: EventId(id),
            source: "/operators/ada".into(),
            subject: "accounts/a".into(),
            time: at(0),
            recorded_at: at(0),
            data: Data::UsageAdjusted(data(exact)),
        };
        case.ledger.apply(position, Hash::default(), &event).unwrap()
    };
    assert_eq!(adjust(&mut case, 7, -(1 << 100)), Applied::Changed);
    assert_eq!(adjust(&mut case, 7, -(1 << 100)), Applied::Repeated);
    assert_eq!(adjust(&mut case, 8, i128::MIN), Applied::Quarantined, "beyond any account");
    let after = case.ledger.usage(at(50 * 24 * HOUR_MS)).unwrap()[0].exact;
    assert_eq!(after - before, -(1 << 100));
    let names = case.ledger.names();
    let (group, key) = (names.known_group("a").unwrap(), names.known_key("limits.cpu").unwrap());
    let within = |unit, ms| case.ledger.meter().within(group, key, unit, at(ms)).unwrap().unwrap();
    assert_eq!(within(Unit::Hour, 0), i128::from(HOUR_MS) * 1000 - (1 << 100));
    assert_eq!(within(Unit::Hour, HOUR_MS), i128::from(HOUR_MS) * 1000);
}

#[test]
fn before_its_window_nothing_is_used_and_nothing_is_given_back() {
    let window = Window { from: Some(at(100)), to: None };
    let ledger = Ledger::new(Options { window, ..Options::default() });
    let mut case = Case { ledger };
    case.start(0, StartBasis::Bound, 1000);
    for (ms, exact) in [(50, 0), (100, 0), (101, 1000), (150, 50_000)] {
        let usage = case.ledger.usage(at(ms)).unwrap();
        assert_eq!(usage.iter().map(|u| u.exact).sum::<i128>(), exact, "{ms}");
    }
}
