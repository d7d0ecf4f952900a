//! What a file log keeps beside its segments: `roots` (one line `position root` every 1,024 positions and on
//! close) and `frontier` (the tree at the newest of these lines, so that opening need not read everything).
//!
//! Both follow from the segments and are written after them. `roots` is for auditors: a line that does not
//! match shows which records were changed. `frontier` is only believed if `roots` has its root.

use super::OpenError;
use crate::domain::{event::Position, merkle::Hash};
use crate::event_log::chain::Tip;
use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

/// Positions between two lines of `roots`.
pub const ROOT_EVERY: u64 = 1024;
/// Name of the file of roots.
pub const ROOTS_FILE: &str = "roots";
/// Name of the file of the frontier.
pub const FRONTIER_FILE: &str = "frontier";

/// The recorded roots of a log, ascending by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    entries: Vec<(Position, Hash)>,
    /// Bytes of the whole lines; what follows is half a line of a writer that was killed.
    pub(super) good_bytes: u64,
}

impl Roots {
    /// Reads the file `roots` of the log in `dir`; an absent file has no lines.
    ///
    /// # Errors
    /// [`OpenError`] for a line that is no `position root` or does not ascend.
    pub fn read(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(ROOTS_FILE);
        let bytes = match fs::read(&path) {
            // That a folder is none is said by who lists its segments.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Self::default());
            }
            read => read.map_err(|source| OpenError::Io { path: path.clone(), source })?,
        };
        let mut roots = Self::default();
        for (line, bytes) in (1_u64..).zip(bytes.split_inclusive(|b| *b == b'\n')) {
            let Some(bytes) = bytes.strip_suffix(b"\n") else { break };
            let last = roots.last_position();
            let entry = parse(bytes).filter(|(position, _)| *position > last);
            let entry = entry.ok_or_else(|| OpenError::Roots { path: path.clone(), line })?;
            roots.entries.push(entry);
            roots.good_bytes = roots.good_bytes.saturating_add(bytes.len() as u64 + 1);
        }
        Ok(roots)
    }

    /// The root that was recorded at `position`.
    #[must_use]
    pub fn get(&self, position: Position) -> Option<Hash> {
        let at = self.entries.binary_search_by_key(&position, |(p, _)| *p).ok()?;
        self.entries.get(at).map(|(_, root)| *root)
    }

    /// Position of the last line; 0 for none.
    #[must_use]
    pub fn last_position(&self) -> Position {
        self.entries.last().map_or(0, |(position, _)| *position)
    }

    /// Every line, ascending.
    #[must_use]
    pub fn entries(&self) -> &[(Position, Hash)] {
        &self.entries
    }
}

/// One line: position, blank, root.
fn parse(line: &[u8]) -> Option<(Position, Hash)> {
    let (position, root) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some((position.parse().ok()?, root.parse().ok()?))
}

/// Reads the tip that was stored with the newest line of `roots`; whatever is absent or malformed is
/// `None`, because it can be computed.
pub(super) fn read_tip(dir: &Path) -> Option<Tip> {
    let bytes = fs::read(dir.join(FRONTIER_FILE)).ok()?;
    let tip: Tip = serde_json::from_slice(&bytes).ok()?;
    (tip.last_decision <= tip.position()).then_some(tip)
}

/// Stores a tip: all or nothing, by renaming.
pub(in crate::event_log) fn write_tip(dir: &Path, tip: &Tip) -> io::Result<()> {
    let new = dir.join(format!("{FRONTIER_FILE}.new"));
    fs::write(&new, serde_json::to_vec(tip)?)?;
    fs::rename(new, dir.join(FRONTIER_FILE))
}

/// Writes all lines of `roots`: all or nothing, by renaming.
pub(in crate::event_log) fn write(dir: &Path, entries: &[(Position, Hash)]) -> io::Result<()> {
    let lines: String =
        entries.iter().map(|(position, root)| format!("{position} {root}\n")).collect();
    let new = dir.join(format!("{ROOTS_FILE}.new"));
    fs::write(&new, lines)?;
    fs::File::open(&new)?.sync_all()?;
    fs::rename(new, dir.join(ROOTS_FILE))
}
