//! Cuts a stream of JSON text into objects, so that only one of them is in memory at a time.
//!
//! Objects stand one after the other, on lines of their own or not. Of an object with a top-level array `items` (a
//! `List`) the items come out one by one. Braces and strings are counted here; whether an object is good JSON is for
//! its reader to say.

use memchr::{memchr_iter, memchr2};
use serde::Deserialize;
use std::{
    borrow::Cow,
    io::{self, Read},
};

/// Largest object that is read; the API server's own limit is below 3 MiB.
pub const MAX_OBJECT: usize = 16 << 20;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// What is wrong with the text.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The reader failed.
    #[error("cannot be read on: {0}")]
    Io(#[from] io::Error),
    /// Something else than an object.
    #[error(
        "byte 0x{0:02x} where an object should begin with `{{`; give what `kubectl get KIND -A -o json --watch \
         --output-watch-events` prints, as UTF-8"
    )]
    NoObject(u8),
    /// Too large.
    #[error(
        "the object that begins here is larger than 16 MiB; no Kubernetes object is, so delete it"
    )]
    TooLarge,
    /// The text ends within an object.
    #[error("the text ends within the object that begins here; delete this incomplete object")]
    Truncated,
    /// No good JSON, or a value of the wrong type.
    #[error("{0}; record the object again, or delete it")]
    Json(String),
}

/// An object's text and place.
pub struct Object<'t> {
    /// The text, from `{` to `}`.
    pub text: &'t [u8],
    /// The line that it begins on, from 1.
    pub line: u64,
    /// Of an item: the kind that the list's name gives it (`Pod` for `PodList`), if the list has named itself.
    pub listed_as: Option<&'t str>,
}

/// The objects of a text.
pub struct Objects<R> {
    input: R,
    buffer: Vec<u8>,
    /// What is before this is done with.
    start: usize,
    line: u64,
    ended: bool,
    /// Within `items` of a list: its items' kind, or empty.
    list: Option<String>,
}

/// How far into an object the scan is.
#[derive(Default)]
struct Scan {
    at: usize,
    depth: u32,
    in_string: bool,
}

/// Where a scan stopped.
enum Stop {
    /// Behind the object.
    Whole(usize),
    /// Behind the `[` of a list's items.
    Items(usize),
}

/// What a list says of itself.
#[derive(Deserialize)]
struct ListHead<'t> {
    #[serde(borrow, default)]
    kind: Option<Cow<'t, str>>,
}

impl<R: Read> Objects<R> {
    /// The objects that `input` holds.
    pub fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), start: 0, line: 1, ended: false, list: None }
    }

    /// The line that is being read, from 1.
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// The next object; `None` behind the last.
    ///
    /// # Errors
    /// [`Problem`]; [`Self::line`] is where.
    pub fn next_object(&mut self) -> Result<Option<Object<'_>>, Problem> {
        loop {
            let Some(byte) = self.skip_to_value()? else {
                let open = self.list.is_some();
                return if open { Err(Problem::Truncated) } else { Ok(None) };
            };
            match (byte, self.list.is_some()) {
                (b'{', _) => {}
                (b']', true) => {
                    self.end_list()?;
                    continue;
                }
                (other, _) => return Err(Problem::NoObject(other)),
            }
            match self.scan(Scan::default(), self.list.is_none())? {
                Stop::Items(end) => self.begin_list(end)?,
                Stop::Whole(end) => {
                    let (line, from) = (self.line, self.start);
                    self.advance(end);
                    let text = self.buffer.get(from..end).unwrap_or_default();
                    let listed_as = self.list.as_deref().filter(|k| !k.is_empty());
                    return Ok(Some(Object { text, line, listed_as }));
                }
            }
        }
    }

    /// Drops white space (and commas between items); the byte that follows, `None` at the end.
    fn skip_to_value(&mut self) -> Result<Option<u8>, Problem> {
        loop {
            let rest = self.buffer.get(self.start..).unwrap_or_default();
            let skipped = |b: &u8| {
                matches!(b, b' ' | b'\n' | b'\r' | b'\t') || (*b == b',' && self.list.is_some())
            };
            if let Some(n) = rest.iter().position(|b| !skipped(b)) {
                let byte = rest.get(n).copied();
                self.advance(self.start.saturating_add(n));
                return Ok(byte);
            }
            self.advance(self.buffer.len());
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Counts braces from `self.start` on until the object is whole.
    fn scan(&mut self, mut scan: Scan, list_possible: bool) -> Result<Stop, Problem> {
        loop {
            let object = self.buffer.get(self.start..).unwrap_or_default();
            if let Some(stop) = scan.over(object, list_possible) {
                return Ok(match stop {
                    Stop::Whole(n) => Stop::Whole(self.start.saturating_add(n)),
                    Stop::Items(n) => Stop::Items(self.start.saturating_add(n)),
                });
            }
            if object.len() >= MAX_OBJECT {
                return Err(Problem::TooLarge);
            }
            if !self.fill()? {
                return Err(Problem::Truncated);
            }
        }
    }

    /// Behind the `[` of `items`: the head so far says what the items are, if the list began with its kind.
    fn begin_list(&mut self, end: usize) -> Result<(), Problem> {
        let mut head = self.buffer.get(self.start..end).unwrap_or_default().to_vec();
        head.extend(b"]}");
        let kind = list_kind(&head)?;
        self.advance(end);
        self.list = Some(kind);
        Ok(())
    }

    /// Behind the last item: the rest of the list's own object.
    fn end_list(&mut self) -> Result<(), Problem> {
        self.list = None;
        // The scan begins at the `]` as if within the object's own level: two closing brackets leave it.
        let Stop::Whole(end) = self.scan(Scan { depth: 2, ..Scan::default() }, false)? else {
            return Err(Problem::Truncated);
        };
        let mut tail = b"{\"items\":[".to_vec();
        tail.extend(self.buffer.get(self.start..end).unwrap_or_default());
        list_kind(&tail)?;
        self.advance(end);
        Ok(())
    }

    /// Everything before `to` is done with.
    fn advance(&mut self, to: usize) {
        let done = self.buffer.get(self.start..to).unwrap_or_default();
        let lines = memchr_iter(b'\n', done).count();
        self.line = self.line.saturating_add(u64::try_from(lines).unwrap_or(u64::MAX));
        self.start = to;
    }

    /// Reads more; `false` at the end.
    fn fill(&mut self) -> Result<bool, Problem> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let old = self.buffer.len();
        self.buffer.resize(old.saturating_add(CHUNK), 0);
        let read = loop {
            match self.input.read(self.buffer.get_mut(old..).unwrap_or_default()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let read = read.inspect_err(|_| self.buffer.truncate(old))?;
        self.buffer.truncate(old.saturating_add(read));
        self.ended = read == 0;
        Ok(read > 0)
    }
}

impl Scan {
    /// Goes on over `object`; `None` when it is not whole yet.
    fn over(&mut self, object: &[u8], list_possible: bool) -> Option<Stop> {
        while let Some(rest) = object.get(self.at..).filter(|r| !r.is_empty()) {
            if self.in_string {
                let n = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                match rest.get(n..) {
                    Some([b'"', ..]) => {
                        self.in_string = false;
                        self.at = self.at.saturating_add(n).saturating_add(1);
                    }
                    Some([b'\\', _, ..]) => self.at = self.at.saturating_add(n).saturating_add(2),
                    // The byte behind a backslash is not here yet: come back to the backslash.
                    _ => {
                        self.at = self.at.saturating_add(n);
                        return None;
                    }
                }
                continue;
            }
            let structural = |b: &u8| matches!(b, b'"' | b'{' | b'}' | b'[' | b']');
            let n = rest.iter().position(structural).unwrap_or(rest.len());
            self.at = self.at.saturating_add(n).saturating_add(1).min(object.len());
            match rest.get(n) {
                Some(b'"') => self.in_string = true,
                Some(b'[') if list_possible && self.depth == 1 && names_items(object, self.at) => {
                    return Some(Stop::Items(self.at));
                }
                Some(b'{' | b'[') => self.depth = self.depth.saturating_add(1),
                Some(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(Stop::Whole(self.at));
                    }
                }
                None => {}
            }
        }
        None
    }
}

/// Whether the text before the `[` that ends at `at` is the key `"items":`.
fn names_items(object: &[u8], at: usize) -> bool {
    let before = object.get(..at).and_then(|b| b.strip_suffix(b"["));
    let key = before.map(<[u8]>::trim_ascii_end).and_then(|b| b.strip_suffix(b":"));
    let before = key.map(<[u8]>::trim_ascii_end).and_then(|b| b.strip_suffix(b"\"items\""));
    before.is_some_and(|b| !b.ends_with(b"\\"))
}

/// The kind of the items of a list, from its text with the items taken out; empty when it does not say.
fn list_kind(list: &[u8]) -> Result<String, Problem> {
    let head: ListHead<'_> =
        serde_json::from_slice(list).map_err(|e| Problem::Json(e.to_string()))?;
    let kind = head.kind.unwrap_or_default();
    Ok(kind.strip_suffix("List").unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Cut = (u64, String, String);

    /// Every object of `text` as (line, kind by the list, text), read in pieces of `step` bytes.
    fn cut(text: &[u8], step: usize) -> Result<Vec<Cut>, (u64, Problem)> {
        struct Drip<'t>(&'t [u8], usize);
        impl Read for Drip<'_> {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let n = self.1.min(self.0.len()).min(into.len());
                into[..n].copy_from_slice(&self.0[..n]);
                self.0 = &self.0[n..];
                Ok(n)
            }
        }
        let mut objects = Objects::new(Drip(text, step));
        let mut found = Vec::new();
        loop {
            match objects.next_object() {
                Ok(None) => return Ok(found),
                Ok(Some(o)) => found.push((
                    o.line,
                    o.listed_as.unwrap_or_default().to_owned(),
                    String::from_utf8_lossy(o.text).into_owned(),
                )),
                Err(problem) => return Err((objects.line(), problem)),
            }
        }
    }

    #[test]
    fn objects_come_out_whole_whatever_the_reader_gives_at_once() {
        let text = b"{\"a\":\"}{\\\"\"}\n\n  {\"b\":[{},\n{\"c\\\\\":[]}]}{}";
        for step in [1, 2, 3, 7, 1000] {
            let found = cut(text, step).unwrap();
            let texts: Vec<_> = found.iter().map(|(line, _, t)| (*line, &**t)).collect();
            let expected =
                [(1, "{\"a\":\"}{\\\"\"}"), (3, "{\"b\":[{},\n{\"c\\\\\":[]}]}"), (4, "{}")];
            assert_eq!(texts, expected);
        }
    }

    #[test]
    fn items_of_a_list_come_out_one_by_one() {
        let list = b"{\"kind\":\"PodList\",\"metadata\":{\"items\":[1]},\"items\":[\n{\"x\":{}},{\"items\":[{}]}],\"z\":0} {}";
        for step in [1, 5, 1000] {
            let found = cut(list, step).unwrap();
            assert_eq!(found[0], (2, "Pod".into(), "{\"x\":{}}".into()));
            assert_eq!(found[1], (2, "Pod".into(), "{\"items\":[{}]}".into()));
            assert_eq!(found[2], (2, String::new(), "{}".into()));
        }
        let kubectl = b"{\"apiVersion\":\"v1\",\"items\":[{}],\"kind\":\"List\"}";
        assert_eq!(cut(kubectl, 9).unwrap(), [(1, String::new(), "{}".into())]);
        assert_eq!(cut(b"{\"items\":[]}", 1).unwrap(), []);
        assert_eq!(cut(b"{\"x\\\"items\":[{}]}", 1).unwrap().len(), 1, "another key");
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_line() {
        assert!(matches!(cut(b"{}\n\n[]", 3), Err((3, Problem::NoObject(b'[')))));
        assert!(matches!(cut(b"\0\0\0", 3), Err((1, Problem::NoObject(0)))));
        assert!(matches!(cut(b"{}\n}", 3), Err((2, Problem::NoObject(b'}')))));
        assert!(matches!(cut(b"\xff\xfe{", 3), Err((1, Problem::NoObject(0xff)))));
        assert!(matches!(cut(b"{\"items\":[1]}", 3), Err((1, Problem::NoObject(b'1')))));
    }

    #[test]
    fn an_end_within_an_object_is_refused_with_the_line_of_its_beginning() {
        for text in
            ["{}\n{\"a\":\n1", "{}\n{\"a\":\"\n\\", "{}\n{\"items\":[", "{}\n{\"items\":[{}]"]
        {
            assert!(matches!(cut(text.as_bytes(), 4), Err((2, Problem::Truncated))), "{text}");
        }
    }

    #[test]
    fn an_object_beyond_the_limit_is_refused_before_it_is_read_to_its_end() {
        let endless = io::Cursor::new(b"{\"a\":\"").chain(io::repeat(b'x'));
        let mut objects = Objects::new(endless);
        assert!(matches!(objects.next_object(), Err(Problem::TooLarge)));
        assert!(objects.buffer.capacity() <= 3 * MAX_OBJECT);
    }

    #[test]
    fn a_list_may_be_larger_than_any_object() {
        let item = format!("{{\"a\":\"{}\"}},", "x".repeat(1 << 20));
        let list =
            io::Cursor::new("{\"items\":[".to_owned()).chain(io::Cursor::new(item.repeat(20)));
        let mut objects = Objects::new(list.chain(io::Cursor::new("{}]}")));
        let mut count = 0;
        while objects.next_object().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 21);
    }
}
