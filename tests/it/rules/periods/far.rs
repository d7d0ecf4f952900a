//! Budgets that begin anew inside an hour, long after the pods of that hour were forgotten: exact for ever, whatever
//! is learned late. Months go by, with heartbeats; things happen within a millisecond of the boundaries.

use super::*;
use bizrq::domain::{
    book::{Pace, Spend},
    event::ObserverSynced,
    meter::Meter,
    names::KeyId,
};
use std::cell::Cell;

impl World {
    fn beat(&mut self) {
        let data = ObserverSynced { resource_versions: Default::default(), since: ORIGIN };
        self.tell("observers/east".to_owned(), self.now, Data::ObserverSynced(data));
    }

    /// Days go by; it is then often a boundary, or a millisecond beside one.
    fn wait(&mut self, days: i64) {
        for _ in 0..days {
            self.now += DAY;
            self.beat();
        }
        self.now += self.rng.random_range(1..DAY);
        if self.rng.random_range(0..2) == 0 {
            let next = self.begin(self.day(self.now) + 1);
            self.now = next + self.rng.random_range(-1..=1);
        }
    }

    /// A correction of what was long ago.
    fn correct_long_ago(&mut self) {
        let now = self.now;
        let back = self.rng.random_range(0..90.min(now / DAY + 1));
        let begin = self.begin(self.day(now) - back);
        self.now = (begin + self.rng.random_range(-1..=1)).max(0);
        let (told, from) = (self.held.len(), self.now);
        self.correct();
        self.now = now;
        assert!(self.held.len() > told && self.held[told].from <= from);
    }

    fn live(&mut self) {
        match self.rng.random_range(0..16) {
            0..5 => self.start(),
            5..9 => self.end_or_move(),
            9 => self.correct_long_ago(),
            10 => {
                self.rule = ZONES.choose(&mut self.rng).unwrap().1;
                self.declare("R", "");
            }
            11 => self.declare("D", "A"),
            12 => self.declare("C", "B"),
            _ => {
                let days = self.rng.random_range(0..9);
                self.wait(days);
            }
        }
    }
}

fn months(seed: u64) -> World {
    let mut world = world(seed);
    for step in 0..140 {
        world.live();
        if step % 20 == 19 {
            world.compare(&format!("seed {seed}, step {step}"));
        }
    }
    assert!(world.ledger.quarantined().is_empty(), "{:?}", world.ledger.quarantined());
    world
}

#[test]
fn boundaries_inside_hours_are_exact_long_after_their_pods_were_forgotten() {
    let (mut forgotten, mut zones) = (0, 0);
    for seed in 0..12 {
        let world = months(seed);
        forgotten += world.pods as usize - world.ledger.meter().remembered();
        let rules = world.said.iter().filter_map(|said| said.policy.as_ref());
        let rules = rules.map(|policy| policy.calendar.zone.rule());
        zones += usize::from(rules.collect::<std::collections::BTreeSet<_>>().len() > 1);
    }
    assert!(forgotten > 100 && zones > 6, "{forgotten} {zones}: nothing was tried");
}

#[test]
fn a_fold_of_months_in_pieces_is_one_fold() {
    for seed in [1, 2, 3] {
        let world = months(seed);
        let mut dice = crate::oracle::world::Dice::seed_from_u64(seed);
        crate::restored::check("months", Options::default(), &world.events, &mut dice);
    }
}

/// What the meter says, and how often it was asked what somebody spent.
struct Watched<'m>(&'m Meter, Cell<u32>);

impl Spend for Watched<'_> {
    fn spent(&self, group: GroupId, key: KeyId, at: Timestamp) -> i128 {
        self.1.set(self.1.get() + 1);
        Spend::spent(self.0, group, key, at)
    }

    fn has_spent(&self, group: GroupId, at: Timestamp) -> bool {
        Spend::has_spent(self.0, group, at)
    }

    fn pace(&self, group: GroupId, key: KeyId) -> Option<Pace> {
        Spend::pace(self.0, group, key)
    }
}

#[test]
fn of_the_period_that_the_newest_record_lies_in_nobody_is_asked() {
    for seed in 0..8 {
        let mut world = world(seed);
        (0..8).for_each(|_| world.start());
        world.now += DAY;
        world.beat();
        (0..2).for_each(|_| world.end_or_move());
        world.now += DAY;
        world.beat();
        let (book, names) = (world.ledger.book().unwrap(), world.ledger.names());
        let cpu = names.known_key(CPU).unwrap();
        let spend = Watched(world.ledger.meter(), Cell::new(0));
        for (group, name) in GROUPS.iter().enumerate() {
            let Some(id) = names.known_group(name).filter(|id| book.declaration(*id).is_some())
            else {
                continue;
            };
            for t in [world.now, world.now + 1] {
                let what = format!("seed {seed}, {name} at {t}");
                let (used, limit) = (world.used(group, t), world.limit(group, t));
                assert_eq!(book.budget_used(id, cpu, &spend, at(t)), used, "{what}");
                assert_eq!(book.budget_limit(id, cpu, &spend, at(t)), limit, "{what}");
                let out = limit.is_some_and(|limit| used >= limit);
                let found = book.cash_out(id, cpu, &spend, at(t));
                assert!(found == Some(id) || !out, "{what}: {found:?}");
            }
            assert_eq!(spend.1.get(), 0, "seed {seed}, {name}: somebody was asked");
        }
        let root = names.known_group("R").unwrap();
        let yesterday = world.now - DAY;
        let used = book.budget_used(root, cpu, &spend, at(yesterday));
        assert_eq!(used, world.used(0, yesterday), "seed {seed}");
        assert!(spend.1.get() > 0, "of yesterday everybody is");
    }
}

const LORD_HOWE: &str = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0";

/// The root's own spend in the period of now, of years that begin on `anchor`.
fn set_up(world: &mut World, anchor: &str) -> i128 {
    let zone = Zone::new(Vec::new(), LORD_HOWE).unwrap();
    let calendar = Calendar { every: Every::Year, anchor: anchor.parse().unwrap(), zone };
    let (carry_over, time_zone) = (CarryOver::None, "Australia/Lord_Howe".into());
    let period = CashPeriod { calendar, time_zone, carry_over, max_percent: None };
    let hard = [(CASH.into(), Quantity::from_milli(1_000_000, Format::DecimalSI))];
    let spec = QuotaSpec {
        hard: hard.into_iter().collect(),
        cash_period: Some(Arc::new(period)),
        ..QuotaSpec::default()
    };
    let generation = i64::try_from(world.ledger.position()).unwrap() + 1;
    let uid = "q-R".into();
    let data = QuotaDeclared { uid, resource_version: Text::EMPTY, generation, spec };
    let position = world.ledger.position() + 1;
    let event = Event {
        id: EventId(u128::from(position)),
        source: "/clusters/east".into(),
        subject: "quotas/R".into(),
        time: at(world.now),
        recorded_at: at(world.now),
        data: Data::QuotaDeclared(data),
    };
    world.ledger.fold(position, &Record::Event(&event)).unwrap();
    own(world)
}

fn own(world: &World) -> i128 {
    let (book, names) = (world.ledger.book().unwrap(), world.ledger.names());
    let (root, cpu) = (names.known_group("R").unwrap(), names.known_key(CPU).unwrap());
    book.budget_own(root, cpu, world.ledger.meter(), at(world.now))
}

/// A pod of the root, from an instant to another.
fn pod(world: &mut World, milli: i128, from: i64, to: i64) {
    let uid = Text::from(format!("far-{}-{from}", world.pods));
    world.pods += 1;
    let limits = ResourceList::from_iter([("cpu", Quantity::from_milli(milli, Format::DecimalSI))]);
    let held = Arc::new(Resources { requests: ResourceList::default(), limits });
    let start = PodStarted {
        uid: uid.clone(),
        owner: None,
        group: "R".into(),
        models: Models::default(),
        node: "n1".into(),
        held,
        reserved: None,
        basis: StartBasis::Bound,
    };
    let (earliest, latest, basis) = (at(to), at(to), StopBasis::TerminalStatus);
    let stop = PodStopped {
        uid: uid.clone(),
        earliest,
        latest,
        basis,
        phase: "Succeeded".into(),
        reason: Text::EMPTY,
        ran: None,
    };
    for (time, data) in [(from, Data::PodStarted(start)), (to, Data::PodStopped(stop))] {
        let position = world.ledger.position() + 1;
        let event = Event {
            id: EventId(u128::from(position)),
            source: "/clusters/east".into(),
            subject: format!("pods/ml/{uid}").into(),
            time: at(time),
            recorded_at: at(time),
            data,
        };
        world.ledger.fold(position, &Record::Event(&event)).unwrap();
    }
}

fn beat_until(world: &mut World, end: i64) {
    while world.now < end {
        world.now = end.min(world.now + DAY);
        world.beat();
    }
}

/// Date and time of the simulation's origin are what they are: midnights are found by the calendar.
fn midnight(date: &str) -> i64 {
    let zone = Zone::new(Vec::new(), LORD_HOWE).unwrap();
    let calendar = Calendar { every: Every::Year, anchor: date.parse().unwrap(), zone };
    calendar.numbered(0).from.since(ORIGIN)
}

/// The first date that begins inside an hour, at least ten days after the origin.
fn date_inside_an_hour() -> String {
    let start = chrono::DateTime::from_timestamp_millis(ORIGIN.millis()).unwrap().date_naive();
    let mut dates = start.iter_days().skip(10).map(|date| date.to_string());
    dates.find(|date| midnight(date).rem_euclid(HOUR_MS) != 0).unwrap()
}

/// An anchor in the past: of the hour of the boundary all pods are still remembered.
#[test]
fn a_boundary_that_comes_to_be_known_late_is_exact_if_its_pods_are_remembered() {
    let (mut world, date) = (world(0), date_inside_an_hour());
    let begin = midnight(&date);
    for n in 0..5 {
        pod(&mut world, 1000, begin - 1000 - n, begin + 10 * n + 1);
    }
    beat_until(&mut world, begin + 30 * DAY);
    let wanted = 1000 * (0..5).map(|n| 10 * n + 1).sum::<i128>();
    assert_eq!(set_up(&mut world, &date), wanted);
    beat_until(&mut world, begin + 90 * DAY);
    assert_eq!(world.ledger.meter().remembered(), 0);
    assert_eq!(own(&world), wanted, "months later");
}

/// An anchor farther in the past than anybody remembers: the boundary counts at its hour's end, for ever.
#[test]
fn a_boundary_that_comes_to_be_known_when_its_pods_were_forgotten_counts_at_the_hours_end() {
    let (mut world, date) = (world(0), date_inside_an_hour());
    let begin = midnight(&date);
    let end = begin - begin.rem_euclid(HOUR_MS) + HOUR_MS;
    pod(&mut world, 1000, begin - 1000, begin + 1);
    pod(&mut world, 1000, begin - 1000, end + 7);
    pod(&mut world, 1000, begin - 1000, end + 100 * DAY);
    beat_until(&mut world, begin + 51 * DAY);
    let runs = |world: &World| i128::from(world.now - end);
    assert_eq!(set_up(&mut world, &date), 1000 * (7 + runs(&world)));
    beat_until(&mut world, begin + 80 * DAY);
    assert_eq!(own(&world), 1000 * (7 + runs(&world)), "weeks later");
    // The same zone with another anchor, since remembered: exact.
    let date = (1..).map(|n| begin + (50 + n) * DAY).find(|t| t.rem_euclid(HOUR_MS) != 0).unwrap();
    let zone = Zone::new(Vec::new(), LORD_HOWE).unwrap();
    let days = Calendar { every: Every::Day, anchor: "2024-01-01".parse().unwrap(), zone };
    let span = days.span(at(date));
    let local = chrono::DateTime::from_timestamp_millis(span.from.millis() + 12 * HOUR_MS);
    let anchor = local.unwrap().date_naive().to_string();
    let began = midnight(&anchor);
    assert!(began < world.now);
    let wanted = 1000 * i128::from(world.now - began);
    assert_eq!(set_up(&mut world, &anchor), wanted);
}
