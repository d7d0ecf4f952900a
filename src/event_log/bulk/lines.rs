//! Lines of a stream in batches, numbered from 1, in bounded memory. The last one may lack its line break.

use crate::event_log::{
    ReadError, Records,
    codec::{DecodeError, MAX_LINE_BYTES},
};
use memchr::{memchr_iter, memrchr};
use std::{
    io::Read,
    path::{Path, PathBuf},
};

/// Bytes read at once, as from a log.
const CHUNK_BYTES: usize = 1 << 20;
/// Lines of a batch: what is kept of each takes a hundred bytes, however short it is.
const LINES: usize = 1 << 14;

/// Reads lines from a stream.
pub(super) struct LineReader {
    name: PathBuf,
    input: Box<dyn Read + Send>,
    next: u64,
    rest: Vec<u8>,
    /// Whole lines are left of what was read.
    more: bool,
    spare: Vec<u8>,
}

impl LineReader {
    pub(super) fn new(name: &Path, input: Box<dyn Read + Send>) -> Self {
        let (rest, spare) = Default::default();
        Self { name: name.to_owned(), input, next: 1, rest, more: false, spare }
    }

    /// The next lines; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Records>, ReadError> {
        loop {
            let mut bytes = std::mem::take(&mut self.spare);
            bytes.clear();
            bytes.reserve(CHUNK_BYTES.saturating_add(self.rest.len()));
            bytes.append(&mut self.rest);
            if !std::mem::take(&mut self.more) {
                let read = (&mut self.input).take(CHUNK_BYTES as u64).read_to_end(&mut bytes);
                let failed = |source| ReadError::Io { path: self.name.clone(), source };
                if read.map_err(failed)? == 0 {
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    bytes.push(b'\n');
                }
            }
            let full = memchr_iter(b'\n', &bytes).nth(LINES.saturating_sub(1));
            if let Some(last) = full.or_else(|| memrchr(b'\n', &bytes)) {
                self.rest = bytes.split_off(last.saturating_add(1));
                self.more = full.is_some() && memrchr(b'\n', &self.rest).is_some();
                let records = Records::from_lines(self.next, bytes);
                self.next = records.next_position();
                return Ok(Some(records));
            }
            self.rest = bytes;
            if self.rest.len() > MAX_LINE_BYTES {
                let why = DecodeError::TooLong { bytes: self.rest.len() }.into();
                let (path, line) = (self.name.clone(), self.next);
                return Err(ReadError::Line { path, line, position: line, why });
            }
        }
    }

    /// Takes a buffer back.
    pub(super) fn recycle(&mut self, spare: Vec<u8>) {
        self.spare = spare;
    }
}
