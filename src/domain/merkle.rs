//! The log as a Merkle tree: leaves, the frontier that grows it, its root. Shape of RFC 6962, hash BLAKE3.
//!
//! ```text
//!            root(7)                 leaf(n) = H(0x00 ‖ n ‖ attributes and data, each with its length)
//!          ┌────┴─────┐              node    = H(0x01 ‖ left ‖ right)
//!        1..4       ┌─┴──┐           empty   = H()
//!       ┌─┴──┐     5..6   7          frontier(7) = [1..4, 5..6, 7]: the complete trees, largest first
//! ```
//!
//! It keeps no leaves: a frontier is at most 64 hashes. Proofs are in [`proof`].

pub mod proof;

use super::{event::Position, text::hex8};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// 32 bytes of BLAKE3; written as 64 lower-case hex digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

/// What a leaf covers beside its position: the decoded attribute strings and the exact bytes of `data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafInput<'a> {
    /// `id`.
    pub id: &'a str,
    /// `type`.
    pub type_name: &'a str,
    /// `source`.
    pub source: &'a str,
    /// `subject`.
    pub subject: &'a str,
    /// `time`, as it was written.
    pub time: &'a str,
    /// `recordedat`, as it was written.
    pub recorded_at: &'a str,
    /// The bytes of the `data` value.
    pub data: &'a [u8],
}

/// Makes leaves one after another in one buffer that is kept.
#[derive(Clone, Debug, Default)]
pub struct LeafHasher {
    buffer: Vec<u8>,
}

/// The tree so far: how many leaves, and the roots of its complete subtrees, largest first.
///
/// JSON form: `{"position":7,"hashes":["…","…","…"]}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    hashes: Vec<Hash>,
}

/// Why something is no hash or no frontier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not 64 hex digits.
    #[error("a hash is 64 lower-case hex digits, not `{0}`")]
    NotAHash(String),
    /// A frontier of that size has another number of hashes.
    #[error("a frontier at position {size} has {} hashes, not {found}", size.count_ones())]
    WrongFrontier {
        /// Leaves.
        size: u64,
        /// Hashes that were given.
        found: usize,
    },
}

impl LeafHasher {
    /// The leaf of the record at `position`.
    #[must_use]
    pub fn leaf(&mut self, position: Position, input: &LeafInput<'_>) -> Hash {
        let b = &mut self.buffer;
        b.clear();
        b.push(0x00);
        b.extend_from_slice(&position.to_be_bytes());
        let strings =
            [input.id, input.type_name, input.source, input.subject, input.time, input.recorded_at];
        for part in strings.map(str::as_bytes).into_iter().chain([input.data]) {
            // A record is at most 16 MiB, far below the 4 GiB that the length field can say.
            b.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
            b.extend_from_slice(part);
        }
        Hash(*blake3::hash(b).as_bytes())
    }
}

/// The inner node above `left` and `right`.
#[must_use]
pub fn node(left: &Hash, right: &Hash) -> Hash {
    let mut block = [0x01; 65];
    let (_, hashes) = block.split_at_mut(1);
    let (l, r) = hashes.split_at_mut(32);
    l.copy_from_slice(&left.0);
    r.copy_from_slice(&right.0);
    Hash(*blake3::hash(&block).as_bytes())
}

/// The root of the empty tree: BLAKE3 of nothing.
#[must_use]
pub fn empty_root() -> Hash {
    Hash(*blake3::hash(b"").as_bytes())
}

impl Frontier {
    /// Continues a tree of `size` leaves from the hashes that [`Self::hashes`] gave.
    ///
    /// # Errors
    /// [`Error::WrongFrontier`] when the number of hashes does not fit the size.
    pub fn resume(size: u64, hashes: Vec<Hash>) -> Result<Self, Error> {
        if u64::try_from(hashes.len()) == Ok(u64::from(size.count_ones())) {
            Ok(Self { size, hashes })
        } else {
            Err(Error::WrongFrontier { size, found: hashes.len() })
        }
    }

    /// Adds the next leaf: one inner hash on average.
    pub fn append(&mut self, leaf: Hash) {
        let mut hash = leaf;
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.hashes.pop() {
                hash = node(&left, &hash);
            }
        }
        self.hashes.push(hash);
        // A log of 2⁶⁴ records cannot be written.
        self.size = self.size.saturating_add(1);
    }

    /// The root of the tree.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut complete = self.hashes.iter().rev();
        let Some(smallest) = complete.next() else { return empty_root() };
        complete.fold(*smallest, |right, left| node(left, &right))
    }

    /// Number of leaves, which is the position of the last one.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.size
    }

    /// Roots of the complete subtrees, largest first; at most 64.
    #[must_use]
    pub fn hashes(&self) -> &[Hash] {
        &self.hashes
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.hex()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Hash {
    /// The 64 hex digits.
    #[must_use]
    pub fn hex(&self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'?');
        let mut text = [0; 64];
        let (pairs, _) = text.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(self.0) {
            *pair = [digit(byte >> 4), digit(byte & 0x0f)];
        }
        text
    }

    /// Reads 64 lower-case hex digits; `None` for anything else.
    #[must_use]
    pub fn from_hex(text: &[u8]) -> Option<Self> {
        let (digits, rest) = text.as_chunks::<8>();
        if digits.len() != 8 || !rest.is_empty() {
            return None;
        }
        let mut hash = [0; 32];
        let (words, _) = hash.as_chunks_mut::<4>();
        for (word, digits) in words.iter_mut().zip(digits) {
            *word = hex8(*digits)?.to_be_bytes();
        }
        Some(Self(hash))
    }
}

impl FromStr for Hash {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::from_hex(text.as_bytes())
            .ok_or_else(|| Error::NotAHash(text.chars().take(80).collect()))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return self.0.serialize(serializer);
        }
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Deserialize::deserialize(deserializer).map(Self);
        }
        let text = super::text::Text::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Frontier {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored { position: self.size, hashes: self.hashes.clone() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Frontier {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        Self::resume(stored.position, stored.hashes).map_err(de::Error::custom)
    }
}

/// The stored form of a [`Frontier`], before it is checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    position: u64,
    hashes: Vec<Hash>,
}

#[cfg(test)]
mod tests;
