//! The lock of a folder that one process writes. It ends with the file handle, so also with a process that is killed.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Write},
    path::Path,
    thread::sleep,
    time::Duration,
};

/// Who has the lock now.
#[derive(Debug)]
pub enum Lock {
    /// We do, as long as this is open.
    Ours(File),
    /// Another process, as it calls itself.
    Held(String),
}

/// Another look after so long …
const AGAIN: Duration = Duration::from_millis(10);
/// … so often: a process that is just being started has copies of its parent's handles until its own program runs,
/// and with them a lock that the parent already gave back.
const LOOKS: u32 = 50;

/// Takes the lock at `path` and notes there who holds it.
///
/// # Errors
/// What the operating system says.
pub fn take(path: &Path) -> io::Result<Lock> {
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    let mut looks = 0;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if looks < LOOKS => sleep(AGAIN),
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.take(64).read_to_string(&mut holder)?;
                return Ok(Lock::Held(holder.trim().to_owned()));
            }
        }
        looks += 1;
    }
    file.set_len(0)?;
    writeln!(file, "process {}", std::process::id())?;
    Ok(Lock::Ours(file))
}
