//! Bills of random histories: what is billed is what the ledger and the oracle say, however it is split and whatever was
//! closed in between.

mod memory;
mod programs;

use crate::{
    histories::worlds,
    oracle::{
        Oracle,
        fold::{Fold, instant, within},
        walk::Basis,
        world::{self, World},
    },
};
use bizrq::domain::{
    billing::{self, Billing, Closing, Status, Terms, Told},
    event::{Data, Event, EventId, Period, PeriodClosed, Position, UsageAdjusted},
    history::Unit,
    ledger::Record,
    merkle::Hash,
    meter::seals::Seals,
    names::Set,
    pod,
};
use rand::RngExt;
use std::collections::BTreeMap;

/// Milli-units × milliseconds by group and key, as the ledger names keys.
pub(crate) type Totals = BTreeMap<(String, String), i128>;

pub(crate) fn terms(basis: Basis, from: i64, to: i64) -> Terms {
    Terms {
        period: Period { from: instant(from), to: instant(to) },
        basis: match basis {
            Basis::Held => pod::Basis::Held,
            Basis::Ran => pod::Basis::Ran,
        },
        every: None,
        workloads: true,
        group: None,
        quotas: false,
        cuts: Vec::new(),
        resources: Vec::new(),
    }
}

/// The bill's fold over a log, and up to where it counts. Pods are forgotten as soon as they ended, so that nearly every
/// late record comes about one that is gone.
fn fold(terms: &Terms, events: &[Event<'static>]) -> Billing {
    let sealed = |late| fold_sealing(terms, events, Seals::new(0, late));
    let once = sealed(Set::default());
    let Some(late) = once.late().cloned() else { return once };
    let again = sealed(late);
    assert_eq!(again.late(), None, "what is kept is not late");
    again
}

fn fold_sealing(terms: &Terms, events: &[Event<'static>], seals: Seals) -> Billing {
    fold_knowing(terms, events, Vec::new(), seals.clone())
        .or_else(|| fold_knowing(terms, events, closings(events), seals))
        .expect("all closings are known")
}

fn fold_knowing(
    terms: &Terms,
    events: &[Event<'static>],
    known: Vec<Closing>,
    seals: Seals,
) -> Option<Billing> {
    let mut billing = Billing::new(terms.clone(), known).sealing(seals);
    for (position, event) in (1..).zip(events) {
        match billing.take(position, &Record::Event(event)) {
            Ok(Told::More) => {}
            Ok(Told::Closed) => break,
            Err(billing::Error::Unforeseen { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
    Some(billing)
}

fn closings(events: &[Event<'_>]) -> Vec<Closing> {
    let mut closings: Vec<Closing> = Vec::new();
    for (at, event) in (1..).zip(events) {
        if let Data::PeriodClosed(data) = &event.data {
            closings.extend(Closing::new(closings.last(), at, data).ok());
        }
    }
    closings
}

pub(crate) fn bill(terms: &Terms, events: &[Event<'static>]) -> Totals {
    totals(&fold(terms, events))
}

fn totals(billing: &Billing) -> Totals {
    let bill = billing.bill(|_, _, _| None).expect("amounts within 128 bits");
    let mut totals = Totals::new();
    for line in bill.lines() {
        let mut keys = vec![line.key.to_owned()];
        keys.extend((!line.model.is_empty()).then(|| format!("{}.{}", line.key, line.model)));
        for key in keys {
            *totals.entry((line.group.to_owned(), key)).or_default() += line.exact;
        }
    }
    without_nothing(totals)
}

pub(crate) fn without_nothing(mut totals: Totals) -> Totals {
    totals.retain(|_, exact| *exact != 0);
    totals
}

fn added(parts: impl IntoIterator<Item = Totals>) -> Totals {
    let mut sum = Totals::new();
    for (row, exact) in parts.into_iter().flatten() {
        *sum.entry(row).or_default() += exact;
    }
    without_nothing(sum)
}

/// What the ledger says, in `[from, to)`.
pub(crate) fn ledger(basis: Basis, from: i64, to: i64, events: &[Event<'static>]) -> Totals {
    let lines = Fold::of(within(basis, Some(from), Some(to)), events).lines(to);
    without_nothing(lines.into_iter().map(|(row, said)| (row, said.exact)).collect())
}

/// Two instants of a world, the earlier first.
pub(crate) fn two(world: &World, dice: &mut world::Dice) -> (i64, i64) {
    let n = dice.random_range(-1..world::END);
    (world.scale.millis(n), world.scale.millis(dice.random_range(n + 1..=world::END)))
}

/// Another record of a world, published by an operator.
pub(crate) fn said(n: u128, subject: &str, data: Data<'static>) -> Event<'static> {
    Event {
        id: EventId(n << 100),
        source: "/operators/ann".into(),
        subject: subject.to_owned().into(),
        time: instant(0),
        recorded_at: instant(0),
        data,
    }
}

#[test]
fn a_bill_is_what_the_ledger_and_the_oracle_say_of_any_period() {
    for world in worlds(31, 160) {
        let (from, to) = two(&world, &mut world.dice());
        for basis in [Basis::Held, Basis::Ran] {
            let billed = bill(&terms(basis, from, to), &world.events);
            assert_eq!(billed, ledger(basis, from, to, &world.events), "world {}", world.seed);
            let tally = Oracle::read(world.scale.grain, &world.events).tally(basis, from, to);
            let walked = tally.into_iter().map(|(row, line)| (row, line.exact)).collect();
            assert_eq!(billed, without_nothing(walked), "world {}", world.seed);
        }
    }
}

#[test]
fn lines_by_hour_by_day_by_price_and_without_workloads_add_up_to_the_same() {
    for world in worlds(32, 80) {
        let mut dice = world.dice();
        let (from, to) = two(&world, &mut dice);
        let whole = terms(Basis::Held, from, to);
        let once = bill(&whole, &world.events);
        let cuts = (0..3).map(|_| instant(two(&world, &mut dice).0)).collect();
        for (every, workloads, cuts) in [
            (Some(Unit::Hour), true, Vec::new()),
            (Some(Unit::Day), false, Vec::new()),
            (None, false, cuts),
        ] {
            let split = Terms { every, workloads, cuts, ..whole.clone() };
            assert_eq!(bill(&split, &world.events), once, "world {} {split:?}", world.seed);
        }
        let folded = fold(&Terms { every: Some(Unit::Hour), ..whole.clone() }, &world.events);
        for line in folded.bill(|_, _, _| None).unwrap().lines() {
            let Period { from, to } = line.period;
            assert!(from < to && to <= Unit::Hour.end_of(from), "{line:?}");
        }
    }
}

#[test]
fn the_bill_does_not_depend_on_the_order_of_records() {
    for world in worlds(33, 80) {
        let mut dice = world.dice();
        let (from, to) = two(&world, &mut dice);
        let terms = terms(Basis::Held, from, to);
        let lines = |events: &[Event<'static>]| {
            let folded = fold(&terms, events);
            let bill = folded.bill(|_, _, _| None).unwrap();
            bill.lines().map(|line| format!("{line:?}")).collect::<Vec<_>>()
        };
        let once = lines(&world.events);
        let permuted = world::permuted(&mut dice, &world.events);
        assert_eq!(lines(&permuted), once, "world {}", world.seed);
        assert_eq!(lines(&world::repeated(&mut dice, permuted)), once, "world {}", world.seed);
    }
}

#[test]
fn the_bill_of_one_group_is_its_part_of_the_bill() {
    for world in worlds(34, 40) {
        let terms = terms(Basis::Held, world.scale.millis(-1), world.scale.millis(world::END));
        let mut all = bill(&terms, &world.events);
        let Some((group, _)) = all.keys().next().cloned() else { continue };
        all.retain(|(of, _), _| *of == group);
        let one = Terms { group: Some(group), ..terms };
        assert_eq!(bill(&one, &world.events), all, "world {}", world.seed);
    }
}

/// A world in which two periods are closed and some usage is corrected, and where the periods meet.
fn closed_world(world: &World) -> (Vec<Event<'static>>, [i64; 4]) {
    let mut dice = world.dice();
    let mut cuts: Vec<i64> = (0..2).map(|_| dice.random_range(10..world::END - 10)).collect();
    cuts.sort_unstable();
    let [first, second] = [cuts[0], cuts[1].max(cuts[0] + 1)].map(|n| world.scale.millis(n));
    let ends = [world.scale.millis(-1), first, second, world.scale.millis(world::END)];
    let mut events = world.events.clone();
    for n in 0..4_u128 {
        let at = instant(two(world, &mut dice).0);
        let (key, exact) = ("requests.cpu".into(), dice.random_range(-1_000_000..1_000_000));
        let (period, why) = (Period { from: at, to: at.shifted(1) }, "late".into());
        let data = UsageAdjusted { key, exact, period, why, by: "ann".into() };
        let place = dice.random_range(0..=events.len());
        events.insert(place, said(1 + n, "accounts/team-a", Data::UsageAdjusted(data)));
    }
    let mut last = 0;
    for (n, ends) in ends.windows(2).take(2).enumerate() {
        let place = dice.random_range(last..=events.len());
        let at = place as Position + 1;
        // Closed as it is known, or as it was known a while ago.
        let ago =
            dice.random_range(0..=(place - last).min(20)) * usize::from(dice.random::<bool>());
        let position = (place - ago) as Position;
        let root = Hash::default().to_string().into();
        let (from, to) = (instant(ends[0]), instant(ends[1]));
        let data = Data::PeriodClosed(PeriodClosed { from, to, position, root });
        events.insert(place, said(100 + n as u128, "periods/p", data));
        last = at as usize;
    }
    assert_eq!(closings(&events).len(), 2, "both are closed");
    (events, ends)
}

#[test]
fn a_closed_period_is_billed_as_it_was_known_then_and_never_again() {
    for world in worlds(35, 160) {
        let (events, [start, first, second, _]) = closed_world(&world);
        let closings = closings(&events);
        for (closing, (from, to)) in closings.iter().zip([(start, first), (first, second)]) {
            let terms = terms(Basis::Held, from, to);
            let lines = |upto: usize| {
                let folded = fold(&terms, &events[..upto]);
                let bill = folded.bill(|_, _, _| None).unwrap();
                bill.lines().map(|line| format!("{line:?}")).collect::<Vec<_>>()
            };
            let then = lines(closing.at as usize);
            for upto in closing.at as usize..=events.len() {
                assert_eq!(lines(upto), then, "world {} at {upto}", world.seed);
            }
        }
        let known = &events[..closings[0].position as usize];
        let billed = bill(&terms(Basis::Held, start, first), &events);
        assert_eq!(billed, ledger(Basis::Held, start, first, known), "world {}", world.seed);
    }
}

#[test]
fn what_is_billed_of_all_periods_is_what_the_ledger_says_now() {
    let mut corrected = 0;
    for world in worlds(36, 160) {
        let (events, ends) = closed_world(&world);
        let periods = || ends.windows(2).map(|ends| terms(Basis::Held, ends[0], ends[1]));
        let all = added(periods().map(|terms| bill(&terms, &events)));
        let whole = ledger(Basis::Held, ends[0], ends[3], &events);
        assert_eq!(all, whole, "world {} {ends:?}", world.seed);
        // Split anywhere else it is the same.
        let cut = two(&world, &mut world.dice()).1;
        let halves = [(ends[0], cut), (cut, ends[3])];
        let halves = halves.into_iter().filter(|(from, to)| from < to);
        let halves = halves.map(|(from, to)| bill(&terms(Basis::Held, from, to), &events));
        assert_eq!(added(halves), whole, "world {} {ends:?} cut at {cut}", world.seed);
        for terms in periods() {
            let folded = fold(&terms, &events);
            let bill = folded.bill(|_, _, _| None).unwrap();
            corrected += bill.lines().filter(|line| line.status == Status::Corrected).count();
        }
    }
    assert!(corrected > 100, "{corrected} corrections: nothing was learned late");
}

#[test]
fn a_correction_of_a_model_is_one_line_where_the_generic_key_was_corrected_too() {
    let at = instant(10);
    let correction = |n, key: &'static str, exact| {
        let period = Period { from: at, to: at.shifted(1) };
        let (why, by) = ("stolen".into(), "ann".into());
        let data = UsageAdjusted { key: key.into(), exact, period, why, by };
        said(n, "accounts/team-a", Data::UsageAdjusted(data))
    };
    let lines = |events: &[Event<'static>]| {
        let folded = fold(&terms(Basis::Held, 0, 100), events);
        let bill = folded.bill(|_, _, _| None).unwrap();
        let line = |l: billing::Line<'_>| (l.key.to_owned(), l.model.to_owned(), l.exact);
        bill.lines().map(line).collect::<Vec<_>>()
    };
    let (model, generic) = (correction(1, "limits.cpu.A4", -7), correction(2, "limits.cpu", -7));
    let row = |model: &str, exact| ("limits.cpu".to_owned(), model.to_owned(), exact);
    assert_eq!(lines(&[model.clone(), generic.clone()]), [row("A4", -7)]);
    assert_eq!(lines(&[generic]), [row("", -7)]);
    assert_eq!(lines(&[model]), [row("", 7), row("A4", -7)], "of all together nothing changed");
}
