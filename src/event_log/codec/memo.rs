//! Resources by the bytes that they were written as, so that the thousandth pod of a template costs a look-up.
//!
//! Bounded: when it is full it is emptied, since the next events tell best what is worth keeping.

use crate::domain::resources::Resources;
use std::{collections::HashMap, sync::Arc};

/// Entries: a few thousand templates are alive at once in a large cluster; 4,096 of at most 1 KiB are 4 MiB.
const MAX_ENTRIES: usize = 4096;
/// Longer spellings are parsed every time.
const MAX_KEY_BYTES: usize = 1024;

/// The memory of a decoder.
#[derive(Debug, Default)]
pub(super) struct Memo {
    known: HashMap<Box<str>, Arc<Resources>, foldhash::fast::RandomState>,
}

impl Memo {
    /// The resources that a JSON text spells.
    pub(super) fn resources(&mut self, spelling: &str) -> serde_json::Result<Arc<Resources>> {
        if let Some(resources) = self.known.get(spelling) {
            return Ok(Arc::clone(resources));
        }
        let resources: Arc<Resources> = Arc::new(serde_json::from_str(spelling)?);
        if spelling.len() <= MAX_KEY_BYTES {
            if self.known.len() >= MAX_ENTRIES {
                self.known.clear();
            }
            self.known.insert(spelling.into(), Arc::clone(&resources));
        }
        Ok(resources)
    }
}
