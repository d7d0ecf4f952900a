//! How changes reach the tree: what a workload is charged before and after, and the difference, key by key.

use super::{
    Book,
    tree::Tree,
    workload::{Charge, NOTHING, Work},
};
use crate::domain::{
    amounts::Amounts,
    names::{GroupId, KeyId, ObjectId, Uid},
};
use std::fmt;

/// Room to work in, kept so that a change allocates nothing. It says nothing about the book.
#[derive(Clone, Default)]
pub(super) struct Scratch {
    before: Charge,
    after: Charge,
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

/// How changes reach the tree.
impl Book {
    /// The row of `workload`, a new one if need be; and whether it is new.
    pub(super) fn row(&mut self, workload: ObjectId) -> (u32, bool) {
        let (slot, new) = self.works.find_or_add(workload);
        let gone = new && self.ended.contains(workload);
        if let Some(row) = self.works.row_mut(slot).filter(|_| gone) {
            row.gone = true;
        }
        (slot, new)
    }

    /// Changes a workload and posts what its charge became. `name`: a name of which a create is added.
    pub(super) fn change(&mut self, slot: u32, name: Option<Uid>, change: impl FnOnce(&mut Work)) {
        let Some(work) = self.works.row(slot) else { return };
        let mut names: Vec<_> = work.create_names().chain(name).collect();
        names.sort_unstable();
        names.dedup();
        let mut scratch = std::mem::take(&mut self.scratch);
        work.charge_into(&mut scratch.before);
        let mut others = work.charge_apart();
        for name in &names {
            others.extend(self.create_charge(*name));
        }
        if let Some(work) = self.works.row_mut(slot) {
            change(work);
        }
        self.list_creates(slot, &names);
        let mut others_after = Vec::new();
        if let Some(work) = self.works.row(slot) {
            work.charge_into(&mut scratch.after);
            others_after = work.charge_apart();
        }
        for name in &names {
            others_after.extend(self.create_charge(*name));
        }
        post(&mut self.tree, &scratch.before, &scratch.after);
        self.scratch = scratch;
        for (_, charge) in &others {
            post(&mut self.tree, charge, &NOTHING);
        }
        for (_, charge) in &others_after {
            post(&mut self.tree, &NOTHING, charge);
        }
    }

    /// Gives back the row of what nothing is known of any more. (A trial keeps it: it may be taken back.)
    pub(super) fn drop_blank(&mut self, slot: u32) {
        if !self.trying && self.works.row(slot).is_some_and(Work::is_blank) {
            self.works.remove(slot);
        }
    }

    /// Makes `creates` say whether `slot` has a create of each of `names` of which nothing real was seen.
    pub(super) fn list_creates(&mut self, slot: u32, names: &[Uid]) {
        for name in names {
            let waits = self.works.row(slot).is_some_and(|work| {
                !work.is_real() && work.create_names().any(|other| other == *name)
            });
            let list = self.creates.entry(*name).or_default();
            list.retain(|s| *s != slot);
            if waits {
                list.push(slot);
            }
            if list.is_empty() {
                self.creates.remove(name);
            }
        }
    }

    /// Of several creates of one name only one can succeed: the largest counts, key by key, group by group.
    pub(super) fn create_charge(&self, name: Uid) -> Vec<(GroupId, Charge)> {
        let slots = self.creates.get(&name).map_or(&[][..], |s| s);
        let mut charges: Vec<(GroupId, Charge)> = Vec::new();
        for work in slots.iter().filter_map(|slot| self.works.row(*slot)) {
            let open = work.open.iter().flat_map(|open| &open.reservations);
            for held in open.filter(|r| r.name == Some(name)) {
                let charge = match charges.iter_mut().find(|(g, _)| *g == held.group) {
                    Some((_, charge)) => charge,
                    None => {
                        let groups = vec![held.group];
                        charges.push((held.group, Charge { groups, ..Charge::default() }));
                        let Some((_, charge)) = charges.last_mut() else { continue };
                        charge
                    }
                };
                charge.amounts.raise_all(&held.demand);
            }
        }
        for (_, charge) in &mut charges {
            charge.covered = charge.amounts.clone();
        }
        charges
    }
}

/// Posts the difference between two charges of one thing.
pub(super) fn post(tree: &mut Tree, before: &Charge, after: &Charge) {
    let left = before.groups.iter().filter(|g| !after.groups.contains(g));
    for group in after.groups.iter().chain(left) {
        let (mut was, mut is) = (before.inside(*group), after.inside(*group));
        tree.charge_all(
            *group,
            either(&before.amounts, &after.amounts).map(|key| {
                let (was, is) = (was.at(key), is.at(key));
                (key, is.0.saturating_sub(was.0), is.1.saturating_sub(was.1))
            }),
        );
    }
}

/// The keys of both, in their order, each once.
fn either(a: &Amounts, b: &Amounts) -> impl Iterator<Item = KeyId> {
    let mut a = a.iter().map(|(key, _)| key).peekable();
    let mut b = b.iter().map(|(key, _)| key).peekable();
    std::iter::from_fn(move || {
        let key = match (a.peek(), b.peek()) {
            (Some(a), Some(b)) => *a.min(b),
            (one, other) => *one.or(other)?,
        };
        a.next_if_eq(&key);
        b.next_if_eq(&key);
        Some(key)
    })
}
