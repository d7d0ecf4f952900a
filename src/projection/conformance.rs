//! The suite that every store passes: the contract on [`Store`], checked from outside.
//!
//! Not a test itself: a store's test calls [`run`] with a way to make an empty store, and one that outlives the
//! process calls [`reopened`] too. A broken promise panics with its sentence.

// A suite fails by panicking; it is called by tests only.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)]

use super::store::{Batch, Error, Mark, Store};
use crate::domain::{
    event::Position,
    ledger::{
        Options,
        state::{RowKey, TableName},
    },
    merkle::{Frontier, Hash},
};
use std::collections::BTreeMap;

type Rows = BTreeMap<RowKey, Vec<u8>>;

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
    let all = every_kind();
    store.commit(Batch { rows: all.clone().into_iter().collect(), mark: mark(5) }).unwrap();
    assert_eq!(store.mark().unwrap(), Some(mark(5)), "the mark is the batch's");
    assert_eq!(rows(store), all, "every kind of row is read as it was written");
    let (first, _) = all.first_key_value().unwrap();
    store.commit(Batch { rows: vec![(*first, vec![7])], mark: mark(5) }).unwrap();
    let mut changed = all.clone();
    changed.insert(*first, vec![7]);
    assert_eq!(rows(store), changed, "a row is replaced; the position may stay");
    let stopped = store.rows(&mut |_, _| Err(Error::damaged("enough")));
    assert!(matches!(stopped, Err(Error::Damaged { .. })), "who reads may stop");
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
    let mut each = |key: RowKey, bytes: &[u8]| {
        assert!(last.is_none_or(|last| last < key), "rows come in order of keys");
        last = Some(key);
        rows.insert(key, bytes.to_vec());
        Ok(())
    };
    store.rows(&mut each).unwrap();
    rows
}

fn apply(model: &mut Rows, batch: &Batch) {
    model.extend(batch.rows.iter().cloned());
}

/// A mark at `position`; equal positions have equal marks.
fn mark(position: Position) -> Mark {
    let mut tree = Frontier::default();
    (0..position).for_each(|n| tree.append(Hash([u8::try_from(n % 251).unwrap_or(0); 32])));
    let options = Options { history: position.is_multiple_of(2), ..Options::default() };
    Mark { tree, options, rows: position, sum: u128::MAX - u128::from(position) }
}

/// A few rows that follow from `seed`.
fn batch(seed: u64, position: Position) -> Batch {
    let mut dice = seed;
    let mut roll = |sides: u64| {
        // Knuth's multiplicative congruential generator: enough to vary rows, and the same everywhere.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let rows: Rows = (0..8)
        .map(|_| {
            let table = [TableName::Groups, TableName::Hours, TableName::Head];
            let table = table[usize::try_from(roll(3)).unwrap_or(0)];
            let (period, block) = (roll(3).cast_signed() - 1, u32::try_from(roll(5)).unwrap_or(0));
            let length = usize::try_from(roll(400)).unwrap_or(0);
            let byte = u8::try_from(roll(256)).unwrap_or(0);
            (RowKey { table, period, block }, vec![byte; length])
        })
        .collect();
    Batch { rows: rows.into_iter().collect(), mark: mark(position) }
}

/// A row of every kind, with the largest numbers, and of no bytes and many.
fn every_kind() -> Rows {
    let mut rows = Rows::new();
    for (n, table) in (0_usize..).zip(TableName::ALL) {
        for (period, block) in [(0, 0), (i64::MIN, u32::MAX), (i64::MAX, 1), (-1, 256)] {
            let bytes = vec![u8::try_from(n).unwrap_or(0); n * 1000];
            rows.insert(RowKey { table: *table, period, block }, bytes);
        }
    }
    rows
}
