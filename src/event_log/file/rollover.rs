//! Where one folder ends and the next begins. The old one gets a seal and takes no more records; the next one begins
//! with a `log.opened` at the next position.
//!
//! ```text
//! OLD/…, sealed ── position, root, next ──▶ NEXT/00000000000000004711.jsonl   its first line: log.opened
//! ```

use super::{FileLog, OpenError, Options, committer, make_folder, segments};
use crate::domain::{
    event::Position,
    merkle::{Frontier, Hash, LeafHasher},
};
use crate::event_log::{EventLog, NewEvent};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::Path,
};

/// Name of the seal's file.
pub const SEAL_FILE: &str = "sealed";
/// The first segment of a continued log, until it is whole.
pub(super) const BEGINNING: &str = "beginning";

/// Where a log was sealed, and which log goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// Position of the last record.
    pub position: Position,
    /// Root there.
    pub root: Hash,
    /// The log that goes on.
    pub next: String,
}

/// The seal of the log in `dir`, if it was rolled over.
///
/// # Errors
/// [`OpenError`] when it cannot be read.
pub fn seal_of(dir: &Path) -> Result<Option<Seal>, OpenError> {
    let path = dir.join(SEAL_FILE);
    let io = |source| OpenError::Io { path: path.clone(), source };
    match fs::read(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        read => serde_json::from_slice(&read.map_err(io)?).map(Some).map_err(|e| io(e.into())),
    }
}

/// Begins, in the folder `dir`, the log that continues `base` with `first`, its `log.opened`. There is a log with
/// this record, or none.
///
/// # Errors
/// [`OpenError`]; a folder that holds anything is left alone.
pub fn begin(dir: &Path, base: &Frontier, first: &NewEvent) -> Result<(), OpenError> {
    make_folder(dir)?;
    let _lock = super::lock(dir)?;
    if !segments::list(dir)?.is_empty() {
        return Err(segments::not_a_log(dir, "it is one already; give a new folder").into());
    }
    let position = base.position().saturating_add(1);
    let mut line = Vec::new();
    first.write_line(position, &mut LeafHasher::default(), &mut line);
    put(dir, BEGINNING, &segments::name(position), &line)
        .map_err(|source| OpenError::Io { path: dir.to_owned(), source })
}

/// Sees that the log in `dir` begins where `tree` ends.
///
/// # Errors
/// [`OpenError`] when it begins with anything else.
pub fn continues(dir: &Path, tree: &Frontier) -> Result<(), OpenError> {
    match super::base(dir)?.tree == *tree {
        true => Ok(()),
        false => {
            Err(segments::not_a_log(dir, "it continues another log; give a new folder").into())
        }
    }
}

/// Writes a file whole or not at all, durably.
fn put(dir: &Path, temporary: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = dir.join(temporary);
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, dir.join(name))?;
    committer::sync_folder(dir)
}

/// Ends the log in `dir` for ever: it takes no more records, and `next` goes on. Gives its tree.
///
/// # Errors
/// [`OpenError`]: it was rolled over to another place, has a writer, or `next` is something already.
pub async fn seal(dir: &Path, next: &Path) -> Result<Frontier, OpenError> {
    let next_name = std::path::absolute(next)
        .map_err(|source| OpenError::Io { path: next.to_owned(), source })?;
    let next_name = next_name.display().to_string();
    if let Some(Seal { position, root, next }) = seal_of(dir)? {
        let tree = FileLog::open_read(dir)?.tree().await?;
        let path = dir.to_owned();
        if next != next_name {
            return Err(OpenError::Sealed { path, position, next });
        }
        let (recorded, computed) = (root, tree.root());
        let same = tree.position() == position && recorded == computed;
        let path = path.join(SEAL_FILE);
        let differs = OpenError::RootDiffers { path, position, recorded, computed };
        return if same { Ok(tree) } else { Err(differs) };
    }
    // A log that is not there must not be made for that; and nothing ends before the next can begin.
    FileLog::open_read(dir)?;
    let log = FileLog::open(dir, &Options::default())?;
    make_folder(next)?;
    if !segments::list(next)?.is_empty() {
        return Err(segments::not_a_log(next, "it is a log already; give a new folder").into());
    }
    log.seal(next_name).await
}

impl FileLog {
    /// The lock is held until the seal is there, and nobody else has this writer: nothing comes in between.
    async fn seal(self, next: String) -> Result<Frontier, OpenError> {
        let tree = self.tree().await?;
        let seal = Seal { position: tree.position(), root: tree.root(), next };
        let io = |source| OpenError::Io { path: self.dir.join(SEAL_FILE), source };
        let text = serde_json::to_vec(&seal).map_err(|e| io(e.into()))?;
        put(&self.dir, "sealed.new", SEAL_FILE, &text).map_err(io)?;
        Ok(tree)
    }
}
