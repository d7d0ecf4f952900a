//! Where rows are kept between two starts: the trait, its contract, and what is committed.

use crate::domain::{
    event::Position,
    ledger::{Options, state::RowKey},
    merkle::{Frontier, Hash},
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
/// 4. **One writer.** A store that lives outside the process keeps a second process out.
///
/// A store knows no meaning: it neither decodes rows nor compares anything with a log. Rows carry their own
/// checksums and the mark one over all of them, so whatever a store gives back is believed only as a whole
/// (`checkpoint.rs`). What is not believed is discarded: a store holds no money, only time.
pub trait Store: Send + 'static {
    /// Where the rows stand; `None` while nothing was committed.
    ///
    /// # Errors
    /// [`Error`].
    fn mark(&self) -> Result<Option<Mark>, Error>;

    /// Hands every row to `each`, in order of keys, all of the same commit as [`Self::mark`].
    ///
    /// # Errors
    /// [`Error`], or what `each` said; rows that were handed out before it are of no use.
    fn rows(&self, each: &mut EachRow<'_>) -> Result<(), Error>;

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

    /// Why what was there when it was opened could not be opened and was moved aside; `None` if it was not.
    fn moved_aside(&self) -> Option<&str> {
        None
    }
}

/// What is done with each row.
pub type EachRow<'e> = dyn FnMut(RowKey, &[u8]) -> Result<(), Error> + 'e;

/// The place in the log that rows stand for, and what holds of all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// The Merkle tree of the records that the rows follow from; its size is their last position. Rows of another
    /// log have another root.
    pub tree: Frontier,
    /// What the ledger keeps whose rows they are.
    pub options: Options,
    /// How many rows.
    pub rows: u64,
    /// The sum of the rows' checksums, modulo 2^128: none is missing, none is an old one.
    pub sum: u128,
}

/// What changes in one commit: several changes of one row between two commits are one.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Rows as they are from now on, as `keys.rs` writes them, each once, in order of keys.
    pub rows: Vec<(RowKey, Vec<u8>)>,
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
    /// Another process writes to it.
    #[error("{} is held by another process ({holder}); stop it, or give another folder", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// What the other process wrote about itself.
        holder: String,
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

impl Error {
    /// Something that is not as it was written.
    pub(super) fn damaged(why: impl ToString) -> Self {
        Self::Damaged { why: why.to_string() }
    }
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
