//! Rows on disk: sled, one tree, rows by key and the mark behind them, both in one atomic batch.
//!
//! ```text
//!  DIR/lock             held by the one process that writes
//!  DIR/rows/            sled's files
//!  DIR/rows.damaged-7   what could not be believed, moved aside for people to look at: the newest three
//!  DIR/snapshots/       not ours (snapshot.rs)
//! ```
//!
//! sled may panic on files that are not as it wrote them, here or on a thread of its own. Everything that touches it
//! is called so that a panic is an error like others; what it gives back is proved by whoever reads the rows.

use super::{
    keys,
    store::{Batch, EachRow, Error, Mark, Store},
};
use crate::event_log::lock::{self, Lock};
use ::sled::{Config, Db, Mode};
use std::{
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// A folder with rows.
#[derive(Debug)]
pub struct SledStore {
    dir: PathBuf,
    /// `None` only while it is moved aside.
    db: Option<Db>,
    committed: u64,
    moved_aside: Option<String>,
    /// The lock ends with its handle, so also with a process that is killed.
    _lock: File,
}

/// Bytes of pages that sled keeps in memory: rows are read once, at the start, and then only written.
const CACHE_BYTES: u64 = 32 << 20;

/// So many folders that were moved aside are kept.
const KEEP_ASIDE: usize = 3;

/// sled's threads let go of their files a moment after the last handle is dropped: so often it is tried again …
const LOCK_TRIES: u32 = 500;
/// … after so long.
const LOCK_WAIT: Duration = Duration::from_millis(20);

const ROWS: &str = "rows";
const ASIDE: &str = "rows.damaged-";

impl SledStore {
    /// Opens the store in `dir` for looking at it: nothing is moved aside.
    ///
    /// # Errors
    /// [`Error::Locked`] where another process holds it, [`Error::Damaged`] where sled cannot open it, [`Error::Io`].
    pub fn open_as_it_is(dir: &Path) -> Result<Self, Error> {
        let rows = dir.join(ROWS);
        if !rows.exists() {
            return Err(io_error(&rows, io::ErrorKind::NotFound.into()));
        }
        let lock = lock(dir)?;
        let db = Some(open(&rows)?);
        Ok(Self { dir: dir.to_owned(), db, committed: 0, moved_aside: None, _lock: lock })
    }

    /// Opens the store in `dir`, which is made if need be. What sled cannot open is moved aside, and the store is empty.
    ///
    /// # Errors
    /// [`Error::Locked`] where another process holds it, [`Error::Io`].
    pub fn open(dir: &Path) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(|source| io_error(dir, source))?;
        let lock = lock(dir)?;
        let rows = dir.join(ROWS);
        let was_there = rows.exists();
        let mut store =
            Self { dir: dir.to_owned(), db: None, committed: 0, moved_aside: None, _lock: lock };
        let opened = open(&rows).and_then(|db| {
            store.db = Some(db);
            store.mark()
        });
        let why = match opened {
            Ok(Some(mark)) => {
                store.committed = mark.position();
                return Ok(store);
            }
            Ok(None) if !was_there => return Ok(store),
            Ok(None) => "nothing in it was ever committed".to_owned(),
            Err(error) => error.to_string(),
        };
        store.discard()?;
        store.moved_aside = Some(why);
        Ok(store)
    }

    fn db(&self) -> Result<&Db, Error> {
        self.db.as_ref().ok_or_else(|| Error::damaged("it was moved aside"))
    }
}

impl Store for SledStore {
    fn mark(&self) -> Result<Option<Mark>, Error> {
        let db = self.db()?;
        let bytes = guarded(|| db.get(keys::MARK_KEY))?;
        bytes.map(|bytes| keys::read_mark(&bytes)).transpose()
    }

    fn rows(&self, each: &mut EachRow<'_>) -> Result<(), Error> {
        let db = self.db()?;
        let mut all = guarded(|| Ok(db.iter()))?;
        while let Some((key, bytes)) = guarded(|| all.next().transpose())? {
            if key.as_ref() != keys::MARK_KEY.as_slice() {
                each(keys::read_key(&key)?, &bytes)?;
            }
        }
        Ok(())
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let (position, committed) = (batch.mark.position(), self.committed);
        if position < committed {
            return Err(Error::Backwards { position, committed });
        }
        let mut changes = ::sled::Batch::default();
        for (key, bytes) in batch.rows {
            changes.insert(&keys::key(key), bytes);
        }
        changes.insert(&keys::MARK_KEY, keys::mark(&batch.mark)?);
        let db = self.db()?;
        guarded(|| db.apply_batch(changes))?;
        // Not for safety: so that what waits in memory stays small, and a restart finds what was said to be kept.
        guarded(|| db.flush())?;
        self.committed = position;
        Ok(())
    }

    fn discard(&mut self) -> Result<(), Error> {
        if let Some(db) = self.db.take() {
            // What it still wants to write goes where it is moved.
            let _ = guarded(|| {
                drop(db);
                Ok(())
            });
        }
        move_aside(&self.dir)?;
        self.db = Some(open(&self.dir.join(ROWS))?);
        self.committed = 0;
        Ok(())
    }

    fn moved_aside(&self) -> Option<&str> {
        self.moved_aside.as_deref()
    }
}

/// Opens sled on a thread of its own: a panic of it ends there.
fn open(path: &Path) -> Result<Db, Error> {
    let config = Config::new()
        .path(path)
        .cache_capacity(CACHE_BYTES)
        .mode(Mode::HighThroughput)
        .flush_every_ms(None);
    for _ in 0..LOCK_TRIES {
        let config = config.clone();
        let opening = thread::Builder::new().name("store".to_owned()).spawn(move || config.open());
        let opening = opening.map_err(|source| io_error(path, source))?;
        match opening.join() {
            Ok(Err(::sled::Error::Io(error))) if is_held(&error) => thread::sleep(LOCK_WAIT),
            Ok(opened) => return opened.map_err(told),
            Err(_) => return Err(Error::damaged("sled panicked while it was opened")),
        }
    }
    Err(Error::damaged("sled's own lock is held, though ours is not"))
}

/// sled says so in words only.
fn is_held(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || error.to_string().contains("could not acquire lock")
}

/// Calls sled; a panic is damage like others.
fn guarded<T>(call: impl FnOnce() -> ::sled::Result<T>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => done.map_err(told),
        Err(_) => Err(Error::damaged("sled panicked")),
    }
}

fn told(error: ::sled::Error) -> Error {
    Error::damaged(format!("sled: {error}"))
}

/// Gives the rows' folder a name of its own, and removes the oldest of those that have one.
fn move_aside(dir: &Path) -> Result<(), Error> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(|source| io_error(dir, source))? {
        let name = entry.map_err(|source| io_error(dir, source))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(ASIDE)?.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    let path = |number: u64| dir.join(format!("{ASIDE}{number}"));
    let next = numbers.last().map_or(1, |last| last.saturating_add(1));
    match fs::rename(dir.join(ROWS), path(next)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        moved => moved.map_err(|source| io_error(dir, source))?,
    }
    for number in numbers.iter().rev().skip(KEEP_ASIDE.saturating_sub(1)) {
        let old = path(*number);
        fs::remove_dir_all(&old).map_err(|source| io_error(&old, source))?;
    }
    Ok(())
}

/// Takes the lock of the one process.
fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join("lock");
    match lock::take(&path) {
        Ok(Lock::Ours(file)) => Ok(file),
        Ok(Lock::Held(holder)) => Err(Error::Locked { path, holder }),
        Err(source) => Err(io_error(&path, source)),
    }
}

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}
