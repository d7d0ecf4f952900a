//! The Merkle tree while a log is read: each record's leaf is computed and compared with the one beside it.

use super::codec::Scanned;
use crate::domain::{
    event::Position,
    merkle::{Frontier, Hash, LeafHasher},
};

/// The tree of the records so far.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    hasher: LeafHasher,
    tree: Frontier,
}

/// A record is not what its leaf says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeafDiffers {
    /// Attributes, data, leaf or place in the log were changed.
    #[error(
        "the leaf is {computed}, but {recorded} was recorded: the line was changed or moved; restore it from a copy"
    )]
    Changed {
        /// Beside the record.
        recorded: Hash,
        /// From the record.
        computed: Hash,
    },
    /// A log's line must carry one.
    #[error("the line has no `leaf`; only lines that a log wrote can be in a log, import others")]
    Absent,
}

impl Chain {
    /// Continues from a tree.
    #[must_use]
    pub fn resume(tree: Frontier) -> Self {
        Self { hasher: LeafHasher::default(), tree }
    }

    /// Adds the next record.
    ///
    /// # Errors
    /// [`LeafDiffers`] when the recorded leaf is absent or another; the record is not added.
    pub fn push(&mut self, scanned: &Scanned<'_>) -> Result<Position, LeafDiffers> {
        let position = self.tree.position().saturating_add(1);
        let computed = self.hasher.leaf(position, &scanned.leaf_input());
        match scanned.leaf {
            Some(recorded) if recorded == computed => self.tree.append(computed),
            Some(recorded) => return Err(LeafDiffers::Changed { recorded, computed }),
            None => return Err(LeafDiffers::Absent),
        }
        Ok(position)
    }

    /// The tree so far.
    #[must_use]
    pub const fn tree(&self) -> &Frontier {
        &self.tree
    }
}
