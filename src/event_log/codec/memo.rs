//! Resources by the bytes that they were written as, so that the thousandth pod of a template costs a look-up.
//!
//! Outlines name resources by their place in a table, which holds each once a round. A round is what moves
//! to another thread at once, so that counters of owners do not go to and fro between processors with every pod.
//! Bounded: when the memory is full it is emptied, since the next events tell best what is worth keeping.

use crate::domain::resources::Resources;
use std::{collections::HashMap, sync::Arc};

/// Entries: a few thousand templates are alive at once in a large cluster; 4,096 of at most 1 KiB are 4 MiB.
const MAX_ENTRIES: usize = 4096;
/// Longer spellings are parsed every time.
const MAX_KEY_BYTES: usize = 1024;

/// The memory of a decoder.
#[derive(Debug, Default)]
pub(super) struct Memo {
    known: HashMap<Box<str>, Known, foldhash::fast::RandomState>,
    table: Vec<Arc<Resources>>,
    round: u64,
}

/// What a spelling says, and where that stands in the table of the round in which it was last met.
#[derive(Debug)]
struct Known {
    resources: Arc<Resources>,
    round: u64,
    place: u32,
}

impl Memo {
    /// The place in this round's table of the resources that a JSON text spells; `None` if it spells none.
    pub(super) fn place(&mut self, spelling: &str) -> Option<u32> {
        let next = u32::try_from(self.table.len()).ok()?;
        if let Some(known) = self.known.get_mut(spelling) {
            if known.round != self.round {
                (known.round, known.place) = (self.round, next);
                self.table.push(Arc::clone(&known.resources));
            }
            return Some(known.place);
        }
        let resources: Arc<Resources> = Arc::new(serde_json::from_str(spelling).ok()?);
        self.table.push(Arc::clone(&resources));
        if spelling.len() <= MAX_KEY_BYTES {
            if self.known.len() >= MAX_ENTRIES {
                self.known.clear();
            }
            let known = Known { resources, round: self.round, place: next };
            self.known.insert(spelling.into(), known);
        }
        Some(next)
    }

    /// The table of this round.
    pub(super) fn table(&self) -> &[Arc<Resources>] {
        &self.table
    }

    /// Ends the round: hands its table over, and takes an old one to be filled anew.
    pub(super) fn next_round(&mut self, table: &mut Vec<Arc<Resources>>) {
        table.clear();
        std::mem::swap(&mut self.table, table);
        self.round = self.round.wrapping_add(1);
    }
}
