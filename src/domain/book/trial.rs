//! Trying decisions out: they are made for real, then taken back, so that what judges is the same code that
//! folds, and no copy of the book is needed.

use super::{Book, Error, Stamp, Ticket, reservations::Asked, workload::Open};
use crate::domain::{
    event::{QuotaProposed, QuotaSpec, ReservationExpired, WorkloadsAdmitted},
    names::{GroupId, KeyId, Names},
};
use std::ops::Deref;

/// How to take back what is no sum.
#[derive(Clone, Debug)]
pub(super) enum Undo {
    /// A row that was not there.
    NewRow(u32),
    /// What was open in a row.
    Open(u32, Option<Box<Open>>),
    /// Proposals and parents of a group.
    Account(GroupId, Box<(super::quotas::Account, Vec<GroupId>)>),
    /// A key that nobody had limited by a budget.
    Budget(KeyId),
}

/// How much there was when a trial began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    tree: (usize, usize),
    accounts: usize,
    rows: u32,
}

/// The book plus decisions that are not on the log yet, or not read yet. When it is dropped, the book is what
/// it was. Facts cannot be tried.
#[derive(Debug)]
pub struct Trial<'b> {
    book: &'b mut Book,
    items: u32,
}

/// A point to come back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    cells: usize,
    undo: usize,
}

impl Mark {
    /// Where the step begins in the tree's journal.
    pub(super) fn cells(self) -> usize {
        self.cells
    }
}

impl<'b> Trial<'b> {
    /// A trial on `book`.
    pub fn new(book: &'b mut Book) -> Self {
        book.trying = true;
        book.undo.clear();
        book.size = Size {
            tree: book.tree.size(),
            accounts: book.accounts.len(),
            rows: book.works.rows.count(),
        };
        book.tree.try_out();
        Self { book, items: 0 }
    }

    /// Takes in admissions that are on the log but not read yet.
    ///
    /// # Errors
    /// As [`Book::admitted`].
    pub fn admitted(
        &mut self,
        names: &mut Names,
        stamp: Stamp,
        batch: &WorkloadsAdmitted<'_>,
    ) -> Result<(), Error> {
        self.book.admitted(names, stamp, batch)
    }

    /// Takes in a proposal that is on the log but not read yet.
    ///
    /// # Errors
    /// As [`Book::proposed`].
    pub fn proposed(
        &mut self,
        names: &mut Names,
        stamp: Stamp,
        quota: GroupId,
        proposal: &QuotaProposed<'_>,
    ) -> Result<(), Error> {
        self.whole();
        self.book.proposed(names, stamp, quota, proposal)
    }

    /// Takes in an expiry that is on the log but not read yet.
    pub fn expired(
        &mut self,
        names: &mut Names,
        stamp: Stamp,
        quota: GroupId,
        fact: &ReservationExpired<'_>,
    ) {
        self.whole();
        self.book.expired(names, stamp, quota, fact);
    }

    /// Makes every group's sums whole before a quota is looked at: charges that were tried are known at limits only.
    pub(crate) fn whole(&mut self) {
        self.book.tree.enter_drawn();
    }

    /// Begins a step that can be judged and taken back.
    pub(crate) fn mark(&mut self) -> Mark {
        Mark { cells: self.book.tree.step(), undo: self.book.undo.len() }
    }

    /// Takes back everything since `mark`.
    pub(crate) fn back(&mut self, mark: Mark) {
        self.book.take_back(mark);
    }

    /// Reserves what is asked for, behind every record.
    pub(crate) fn reserve(&mut self, asked: &Asked) {
        let ticket = self.ticket();
        self.book.reserve(ticket, asked);
    }

    /// Understands a spec.
    ///
    /// # Errors
    /// As [`Book::spec`].
    pub(crate) fn spec(
        &mut self,
        names: &mut Names,
        spec: &QuotaSpec<'_>,
    ) -> Result<super::Spec, Error> {
        self.book.spec(names, spec)
    }

    /// Proposes, behind every record.
    pub(crate) fn propose(&mut self, quota: GroupId, proposal: super::Proposal) {
        self.book.propose(quota, proposal);
    }

    /// What the step since `mark` changed.
    pub(super) fn changes(&self, mark: Mark) -> impl Iterator<Item = super::tree::Change> + '_ {
        self.book.tree.changes(mark.cells)
    }

    /// A place behind every record, for what has none yet.
    pub(crate) fn ticket(&mut self) -> Ticket {
        self.items = self.items.saturating_add(1);
        Ticket { position: u64::MAX, item: self.items }
    }
}

impl Deref for Trial<'_> {
    type Target = Book;
    fn deref(&self) -> &Book {
        self.book
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.book.take_back(Mark { cells: 0, undo: 0 });
        self.book.tree.stop_noting();
        let size = std::mem::take(&mut self.book.size);
        self.book.tree.shrink(size.tree);
        self.book.accounts.truncate(size.accounts);
        self.book.trying = false;
    }
}

impl Book {
    fn take_back(&mut self, mark: Mark) {
        while self.undo.len() > mark.undo {
            match self.undo.pop() {
                Some(Undo::NewRow(slot)) => self.works.take_back(slot, self.size.rows),
                Some(Undo::Open(slot, open)) => {
                    let names = |book: &Self| -> Vec<_> {
                        book.works.row(slot).map_or_else(Vec::new, |w| w.create_names().collect())
                    };
                    let mut touched = names(self);
                    if let Some(row) = self.works.row_mut(slot) {
                        row.open = open;
                    }
                    touched.extend(names(self));
                    self.list_creates(slot, &touched);
                }
                Some(Undo::Account(group, before)) => {
                    let (account, parents) = *before;
                    self.restore(group, account, &parents);
                }
                Some(Undo::Budget(key)) => self.forget_budget(key),
                None => return,
            }
        }
        self.tree.take_back(mark.cells);
    }
}
