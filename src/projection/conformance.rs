//! The suite that every store passes: the contract on [`Store`], checked from outside.
//!
//! Not a test itself: a store's test calls [`run`] with a way to make an empty store, and one that outlives the
//! process calls [`reopened`] too. A broken promise panics with its sentence.

// A suite fails by panicking; it is called by tests only.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)]

use super::{
    rows::{QuotaLine, Row, RowKey, RowValue, UsageLine},
    store::{Batch, Error, Mark, Store},
};
use crate::domain::{
    event::Position,
    merkle::{Frontier, Hash},
};
use std::collections::BTreeMap;

type Rows = BTreeMap<RowKey, RowValue>;

/// Everything that can be checked on stores that `empty` makes, each of them new.
pub fn run<S: Store>(empty: impl Fn() -> S) {
    an_empty_store_has_nothing(&empty());
    a_commit_is_read_back(&mut empty());
    a_batch_behind_the_mark_changes_nothing(&mut empty());
    a_discarded_store_is_as_new(&mut empty());
    any_sequence_of_commits_leaves_what_it_says(&mut empty());
}

/// A store that was closed and opened again holds what one of its commits left, whole.
pub fn reopened<S: Store>(open: impl Fn() -> S) {
    let mut left = vec![(None, Rows::new())];
    for seed in 1..=20 {
        let mut store = open();
        let found = (store.mark().unwrap(), rows(&store));
        let at = left.iter().rposition(|l| *l == found);
        left.truncate(at.unwrap_or_else(|| panic!("the store holds what no commit left")) + 1);
        let (_, mut now) = left.last().cloned().unwrap();
        let batch = batch(seed, seed * 10);
        apply(&mut now, &batch);
        left.push((Some(batch.mark.clone()), now));
        store.commit(batch).unwrap();
    }
    let mut store = open();
    store.discard().unwrap();
    drop(store);
    an_empty_store_has_nothing(&open());
}

fn an_empty_store_has_nothing<S: Store>(store: &S) {
    assert_eq!(store.mark().unwrap(), None, "an empty store stands nowhere");
    assert!(rows(store).is_empty(), "an empty store has no row");
}

fn a_commit_is_read_back<S: Store>(store: &mut S) {
    let mut all = Rows::new();
    for kind in every_kind() {
        all.insert(kind.0, kind.1);
    }
    let puts = all.clone().into_iter().map(|(key, value)| (key, Some(value))).collect();
    store.commit(Batch { rows: puts, mark: mark(5) }).unwrap();
    assert_eq!(store.mark().unwrap(), Some(mark(5)), "the mark is the batch's");
    assert_eq!(rows(store), all, "every kind of row is read as it was written");
    let gone = RowKey::Usage("".into());
    let change = [(gone.clone(), None), (RowKey::Quota("not there".into()), None)];
    store.commit(Batch { rows: change.into(), mark: mark(5) }).unwrap();
    all.remove(&gone);
    assert_eq!(rows(store), all, "a row is removed, there or not; the position may stay");
}

fn a_batch_behind_the_mark_changes_nothing<S: Store>(store: &mut S) {
    store.commit(batch(1, 9)).unwrap();
    let before = (store.mark().unwrap(), rows(store));
    let refused = store.commit(batch(2, 8));
    let backwards = matches!(refused, Err(Error::Backwards { position: 8, committed: 9 }));
    assert!(backwards, "{refused:?}");
    assert_eq!((store.mark().unwrap(), rows(store)), before, "what is refused changes nothing");
}

fn a_discarded_store_is_as_new<S: Store>(store: &mut S) {
    store.commit(batch(1, 9)).unwrap();
    store.discard().unwrap();
    an_empty_store_has_nothing(store);
    store.commit(batch(2, 3)).unwrap();
    assert_eq!(store.mark().unwrap(), Some(mark(3)), "it may stand at an earlier position now");
}

fn any_sequence_of_commits_leaves_what_it_says<S: Store>(store: &mut S) {
    let mut model = Rows::new();
    for seed in 0..200 {
        let batch = batch(seed, seed);
        apply(&mut model, &batch);
        let mark = batch.mark.clone();
        store.commit(batch).unwrap();
        assert_eq!(store.mark().unwrap(), Some(mark));
        assert_eq!(rows(store), model, "after commit {seed}");
    }
}

fn rows<S: Store>(store: &S) -> Rows {
    let (mut rows, mut last) = (Rows::new(), None);
    let mut each = |Row(key, value): Row| {
        assert!(last.as_ref().is_none_or(|last| *last < key), "rows come in order of keys");
        last = Some(key.clone());
        rows.insert(key, value);
    };
    store.rows(&mut each).unwrap();
    rows
}

fn apply(model: &mut Rows, batch: &Batch) {
    for (key, value) in &batch.rows {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

/// A mark at `position`; equal positions have equal trees.
fn mark(position: Position) -> Mark {
    let mut tree = Frontier::default();
    (0..position).for_each(|n| tree.append(Hash([u8::try_from(n % 251).unwrap_or(0); 32])));
    Mark { tree }
}

/// A few puts and removals that follow from `seed`.
fn batch(seed: u64, position: Position) -> Batch {
    let mut dice = seed;
    let mut roll = |sides: u64| {
        // Knuth's multiplicative congruential generator: enough to vary rows, and the same everywhere.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let rows = (0..8).map(|_| {
        let key = match roll(3) {
            0 => RowKey::Usage(format!("g{}", roll(5)).into()),
            1 => RowKey::Quota(format!("g{}", roll(5)).into()),
            _ => RowKey::Quarantined(roll(5)),
        };
        let value = (roll(3) > 0).then(|| RowValue::Quarantined {
            position: roll(1 << 30),
            reason: "x".repeat(usize::try_from(roll(40)).unwrap_or(0)),
        });
        (key, value)
    });
    Batch { rows: rows.collect(), mark: mark(position) }
}

/// A row of every kind, with the largest numbers and empty names.
fn every_kind() -> Vec<(RowKey, RowValue)> {
    let usage = |key: &str| UsageLine {
        key: key.into(),
        closed: i128::MIN,
        running: i128::MAX,
        started: -1,
        uncertain: 1,
        provisional: 0,
    };
    let quota = QuotaLine {
        key: "cash/limits.cpu".into(),
        limit: None,
        claim: i128::MAX,
        self_used: -1,
        used: 0,
        self_unreviewed: i128::MIN,
    };
    let counts = RowValue::Counts { changed: u64::MAX, repeated: 0, ignored: 1, dropped: 2 };
    let (position, reason) = (Position::MAX, "naïve \u{0} \n".to_owned());
    vec![
        (RowKey::Counts, counts),
        (RowKey::Quarantined(u64::MAX), RowValue::Quarantined { position, reason }),
        (RowKey::Usage("".into()), RowValue::Usage(vec![])),
        (RowKey::Usage("team-ä".into()), RowValue::Usage(vec![usage(""), usage("limits.cpu")])),
        (RowKey::Quota("team-a".into()), RowValue::Quota(vec![quota])),
    ]
}
