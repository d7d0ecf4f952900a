//! Carve-outs: `used = own + Σ over children max(claim, used)`, for every key, kept up to date by differences.
//!
//! A change goes up the chain only as far as it changes something: below its claim a child weighs the same
//! whatever it uses. A key that a group does not list has claim 0 there, so it flows to whoever lists it above.
//! This file knows sums and edges; it never knows why something is charged, nor what a limit is for.

mod journal;

use crate::domain::{
    amounts::{less, more},
    names::{GroupId, KeyId},
    quantity::Milli,
};
pub(super) use journal::Change;
use journal::Journal;
use std::fmt;

/// The limit of a key that is not listed: none.
pub(super) const UNLISTED: Milli = Milli::MAX;

/// Marks keys under which sums go up plainly: nothing is claimed, and amounts may be negative. They are the
/// book's own, never a group's.
const PLAIN: u32 = 1 << 31;

/// The plain key of this number.
pub(super) const fn plain(number: u32) -> KeyId {
    KeyId(number | PLAIN)
}

/// One key of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// What the group's own workloads are charged.
    pub(super) own: Milli,
    /// What weighs on it from below: Σ over children of their weight.
    pub(super) given: Milli,
    /// What it weighs in its parents at least.
    pub(super) claim: Milli,
    /// What it may use at most, or [`UNLISTED`].
    pub(super) limit: Milli,
    /// The part of `own` that no review admitted.
    pub(super) unreviewed: Milli,
}

/// Edges of one group, and where its keys are.
#[derive(Clone, Debug, Default)]
struct Node {
    parents: Vec<GroupId>,
    children: Vec<GroupId>,
    /// By key: place in `cells` plus one; 0 where there is none.
    places: Vec<u32>,
    /// Keys that have a cell, in the order of their first use.
    keys: Vec<KeyId>,
    /// By the number of a plain key: the same.
    plain: Vec<u32>,
}

impl Node {
    fn places(&self, key: KeyId) -> (&Vec<u32>, usize) {
        if key.0 & PLAIN == 0 {
            (&self.places, key.index())
        } else {
            (&self.plain, (key.0 & !PLAIN) as usize)
        }
    }
}

/// All groups, all keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    cells: Vec<Cell>,
    /// Whose cell it is.
    owners: Vec<(GroupId, KeyId)>,
    journal: Journal,
    rising: Rising,
}

/// Room for what goes up, key by key. It says nothing about the tree.
#[derive(Clone, Default)]
struct Rising(Vec<(KeyId, Milli)>);

impl fmt::Debug for Rising {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rising")
    }
}

/// What a group's own workloads are charged changes, key by key; then it is carried up.
pub(super) struct Charging<'t> {
    tree: &'t mut Tree,
    group: GroupId,
    is_root: bool,
    rising: Vec<(KeyId, Milli)>,
}

impl Charging<'_> {
    /// Adds to what is charged under `key`, and to the part that no review admitted.
    pub(super) fn add(&mut self, key: KeyId, own: Milli, unreviewed: Milli) {
        if own == 0 && unreviewed == 0 {
            return;
        }
        let Some(cell) = self.tree.cell_mut(self.group, key) else { return };
        let used = (!self.is_root).then(|| cell.used());
        cell.own = more(cell.own, own);
        cell.unreviewed = more(cell.unreviewed, unreviewed);
        let heavier = used.map_or(0, |used| cell.heavier(used));
        if heavier != 0 {
            self.rising.push((key, heavier));
        }
    }

    /// Everything above learns of it.
    pub(super) fn carry(self) {
        let Self { tree, group, mut rising, .. } = self;
        tree.carry(group, &mut rising, tree.journal.draws);
        rising.clear();
        tree.rising.0 = rising;
    }
}

impl Cell {
    const EMPTY: Self = Self { own: 0, given: 0, claim: 0, limit: UNLISTED, unreviewed: 0 };

    /// What it uses, its children's carve-outs included.
    pub(super) fn used(&self) -> Milli {
        // Every single amount is below 2^90 (`book::MOST`): 2^36 of them fit.
        more(self.own, self.given)
    }

    /// What it weighs in its parents.
    fn weight(&self) -> Milli {
        self.used().max(self.claim)
    }

    /// How much more it weighs than when it used `used`.
    fn heavier(&self, used: Milli) -> Milli {
        less(self.weight(), used.max(self.claim))
    }

    /// Takes `by` more from below; says how much heavier it became.
    fn give(&mut self, by: Milli) -> Milli {
        let used = self.used();
        self.given = more(self.given, by);
        self.heavier(used)
    }
}

impl Tree {
    /// The cell of `key` in `group`; an empty one where nothing was ever said.
    pub(super) fn cell(&self, group: GroupId, key: KeyId) -> Cell {
        self.place(group, key)
            .and_then(|i| self.cells.get(i as usize))
            .copied()
            .unwrap_or(Cell::EMPTY)
    }

    /// Looks at the cells of `group`, step by step; see [`crate::domain::ledger::ahead`].
    pub(super) fn look(&self, group: GroupId, step: u8) -> Milli {
        let Some(node) = self.nodes.get(group.index()) else { return 0 };
        match step {
            0 => node.places.len() as Milli,
            1 => node.places.first().map_or(0, |place| (*place).into()),
            _ => {
                let cells = node
                    .places
                    .iter()
                    .filter_map(|place| self.cells.get(place.checked_sub(1)? as usize));
                cells.fold(0, |seen, cell| seen ^ cell.own)
            }
        }
    }

    /// Whether `group` lists `key`.
    pub(super) fn lists(&self, group: GroupId, key: KeyId) -> bool {
        self.cell(group, key).limit != UNLISTED
    }

    /// The keys that anything was ever said about in `group`.
    pub(super) fn keys(&self, group: GroupId) -> &[KeyId] {
        self.nodes.get(group.index()).map_or(&[], |n| &n.keys)
    }

    /// Where `group` counts: one parent, several while a change of parent is open, none for a root.
    pub(super) fn parents(&self, group: GroupId) -> &[GroupId] {
        self.nodes.get(group.index()).map_or(&[], |n| &n.parents)
    }

    /// The groups that count in `group`, in the order in which they came.
    pub(super) fn children(&self, group: GroupId) -> &[GroupId] {
        self.nodes.get(group.index()).map_or(&[], |n| &n.children)
    }

    /// `group` and everything above it, each once, nearest first.
    pub(super) fn above(&self, group: GroupId) -> Vec<GroupId> {
        self.reach(group, Self::parents)
    }

    /// `group` and everything below it, each once.
    pub(super) fn below(&self, group: GroupId) -> Vec<GroupId> {
        self.reach(group, Self::children)
    }

    /// Whether `ancestor` is `group` or above it.
    pub(super) fn is_above(&self, ancestor: GroupId, group: GroupId) -> bool {
        let mut at = group;
        loop {
            if at == ancestor {
                return true;
            }
            match self.parents(at) {
                [] => return false,
                [parent] => at = *parent,
                _ => return self.above(at).contains(&ancestor),
            }
        }
    }

    /// `group` and everything below it, each once and after its children.
    pub(super) fn bottom_up(&self, group: GroupId) -> Vec<GroupId> {
        let mut done = Vec::new();
        let mut known = crate::domain::names::Set::<GroupId>::default();
        let mut open = vec![(group, false)];
        while let Some((group, opened)) = open.pop() {
            if opened {
                done.push(group);
            } else if known.insert(group) {
                open.push((group, true));
                open.extend(self.children(group).iter().map(|child| (*child, false)));
            }
        }
        done
    }

    fn reach<'t>(
        &'t self,
        from: GroupId,
        next: impl Fn(&'t Self, GroupId) -> &'t [GroupId],
    ) -> Vec<GroupId> {
        let mut found = vec![from];
        let mut known = crate::domain::names::Set::<GroupId>::default();
        known.insert(from);
        let mut at = 0;
        while let Some(group) = found.get(at).copied() {
            for other in next(self, group) {
                if known.insert(*other) {
                    found.push(*other);
                }
            }
            at = at.saturating_add(1);
        }
        found
    }

    /// Adds to what `group`'s own workloads are charged under some keys, and to the part that no review admitted.
    /// All keys go up together: the way is looked up once a level instead of once a level and key.
    pub(super) fn charge_all(
        &mut self,
        group: GroupId,
        charges: impl Iterator<Item = (KeyId, Milli, Milli)>,
    ) {
        let mut charging = self.charging(group);
        charges.for_each(|(key, own, unreviewed)| charging.add(key, own, unreviewed));
        charging.carry();
    }

    /// The same, one key after the other: whoever says them needs no room for all of them.
    pub(super) fn charging(&mut self, group: GroupId) -> Charging<'_> {
        let rising = std::mem::take(&mut self.rising.0);
        let is_root = self.parents(group).is_empty();
        Charging { tree: self, group, is_root, rising }
    }

    /// As [`Self::charge_all`], under one key.
    pub(super) fn charge(&mut self, group: GroupId, key: KeyId, own: Milli, unreviewed: Milli) {
        self.charge_all(group, std::iter::once((key, own, unreviewed)));
    }

    /// Sets what `group` claims and may use under `key`.
    pub(super) fn set_terms(&mut self, group: GroupId, key: KeyId, claim: Milli, limit: Milli) {
        let Some(cell) = self.cell_mut(group, key) else { return };
        let before = cell.weight();
        (cell.claim, cell.limit) = (claim, limit);
        let heavier = cell.weight().saturating_sub(before);
        let limited = self.journal.on && limit != UNLISTED;
        if let Some(place) = self.place(group, key).filter(|_| limited) {
            self.journal.limits(place);
        }
        self.carry_one(group, key, heavier);
    }

    /// Makes `group` count in `parents`, and only there. They must not lie below it.
    pub(super) fn relink(&mut self, group: GroupId, parents: &[GroupId]) {
        let old = self.parents(group).to_vec();
        if old == parents {
            return;
        }
        let mut keys = self.keys(group).to_vec();
        keys.extend(self.plain_keys(group));
        let (left, joined) = (
            old.iter().filter(|p| !parents.contains(p)),
            parents.iter().filter(|p| !old.contains(p)),
        );
        for (others, sign) in [(left.collect::<Vec<_>>(), -1), (joined.collect(), 1)] {
            for parent in others {
                for key in &keys {
                    let weight = self.cell(group, *key).weight().saturating_mul(sign);
                    self.give(*parent, *key, weight);
                }
            }
        }
        self.set_parents(group, parents);
    }

    /// Changes edges only; the sums must be put right by the caller (who takes back a [`Self::relink`]).
    pub(super) fn set_parents(&mut self, group: GroupId, parents: &[GroupId]) {
        let old = std::mem::take(&mut self.node(group).parents);
        for parent in &old {
            self.node(*parent).children.retain(|c| *c != group);
        }
        for parent in parents {
            self.node(*parent).children.push(group);
        }
        self.node(group).parents = parents.to_vec();
    }

    fn give(&mut self, parent: GroupId, key: KeyId, weight: Milli) {
        if weight != 0 {
            let heavier = self.cell_mut(parent, key).map_or(0, |cell| cell.give(weight));
            self.carry_one(parent, key, heavier);
        }
    }

    fn carry_one(&mut self, group: GroupId, key: KeyId, heavier: Milli) {
        if heavier != 0 {
            self.carry(group, &mut vec![(key, heavier)], false);
        }
    }

    /// Tells everything above `group` how much heavier it weighs under which keys; with `draws`, where somebody may
    /// be stopped by it.
    fn carry(&mut self, group: GroupId, rising: &mut Vec<(KeyId, Milli)>, draws: bool) {
        let mut at = group;
        while !rising.is_empty() {
            match self.parents(at) {
                [] => return,
                [parent] => {
                    at = *parent;
                    rising.retain_mut(|(key, heavier)| {
                        let by = *heavier;
                        if !(draws && self.draw(at, *key, by)) {
                            *heavier = self.cell_mut(at, *key).map_or(0, |cell| cell.give(by));
                        }
                        *heavier != 0
                    });
                }
                several => {
                    // A change of parent is open: it weighs in both.
                    let both = several.to_vec();
                    for (key, heavier) in rising.drain(..) {
                        both.iter().for_each(|parent| self.give(*parent, key, heavier));
                    }
                }
            }
        }
    }

    /// A cell that will be changed; it is there from now on.
    fn cell_mut(&mut self, group: GroupId, key: KeyId) -> Option<&mut Cell> {
        let place = self.place(group, key).unwrap_or_else(|| self.new_cell(group, key));
        let cell = self.cells.get_mut(place as usize)?;
        if self.journal.on {
            self.journal.note(place, cell);
        }
        Some(cell)
    }

    fn place(&self, group: GroupId, key: KeyId) -> Option<u32> {
        let (places, at) = self.nodes.get(group.index())?.places(key);
        places.get(at)?.checked_sub(1)
    }

    fn plain_keys(&self, group: GroupId) -> impl Iterator<Item = KeyId> + use<> {
        let count = self.nodes.get(group.index()).map_or(0, |node| node.plain.len());
        (0..u32::try_from(count).unwrap_or(u32::MAX)).map(plain)
    }

    #[cold]
    fn new_cell(&mut self, group: GroupId, key: KeyId) -> u32 {
        let is_plain = key.0 & PLAIN != 0;
        let claim = if is_plain { Milli::MIN } else { 0 };
        self.cells.push(Cell { claim, ..Cell::EMPTY });
        self.owners.push((group, key));
        let place = u32::try_from(self.cells.len()).unwrap_or(u32::MAX);
        let node = self.node(group);
        let (places, at) = if is_plain {
            (&mut node.plain, (key.0 & !PLAIN) as usize)
        } else {
            node.keys.push(key);
            (&mut node.places, key.index())
        };
        if places.len() <= at {
            places.resize(at.saturating_add(1), 0);
        }
        if let Some(slot) = places.get_mut(at) {
            *slot = place;
        }
        place.saturating_sub(1)
    }

    fn node(&mut self, group: GroupId) -> &mut Node {
        let needed = group.index().saturating_add(1);
        if self.nodes.len() < needed {
            self.nodes.resize_with(needed, Node::default);
        }
        // Just made large enough.
        #[allow(clippy::indexing_slicing)]
        &mut self.nodes[group.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: KeyId = KeyId(0);

    fn chain() -> Tree {
        let mut tree = Tree::default();
        tree.relink(GroupId(2), &[GroupId(1)]);
        tree.relink(GroupId(3), &[GroupId(2)]);
        tree
    }

    #[test]
    fn a_child_below_its_claim_weighs_its_claim() {
        let mut tree = chain();
        tree.set_terms(GroupId(3), CPU, 4, 4);
        tree.charge(GroupId(3), CPU, 3, 0);
        assert_eq!(tree.cell(GroupId(1), CPU).used(), 4);
        tree.charge(GroupId(3), CPU, 3, 0);
        assert_eq!(tree.cell(GroupId(1), CPU).used(), 6);
        tree.charge(GroupId(3), CPU, -6, 0);
        assert_eq!(tree.cell(GroupId(1), CPU).used(), 4);
    }

    #[test]
    fn a_group_between_two_parents_weighs_in_both() {
        let mut tree = chain();
        tree.charge(GroupId(3), CPU, 5, 0);
        tree.relink(GroupId(3), &[GroupId(2), GroupId(4)]);
        assert_eq!((tree.cell(GroupId(1), CPU).used(), tree.cell(GroupId(4), CPU).used()), (5, 5));
        tree.charge(GroupId(3), CPU, 1, 0);
        tree.relink(GroupId(3), &[GroupId(4)]);
        assert_eq!((tree.cell(GroupId(1), CPU).used(), tree.cell(GroupId(4), CPU).used()), (0, 6));
    }

    #[test]
    fn what_is_drawn_through_is_entered_when_it_is_looked_at_and_taken_back_with_its_step() {
        let mut tree = chain();
        tree.set_terms(GroupId(1), CPU, 0, 9);
        tree.charge(GroupId(3), CPU, 5, 0);
        let used = |tree: &Tree| [3, 2, 1].map(|g| tree.cell(GroupId(g), CPU).used());
        let all = tree.try_out();
        tree.charge(GroupId(3), CPU, 2, 0);
        assert_eq!(used(&tree), [7, 5, 7], "between the charge and the limit nothing is touched");
        let first = tree.step();
        tree.charge(GroupId(3), CPU, 1, 0);
        tree.enter_drawn();
        assert_eq!(used(&tree), [8, 8, 8]);
        let second = tree.step();
        tree.charge(GroupId(3), CPU, -4, 0);
        assert_eq!((used(&tree), tree.changes(second).count()), ([4, 8, 4], 1));
        tree.take_back(second);
        assert_eq!(used(&tree), [8, 8, 8]);
        tree.take_back(first);
        tree.enter_drawn();
        assert_eq!(used(&tree), [7, 7, 7], "what an earlier step drew is still to be entered");
        tree.take_back(all);
        tree.enter_drawn();
        assert_eq!(used(&tree), [5, 5, 5]);
    }

    #[test]
    fn a_step_is_taken_back_whole() {
        let mut tree = chain();
        tree.charge(GroupId(3), CPU, 5, 1);
        let before: Vec<_> = tree.cells.clone();
        let from = tree.step();
        tree.charge(GroupId(3), CPU, 2, 0);
        tree.charge(GroupId(2), CPU, 2, 2);
        assert_eq!(tree.journal.before.len(), from + 3);
        tree.take_back(from);
        assert_eq!(tree.cells, before);
    }
}
