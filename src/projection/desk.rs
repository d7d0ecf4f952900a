//! Where decisions are tried out on the running ledger. Nothing else can be done with it here.

use crate::domain::{book::Trial, ledger::Ledger, meter::Meter, names::Names};
use std::{ops::Deref, sync::RwLockWriteGuard};

/// The ledger as it is now, for a decision; the fold and every reader wait until it is dropped.
#[derive(Debug)]
pub struct Desk<'p>(pub(super) RwLockWriteGuard<'p, Ledger>);

impl Deref for Desk<'_> {
    type Target = Ledger;
    fn deref(&self) -> &Ledger {
        &self.0
    }
}

impl Desk<'_> {
    /// As [`Ledger::decide`]: afterwards the ledger is what it was.
    pub fn decide<T>(
        &mut self,
        decide: impl FnOnce(&mut Trial<'_>, &mut Names, &Meter) -> T,
    ) -> Option<T> {
        self.0.decide(decide)
    }
}
