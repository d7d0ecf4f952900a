//! Snapshots: all rows of one position in one file, from which a new replica starts. Nothing reads half of one.
//!
//! ```text
//!  FOLDER/00000000000002000000.snapshot
//!     magic │ mark: length u32, bytes │ rows: key, length u32, bytes; … │ BLAKE3 of all before, 32 bytes
//! ```
//!
//! A file gets its name once it is whole and on the disk. It is believed if its hash, every row's checksum and the
//! sum of them are right; of which log it is, whoever starts from it has to find out.

use super::{
    checkpoint::{Checkpoint, Reading},
    keys,
    store::{Error, Mark, Store},
};
use crate::domain::{
    event::Position,
    ledger::{Ledger, Options},
    merkle::Hash,
};
use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

/// How a file begins: what it is, for people who look at it, and nothing else.
const MAGIC: &[u8] = b"bizrq snapshot\n";

/// How a file's name ends.
const SUFFIX: &str = ".snapshot";

/// No row is larger: what says so is damaged.
const MOST_BYTES: u32 = 1 << 30;

/// A folder of snapshots, the newest few of them.
#[derive(Clone, Debug)]
pub struct Snapshots {
    dir: PathBuf,
    keep: usize,
}

/// A snapshot that was written or looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The file.
    pub path: PathBuf,
    /// What its rows stand for.
    pub mark: Mark,
    /// Its length.
    pub bytes: u64,
}

impl Snapshots {
    /// The snapshots in `dir`, of which the newest `keep` are kept. The folder need not be there.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, keep: usize) -> Self {
        Self { dir: dir.into(), keep }
    }

    /// Copies what `store` holds, and removes the oldest; `None` where it holds nothing.
    ///
    /// # Errors
    /// [`Error`]; no half file is left under a snapshot's name.
    pub fn copy(&self, store: &impl Store) -> Result<Option<Snapshot>, Error> {
        let Some(mark) = store.mark()? else { return Ok(None) };
        let path = self.dir.join(name(mark.position()));
        fs::create_dir_all(&self.dir).map_err(|source| io_error(&self.dir, source))?;
        let snapshot = write(&path, mark, store)?;
        for (_, path) in self.list()?.iter().rev().skip(self.keep.max(1)) {
            fs::remove_file(path).map_err(|source| io_error(path, source))?;
        }
        Ok(Some(snapshot))
    }

    /// The ledger of the newest snapshot that can be read and whose position is `usable`; what cannot be read is
    /// passed over.
    #[must_use]
    pub fn newest(&self, options: Options, usable: impl Fn(Position) -> bool) -> Option<Ledger> {
        let list = self.list().ok()?;
        let usable = list.iter().rev().filter(|(position, _)| usable(*position));
        usable.filter_map(|(_, path)| read(path, options).ok()).next()
    }

    /// Every snapshot's position and file, the oldest first.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list(&self) -> Result<Vec<(Position, PathBuf)>, Error> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|source| io_error(&self.dir, source))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(|source| io_error(&self.dir, source))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let number = name.and_then(|name| name.strip_suffix(SUFFIX));
            found.extend(
                number.and_then(|n| n.parse().ok()).map(|position| (position, path.clone())),
            );
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// Writes a store's rows, which stand at `mark`, into a file of its own: whole, or not at all.
fn write(path: &Path, mark: Mark, store: &impl Store) -> Result<Snapshot, Error> {
    let half = path.with_extension("snapshot.new");
    let written = File::create(&half)
        .map_err(|source| io_error(&half, source))
        .and_then(|file| write_to(file, &half, &mark, store))
        .and_then(|bytes| {
            let named = fs::rename(&half, path).and_then(|()| sync_folder(path));
            named.map(|()| bytes).map_err(|source| io_error(path, source))
        });
    let bytes = written.inspect_err(|_| {
        // What is left of it is of no use; that it cannot be removed either is said by the same error.
        let _ = fs::remove_file(&half);
    })?;
    Ok(Snapshot { path: path.to_owned(), mark, bytes })
}

fn write_to(file: File, path: &Path, mark: &Mark, store: &impl Store) -> Result<u64, Error> {
    let io = |source| io_error(path, source);
    let mut out = Hashing { inner: BufWriter::new(file), hasher: blake3::Hasher::new(), bytes: 0 };
    out.write_all(MAGIC).map_err(io)?;
    write_bytes(&mut out, &keys::mark(mark)?).map_err(io)?;
    store.rows(&mut |key, bytes| {
        out.write_all(&keys::key(key)).map_err(io)?;
        write_bytes(&mut out, bytes).map_err(io)
    })?;
    let Hashing { mut inner, hasher, bytes } = out;
    inner.write_all(hasher.finalize().as_bytes()).map_err(io)?;
    let file = inner.into_inner().map_err(|error| io(error.into_error()))?;
    file.sync_all().map_err(io)?;
    Ok(bytes.saturating_add(32))
}

fn write_bytes(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(bytes)
}

/// The ledger that a snapshot holds.
///
/// # Errors
/// [`Error::Damaged`] when it is not what was written, or of a ledger with other options.
pub fn read(path: &Path, options: Options) -> Result<Ledger, Error> {
    let read = open(path).and_then(|file| read_from(file, options));
    let (ledger, _) = read.map_err(|error| match error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof => {
            Error::damaged(format!("{}: it ends early", path.display()))
        }
        Error::Io { source, .. } => io_error(path, source),
        Error::Damaged { why } => Error::damaged(format!("{}: {why}", path.display())),
        other => other,
    })?;
    Ok(ledger)
}

/// A file, and how many bytes of it are rows and what stands before them.
fn open(path: &Path) -> Result<(File, u64), Error> {
    let file = File::open(path).map_err(|source| io_error(path, source))?;
    let length = file.metadata().map_err(|source| io_error(path, source))?.len();
    Ok((file, length.saturating_sub(32)))
}

fn read_from((file, length): (File, u64), options: Options) -> Result<(Ledger, Checkpoint), Error> {
    let io = |source| io_error(Path::new(""), source);
    let mut file = BufReader::new(file);
    let mut body =
        Hashing { inner: (&mut file).take(length), hasher: blake3::Hasher::new(), bytes: 0 };
    let mut magic = [0; MAGIC.len()];
    body.read_exact(&mut magic).map_err(io)?;
    if magic != MAGIC {
        return Err(Error::damaged("it is no snapshot"));
    }
    let mut bytes = Vec::new();
    read_bytes(&mut body, &mut bytes)?;
    let mut reading = Reading::new(keys::read_mark(&bytes)?, options)?;
    while body.bytes < length {
        let mut key = [0; keys::KEY_BYTES];
        body.read_exact(&mut key).map_err(io)?;
        read_bytes(&mut body, &mut bytes)?;
        reading.row(keys::read_key(&key)?, &bytes)?;
    }
    let computed = Hash(*body.hasher.finalize().as_bytes());
    let mut recorded = Hash::default();
    file.read_exact(&mut recorded.0).map_err(io)?;
    if computed != recorded {
        return Err(Error::damaged(format!("its hash is {computed}, {recorded} was written")));
    }
    reading.finish()
}

fn read_bytes(input: &mut impl Read, bytes: &mut Vec<u8>) -> Result<(), Error> {
    let io = |source| io_error(Path::new(""), source);
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(io)?;
    let length = u32::from_be_bytes(length);
    if length > MOST_BYTES {
        return Err(Error::damaged(format!("a row of {length} bytes")));
    }
    bytes.clear();
    // Grows as bytes come: a length that is damaged takes no memory.
    let read = input.take(length.into()).read_to_end(bytes).map_err(io)?;
    if u32::try_from(read) != Ok(length) {
        return Err(io(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

/// Hashes and counts what goes through.
struct Hashing<T> {
    inner: T,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<T> Hashing<T> {
    fn note(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.note(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.note(bytes.get(..read).unwrap_or_default());
        Ok(read)
    }
}

fn name(position: Position) -> String {
    format!("{position:020}{SUFFIX}")
}

/// A rename is durable once the folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}
