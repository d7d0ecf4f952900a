//! What a log holds, counted while it is read: its tree, its types with their versions, its instants.
//!
//! It trusts nobody: the tree is computed from the records, and a log that does not begin at position 1 must begin
//! with the tree that it continues.

use super::{
    chain::continued,
    codec::{Decoded, Scanned, decode},
};
use crate::domain::{
    event::{Data, Event, Kind, Position},
    merkle::{Frontier, LeafHasher},
    time::Timestamp,
};
use std::collections::BTreeMap;

/// The records so far.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The tree before the first record.
    pub base: Frontier,
    /// All records, and what they continue.
    pub tree: Frontier,
    /// Position of the last decision record; 0 for none.
    pub last_decision: Position,
    /// Bytes of attributes and data.
    pub bytes: u64,
    /// Records of each full type name.
    pub types: BTreeMap<String, u64>,
    /// Earliest and latest instant at which a record was published.
    pub recorded: Option<(Timestamp, Timestamp)>,
    /// The newest version that may be written.
    pub version: u32,
    hasher: LeafHasher,
}

/// A log that begins later must say what it continues.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log begins at position {first}, but its first record is no `log.opened` with the tree before it; restore what came before"
)]
pub struct NoBase {
    /// First position.
    pub first: Position,
}

/// Names that are counted one by one: every known type in several versions. A log full of invented ones costs
/// no more than these.
const TYPES: usize = 256;
/// What is counted under a name is no longer than this.
const TYPE_BYTES: usize = 128;
/// Everything else.
const OTHER: &str = "other types";

impl Default for Survey {
    /// Of no record.
    fn default() -> Self {
        let (base, tree, hasher) = Default::default();
        let (last_decision, bytes, types, recorded) = Default::default();
        Self { base, tree, last_decision, bytes, types, recorded, version: 1, hasher }
    }
}

impl Survey {
    /// Takes the next record.
    ///
    /// # Errors
    /// [`NoBase`] for a first record that is not at 1 and continues nothing.
    pub fn take(&mut self, position: Position, scanned: &Scanned<'_>) -> Result<(), NoBase> {
        if self.tree.position() == 0 && position > 1 {
            let base = continued(scanned).filter(|tree| tree.position() == position - 1);
            self.base = base.ok_or(NoBase { first: position })?;
            self.tree = self.base.clone();
        }
        self.tree.append(self.hasher.leaf(position, &scanned.leaf_input()));
        if scanned.is_decision() {
            self.last_decision = position;
            self.version = self.version.max(raised(scanned).unwrap_or(1));
        }
        self.bytes = self.bytes.saturating_add(bytes(scanned));
        self.count(&scanned.type_name);
        if let Ok(at) = Timestamp::parse(&scanned.recorded_at) {
            let (from, to) = self.recorded.unwrap_or((at, at));
            self.recorded = Some((from.min(at), to.max(at)));
        }
        Ok(())
    }

    /// Records that were taken.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.tree.position().saturating_sub(self.base.position())
    }

    fn count(&mut self, name: &str) {
        let name = match self.types.len() < TYPES && name.len() <= TYPE_BYTES {
            true => name,
            false if self.types.contains_key(name) => name,
            false => OTHER,
        };
        match self.types.get_mut(name) {
            Some(count) => *count = count.saturating_add(1),
            None => drop(self.types.insert(name.to_owned(), 1)),
        }
    }
}

/// The version to which a `log.version_raised` raises the log.
fn raised(decision: &Scanned<'_>) -> Option<u32> {
    if !decision.type_name.contains(Kind::LogVersionRaised.name()) {
        return None;
    }
    match decode(decision).ok()? {
        Decoded::Event(Event { data: Data::LogVersionRaised(raised), .. }) => Some(raised.version),
        _ => None,
    }
}

fn bytes(scanned: &Scanned<'_>) -> u64 {
    let of = scanned.leaf_input();
    let attributes = [of.id, of.type_name, of.source, of.subject, of.time, of.recorded_at];
    let sum = attributes.iter().map(|text| text.len()).sum::<usize>();
    sum.saturating_add(of.data.len()) as u64
}
