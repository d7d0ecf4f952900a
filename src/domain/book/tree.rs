//! Carve-outs: `used = own + Σ over children max(claim, used)`, for every key, kept up to date by differences.
//!
//! A change goes up the chain only as far as it changes something: below its claim a child weighs the same
//! whatever it uses. A key that a group does not list has claim 0 there, so it flows to whoever lists it above.
//! This file knows sums and edges; it never knows why something is charged, nor what a limit is for.

use crate::domain::{
    names::{GroupId, KeyId},
    quantity::Milli,
};

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
}

/// What cells were before the present step touched them.
#[derive(Clone, Default)]
struct Journal {
    on: bool,
    step: u32,
    /// By cell: the step that touched it last.
    touched: Vec<u32>,
    before: Vec<(u32, Cell)>,
}

/// A cell that a step changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) group: GroupId,
    pub(super) key: KeyId,
    pub(super) before: Cell,
    pub(super) after: Cell,
}

impl Cell {
    const EMPTY: Self = Self { own: 0, given: 0, claim: 0, limit: UNLISTED, unreviewed: 0 };

    /// What it uses, its children's carve-outs included.
    pub(super) fn used(&self) -> Milli {
        // Every single amount is below 2^90 (`book::MOST`): 2^36 of them fit.
        self.own.saturating_add(self.given)
    }

    /// What it weighs in its parents.
    fn weight(&self) -> Milli {
        self.used().max(self.claim)
    }
}

impl Change {
    /// Whether the step raised it above its limit.
    pub(super) fn breaks(&self) -> bool {
        self.after.used() > self.before.used() && self.after.used() > self.after.limit
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

    /// Adds to what `group`'s own workloads are charged under `key`, and to the part that no review admitted.
    pub(super) fn charge(&mut self, group: GroupId, key: KeyId, own: Milli, unreviewed: Milli) {
        if own == 0 && unreviewed == 0 {
            return;
        }
        let heavier = self.touch(group, key, |cell| {
            cell.own = cell.own.saturating_add(own);
            cell.unreviewed = cell.unreviewed.saturating_add(unreviewed);
        });
        self.carry(group, key, heavier);
    }

    /// Sets what `group` claims and may use under `key`.
    pub(super) fn set_terms(&mut self, group: GroupId, key: KeyId, claim: Milli, limit: Milli) {
        let heavier = self.touch(group, key, |cell| {
            cell.claim = claim;
            cell.limit = limit;
        });
        self.carry(group, key, heavier);
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
            let heavier = self.touch(parent, key, |c| c.given = c.given.saturating_add(weight));
            self.carry(parent, key, heavier);
        }
    }

    /// Tells everything above `group` that it weighs `heavier` more under `key`.
    fn carry(&mut self, group: GroupId, key: KeyId, heavier: Milli) {
        let (mut at, mut heavier) = (group, heavier);
        while heavier != 0 {
            match self.parents(at) {
                [] => return,
                [parent] => {
                    at = *parent;
                    let by = heavier;
                    heavier = self.touch(at, key, |c| c.given = c.given.saturating_add(by));
                }
                several => {
                    // A change of parent is open: it weighs in both.
                    let both = several.to_vec();
                    for parent in both {
                        self.give(parent, key, heavier);
                    }
                    return;
                }
            }
        }
    }

    /// Changes a cell; says how much heavier it became.
    fn touch(&mut self, group: GroupId, key: KeyId, change: impl FnOnce(&mut Cell)) -> Milli {
        let place = self.place(group, key).unwrap_or_else(|| self.new_cell(group, key));
        let Some(cell) = self.cells.get_mut(place as usize) else { return 0 };
        if self.journal.on {
            self.journal.note(place, cell);
        }
        let before = cell.weight();
        change(cell);
        cell.weight().saturating_sub(before)
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

/// Of a tree as it is, the steps that led there say nothing.
impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

impl Journal {
    fn note(&mut self, place: u32, cell: &Cell) {
        let i = place as usize;
        if self.touched.len() <= i {
            self.touched.resize(i.saturating_add(1), 0);
        }
        if let Some(step) = self.touched.get_mut(i).filter(|s| **s != self.step) {
            *step = self.step;
            self.before.push((place, *cell));
        }
    }
}

/// Trying things out: steps that can be taken back.
impl Tree {
    /// How many groups and cells there are.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.nodes.len(), self.cells.len())
    }

    /// Gives back the groups and cells that came since [`Self::size`] returned this; nothing is left in them.
    pub(super) fn shrink(&mut self, (nodes, cells): (usize, usize)) {
        while self.cells.len() > cells {
            self.cells.pop();
            let Some((group, key)) = self.owners.pop() else { break };
            let node = self.node(group);
            let (places, at) = if key.0 & PLAIN == 0 {
                node.keys.pop();
                (&mut node.places, key.index())
            } else {
                (&mut node.plain, (key.0 & !PLAIN) as usize)
            };
            if let Some(place) = places.get_mut(at) {
                *place = 0;
            }
            while places.last() == Some(&0) {
                places.pop();
            }
        }
        self.nodes.truncate(nodes);
    }

    /// Begins a step: from here on every cell's former state is noted. Returns where the step begins.
    pub(super) fn step(&mut self) -> usize {
        if !self.journal.on {
            self.journal.on = true;
            self.journal.before.clear();
        }
        let next = self.journal.step.checked_add(1);
        if next.is_none() {
            self.journal.touched.clear();
        }
        self.journal.step = next.unwrap_or(1);
        self.journal.before.len()
    }

    /// What changed since `from`, which the newest [`Self::step`] returned.
    pub(super) fn changes(&self, from: usize) -> impl Iterator<Item = Change> + '_ {
        let noted = self.journal.before.get(from..).unwrap_or(&[]);
        noted.iter().filter_map(|(place, before)| {
            let (group, key) = *self.owners.get(*place as usize)?;
            let after = *self.cells.get(*place as usize)?;
            Some(Change { group, key, before: *before, after })
        })
    }

    /// Puts every cell back to what it was at `from`.
    pub(super) fn take_back(&mut self, from: usize) {
        while self.journal.before.len() > from {
            let Some((place, before)) = self.journal.before.pop() else { return };
            if let Some(cell) = self.cells.get_mut(place as usize) {
                *cell = before;
            }
        }
        // What is touched next belongs to a new step even if this one had noted it.
        self.step();
    }

    /// Stops noting.
    pub(super) fn stop_noting(&mut self) {
        self.journal.on = false;
        self.journal.before.clear();
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
    fn a_step_is_taken_back_whole() {
        let mut tree = chain();
        tree.charge(GroupId(3), CPU, 5, 1);
        let before: Vec<_> = tree.cells.clone();
        let from = tree.step();
        tree.charge(GroupId(3), CPU, 2, 0);
        tree.charge(GroupId(2), CPU, 2, 2);
        assert_eq!(tree.changes(from).count(), 3);
        tree.take_back(from);
        assert_eq!(tree.cells, before);
    }
}
