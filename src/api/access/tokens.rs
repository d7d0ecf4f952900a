//! Tokens of a file, of which it has the hashes alone: YAML, an entry a token, read again when it changes.
//!
//! ```yaml
//! - name: board of language       # for people
//!   sha256: 2f183a4e…             # printf %s "$TOKEN" | sha256sum
//!   groups: [language]            # these and all below them; ["*"] is everything
//! ```

use super::{Digest, digest};
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::SystemTime,
};

/// The largest file that is read: some thousand tokens.
const MOST_BYTES: u64 = 1 << 20;
/// Stands for every group; no group can be called so.
const EVERYTHING: &str = "*";

/// The tokens of a file.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    read: RwLock<Read>,
}

/// What was read, and what tells whether the file is still the same.
#[derive(Debug)]
struct Read {
    mark: (Option<SystemTime>, u64),
    /// `None`: everything.
    tops: HashMap<Digest, Option<Arc<[String]>>>,
}

/// Why a file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A line of it makes no sense.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Field, value and remedy.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// For people alone; that it is there is what counts.
    name: Spanned<String>,
    sha256: Spanned<String>,
    groups: Spanned<Vec<String>>,
}

impl Tokens {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { path: path.to_owned(), read: RwLock::new(read(path)?) })
    }

    /// Reads the file again if it has changed; whether it had. A file that cannot be used changes nothing.
    ///
    /// # Errors
    /// [`Error`]; the tokens are those of before.
    pub fn look(&self) -> Result<bool, Error> {
        let now = mark(&self.path).map_err(|source| failed(&self.path, source))?;
        if now == self.read.read().unwrap_or_else(PoisonError::into_inner).mark {
            return Ok(false);
        }
        let new = read(&self.path)?;
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(true)
    }

    /// The groups that a token shows with all below them, `Some(None)` for everything; `None`: it is not known here.
    pub(super) fn tops(&self, token: &str) -> Option<Option<Arc<[String]>>> {
        let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
        read.tops.get(&digest(token)).cloned()
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Read { path: path.to_owned(), source }
}

fn mark(path: &Path) -> io::Result<(Option<SystemTime>, u64)> {
    let metadata = fs::metadata(path)?;
    if metadata.len() > MOST_BYTES {
        let why = format!("it has {} bytes; at most {MOST_BYTES} are read", metadata.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok((metadata.modified().ok(), metadata.len()))
}

fn read(path: &Path) -> Result<Read, Error> {
    // A change between the two is seen by the next look.
    let mark = mark(path).map_err(|source| failed(path, source))?;
    let text = fs::read_to_string(path).map_err(|source| failed(path, source))?;
    let tops =
        parse(&text).map_err(|(line, why)| Error::Line { path: path.to_owned(), line, why })?;
    Ok(Read { mark, tops })
}

type Tops = HashMap<Digest, Option<Arc<[String]>>>;

/// The tokens of a text, or the line that makes no sense, and why.
fn parse(text: &str) -> Result<Tops, (u64, String)> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: 8, max_aliases: 100, max_anchors: 100 },
    };
    let entries: Option<Vec<Entry>> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let off = serde_saphyr::render_options! { snippets: serde_saphyr::SnippetMode::Off };
            let line = error.location().map_or(1, |location| location.line());
            (line, error.render_with_options(off))
        })?;
    let mut tops = Tops::new();
    for Entry { name, sha256, groups } in entries.unwrap_or_default() {
        let line = sha256.referenced.line();
        let wrong = |why: &str| (line, format!("sha256 of `{}`: {why}", name.value));
        let hash = hex(&sha256.value)
            .ok_or_else(|| wrong("is no SHA-256; give 64 digits, as sha256sum prints them"))?;
        if hash == digest("") || hash == digest("\n") {
            return Err(wrong("is that of no token at all; hash the token itself"));
        }
        let (line, groups) = (groups.referenced.line(), groups.value);
        let everything = groups.iter().any(|group| group == EVERYTHING);
        if groups.is_empty()
            || groups.iter().any(String::is_empty)
            || (everything && groups.len() > 1)
        {
            let why = "groups: name one at least, or `*` alone, which is everything";
            return Err((line, why.to_owned()));
        }
        if tops.insert(hash, (!everything).then(|| groups.into())).is_some() {
            return Err(wrong("stands above already; give each token one entry"));
        }
    }
    Ok(tops)
}

fn hex(text: &str) -> Option<Digest> {
    let digits = text.as_bytes();
    let byte = |pair: &[u8]| {
        let both = pair.iter().all(u8::is_ascii_hexdigit);
        u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|_| both)?, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    Digest::try_from(bytes?).ok().filter(|_| digits.len() == 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf abc | sha256sum`
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_file_says_what_each_token_shows() {
        let text = format!("- name: one\n  sha256: {ABC}\n  groups: [a, b]\n");
        let tops = parse(&text).unwrap();
        assert_eq!(tops[&digest("abc")].as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
        let all = parse(&text.replace("[a, b]", "['*']")).unwrap();
        assert_eq!(all[&digest("abc")], None);
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line() {
        let entry = |hash: &str, groups: &str| {
            format!("# tokens\n- name: one\n  sha256: {hash}\n  groups: {groups}\n")
        };
        let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for (text, line, words) in [
            (entry("abc", "[a]"), 3, "64 digits"),
            (entry(&ABC.replace('b', "+"), "[a]"), 3, "64 digits"),
            (entry(nothing, "[a]"), 3, "no token"),
            (entry(ABC, "[]"), 4, "one at least"),
            (entry(ABC, "['*', a]"), 4, "alone"),
            (entry(ABC, "['']"), 4, "one at least"),
            (format!("- {{sha256: {ABC}, groups: [a]}}"), 1, "name"),
            (entry(ABC, "[a]\n  group: b"), 5, "group"),
            (entry(ABC, "[a]") + &entry(ABC, "[b]"), 7, "above"),
        ] {
            let (at, why) = parse(&text).unwrap_err();
            assert!(why.contains(words), "{text}{why}");
            assert_eq!(at, line, "{text}{why}");
        }
    }
}
