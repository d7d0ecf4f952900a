//! Rows by number that know which of their blocks changed since somebody asked: what a checkpoint must write.
//!
//! ```text
//!  rows    0 1 2 3 │ 4 5 6 7 │ 8 9         noting a row costs a look at its block's flag;
//!  changed    no   │   yes   │ yes         whoever never asks pays one flag a block
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;

/// Rows in blocks of `BLOCK`.
#[derive(Clone)]
pub struct Table<T, const BLOCK: usize> {
    rows: Vec<T>,
    /// By block: whether it is in `changed`.
    noted: Vec<bool>,
    changed: Vec<u32>,
}

/// Rows that come and go: the number of one that went is given again, the newest first.
#[derive(Clone, Debug)]
pub struct Slots<T, const BLOCK: usize> {
    /// The rows' blocks, for whoever writes and reads them.
    pub(super) table: Table<Slot<T>, BLOCK>,
    /// The slot that is given next; each vacant one names the one after it.
    free: Option<u32>,
}

/// A row, or room for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slot<T> {
    /// Nothing; and the slot that is given after this one.
    Vacant(Option<u32>),
    /// A row.
    Taken(T),
}

/// The newest rows, up to a number of them: the newest takes the place of the oldest.
#[derive(Clone, Debug)]
pub(super) struct Ring<T, const BLOCK: usize> {
    pub(super) table: Table<T, BLOCK>,
    /// Where the next one goes, to be kept beside the blocks.
    pub(super) next: u32,
}

/// Values in the order of their first use, each once.
#[derive(Clone, Debug)]
pub(super) struct Listed<T, const BLOCK: usize> {
    known: super::names::Set<T>,
    pub(super) list: Table<T, BLOCK>,
}

/// A block does not follow the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {block} was read where {expected} rows were expected before it")]
pub struct Misplaced {
    /// The block.
    pub block: u32,
    /// Rows that lie before it.
    pub expected: usize,
}

/// What changed lately says nothing of the rows as they are.
impl<T: fmt::Debug, const BLOCK: usize> fmt::Debug for Table<T, BLOCK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.fmt(f)
    }
}

impl<T, const BLOCK: usize> Default for Table<T, BLOCK> {
    fn default() -> Self {
        Self { rows: Vec::new(), noted: Vec::new(), changed: Vec::new() }
    }
}

impl<T, const BLOCK: usize> Table<T, BLOCK> {
    /// How many rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Every row in order.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.rows
    }

    /// A row.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.rows.get(at)
    }

    /// A row that will be changed.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        if at < self.rows.len() {
            self.note(at);
        }
        self.rows.get_mut(at)
    }

    /// A row of which only that changes what follows from other rows: nothing to write.
    pub fn derived_mut(&mut self, at: usize) -> Option<&mut T> {
        self.rows.get_mut(at)
    }

    /// Adds a row behind all others.
    pub fn push(&mut self, row: T) {
        self.rows.push(row);
        self.note(self.rows.len().saturating_sub(1));
    }

    /// Takes the last row away.
    pub fn pop(&mut self) -> Option<T> {
        let row = self.rows.pop();
        self.note(self.rows.len());
        row
    }

    /// The row at `at`, to be changed; it and those before it are made if need be.
    pub fn at_mut(&mut self, at: usize, row: impl FnMut() -> T) -> &mut T {
        self.extend_to(at.saturating_add(1), row);
        self.note(at);
        // Just made large enough.
        #[allow(clippy::indexing_slicing)]
        &mut self.rows[at]
    }

    /// Takes all rows but the first `len` away.
    pub fn truncate(&mut self, len: usize) {
        self.rows.truncate(len);
    }

    /// Makes the table at least so long.
    pub fn extend_to(&mut self, len: usize, row: impl FnMut() -> T) {
        let from = self.rows.len();
        if from < len {
            self.rows.resize_with(len, row);
            (from..len).step_by(BLOCK).for_each(|at| self.note(at));
            self.note(len.saturating_sub(1));
        }
    }

    /// The row at `at` is to be written.
    pub fn note(&mut self, at: usize) {
        // No block is empty: `BLOCK` is a constant above 0.
        let block = at.checked_div(BLOCK).unwrap_or_default();
        if self.noted.len() <= block {
            self.noted.resize(block.saturating_add(1), false);
        }
        if let Some(noted) = self.noted.get_mut(block).filter(|noted| !**noted) {
            *noted = true;
            self.changed.push(number(block));
        }
    }

    /// Everything is to be written.
    pub fn note_all(&mut self) {
        (0..self.rows.len()).step_by(BLOCK).for_each(|at| self.note(at));
    }

    /// The blocks that changed since the last call, in no order.
    pub fn take_changed(&mut self) -> Vec<u32> {
        let mut changed = std::mem::take(&mut self.changed);
        for block in &changed {
            if let Some(noted) = self.noted.get_mut(*block as usize) {
                *noted = false;
            }
        }
        // What was added and taken away again is not there.
        changed.retain(|block| *block < self.blocks());
        changed
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        number(self.rows.len().div_ceil(BLOCK))
    }

    /// The rows of a block; none where it lies behind the end.
    #[must_use]
    pub fn block(&self, block: u32) -> &[T] {
        let from = (block as usize).saturating_mul(BLOCK).min(self.rows.len());
        let to = from.saturating_add(BLOCK).min(self.rows.len());
        self.rows.get(from..to).unwrap_or_default()
    }

    /// Takes in the next block as it was written.
    ///
    /// # Errors
    /// [`Misplaced`] when it is not the next one.
    pub fn load(&mut self, block: u32, rows: Vec<T>) -> Result<(), Misplaced> {
        let expected = (block as usize).saturating_mul(BLOCK);
        if self.rows.len() != expected || rows.len() > BLOCK {
            return Err(Misplaced { block, expected });
        }
        self.rows.extend(rows);
        Ok(())
    }
}

impl<T, const BLOCK: usize> Default for Slots<T, BLOCK> {
    fn default() -> Self {
        Self { table: Table::default(), free: None }
    }
}

impl<T, const BLOCK: usize> Slots<T, BLOCK> {
    /// The row in `slot`.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<&T> {
        match self.table.get(slot as usize) {
            Some(Slot::Taken(row)) => Some(row),
            _ => None,
        }
    }

    /// The row in `slot`, to be changed.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        match self.table.get_mut(slot as usize) {
            Some(Slot::Taken(row)) => Some(row),
            _ => None,
        }
    }

    /// As [`Table::derived_mut`].
    pub fn derived_mut(&mut self, slot: u32) -> Option<&mut T> {
        match self.table.derived_mut(slot as usize) {
            Some(Slot::Taken(row)) => Some(row),
            _ => None,
        }
    }

    /// Every row with its slot, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(self.table.as_slice()).filter_map(|(slot, row)| match row {
            Slot::Taken(row) => Some((slot, row)),
            Slot::Vacant(_) => None,
        })
    }

    /// How many slots, vacant ones included.
    #[must_use]
    pub fn count(&self) -> u32 {
        number(self.table.len())
    }

    /// Adds a row; says where, and whether room was made for it.
    pub fn add(&mut self, row: T) -> (u32, bool) {
        if let Some(slot) = self.free
            && let Some(room) = self.table.get_mut(slot as usize)
        {
            if let Slot::Vacant(next) = room {
                self.free = *next;
            }
            *room = Slot::Taken(row);
            return (slot, false);
        }
        self.table.push(Slot::Taken(row));
        (self.count().saturating_sub(1), true)
    }

    /// Takes a row away.
    pub fn remove(&mut self, slot: u32) -> Option<T> {
        let vacant = Slot::Vacant(self.free);
        let room = self.table.get_mut(slot as usize)?;
        match std::mem::replace(room, vacant) {
            Slot::Taken(row) => {
                self.free = Some(slot);
                Some(row)
            }
            was @ Slot::Vacant(_) => {
                *room = was;
                None
            }
        }
    }

    /// Takes back the newest [`Self::add`], which gave this answer.
    pub fn take_back(&mut self, (slot, grown): (u32, bool)) -> Option<T> {
        if !grown {
            return self.remove(slot);
        }
        match self.table.pop()? {
            Slot::Taken(row) => Some(row),
            Slot::Vacant(_) => None,
        }
    }

    /// The slot that is given next, to be kept beside the blocks.
    #[must_use]
    pub const fn free(&self) -> Option<u32> {
        self.free
    }

    /// Continues with what [`Self::free`] gave.
    pub const fn set_free(&mut self, free: Option<u32>) {
        self.free = free;
    }
}

impl<T, const BLOCK: usize> Default for Ring<T, BLOCK> {
    fn default() -> Self {
        Self { table: Table::default(), next: 0 }
    }
}

impl<T, const BLOCK: usize> Ring<T, BLOCK> {
    /// Adds a row; gives back the one whose place it took, once there are `most`.
    pub(super) fn put(&mut self, row: T, most: usize) -> Option<T> {
        let next = self.next as usize;
        let after = next.saturating_add(1);
        self.next = if after < most { number(after) } else { 0 };
        match self.table.get_mut(next) {
            Some(oldest) => Some(std::mem::replace(oldest, row)),
            None => {
                self.table.push(row);
                None
            }
        }
    }
}

impl<T, const BLOCK: usize> Default for Listed<T, BLOCK> {
    fn default() -> Self {
        Self { known: super::names::Set::default(), list: Table::default() }
    }
}

impl<T: Copy + Eq + std::hash::Hash, const BLOCK: usize> Listed<T, BLOCK> {
    pub(super) fn contains(&self, value: &T) -> bool {
        self.known.contains(value)
    }

    pub(super) fn insert(&mut self, value: T) {
        if self.known.insert(value) {
            self.list.push(value);
        }
    }

    /// Knows what was read into the list.
    pub(super) fn learn(&mut self) {
        self.known = self.list.as_slice().iter().copied().collect();
    }
}

/// Tables of 2^32 rows do not fit into memory.
fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_once_which_blocks_changed() {
        let mut table = Table::<u8, 4>::default();
        (0..10).for_each(|n| table.push(n));
        assert_eq!(table.take_changed(), [0, 1, 2]);
        *table.get_mut(5).unwrap() = 7;
        *table.get_mut(6).unwrap() = 7;
        *table.derived_mut(0).unwrap() = 7;
        assert_eq!(table.take_changed(), [1]);
        assert!(table.take_changed().is_empty());
        table.note_all();
        assert_eq!(table.take_changed(), [0, 1, 2]);
        assert_eq!((table.block(2), table.block(3)), (&[8, 9][..], &[][..]));
    }

    #[test]
    fn a_ring_keeps_the_newest() {
        let mut ring = Ring::<u8, 2>::default();
        let given: Vec<_> = (0..5).map(|n| ring.put(n, 3)).collect();
        assert_eq!(given, [None, None, None, Some(0), Some(1)]);
        assert_eq!((ring.table.as_slice(), ring.next), (&[3, 4, 2][..], 2));
    }

    #[test]
    fn blocks_are_read_in_order_and_whole() {
        let mut table = Table::<u8, 2>::default();
        table.load(0, vec![1, 2]).unwrap();
        assert!(table.load(0, vec![1]).is_err(), "twice");
        assert!(table.load(2, vec![1]).is_err(), "a hole");
        table.load(1, vec![3]).unwrap();
        assert!(table.load(2, vec![4]).is_err(), "behind a block that is not full");
    }

    #[test]
    fn a_slot_is_given_again_and_an_addition_taken_back_leaves_no_trace() {
        let mut slots = Slots::<char, 4>::default();
        assert_eq!([slots.add('a'), slots.add('b'), slots.add('c')].map(|s| s.0), [0, 1, 2]);
        assert_eq!(
            [slots.remove(0), slots.remove(2), slots.remove(2)],
            [Some('a'), Some('c'), None]
        );
        let before = slots.clone();
        let added = [slots.add('d'), slots.add('e'), slots.add('f')];
        assert_eq!(added, [(2, false), (0, false), (3, true)], "the newest first");
        for added in added.into_iter().rev() {
            assert!(slots.take_back(added).is_some());
        }
        assert_eq!(slots.table.as_slice(), before.table.as_slice());
        assert_eq!(slots.free(), before.free());
    }
}
