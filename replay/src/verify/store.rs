//! `bizrq-replay verify --store`: are a store's rows what the log says at their position?
//!
//! A stream has no leaves beside its records. Of one that was replaced, a store of before names the block that differs.

use super::finding::{Finding, What};
use crate::reading::{Halt, Log};
use bizrq::{
    cli::Error,
    domain::{
        event::Position,
        ledger::{Ledger, ROOT_EVERY},
    },
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
    difference: Option<Difference>,
}

/// What of a store is not what the log says.
struct Difference {
    /// First and last record that it is about.
    records: (Position, Position),
    why: String,
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
    let loaded = read.and_then(|()| Checkpoint::load(&store, mark.options));
    let kept = match loaded {
        Ok(Some((kept, _))) => kept,
        Ok(None) => return Err(failed("its rows are gone".to_owned())),
        Err(damaged) => return Ok(Compared::damaged(position, damaged)),
    };
    let mut ledger = Ledger::new(mark.options);
    log.records("folding", position, &mut ledger, |ledger, record| {
        log.apply(ledger, record)?;
        Ok::<_, Halt>(())
    })?;
    let rows = held.len();
    let difference = if ledger.root() != mark.root() {
        Some(first_block(&kept, &ledger))
    } else {
        let first = checkpoint::first_difference(&held, &mut ledger);
        let first = first.map_err(|e| failed(e.to_string()))?;
        first.map(|key| Difference {
            records: (position, position),
            why: format!(
                "row {:?} {} {} is not what the log says",
                key.table, key.period, key.block
            ),
        })
    };
    Ok(Compared { position, rows, difference })
}

/// The first block of records that are not those that the rows follow from: both keep the root of every block.
fn first_block(kept: &Ledger, log: &Ledger) -> Difference {
    let (position, end) = (kept.position(), log.position());
    let same = kept.roots().iter().zip(log.roots()).take_while(|(kept, log)| kept == log).count();
    let before = ROOT_EVERY.saturating_mul(same as u64);
    let differs = kept.roots().len() > same && log.roots().len() > same;
    if end < position && !differs {
        let why = format!("it stands at position {position}, but the log ends at {end}");
        return Difference { records: (end.saturating_add(1), position), why };
    }
    let last = before.saturating_add(ROOT_EVERY).min(position);
    let (root, said) = (kept.root(), log.root());
    let first = before.saturating_add(1);
    let why = format!(
        "it stands for root {root} at position {position}, the log has {said} at {end}; the first records that differ \
         are among {first} to {last}"
    );
    Difference { records: (first, last), why }
}

impl Compared {
    pub(super) fn finding(&self) -> Option<Finding> {
        let Difference { records: (from, to), why } = self.difference.as_ref()?;
        Some(Finding::of(What::Store, *from, *to, format!("the store: {why}")))
    }

    fn damaged(position: Position, why: store::Error) -> Self {
        let difference = Difference { records: (position, position), why: why.to_string() };
        Self { position, rows: 0, difference: Some(difference) }
    }
}
