//! Usage events against the ledger, invoices and the oracle, on random histories.

mod names;
mod schema;

use crate::{
    billing::{Totals, bill, ledger, said, terms, two, without_nothing},
    histories::worlds,
    oracle::{
        Oracle,
        fold::instant,
        walk::Basis,
        world::{self, World},
    },
};
use bizrq::domain::{
    event::{Data, Event, Period, UsageAdjusted},
    ledger::{Ledger, Record},
    merkle::Hash,
    metered::{Mark, Metered},
};
use rand::RngExt;

/// A piece, on its own.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    row: (String, String),
    from: i64,
    to: i64,
    exact: i128,
}

/// What was told at a mark, and the mark before.
struct Batch {
    since: Mark,
    mark: Mark,
    told: Vec<Told>,
}

fn take(fold: &mut Metered, event: &Event<'static>) {
    let position = fold.mark().position + 1;
    fold.take(position, &Record::Event(event)).unwrap();
}

fn told(fold: &mut Metered) -> Vec<Told> {
    let piece = |piece: bizrq::domain::metered::Piece<'_>| Told {
        row: (piece.group.to_owned(), piece.key.to_owned()),
        from: piece.period.from.millis(),
        to: piece.period.to.millis(),
        exact: piece.exact,
    };
    let told = fold.pieces().into_iter().map(piece).collect();
    fold.told();
    told
}

/// A world with a few corrections.
fn corrected(world: &World) -> Vec<Event<'static>> {
    let (mut events, mut dice) = (world.events.clone(), world.dice());
    for n in 0..3_u128 {
        let at = instant(two(world, &mut dice).0);
        let (key, exact) = ("requests.cpu".into(), dice.random_range(-1_000_000..1_000_000));
        let (period, why) = (Period { from: at, to: at.shifted(1) }, "late".into());
        let data = UsageAdjusted { key, exact, period, why, by: "ann".into() };
        let place = dice.random_range(0..=events.len());
        events.insert(place, said(1 + n, "accounts/team-a", Data::UsageAdjusted(data)));
    }
    events
}

/// Everything that is told of `events`, looked at whenever chance will, up to the end of the world.
fn tell(world: &World, events: &[Event<'static>]) -> Vec<Batch> {
    let (mut fold, mut dice, mut batches) = (Metered::default(), world.dice(), Vec::new());
    let mut since = fold.mark();
    for (n, event) in events.iter().enumerate() {
        take(&mut fold, event);
        let is_last = n + 1 == events.len();
        if is_last || dice.random_range(0..4) == 0 {
            if dice.random_range(0..3) == 0 {
                fold.advance(instant(world.scale.millis(dice.random_range(0..world::END))))
                    .unwrap();
            }
            if is_last {
                fold.advance(instant(world.scale.millis(world::END))).unwrap();
            }
            let (mark, told) = (fold.mark(), told(&mut fold));
            batches.push(Batch { since, mark, told });
            since = mark;
        }
    }
    batches
}

/// The part of what was told that lies in a period: each piece was held evenly.
fn within(batches: &[Batch], from: i64, to: i64) -> Totals {
    let mut totals = Totals::new();
    for told in batches.iter().flat_map(|batch| &batch.told) {
        let length = i128::from(told.to - told.from);
        assert!(length > 0 && told.exact != 0 && told.exact % length == 0, "{told:?}");
        let inside = i128::from((told.to.min(to) - told.from.max(from)).max(0));
        *totals.entry(told.row.clone()).or_default() += told.exact / length * inside;
    }
    without_nothing(totals)
}

#[test]
fn the_sums_of_what_is_told_are_the_ledgers_whenever_one_looked() {
    let (mut taken_back, mut pieces) = (0, 0);
    for world in worlds(51, 160) {
        let events = corrected(&world);
        let batches = tell(&world, &events);
        let (from, to) = (world.scale.millis(-1), world.scale.millis(world::END));
        let sums = within(&batches, from, to);
        assert_eq!(sums, ledger(Basis::Held, from, to, &events), "world {}", world.seed);
        let all = || batches.iter().flat_map(|batch| &batch.told);
        pieces += all().count();
        taken_back += all().filter(|told| told.exact < 0).count();
    }
    assert!(taken_back > 500 && pieces > 5_000, "{taken_back} of {pieces} take something back");
}

#[test]
fn the_part_of_any_period_is_its_invoice_and_what_a_walk_counts() {
    for world in worlds(52, 160) {
        let events = corrected(&world);
        let batches = tell(&world, &events);
        let (from, to) = two(&world, &mut world.dice());
        let billed = bill(&terms(Basis::Held, from, to), &events);
        assert_eq!(within(&batches, from, to), billed, "world {}", world.seed);
        let plain = tell(&world, &world.events);
        let tally = Oracle::read(world.scale.grain, &world.events).tally(Basis::Held, from, to);
        let walked = tally.into_iter().map(|(row, line)| (row, line.exact)).collect();
        assert_eq!(within(&plain, from, to), without_nothing(walked), "world {}", world.seed);
    }
}

#[test]
fn as_of_any_mark_the_sums_are_what_was_known_then() {
    for world in worlds(53, 40) {
        let events = corrected(&world);
        let batches = tell(&world, &events);
        for (n, batch) in batches.iter().enumerate() {
            let (from, to) = (world.scale.millis(-1), batch.mark.until.millis());
            if to <= from {
                continue;
            }
            let known = &events[..usize::try_from(batch.mark.position).unwrap()];
            let sums = within(&batches[..=n], from, to);
            assert_eq!(sums, ledger(Basis::Held, from, to, known), "world {} {n}", world.seed);
        }
    }
}

#[test]
fn whoever_knows_two_marks_tells_the_same_between_them() {
    let mut compared = 0;
    for world in worlds(54, 40) {
        let events = corrected(&world);
        for batch in tell(&world, &events).iter().filter(|batch| !batch.told.is_empty()) {
            let mut fold = Metered::default();
            let [since, mark] = [batch.since, batch.mark];
            let at = |mark: Mark| usize::try_from(mark.position).unwrap();
            events[..at(since)].iter().for_each(|event| take(&mut fold, event));
            fold.advance(since.until).unwrap();
            fold.told();
            events[at(since)..at(mark)].iter().for_each(|event| take(&mut fold, event));
            fold.advance(mark.until).unwrap();
            assert_eq!(told(&mut fold), batch.told, "world {} {mark:?}", world.seed);
            assert_eq!(fold.mark(), mark);
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}

/// Whoever goes on from a ledger of rows that kept quotas and hours, at any record, tells the same in the same order.
#[test]
fn who_goes_on_from_a_ledger_tells_what_they_tell_who_read_everything() {
    let mut pieces = 0;
    for world in worlds(53, 60) {
        let (events, mut dice) = (corrected(&world), world.dice());
        let (mut whole, mut ledger) = (Metered::default(), Ledger::default());
        let begins = dice.random_range(0..events.len());
        for event in &events[..begins] {
            take(&mut whole, event);
            let leaf = Hash::default();
            ledger.apply(ledger.position() + 1, leaf, event).unwrap();
        }
        let mut resumed = Metered::behind(ledger).unwrap();
        let mut until = || instant(world.scale.millis(dice.random_range(0..world::END)));
        // Both have told everything up to the same mark.
        let first = until();
        for fold in [&mut whole, &mut resumed] {
            fold.advance(first).unwrap();
            fold.told();
        }
        for event in &events[begins..] {
            let at = until();
            for fold in [&mut whole, &mut resumed] {
                take(fold, event);
                fold.advance(at).unwrap();
            }
            assert_eq!(whole.mark(), resumed.mark());
            let both = [told(&mut whole), told(&mut resumed)];
            assert_eq!(both[0], both[1], "from {begins} on, at {:?}", whole.mark());
            pieces += both[0].len();
        }
    }
    assert!(pieces > 1000, "{pieces}");
}
