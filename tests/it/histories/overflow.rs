//! Amounts near the end of 64 bits over centuries: exact while they fit, refused whole when they do not.

use crate::oracle::{
    Oracle,
    fold::{Fold, by, differences},
    history::{self, Amounts, Content, Pod, Scale, Stop},
    walk::Basis,
};
use bizrq::domain::{
    event::{Event, StartBasis, StopBasis},
    ledger::{Applied, Ledger},
    merkle,
    time::Timestamp,
};
use num_bigint::BigInt;
use std::collections::BTreeMap;

/// Decades since 1970; 22 of them fit.
const SCALE: Scale = Scale { base: 0, grain: 315_576_000_000 };
const LARGEST: Content = Content {
    group: "team-a",
    cpu_model: None,
    gpu_model: None,
    amounts: Amounts { cpu: 1, memory: i64::MAX, gpu: 1 },
};

fn lives(count: i64, open: bool) -> Vec<Event<'static>> {
    let mut events = Vec::new();
    for i in 0..count {
        let pod = Pod::new(SCALE, "/clusters/east", &format!("p-{i}"));
        events.push(pod.started(i % 2, StartBasis::Bound, &LARGEST));
        if !open {
            events.push(pod.stopped(Stop::certain(StopBasis::TerminalStatus, 22)));
        }
    }
    events
}

#[test]
fn the_largest_amounts_are_counted_exactly() {
    for open in [false, true] {
        let events = lives(20, open);
        let end = SCALE.millis(22);
        let tally = Oracle::read(SCALE.grain, &events).tally(Basis::Held, SCALE.millis(-1), end);
        let found = differences(&Fold::of(by(Basis::Held), &events).lines(end), &tally, true);
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// Reads records far beyond what 128 bits hold: every answer that is given is exact, and none is given only where
/// the sum, or what a sum is made of, leaves 128 bits.
fn exact_or_no_answer(events: &[Event<'static>]) {
    let end = Timestamp::MAX;
    let mut ledger = Ledger::new(by(Basis::Held));
    let mut taken: BTreeMap<String, Vec<&Event<'static>>> = BTreeMap::new();
    let (mut refused, mut unanswered) = (0, 0);
    for (i, event) in events.iter().enumerate() {
        let applied = ledger.apply(i as u64 + 1, merkle::Hash::default(), event);
        if matches!(applied, Ok(Applied::Changed)) {
            taken.entry(event.subject.to_string()).or_default().push(event);
        } else {
            refused += 1;
        }
        if i % 250 != 0 {
            continue;
        }
        let sum = true_sum(taken.values(), end);
        match ledger.usage(end) {
            Ok(lines) => {
                let line = lines.iter().find(|u| u.key == "requests.memory").unwrap();
                assert_eq!(BigInt::from(line.exact), sum, "after record {i}");
            }
            Err(why) => {
                assert!(sum > BigInt::from(i128::MAX / 4), "no answer after record {i}: {why}");
                unanswered += 1;
            }
        }
    }
    assert!(refused + unanswered > 0, "{} records fit: the limit is not reached", events.len());
}

fn true_sum<'e>(pods: impl Iterator<Item = &'e Vec<&'e Event<'static>>>, end: Timestamp) -> BigInt {
    pods.map(|records| {
        let to = records.get(1).map_or(end, |stop| stop.time);
        BigInt::from(i64::MAX) * 1000 * to.since(records[0].time)
    })
    .sum()
}

#[test]
fn closed_pods_beyond_128_bits_are_never_counted_wrongly() {
    exact_or_no_answer(&lives(6000, false));
}

#[test]
fn open_pods_beyond_128_bits_are_never_counted_wrongly() {
    exact_or_no_answer(&lives(6000, true));
}

/// No pod can be written that alone leaves 128 bits; a correction can.
#[test]
fn a_record_that_does_not_fit_leaves_every_line_as_it_was() {
    let mut fold = Fold::of(by(Basis::Held), &lives(40, false));
    let end = SCALE.millis(22);
    let row = ("team-a".to_owned(), "requests.memory".to_owned());
    let mut last = fold.lines(end);
    let mut outcomes = Vec::new();
    // Together the powers of ten still fit; the last amount does not fit beside them.
    for exact in (18..39).map(|digits| 10_i128.pow(digits)).chain([9 * 10_i128.pow(37)]) {
        let applied = fold.apply(&history::adjusted(SCALE, 20, exact));
        let now = fold.lines(end);
        if matches!(applied, Applied::Changed) {
            last.get_mut(&row).unwrap().exact += exact;
        }
        assert_eq!(last, now, "{applied:?} of {exact}");
        outcomes.push(applied);
    }
    assert_eq!(outcomes.first(), Some(&Applied::Changed));
    assert_eq!(outcomes.last(), Some(&Applied::Quarantined));
}
