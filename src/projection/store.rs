//! Where rows are kept between two starts: the trait, its contract, and what is committed.

use super::rows::{Row, RowKey, RowValue};
use crate::domain::{
    event::Position,
    merkle::{Frontier, Hash},
};
use std::{collections::BTreeMap, path::PathBuf};

/// Rows and the place in the log that they stand for.
///
/// ```text
///   log   ─ 1 ─ 2 ─ … ─ 4096 ─ … ─ 8192 ─ … ─ 9001
///                         ▼          ▼          ▼ not committed yet: folded again after a crash
///   store            { rows, mark } { rows, mark }
///                      all of it, or all of the one before: never rows of one and the mark of another
/// ```
///
/// What every store keeps:
///
/// 1. **Atomic.** Rows and mark of one [`Batch`] become visible together. After a crash at any instant the
///    store is what one of its commits left, whole.
/// 2. **A commit may be lost, but only from the end.** Nothing needs to be durable when `commit` returns:
///    what is lost is folded again. Commits are never reordered.
/// 3. **Forward.** A batch whose mark lies before the store's is refused and changes nothing.
/// 4. **Never wrong rows.** What cannot be read as it was written is [`Error::Damaged`], not a row. The caller
///    then discards everything and folds the log from the beginning: a store holds no money, only time.
/// 5. **One writer.** A store that lives outside the process keeps a second process out.
///
/// A store knows no meaning: it neither sums rows nor compares the mark with a log. That is the runner's work.
pub trait Store: Send + 'static {
    /// Where the rows stand; `None` while nothing was committed.
    ///
    /// # Errors
    /// [`Error`].
    fn mark(&self) -> Result<Option<Mark>, Error>;

    /// Hands every row to `each`, in order of keys, all of the same commit as [`Self::mark`].
    ///
    /// # Errors
    /// [`Error`]; rows that were handed out before it are of no use.
    fn rows(&self, each: &mut dyn FnMut(Row)) -> Result<(), Error>;

    /// Commits a batch.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    fn commit(&mut self, batch: Batch) -> Result<(), Error>;

    /// Puts everything out of reach (a store with files moves them aside, for people to look at) and is empty.
    /// It works on a store that answers everything else with [`Error::Damaged`].
    ///
    /// # Errors
    /// [`Error::Io`].
    fn discard(&mut self) -> Result<(), Error>;
}

/// The place in the log that rows stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The Merkle tree of the records that the rows follow from; its size is their last position. Rows of another
    /// log have another root.
    pub tree: Frontier,
}

/// What changes in one commit: several changes of one row between two commits are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Rows as they are from now on; `None` removes one, there or not.
    pub rows: BTreeMap<RowKey, Option<RowValue>>,
    /// Where they stand.
    pub mark: Mark,
}

/// Why a store does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The batch lies before what is committed.
    #[error("rows of position {position} cannot follow those of {committed}; discard the store")]
    Backwards {
        /// The batch's.
        position: Position,
        /// The store's.
        committed: Position,
    },
    /// What is there is not what was written, or was written by another build.
    #[error("the store is damaged or of another build ({why}); it is made anew from the log")]
    Damaged {
        /// What does not fit.
        why: String,
    },
    /// The operating system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What it says.
        source: std::io::Error,
    },
}

impl Mark {
    /// The last record that the rows follow from.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.tree.position()
    }

    /// The log's root there.
    #[must_use]
    pub fn root(&self) -> Hash {
        self.tree.root()
    }
}
