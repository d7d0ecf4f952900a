//! From a ledger to rows, and back: what is written at a commit, and whether what is read may be believed.
//!
//! Every row has a checksum over itself and its key; the mark has their sum. So a row that was changed is named, and
//! one that is missing or older than its mark is noticed.

use super::{
    keys,
    store::{Batch, Error, Mark, Store},
};
use crate::domain::{
    ledger::{
        Ledger, Options,
        state::{Restoring, RowKey},
    },
    names::Map,
};
use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
};

/// What a store holds after its last commit: the checksum of each of its rows.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    checksums: Map<RowKey, u128>,
    sum: u128,
}

/// Rows that are written while nobody else may ask the ledger for much: a few hundred microseconds.
const ROWS_AT_ONCE: usize = 64;

impl Checkpoint {
    /// What changed in `ledger` since it was asked last, as a batch; to be committed before the next one is made.
    /// Only whoever applies records may call it: nothing is applied meanwhile. Readers are let in between.
    ///
    /// # Errors
    /// [`Error::Damaged`] when a row cannot be written, which no row is.
    pub fn changes(&mut self, ledger: &RwLock<Ledger>) -> Result<Batch, Error> {
        let keys = ledger.write().unwrap_or_else(PoisonError::into_inner).take_changed();
        let mut rows = Vec::with_capacity(keys.len());
        for keys in keys.chunks(ROWS_AT_ONCE) {
            let ledger = ledger.read().unwrap_or_else(PoisonError::into_inner);
            for key in keys {
                rows.push((*key, self.row(&ledger, *key)?));
            }
        }
        let ledger = ledger.read().unwrap_or_else(PoisonError::into_inner);
        Ok(Batch { rows, mark: self.mark(&ledger) })
    }

    /// Every row of `ledger`, as a batch for an empty store.
    ///
    /// # Errors
    /// As [`Self::changes`].
    pub fn whole(ledger: &mut Ledger) -> Result<Batch, Error> {
        let mut checkpoint = Self::default();
        let keys = ledger.every_row();
        let rows = keys.into_iter().map(|key| Ok((key, checkpoint.row(ledger, key)?)));
        let rows = rows.collect::<Result<_, Error>>()?;
        Ok(Batch { rows, mark: checkpoint.mark(ledger) })
    }

    fn row(&mut self, ledger: &Ledger, key: RowKey) -> Result<Vec<u8>, Error> {
        let (bytes, checksum) = keys::row(key, &ledger.row(key))?;
        self.put(key, checksum);
        Ok(bytes)
    }

    fn put(&mut self, key: RowKey, checksum: u128) {
        let before = self.checksums.insert(key, checksum).unwrap_or_default();
        self.sum = self.sum.wrapping_sub(before).wrapping_add(checksum);
    }

    fn mark(&self, ledger: &Ledger) -> Mark {
        Mark {
            tree: ledger.frontier().clone(),
            options: ledger.options(),
            rows: self.checksums.len() as u64,
            sum: self.sum,
        }
    }

    /// The ledger whose rows `store` holds; `None` where it holds nothing.
    ///
    /// # Errors
    /// [`Error::Damaged`] when what it holds is not what was written, or is of a ledger with other options.
    pub fn load(store: &impl Store, options: Options) -> Result<Option<(Ledger, Self)>, Error> {
        let Some(mark) = store.mark()? else { return Ok(None) };
        let mut reading = Reading::new(mark, options)?;
        store.rows(&mut |key, bytes| reading.row(key, bytes))?;
        reading.finish().map(Some)
    }
}

/// A ledger that is being made of rows.
pub(super) struct Reading {
    restoring: Restoring,
    checkpoint: Checkpoint,
    mark: Mark,
}

impl Reading {
    pub(super) fn new(mark: Mark, options: Options) -> Result<Self, Error> {
        if mark.options != options {
            let (kept, wanted) = (mark.options, options);
            let why = format!("its rows are of {kept:?}, and {wanted:?} is wanted");
            return Err(Error::Damaged { why });
        }
        let (restoring, checkpoint) = (Restoring::new(options), Checkpoint::default());
        Ok(Self { restoring, checkpoint, mark })
    }

    pub(super) fn row(&mut self, key: RowKey, bytes: &[u8]) -> Result<(), Error> {
        let (row, checksum) = keys::read_row(key, bytes)?;
        self.checkpoint.put(key, checksum);
        self.restoring.row(key, row).map_err(Error::damaged)
    }

    pub(super) fn finish(self) -> Result<(Ledger, Checkpoint), Error> {
        let Self { restoring, checkpoint, mark } = self;
        let found = (checkpoint.checksums.len() as u64, checkpoint.sum);
        if found != (mark.rows, mark.sum) {
            let (is, was) = (found.0, mark.rows);
            let why = format!("its {is} rows are not the {was} that were committed together");
            return Err(Error::Damaged { why });
        }
        let ledger = restoring.finish(mark.tree).map_err(Error::damaged)?;
        Ok((ledger, checkpoint))
    }
}

/// The first row in which two ledgers of one log differ, `held` as bytes: what `verify` says of a store.
///
/// # Errors
/// As [`Checkpoint::changes`].
pub fn first_difference(
    held: &BTreeMap<RowKey, Vec<u8>>,
    expected: &mut Ledger,
) -> Result<Option<RowKey>, Error> {
    let batch = Checkpoint::whole(expected)?;
    let expected: BTreeMap<_, _> = batch.rows.into_iter().collect();
    let differs = |key: &&RowKey| held.get(*key) != expected.get(*key);
    let missing = expected.keys().find(differs);
    Ok(missing.into_iter().chain(held.keys().find(differs)).min().copied())
}
