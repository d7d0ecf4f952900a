//! Notices beside an embedded log: a file in its folder, a line each. The folder has one writer, so a line that is on
//! disk is a notice that was told; half a line at the end is one that was not.

use super::{
    Error,
    notice::{Notice, Told},
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// Beside the segments, whose names are numbers.
const NAME: &str = "notices.jsonl";

/// What was told.
#[derive(Debug)]
pub struct Notices {
    path: PathBuf,
    file: File,
    /// How long the file is up to its last whole line.
    end: u64,
}

impl Notices {
    /// The file in `dir`, made if it is not there, and what it says.
    pub(super) fn open(dir: &Path) -> Result<(Self, Told), Error> {
        let path = dir.join(NAME);
        let opened = read(&path);
        let (file, told, end) =
            opened.map_err(|source| Error::File { path: path.clone(), source })?;
        Ok((Self { path, file, end }, told))
    }

    /// Nobody else writes here: what follows what was read is new.
    pub(super) fn tell(&mut self, notice: &Notice) -> Result<(), Error> {
        let written = self.write(notice);
        self.end = written.map_err(|source| Error::File { path: self.path.clone(), source })?;
        Ok(())
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

/// Takes what was told beside the log in `from` along to the one in `to` that continues it, unless there is something
/// already: nobody is told anew because a log was rolled over.
pub(super) fn carry(from: &Path, to: &Path) -> Result<(), Error> {
    let (source, target) = (from.join(NAME), to.join(NAME));
    if !source.exists() || target.exists() {
        return Ok(());
    }
    let new = to.join("notices.new");
    let carried = fs::copy(&source, &new)
        .and_then(|_| File::open(&new)?.sync_all())
        .and_then(|()| fs::rename(&new, &target))
        .and_then(|()| File::open(to)?.sync_all());
    carried.map_err(|source| Error::File { path: target, source })
}

fn read(path: &Path) -> io::Result<(File, Told, u64)> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    if let Some(dir) = path.parent() {
        // A file that is new is in its folder, too, before anything in it counts.
        File::open(dir)?.sync_all()?;
    }
    let (mut told, mut end, mut line) = (Told::default(), 0_u64, Vec::new());
    let mut lines = BufReader::new(&file);
    for number in 1_u64.. {
        line.clear();
        let length = lines.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            break;
        }
        let notice = serde_json::from_slice(&line);
        let wrong = |error| io::Error::other(format!("line {number} is no notice: {error}"));
        told.note(notice.map_err(wrong)?);
        end = end.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }
    Ok((file, told, end))
}

#[cfg(test)]
mod tests;
