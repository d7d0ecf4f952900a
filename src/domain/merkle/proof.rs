//! Proofs about the tree: that a record is in it, and that a newer tree only added to an older one.
//!
//! Built from one pass over the leaves, however many proofs are wanted, in memory for these alone; verified from
//! hashes alone (RFC 9162, 2.1.3 and 2.1.4). A verifier needs nothing but the roots that it trusts.

use super::{Hash, node};
use crate::domain::names::Map;
use std::ops::Range;

/// Hashes of a proof, nearest the leaf first; at most 65.
pub type Path = Vec<Hash>;

/// Why a proof cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The position is not in the tree.
    #[error("position {position} is not among 1 to {size}")]
    NotInTree {
        /// Asked for.
        position: u64,
        /// Leaves of the tree.
        size: u64,
    },
    /// The leaves ended early.
    #[error("the log has {found} leaves, {size} are needed")]
    TooFewLeaves {
        /// Leaves of the tree.
        size: u64,
        /// Leaves that came.
        found: u64,
    },
}

/// Proves that the record at `position` is in the tree of the first `size` of `leaves`.
///
/// # Errors
/// [`Error`] when the position is not in the tree or the leaves are too few.
pub fn inclusion(
    position: u64,
    size: u64,
    leaves: impl IntoIterator<Item = Hash>,
) -> Result<Path, Error> {
    let mut gatherer = Gatherer::new(size);
    gatherer.want(position)?;
    leaves.into_iter().for_each(|leaf| gatherer.append(leaf));
    gatherer.inclusion(position)
}

/// Proves that the tree of the first `new` of `leaves` begins with the tree of the first `old`.
///
/// # Errors
/// [`Error`] when `old` is above `new` or the leaves are too few.
pub fn consistency(
    old: u64,
    new: u64,
    leaves: impl IntoIterator<Item = Hash>,
) -> Result<Path, Error> {
    let mut gatherer = Gatherer::new(new);
    gatherer.want_beginning(old)?;
    leaves.into_iter().for_each(|leaf| gatherer.append(leaf));
    gatherer.consistency(old)
}

/// Gathers the hashes of many proofs about one tree while its leaves come, one after another.
#[derive(Clone, Debug)]
pub struct Gatherer {
    size: u64,
    found: u64,
    /// Complete subtrees, from left to right: leaves and root.
    complete: Vec<(Range<u64>, Hash)>,
    /// Subtrees that are wanted, and their roots once they are complete.
    wanted: Map<Range<u64>, Option<Hash>>,
}

impl Gatherer {
    /// Of a tree of `size` leaves.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, found: 0, complete: Vec::new(), wanted: Map::default() }
    }

    /// From here on what proves that the record at `position` is in the tree is gathered.
    ///
    /// # Errors
    /// [`Error::NotInTree`].
    pub fn want(&mut self, position: u64) -> Result<(), Error> {
        let ranges = inclusion_ranges(self.index(position)?, self.size);
        self.wanted.extend(ranges.into_iter().map(|range| (range, None)));
        Ok(())
    }

    /// From here on what proves that the tree begins with that of `old` leaves is gathered.
    ///
    /// # Errors
    /// [`Error::NotInTree`].
    pub fn want_beginning(&mut self, old: u64) -> Result<(), Error> {
        if old > self.size {
            return Err(Error::NotInTree { position: old, size: self.size });
        }
        let ranges = consistency_ranges(old, self.size);
        self.wanted.extend(ranges.into_iter().map(|range| (range, None)));
        Ok(())
    }

    fn index(&self, position: u64) -> Result<u64, Error> {
        let index = position.checked_sub(1).filter(|index| *index < self.size);
        index.ok_or(Error::NotInTree { position, size: self.size })
    }

    /// Takes the next leaf; those behind the tree are not looked at.
    pub fn append(&mut self, leaf: Hash) {
        if self.found >= self.size {
            return;
        }
        let next = self.found.saturating_add(1);
        self.push(self.found..next, leaf);
        self.found = next;
        // As in a frontier: so many subtrees become one as the number of leaves has zeros at its end.
        for _ in 0..next.trailing_zeros() {
            let (Some((right, r)), Some((left, l))) = (self.complete.pop(), self.complete.pop())
            else {
                return;
            };
            self.push(left.start..right.end, node(&l, &r));
        }
    }

    fn push(&mut self, range: Range<u64>, root: Hash) {
        if let Some(wanted) = self.wanted.get_mut(&range) {
            *wanted = Some(root);
        }
        self.complete.push((range, root));
    }

    /// The proof for the record at `position`, which was wanted.
    ///
    /// # Errors
    /// [`Error`].
    pub fn inclusion(&self, position: u64) -> Result<Path, Error> {
        self.path(inclusion_ranges(self.index(position)?, self.size))
    }

    /// The proof for the beginning of `old` leaves, which was wanted.
    ///
    /// # Errors
    /// [`Error`].
    pub fn consistency(&self, old: u64) -> Result<Path, Error> {
        self.path(consistency_ranges(old, self.size))
    }

    fn path(&self, ranges: Vec<Range<u64>>) -> Result<Path, Error> {
        let too_few = Error::TooFewLeaves { size: self.size, found: self.found };
        if self.found < self.size {
            return Err(too_few);
        }
        let root = |range: Range<u64>| match self.wanted.get(&range) {
            Some(Some(root)) => Some(*root),
            // What is not complete goes to the end of the tree.
            _ => self.end(range.start),
        };
        ranges.into_iter().map(root).collect::<Option<Path>>().ok_or(too_few)
    }

    /// The root of the subtree from `start` to the end.
    fn end(&self, start: u64) -> Option<Hash> {
        let mut complete = self.complete.iter().rev().take_while(|(range, _)| range.start >= start);
        let (_, last) = complete.next()?;
        Some(complete.fold(*last, |right, (_, left)| node(left, &right)))
    }
}

/// Whether `path` shows that `leaf` is at `position` of the tree of `size` leaves with `root`.
#[must_use]
pub fn verify_inclusion(position: u64, size: u64, leaf: Hash, path: &[Hash], root: &Hash) -> bool {
    let Some(index) = position.checked_sub(1).filter(|i| *i < size) else { return false };
    let mut walk = Walk { node: index, last: size.saturating_sub(1) };
    let mut hash = leaf;
    for sibling in path {
        match walk.step() {
            Some(Side::Left) => hash = node(sibling, &hash),
            Some(Side::Right) => hash = node(&hash, sibling),
            None => return false,
        }
    }
    walk.last == 0 && hash == *root
}

/// Whether `path` shows that the tree of `new` leaves with `new_root` begins with the tree of `old` leaves
/// with `old_root`.
#[must_use]
pub fn verify_consistency(
    old: u64,
    new: u64,
    old_root: &Hash,
    new_root: &Hash,
    path: &[Hash],
) -> bool {
    if old == 0 {
        return path.is_empty() && *old_root == super::empty_root();
    }
    if old >= new {
        return old == new && path.is_empty() && old_root == new_root;
    }
    // Where the old tree is complete its root is where the walk begins, and the proof leaves it out.
    let mut hashes = path.iter();
    let start = if old.is_power_of_two() { Some(old_root) } else { hashes.next() };
    let Some(start) = start else { return false };
    let mut walk = Walk { node: old.saturating_sub(1), last: new.saturating_sub(1) };
    while walk.node & 1 == 1 {
        walk.up();
    }
    let (mut old_hash, mut new_hash) = (*start, *start);
    for sibling in hashes {
        match walk.step() {
            Some(Side::Left) => {
                old_hash = node(sibling, &old_hash);
                new_hash = node(sibling, &new_hash);
            }
            Some(Side::Right) => new_hash = node(&new_hash, sibling),
            None => return false,
        }
    }
    walk.last == 0 && old_hash == *old_root && new_hash == *new_root
}

/// A walk from a node to the root: the node's index and the last index of its level.
struct Walk {
    node: u64,
    last: u64,
}

/// Where the sibling stands.
enum Side {
    Left,
    Right,
}

impl Walk {
    const fn up(&mut self) {
        self.node >>= 1;
        self.last >>= 1;
    }

    /// Says on which side the next sibling stands and goes above both; `None` above the root.
    const fn step(&mut self) -> Option<Side> {
        if self.last == 0 {
            return None;
        }
        let side = if self.node & 1 == 1 || self.node == self.last {
            // A last node without a right sibling is carried up unchanged until it is a right child.
            while self.node & 1 == 0 {
                self.up();
            }
            Side::Left
        } else {
            Side::Right
        };
        self.up();
        Some(side)
    }
}

/// The largest power of two below `n`, for `n` above 1.
const fn split(n: u64) -> u64 {
    match n.saturating_sub(1).checked_ilog2() {
        Some(bits) => 1 << bits,
        None => 0,
    }
}

/// The subtrees whose roots prove `index`, nearest first.
fn inclusion_ranges(index: u64, size: u64) -> Vec<Range<u64>> {
    let (mut low, mut high) = (0_u64, size);
    let mut ranges = Vec::new();
    while high.saturating_sub(low) > 1 {
        // Lies between low and high.
        let middle = low.saturating_add(split(high.saturating_sub(low)));
        if index < middle {
            ranges.push(middle..high);
            high = middle;
        } else {
            ranges.push(low..middle);
            low = middle;
        }
    }
    ranges.reverse();
    ranges
}

/// The subtrees whose roots prove that the first `old` leaves did not change, nearest first.
fn consistency_ranges(old: u64, new: u64) -> Vec<Range<u64>> {
    let (mut low, mut high) = (0_u64, new);
    let mut ranges = Vec::new();
    if old == 0 {
        return ranges;
    }
    while high != old {
        let middle = low.saturating_add(split(high.saturating_sub(low)));
        if old <= middle {
            ranges.push(middle..high);
            high = middle;
        } else {
            ranges.push(low..middle);
            low = middle;
        }
    }
    // A complete old tree is known to the verifier by its root.
    if low != 0 {
        ranges.push(low..high);
    }
    ranges.reverse();
    ranges
}
