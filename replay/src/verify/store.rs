//! `bizrq-replay verify --store`: are a store's rows what the log says at their position?

use super::finding::{Finding, What};
use crate::reading::{Halt, Log};
use bizrq::{
    cli::Error,
    domain::{event::Position, ledger::Ledger},
    projection::{
        SledStore, Store,
        checkpoint::{self, Checkpoint},
        store,
    },
};
use serde::Serialize;
use std::{collections::BTreeMap, path::Path};

/// What a store was found to be.
#[derive(Serialize)]
pub(super) struct Compared {
    /// The position of its rows.
    pub(super) position: Position,
    /// How many rows.
    pub(super) rows: usize,
    /// What differs first; `None` where all of it is what the log says.
    #[serde(skip)]
    difference: Option<String>,
}

/// Folds the log to where the store stands, and compares every row.
pub(super) fn compare(log: &Log, dir: &Path) -> Result<Compared, Error> {
    let failed = |why: String| Error::log(dir.display(), why);
    let store = SledStore::open_as_it_is(dir).map_err(|e| failed(e.to_string()))?;
    let mark = match store.mark() {
        Ok(Some(mark)) => mark,
        Ok(None) => return Err(failed("nothing was ever committed to it".to_owned())),
        Err(damaged) => return Ok(Compared::damaged(0, damaged)),
    };
    let position = mark.position();
    let mut held = BTreeMap::new();
    let read = store.rows(&mut |key, bytes| {
        held.insert(key, bytes.to_vec());
        Ok(())
    });
    if let Err(damaged) = read.and_then(|()| Checkpoint::load(&store, mark.options)) {
        return Ok(Compared::damaged(position, damaged));
    }
    let mut ledger = Ledger::new(mark.options);
    log.records("folding", position, |record| {
        log.apply(&mut ledger, record)?;
        Ok::<_, Halt>(())
    })?;
    let rows = held.len();
    let difference = if ledger.position() < position {
        Some(format!("it stands at position {position}, but the log ends at {}", ledger.position()))
    } else if ledger.root() != mark.root() {
        let (root, said) = (mark.root(), ledger.root());
        Some(format!(
            "it stands for root {root}, but the log's root at position {position} is {said}"
        ))
    } else {
        let first = checkpoint::first_difference(&held, &mut ledger);
        let first = first.map_err(|e| failed(e.to_string()))?;
        first.map(|key| {
            format!("row {:?} {} {} is not what the log says", key.table, key.period, key.block)
        })
    };
    Ok(Compared { position, rows, difference })
}

impl Compared {
    pub(super) fn finding(&self) -> Option<Finding> {
        let why = self.difference.as_ref()?;
        Some(Finding::of(What::Store, self.position, self.position, format!("the store: {why}")))
    }

    fn damaged(position: Position, why: store::Error) -> Self {
        Self { position, rows: 0, difference: Some(why.to_string()) }
    }
}
