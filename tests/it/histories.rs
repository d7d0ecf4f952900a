//! Random histories: the ledger's fold against the oracle, and the laws that hold whatever happened.
//!
//! Simulated worlds are named by their seed, which every failure prints; `BIZRQ_SEED` begins elsewhere.

mod edges;
mod horizon;
mod overflow;

use crate::oracle::{
    Oracle, arbitrary,
    fold::{Fold, Lines, by, differences, within},
    history::{HOUR, MARCH, Scale},
    walk::Basis,
    world::{self, Dice, World},
};
use bizrq::domain::{event::Event, history::Unit, ledger::Applied};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

/// So many worlds for each law.
const WORLDS: u64 = 160;

/// The worlds of one law; laws do not share worlds.
pub(crate) fn worlds(law: u64, count: u64) -> impl Iterator<Item = World> {
    let first = std::env::var("BIZRQ_SEED").ok().map_or(1, |seed| seed.parse().expect("a number"));
    (0..count).map(move |i| World::new(first + law * 1_000_000 + i))
}

impl World {
    /// Before everything: a stop at number 0 lies inside of what begins here.
    fn start(&self) -> i64 {
        self.scale.millis(-1)
    }

    fn end(&self) -> i64 {
        self.scale.millis(world::END)
    }

    pub(crate) fn dice(&self) -> Dice {
        Dice::seed_from_u64(self.seed ^ 0x5eed)
    }

    fn assert_same(&self, basis: Basis, from: Option<i64>, to: i64, certainty: bool) -> Lines {
        let scale = (self.scale.grain, self.start());
        let what = format!("world {}", self.seed);
        assert_same(&what, scale, &self.events, basis, (from, to), certainty)
    }

    /// The records in order, one a line, to print with a failure.
    fn story(&self) -> String {
        let told = story(self.start(), &self.events);
        format!("world {} (grain {} ms)\n{told}", self.seed, self.scale.grain)
    }
}

fn story(start: i64, events: &[Event<'_>]) -> String {
    let line = |e: &Event<'_>| {
        let at = e.time.millis() - start;
        format!("  +{at} {} {:?}\n", e.source, e.data)
    };
    events.iter().map(line).collect()
}

/// Fails with the differences, and with the records of those pods alone on which fold and oracle differ.
fn assert_same(
    what: &str,
    (grain, origin): (i64, i64),
    events: &[Event<'static>],
    basis: Basis,
    (from, to): (Option<i64>, i64),
    certainty: bool,
) -> Lines {
    let ask = |events: &[Event<'static>]| {
        let lines = Fold::of(within(basis, from, Some(to)), events).lines(to);
        let tally = Oracle::read(grain, events).tally(basis, from.unwrap_or(origin), to);
        let found = differences(&lines, &tally, certainty);
        (lines, found)
    };
    let (lines, found) = ask(events);
    if found.is_empty() {
        return lines;
    }
    let pod = |e: &Event<'_>| (e.source.to_string(), e.subject.to_string());
    let pods: std::collections::BTreeSet<_> = events.iter().map(pod).collect();
    let mut guilty = String::new();
    for one in pods {
        let own: Vec<_> = events.iter().filter(|e| pod(e) == one).cloned().collect();
        let (_, found) = ask(&own);
        if !found.is_empty() {
            guilty += &format!("alone: {found:#?}\n{}", story(origin, &own));
        }
    }
    panic!("{what}: {basis:?} {from:?}..{to} (+{}): {found:#?}\n{guilty}", to - origin);
}

#[test]
fn usage_equals_the_oracle_now_and_as_of_any_instant() {
    for world in worlds(1, WORLDS) {
        let mut dice = world.dice();
        let past = world.scale.millis(dice.random_range(1..world::END));
        for basis in [Basis::Held, Basis::Ran] {
            world.assert_same(basis, None, world.end(), basis == Basis::Held);
            world.assert_same(basis, None, past, false);
        }
    }
}

#[test]
fn usage_as_known_at_any_position_equals_the_oracle_of_the_records_up_to_there() {
    for world in worlds(2, WORLDS / 2) {
        let mut fold = Fold::new(by(Basis::Held));
        for (i, event) in world.events.iter().enumerate() {
            fold.apply(event);
            if i % 5 != 0 {
                continue;
            }
            let scale = (world.scale.grain, world.start());
            let known = &world.events[..=i];
            let lines = assert_same(
                &format!("world {}", world.seed),
                scale,
                known,
                Basis::Held,
                (None, world.end()),
                true,
            );
            assert_eq!(lines, fold.lines(world.end()), "after {i}\n{}", world.story());
        }
    }
}

#[test]
fn any_order_that_keeps_each_objects_own_gives_the_same_usage() {
    for world in worlds(3, WORLDS) {
        let mut dice = world.dice();
        for basis in [Basis::Held, Basis::Ran] {
            let once = Fold::of(by(basis), &world.events).lines(world.end());
            for _ in 0..3 {
                let events = world::permuted(&mut dice, &world.events);
                let other = Fold::of(by(basis), &events).lines(world.end());
                assert_eq!(
                    once,
                    other,
                    "{}\nagainst\n{}",
                    world.story(),
                    story(world.start(), &events)
                );
            }
        }
    }
}

#[test]
fn any_record_repeated_at_any_later_place_changes_nothing() {
    for world in worlds(4, WORLDS) {
        let mut dice = world.dice();
        let once = Fold::of(by(Basis::Held), &world.events).lines(world.end());
        let events = world::repeated(&mut dice, world.events.clone());
        let twice = Fold::of(by(Basis::Held), &events).lines(world.end());
        assert_eq!(once, twice, "{}", story(world.start(), &events));

        let mut fold = Fold::of(by(Basis::Held), &world.events);
        for event in &world.events {
            let applied = fold.apply(event);
            let nothing =
                matches!(applied, Applied::Repeated | Applied::Ignored | Applied::Dropped);
            assert!(nothing || is_quota(event), "{applied:?} {event:?}\n{}", world.story());
        }
        assert_eq!(once, fold.lines(world.end()), "all again: {}", world.story());
    }
}

fn is_quota(event: &Event<'_>) -> bool {
    event.subject.starts_with("quotas/")
}

#[test]
fn questions_between_records_change_no_answer() {
    for world in worlds(5, WORLDS / 2) {
        let once = Fold::of(by(Basis::Held), &world.events);
        let mut asked = Fold::new(by(Basis::Held));
        for event in &world.events {
            asked.apply(event);
            asked.lines(world.end());
        }
        assert_eq!(once.lines(world.end()), asked.lines(world.end()), "{}", world.story());
    }
}

#[test]
fn a_fold_in_two_pieces_is_a_fold_in_one() {
    for world in worlds(9, WORLDS) {
        let cut = world.dice().random_range(0..=world.events.len());
        let (first, second) = world.events.split_at(cut);
        for basis in [Basis::Held, Basis::Ran] {
            let once = Fold::of(by(basis), &world.events).lines(world.end());
            let half = Fold::of(by(basis), first);
            // Two that go on from the same half do not disturb each other.
            for _ in 0..2 {
                let mut rest = half.clone();
                for event in second {
                    rest.apply(event);
                }
                assert_eq!(once, rest.lines(world.end()), "cut at {cut}\n{}", world.story());
            }
        }
    }
}

#[test]
fn two_windows_that_meet_add_up_to_the_whole() {
    for world in worlds(6, WORLDS) {
        let mut dice = world.dice();
        let mut cuts: Vec<i64> =
            (0..3).map(|_| world.scale.millis(dice.random_range(0..=world::END))).collect();
        cuts.sort_unstable();
        for basis in [Basis::Held, Basis::Ran] {
            let window = |from, to| world.assert_same(basis, Some(from), to, false);
            let parts = [window(cuts[0], cuts[1]), window(cuts[1], cuts[2])];
            let whole = window(cuts[0], cuts[2]);
            let mut sum = BTreeMap::new();
            let mut doubt = BTreeMap::new();
            for (row, said) in parts.iter().flatten() {
                *sum.entry(row.clone()).or_insert(0) += said.exact;
                *doubt.entry(row.clone()).or_insert(0) += said.uncertain;
            }
            sum.retain(|_, exact| *exact != 0);
            doubt.retain(|_, uncertain| *uncertain != 0);
            assert_eq!(sum, exact(&whole), "{basis:?} {cuts:?}\n{}", world.story());
            let whole = whole.into_iter().map(|(row, said)| (row, said.uncertain));
            let whole: BTreeMap<_, _> = whole.filter(|(_, uncertain)| *uncertain != 0).collect();
            assert_eq!(doubt, whole, "uncertain {basis:?} {cuts:?}\n{}", world.story());
        }
    }
}

#[test]
fn the_sum_over_groups_is_the_sum_over_pods() {
    for world in worlds(8, WORLDS) {
        for basis in [Basis::Held, Basis::Ran] {
            let fold = Fold::of(by(basis), &world.events);
            let groups = exact(&fold.lines(world.end()));
            assert_eq!(groups, fold.sum_over_pods(world.end()), "{basis:?}\n{}", world.story());
            let oracle = Oracle::read(world.scale.grain, &world.events);
            let by_pod = oracle.tally_pods(basis, world.start(), world.end());
            let mut sums = BTreeMap::new();
            for (row, line) in by_pod.into_values().flatten() {
                *sums.entry(row).or_insert(0) += line.exact;
            }
            sums.retain(|_, exact| *exact != 0);
            assert_eq!(groups, sums, "{basis:?}\n{}", world.story());
        }
    }
}

/// The amounts alone, without lines of nothing.
fn exact(lines: &Lines) -> BTreeMap<(String, String), i128> {
    let amounts = lines.iter().map(|(row, said)| (row.clone(), said.exact));
    amounts.filter(|(_, exact)| *exact != 0).collect()
}

#[test]
fn hours_make_the_day_days_the_month_and_all_of_them_the_usage() {
    const DAY: i64 = 24 * HOUR;
    for world in worlds(7, WORLDS) {
        let oracle = Oracle::read(world.scale.grain, &world.events);
        let fold = Fold::of(by(Basis::Held), &world.events);
        let (february, april) = (MARCH - 28 * DAY, MARCH + 31 * DAY);
        let usage = fold.lines(april);
        for ((group, key), said) in &usage {
            let hour = |t| fold.period(Unit::Hour, (group, key), t);
            let day = |t| fold.period(Unit::Day, (group, key), t);
            let month = |t| fold.period(Unit::Month, (group, key), t);
            let context = || format!("{group} {key}\n{}", world.story());
            for t in [MARCH - DAY, MARCH, MARCH + DAY] {
                let hours: i128 = (0..24).map(|h| hour(t + h * HOUR)).sum();
                assert_eq!(hours, day(t), "hours of day {t}, {}", context());
            }
            for (t, days) in [(february, 28), (MARCH, 31)] {
                let days: i128 = (0..days).map(|d| day(t + d * DAY)).sum();
                assert_eq!(days, month(t), "days of month {t}, {}", context());
            }
            assert_eq!(month(february) + month(MARCH), said.exact, "{}", context());
            for h in -2..2 {
                let t = MARCH + h * HOUR;
                let tally = oracle.tally(Basis::Held, t, t + HOUR);
                let walked = tally.get(&(group.clone(), key.clone())).map_or(0, |line| line.exact);
                assert_eq!(hour(t), walked, "hour {t}, {}", context());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_records_fold_as_the_oracle_reads_them(events in arbitrary::history(14)) {
        let scale = Scale::MILLIS;
        let (start, end) = (scale.millis(-1), scale.millis(world::END));
        for basis in [Basis::Held, Basis::Ran] {
            assert_same("arbitrary", (1, start), &events, basis, (None, end), basis == Basis::Held);
        }
    }

    #[test]
    fn arbitrary_records_in_another_order_give_the_same(
        (events, seed) in (arbitrary::history(20), any::<u64>())
    ) {
        let end = Scale::MILLIS.millis(world::END);
        let mut dice = Dice::seed_from_u64(seed);
        let other = world::permuted(&mut dice, &events);
        let other = if other.is_empty() { other } else { world::repeated(&mut dice, other) };
        prop_assert_eq!(
            Fold::of(by(Basis::Held), &events).lines(end),
            Fold::of(by(Basis::Held), &other).lines(end)
        );
    }
}
