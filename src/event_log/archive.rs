//! An archive: a folder in the form of the file log, its segments compressed or not, and a manifest that says what it
//! is a copy of.
//!
//! ```text
//! DIR/0000….jsonl, roots, frontier    as of any file log: `bizrq-replay verify` reads it
//! DIR/0000….jsonl.zst                 the same lines, compressed: by `bizrq log archive`
//! DIR/manifest.json                   positions, root and frontier, versions, which log; written when all is copied
//! ```
//!
//! The manifest is a claim, and is judged by the records: an archive whose root is another is refused.

mod packer;

use super::survey::Survey;
use crate::domain::{
    event::Position,
    merkle::{Frontier, Hash},
    time::Timestamp,
};
pub use packer::Packer;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Name of the manifest's file.
pub const MANIFEST_FILE: &str = "manifest.json";

/// Why nothing is appended to an archive.
pub const TAKES_NONE: &str =
    "it is an archive, which takes no records; fill a log from it with `bizrq log import`";

/// Whether a folder is an archive that was finished.
#[must_use]
pub fn is_one(dir: &Path) -> bool {
    dir.join(MANIFEST_FILE).exists()
}

/// The format of manifests that this build writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// What an archive is a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Of this file.
    pub format: u32,
    /// The log that was copied, without what is secret.
    pub log: String,
    /// Position before the first record.
    pub base: Position,
    /// Position of the last record.
    pub position: Position,
    /// Position of the last decision record; 0 for none.
    pub last_decision: Position,
    /// Root at `position`.
    pub root: Hash,
    /// The tree at `position`.
    pub frontier: Frontier,
    /// The version of the log in force.
    pub version: u32,
    /// How many records of each type and version.
    pub types: BTreeMap<String, u64>,
    /// When it was written.
    pub exported_at: Timestamp,
}

/// Why a manifest is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The operating system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// It is none.
    #[error("{}: no manifest of an archive ({why}); export again, or remove it to go by the records alone", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        why: String,
    },
    /// Of a newer build.
    #[error("{}: a manifest of format {format}; this build reads up to {FORMAT}: use a newer bizrq", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
}

/// An archive is not what its manifest says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Differs {
    /// It ends elsewhere.
    #[error(
        "its last record is at position {found}, the manifest says {stated}: {}",
        if found < stated { "records are missing at the end; restore them from a copy" }
        else { "an export was not finished; run it again" }
    )]
    End {
        /// In the manifest.
        stated: Position,
        /// In the folder.
        found: Position,
    },
    /// It has other records.
    #[error(
        "its records up to position {position} give root {found}, the manifest says {stated}: records were changed; restore the archive from a copy"
    )]
    Root {
        /// Where.
        position: Position,
        /// In the manifest.
        stated: Hash,
        /// From the records.
        found: Hash,
    },
}

impl Manifest {
    /// Of a log that was read from its first record to its last.
    #[must_use]
    pub fn new(log: &str, survey: &Survey, at: Timestamp) -> Self {
        Self {
            format: FORMAT,
            log: log.to_owned(),
            base: survey.base.position(),
            position: survey.tree.position(),
            last_decision: survey.last_decision,
            root: survey.tree.root(),
            frontier: survey.tree.clone(),
            version: survey.version,
            types: survey.types.clone(),
            exported_at: at,
        }
    }

    /// Reads the manifest of the archive in `dir`, if it has one.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn read(dir: &Path) -> Result<Option<Self>, ManifestError> {
        let path = dir.join(MANIFEST_FILE);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| ManifestError::Io { path: path.clone(), source })?,
        };
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let malformed = |why: serde_json::Error| {
            let why = why.to_string();
            ManifestError::Malformed { path: path.clone(), why }
        };
        let Format { format } = serde_json::from_slice(&bytes).map_err(malformed)?;
        if format > FORMAT {
            return Err(ManifestError::Newer { path, format });
        }
        serde_json::from_slice(&bytes).map(Some).map_err(malformed)
    }

    /// Writes it into the archive in `dir`: all or nothing, by renaming, and durably.
    ///
    /// # Errors
    /// [`ManifestError::Io`].
    pub fn write(&self, dir: &Path) -> Result<(), ManifestError> {
        let path = dir.join(MANIFEST_FILE);
        let new = dir.join(format!("{MANIFEST_FILE}.new"));
        let write = || {
            let mut file = File::create(&new)?;
            writeln!(file, "{}", serde_json::to_string_pretty(self)?)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(dir)?.sync_all()
        };
        write().map_err(|source| ManifestError::Io { path: path.clone(), source })
    }

    /// Compares it with the tree of the records that are there.
    ///
    /// # Errors
    /// [`Differs`].
    pub fn bears_out(&self, tree: &Frontier) -> Result<(), Differs> {
        let (stated, found) = (self.position, tree.position());
        if stated != found {
            return Err(Differs::End { stated, found });
        }
        let (position, stated, found) = (stated, self.root, tree.root());
        if stated == found { Ok(()) } else { Err(Differs::Root { position, stated, found }) }
    }
}
