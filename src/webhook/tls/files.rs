//! Certificates from files, taken over while the server runs. The files are looked at, not watched: a mounted Secret
//! changes by a turn of symbolic links that watchers miss, and two small reads every ten seconds cost nothing.
//!
//! A pair is taken when the key belongs to the certificate and its time is now. A pair of which one file is new and
//! the other is not is therefore waited for; if it stays so, somebody is told.

use super::{Current, Pair, PairError};
use crate::domain::time::Timestamp;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The files are looked at so often.
pub const EVERY: Duration = Duration::from_secs(10);

/// Two files, and what was last found in them.
#[derive(Debug)]
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    current: Arc<Current>,
    /// What is shown.
    taken: Option<Content>,
    /// What was bad at the last look; perhaps only half written.
    doubted: Option<Content>,
    /// What somebody was told about: nobody is told twice.
    told: Option<Content>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// What came of a look at the files.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing new.
    Same,
    /// A new pair is shown; it holds until then.
    Taken {
        /// When it ends.
        until: Timestamp,
    },
    /// Something new that cannot be shown, perhaps because it is being written. The old pair stays.
    Doubted,
}

/// Why files hold no pair.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// They can be read.
    #[error("{} and {}: {why}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
        /// What is wrong.
        why: PairError,
    },
}

impl Files {
    /// Takes the pair that the files hold now.
    ///
    /// # Errors
    /// [`FilesError`]: without a pair nothing can be served.
    pub fn open(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        current: Arc<Current>,
        now: Timestamp,
    ) -> Result<Self, FilesError> {
        let (certificate, key) = (certificate.into(), key.into());
        let mut files = Self { certificate, key, current, taken: None, doubted: None, told: None };
        let content = files.read()?;
        files.take(content, now)?;
        Ok(files)
    }

    /// Looks again.
    ///
    /// # Errors
    /// [`FilesError::Pair`], once for each content that is still bad at a second look; [`FilesError::Read`] at each
    /// look. The old pair stays.
    pub fn look(&mut self, now: Timestamp) -> Result<Look, FilesError> {
        let content = self.read()?;
        if self.taken.as_ref() == Some(&content) {
            return Ok(Look::Same);
        }
        // What is bad today may be good tomorrow: a certificate whose time comes.
        match self.take(content.clone(), now) {
            Ok(until) => Ok(Look::Taken { until }),
            Err(_) if self.told.as_ref() == Some(&content) => Ok(Look::Same),
            Err(error) if self.doubted.as_ref() == Some(&content) => {
                self.told = Some(content);
                Err(error)
            }
            Err(_) => {
                self.doubted = Some(content);
                Ok(Look::Doubted)
            }
        }
    }

    fn read(&self) -> Result<Content, FilesError> {
        let read = |path: &Path| {
            fs::read(path).map_err(|source| FilesError::Read { path: path.to_owned(), source })
        };
        Ok(Content { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    fn take(&mut self, content: Content, now: Timestamp) -> Result<Timestamp, FilesError> {
        let pair = Pair::parse(&content.certificate, &content.key, now).map_err(|why| {
            let (certificate, key) = (self.certificate.clone(), self.key.clone());
            FilesError::Pair { certificate, key, why }
        })?;
        let until = pair.validity().until;
        self.current.show(pair);
        (self.taken, self.doubted, self.told) = (Some(content), None, None);
        Ok(until)
    }
}
