//! Fills an archive with compressed segments. A segment is there whole or not at all, and is never written again; what
//! was not finished goes on behind the last of them.

use crate::{
    domain::{
        event::Position,
        merkle::{Frontier, Hash, LeafHasher},
    },
    event_log::{
        NewEvent, OpenError,
        chain::Tip,
        file::{
            lock, make_folder_for_archive,
            roots::{self, ROOT_EVERY},
            segments,
        },
    },
};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};
use zstd::stream::write::Encoder;

/// Lines of one segment, before they are compressed.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Of compression: zstd's own default. Higher ones gain little on lines like these and cost a multiple.
const LEVEL: i32 = 3;

/// Writes one archive; it holds the folder's lock.
pub struct Packer {
    dir: PathBuf,
    segment: Option<Segment>,
    hasher: LeafHasher,
    line: Vec<u8>,
    roots: Vec<(Position, Hash)>,
    tip: Tip,
    _lock: File,
}

/// A segment that is being written, under another name.
struct Segment {
    first: Position,
    bytes: u64,
    encoder: Encoder<'static, File>,
}

impl Packer {
    /// Begins or continues the archive in `dir`; a folder that is missing is made.
    ///
    /// # Errors
    /// [`OpenError`]: it holds something else, or somebody else writes it.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        make_folder_for_archive(dir)?;
        let lock = lock(dir)?;
        let (segment, hasher, line, roots, tip) = Default::default();
        Ok(Self { dir: dir.to_owned(), segment, hasher, line, roots, tip, _lock: lock })
    }

    /// Notes a record that is there already, with the tree up to it.
    pub fn note(&mut self, tree: &Frontier, last_decision: Position) {
        if tree.position().is_multiple_of(ROOT_EVERY) {
            self.roots.push((tree.position(), tree.root()));
        }
        self.tip.tree.clone_from(tree);
        self.tip.last_decision = last_decision;
    }

    /// Adds the next record, at the position that `tree` reaches with it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn push(
        &mut self,
        event: &NewEvent,
        tree: &Frontier,
        last_decision: Position,
    ) -> io::Result<()> {
        self.note(tree, last_decision);
        let position = tree.position();
        self.line.clear();
        event.write_line(position, &mut self.hasher, &mut self.line);
        let segment = match &mut self.segment {
            Some(segment) => segment,
            none => none.insert(Segment::begin(&self.dir, position)?),
        };
        segment.encoder.write_all(&self.line)?;
        segment.bytes = segment.bytes.saturating_add(self.line.len() as u64);
        if segment.bytes >= SEGMENT_BYTES { self.end_segment() } else { Ok(()) }
    }

    /// The tree of what is there.
    #[must_use]
    pub const fn tree(&self) -> &Frontier {
        &self.tip.tree
    }

    /// Ends the archive as it is now, durably.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn finish(mut self) -> io::Result<Frontier> {
        self.end_segment()?;
        let end = (self.tip.position(), self.tip.tree.root());
        if self.roots.last() != Some(&end) {
            self.roots.push(end);
        }
        roots::write(&self.dir, &self.roots)?;
        roots::write_tip(&self.dir, &self.tip)?;
        File::open(&self.dir)?.sync_all()?;
        Ok(self.tip.tree)
    }

    fn end_segment(&mut self) -> io::Result<()> {
        let Some(Segment { first, encoder, .. }) = self.segment.take() else { return Ok(()) };
        encoder.finish()?.sync_all()?;
        fs::rename(new_name(&self.dir, first), self.dir.join(segments::packed_name(first)))?;
        File::open(&self.dir)?.sync_all()
    }
}

impl Segment {
    fn begin(dir: &Path, first: Position) -> io::Result<Self> {
        let mut encoder = Encoder::new(File::create(new_name(dir, first))?, LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(Self { first, bytes: 0, encoder })
    }
}

fn new_name(dir: &Path, first: Position) -> PathBuf {
    dir.join(format!("{}.new", segments::packed_name(first)))
}
