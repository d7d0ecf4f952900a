//! A store that lives as long as the process: for tests, simulations, and commands that read a log once.

use super::store::{Batch, EachRow, Error, Mark, Store};
use crate::domain::ledger::state::RowKey;
use std::collections::BTreeMap;

/// Rows in a map. The default is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryStore {
    mark: Option<Mark>,
    rows: BTreeMap<RowKey, Vec<u8>>,
}

impl MemoryStore {
    /// Every row.
    #[must_use]
    pub const fn all(&self) -> &BTreeMap<RowKey, Vec<u8>> {
        &self.rows
    }
}

impl Store for MemoryStore {
    fn mark(&self) -> Result<Option<Mark>, Error> {
        Ok(self.mark.clone())
    }

    fn rows(&self, each: &mut EachRow<'_>) -> Result<(), Error> {
        self.rows.iter().try_for_each(|(key, bytes)| each(*key, bytes))
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let (position, committed) =
            (batch.mark.position(), self.mark.as_ref().map_or(0, Mark::position));
        if position < committed {
            return Err(Error::Backwards { position, committed });
        }
        self.rows.extend(batch.rows);
        self.mark = Some(batch.mark);
        Ok(())
    }

    fn discard(&mut self) -> Result<(), Error> {
        *self = Self::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_contract() {
        crate::projection::conformance::run(MemoryStore::default);
    }
}
