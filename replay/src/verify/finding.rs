//! What can be wrong with a log, each named by the records that it is about.

use bizrq::{domain::event::Position, event_log::file::roots::ROOT_EVERY};
use serde::Serialize;
use std::path::Path;

/// So many findings are listed; of a log that is wrong from some record on, more would tell nothing.
pub(super) const LISTED: usize = 1000;

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What it is.
    pub(super) what: What,
    /// First record that it is about.
    pub(super) from: Position,
    /// Last record that it is about.
    pub(super) to: Position,
    /// The block of 1,024 that the first lies in.
    pub(super) block: Block,
    /// The file, where it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    /// The line in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    /// For people.
    pub(super) why: String,
}

/// Kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum What {
    /// Attributes, data or leaf of a record are not those that were written.
    Altered,
    /// A line is no event any more.
    Unreadable,
    /// Records are missing between others.
    Removed,
    /// Records are missing at the end.
    Truncated,
    /// A line that was not written here.
    Inserted,
    /// A record stands behind one that followed it.
    Moved,
    /// Lines fit their leaves, but not the root of their block.
    Block,
    /// The file `roots` is not what was written.
    Roots,
    /// The manifest of an archive does not say what its records are.
    Manifest,
    /// Two places that were named hold different records, or do not follow each other.
    Places,
    /// The log never had the root that was given.
    Root,
    /// A record states a root that the log did not have.
    Claim,
    /// A store's rows are not what the log says.
    Store,
    /// The reader refuses the log.
    Unexplained,
}

/// Positions `from` to `to` of one recorded root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Block {
    /// First.
    pub(super) from: Position,
    /// Last.
    pub(super) to: Position,
}

impl Finding {
    pub(super) fn of(what: What, from: Position, to: Position, why: impl Into<String>) -> Self {
        let (file, line, why) = (None, None, why.into());
        Self { what, from, to, block: Block::of(from), file, line, why }
    }

    pub(super) fn at(self, file: &Path, line: u64) -> Self {
        Self { file: Some(file.display().to_string()), line: Some(line), ..self }
    }
}

impl Block {
    /// The block of `position`.
    fn of(position: Position) -> Self {
        let to = position.next_multiple_of(ROOT_EVERY);
        Self { from: to.saturating_sub(ROOT_EVERY).saturating_add(1), to }
    }
}
