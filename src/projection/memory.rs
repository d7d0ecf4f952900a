//! A store that lives as long as the process: for tests, simulations, and commands that read a log once.

use super::{
    rows::{Row, RowKey, RowValue},
    store::{Batch, Error, Mark, Store},
};
use std::collections::BTreeMap;

/// Rows in a map. The default is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryStore {
    mark: Option<Mark>,
    rows: BTreeMap<RowKey, RowValue>,
}

impl Store for MemoryStore {
    fn mark(&self) -> Result<Option<Mark>, Error> {
        Ok(self.mark.clone())
    }

    fn rows(&self, each: &mut dyn FnMut(Row)) -> Result<(), Error> {
        self.rows.iter().for_each(|(key, value)| each(Row(key.clone(), value.clone())));
        Ok(())
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let (position, committed) =
            (batch.mark.position(), self.mark.as_ref().map_or(0, Mark::position));
        if position < committed {
            return Err(Error::Backwards { position, committed });
        }
        for (key, value) in batch.rows {
            match value {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
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
