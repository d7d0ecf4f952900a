//! Trying things out: what cells were before a step touched them, so that it can be judged and taken back.

use super::{Cell, PLAIN, Tree, UNLISTED};
use crate::domain::names::{GroupId, KeyId};
use std::fmt;

/// What cells were before the present step touched them.
#[derive(Clone, Default)]
pub(super) struct Journal {
    pub(super) on: bool,
    step: u32,
    /// By cell: the step that touched it last.
    touched: Vec<u32>,
    pub(super) before: Vec<(u32, Cell)>,
}

/// A cell that a step changed.
#[derive(Clone, Copy, Debug)]
pub(in crate::domain::book) struct Change {
    pub(in crate::domain::book) group: GroupId,
    pub(in crate::domain::book) key: KeyId,
    pub(in crate::domain::book) before: Cell,
    pub(in crate::domain::book) after: Cell,
}

impl Change {
    /// Whether the step raised it above its limit.
    pub(in crate::domain::book) fn breaks(&self) -> bool {
        self.after.used() > self.before.used() && self.after.used() > self.after.limit
    }
}

/// Of a tree as it is, the steps that led there say nothing.
impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

impl Journal {
    pub(super) fn note(&mut self, place: u32, cell: &Cell) {
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
    pub(in crate::domain::book) fn size(&self) -> (usize, usize) {
        (self.nodes.len(), self.cells.len())
    }

    /// Gives back the groups and cells that came since [`Self::size`] returned this; nothing is left in them.
    pub(in crate::domain::book) fn shrink(&mut self, (nodes, cells): (usize, usize)) {
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
    pub(in crate::domain::book) fn step(&mut self) -> usize {
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

    /// What changed since `from`, which the newest [`Self::step`] returned, where there is a limit.
    pub(in crate::domain::book) fn changes(
        &self,
        from: usize,
    ) -> impl Iterator<Item = Change> + '_ {
        let noted = self.journal.before.get(from..).unwrap_or(&[]);
        noted.iter().filter_map(|(place, before)| {
            let after = self.cells.get(*place as usize)?;
            if after.limit == UNLISTED {
                return None;
            }
            let (group, key) = *self.owners.get(*place as usize)?;
            Some(Change { group, key, before: *before, after: *after })
        })
    }

    /// Puts every cell back to what it was at `from`.
    pub(in crate::domain::book) fn take_back(&mut self, from: usize) {
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
    pub(in crate::domain::book) fn stop_noting(&mut self) {
        self.journal.on = false;
        self.journal.before.clear();
    }
}
