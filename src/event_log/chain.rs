//! The Merkle tree while a log is read: each record's leaf is computed and compared with the one beside it.

use super::{
    Head,
    codec::{Decoded, Scanned, decode},
};
use crate::domain::{
    event::{Data, Position},
    merkle::{Frontier, Hash, LeafHasher},
};
use serde::{Deserialize, Serialize};

/// The tree that a `log.opened` continues, if it is one and its root and frontier agree.
pub(super) fn continued(first: &Scanned<'_>) -> Option<Frontier> {
    let Decoded::Event(event) = decode(first).ok()? else { return None };
    let Data::LogOpened(opened) = event.data else { return None };
    let hashes = opened.frontier.iter().map(|hash| hash.parse().ok()).collect::<Option<_>>()?;
    let tree = Frontier::resume(opened.base, hashes).ok()?;
    (tree.root().to_string() == *opened.root).then_some(tree)
}

/// Where a log ends, with its tree. Serialised it is what the file log's `frontier` holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tip {
    /// Position of the last decision record; 0 for none.
    pub(super) last_decision: Position,
    /// All records.
    pub(super) tree: Frontier,
}

impl Tip {
    pub(super) const fn position(&self) -> Position {
        self.tree.position()
    }

    pub(super) const fn head(&self) -> Head {
        Head { position: self.position(), last_decision: self.last_decision }
    }
}

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

    /// Adds the next record of a log that keeps no leaves beside its records, as a stream does.
    pub fn add(&mut self, scanned: &Scanned<'_>) -> Position {
        let position = self.tree.position().saturating_add(1);
        self.tree.append(self.hasher.leaf(position, &scanned.leaf_input()));
        position
    }

    /// Adds the next record of a log that does.
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
