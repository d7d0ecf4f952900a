//! Notices beside an embedded log: a file in its folder, a line each. The folder has one writer, so a line that is on
//! disk is a notice that was told; half a line at the end is one that was not.

use super::{Error, due::Notice};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// Beside the segments, whose names are numbers.
const NAME: &str = "notices.jsonl";

/// What was told.
#[derive(Debug)]
pub struct Notices {
    path: PathBuf,
    file: File,
    ids: BTreeSet<String>,
    /// How long the file is up to its last whole line.
    end: u64,
}

#[derive(Deserialize)]
struct Told {
    id: String,
}

impl Notices {
    pub(super) fn open(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(NAME);
        let opened = read(&path);
        let (file, ids, end) =
            opened.map_err(|source| Error::File { path: path.clone(), source })?;
        Ok(Self { path, file, ids, end })
    }

    pub(super) fn tell(&mut self, notice: &Notice) -> Result<bool, Error> {
        if self.ids.contains(&notice.id) {
            return Ok(false);
        }
        let written = self.write(notice);
        self.end = written.map_err(|source| Error::File { path: self.path.clone(), source })?;
        self.ids.insert(notice.id.clone());
        Ok(true)
    }

    fn write(&mut self, notice: &Notice) -> io::Result<u64> {
        let mut line = serde_json::to_vec(notice)?;
        line.push(b'\n');
        // What a failed attempt left behind is written over.
        self.file.set_len(self.end)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.file.stream_position()
    }
}

fn read(path: &Path) -> io::Result<(File, BTreeSet<String>, u64)> {
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    if let Some(dir) = path.parent() {
        // A file that is new is in its folder, too, before anything in it counts.
        File::open(dir)?.sync_all()?;
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1));
    let lines = text.get(..whole).unwrap_or_default();
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let ids = lines.map(|line| serde_json::from_slice(line).map(|told: Told| told.id));
    Ok((file, ids.collect::<Result<_, _>>()?, u64::try_from(whole).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
