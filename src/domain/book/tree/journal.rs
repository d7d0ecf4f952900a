//! Trying things out: what cells were before a step touched them, so that it can be judged and taken back.

use super::{Cell, PLAIN, Tree, UNLISTED};
use crate::domain::{
    amounts::more,
    names::{GroupId, KeyId},
    quantity::Milli,
};
use std::fmt;

/// What cells were before the present step touched them.
#[derive(Clone, Default)]
pub(super) struct Journal {
    pub(super) on: bool,
    /// Charges are tried out: they may be drawn.
    pub(super) draws: bool,
    step: u32,
    /// By cell: the step that touched it last.
    touched: Vec<u32>,
    pub(super) before: Vec<(u32, Cell)>,
    /// The places in `before`, in order, of cells that had a limit or got one: few beside those that are drawn through.
    limited: Vec<usize>,
    /// What went up through cells and is not entered in them.
    drawn: Vec<Drawn>,
    /// Whenever all of it was entered: how much was noted and drawn by then.
    entered: Vec<(usize, usize)>,
}

/// What a cell that has neither claim nor limit of its own hands on to whoever lists the key, as it is. A trial may
/// leave it out of the cell: nothing is judged by it. Edges and terms cannot change before it is entered.
#[derive(Clone, Copy)]
struct Drawn {
    place: u32,
    by: Milli,
    /// So much was noted by then, at least what it follows from.
    noted: usize,
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
        match self.touched.get_mut(place as usize) {
            Some(step) if *step == self.step => return,
            Some(step) => *step = self.step,
            None => {
                self.touched.resize(place as usize, 0);
                self.touched.push(self.step);
            }
        }
        if cell.limit != UNLISTED {
            self.limited.push(self.before.len());
        }
        self.before.push((place, *cell));
    }

    /// The cell at `place`, which is noted, gets a limit.
    pub(super) fn limits(&mut self, place: u32) {
        let Some(at) = self.before.iter().rposition(|(noted, _)| *noted == place) else { return };
        if let Err(i) = self.limited.binary_search(&at) {
            self.limited.insert(i, at);
        }
    }

    /// Takes the newest note out.
    fn pop(&mut self) -> Option<(u32, Cell)> {
        let last = self.before.pop();
        self.limited.pop_if(|at| *at == self.before.len());
        last
    }

    fn clear(&mut self) {
        self.before.clear();
        self.limited.clear();
        self.drawn.clear();
        self.entered.clear();
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
            self.journal.clear();
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
        let Journal { before, limited, .. } = &self.journal;
        let limited = limited.get(limited.partition_point(|at| *at < from)..).unwrap_or_default();
        limited.iter().filter_map(|at| {
            let (place, before) = before.get(*at)?;
            let after = self.cells.get(*place as usize)?;
            if after.limit == UNLISTED {
                return None;
            }
            let (group, key) = *self.owners.get(*place as usize)?;
            Some(Change { group, key, before: *before, after: *after })
        })
    }

    /// Begins a trial: until noting stops, charges are entered where there are limits, and elsewhere when it is asked for.
    pub(in crate::domain::book) fn try_out(&mut self) -> usize {
        self.journal.draws = true;
        self.step()
    }

    /// Whether `by` goes up through this cell as it is, and is written down, so that the cell need not be touched.
    pub(super) fn draw(&mut self, group: GroupId, key: KeyId, by: Milli) -> bool {
        let Some(place) = self.place(group, key) else { return false };
        let cell = self.cells.get(place as usize);
        let through = cell.is_some_and(|cell| cell.claim == 0 && cell.limit == UNLISTED);
        if through {
            let noted = self.journal.before.len();
            self.journal.drawn.push(Drawn { place, by, noted });
        }
        through
    }

    /// Enters what was drawn through cells: they are about to be looked at, or changed by other things than charges. It is
    /// a step of its own.
    pub(in crate::domain::book) fn enter_drawn(&mut self) {
        let done = self.journal.entered.last().map_or(0, |(_, drawn)| *drawn);
        if self.journal.drawn.len() == done {
            return;
        }
        let entered = (self.step(), self.journal.drawn.len());
        for i in done..entered.1 {
            let Some(Drawn { place, by, .. }) = self.journal.drawn.get(i).copied() else { return };
            let Some(cell) = self.cells.get_mut(place as usize) else { return };
            self.journal.note(place, cell);
            cell.given = more(cell.given, by);
        }
        self.journal.entered.push(entered);
    }

    /// Puts every cell back to what it was at `from`.
    pub(in crate::domain::book) fn take_back(&mut self, from: usize) {
        let journal = &mut self.journal;
        while journal.entered.pop_if(|(noted, _)| *noted >= from).is_some() {}
        while journal.drawn.pop_if(|drawn| drawn.noted > from).is_some() {}
        while self.journal.before.len() > from {
            let Some((place, before)) = self.journal.pop() else { return };
            if let Some(cell) = self.cells.get_mut(place as usize) {
                *cell = before;
            }
        }
        // What is touched next belongs to a new step even if this one had noted it.
        self.step();
    }

    /// Stops noting.
    pub(in crate::domain::book) fn stop_noting(&mut self) {
        (self.journal.on, self.journal.draws) = (false, false);
        self.journal.clear();
    }
}
