//! Names as small numbers: groups, keys, clusters and object uids, so that the ledger compares integers.

pub use super::ids::{ClusterId, GroupId, KeyId};
use super::{
    amounts::Amounts,
    resources::{Models, Resources},
    table::Table,
    text::hex8,
};
use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A hash map with a fixed seed: the domain knows no randomness, and equal histories give equal ledgers.
pub type Map<K, V> = HashMap<K, V, FixedState>;

/// A set with a fixed seed.
pub type Set<K> = std::collections::HashSet<K, FixedState>;

/// An object's uid in 128 bits: a UUID's own bits, or of any other text its BLAKE3 (cut), so that no two
/// texts share one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Uid([u64; 2]);

impl Uid {
    /// The uid that `text` spells.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(uuid(text.as_bytes()).unwrap_or_else(|| hashed(text)))
    }

    /// The bits, the higher half first.
    pub(super) const fn words(self) -> [u64; 2] {
        self.0
    }
}

/// As a UUID is written: a text that spells it, and nearly always the one that it was read from.
impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, low] = self.0;
        let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
    }
}

/// An object of one cluster: a pod, a workload.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ObjectId {
    /// Where it lives.
    pub cluster: ClusterId,
    /// Which it is.
    pub uid: Uid,
}

/// The bits of a UUID in canonical text (36 bytes, lower case), else `None`.
fn uuid(text: &[u8]) -> Option<[u64; 2]> {
    let (a, rest) = text.split_first_chunk::<8>()?;
    let &[
        b'-',
        b0,
        b1,
        b2,
        b3,
        b'-',
        c0,
        c1,
        c2,
        c3,
        b'-',
        d0,
        d1,
        d2,
        d3,
        b'-',
        e0,
        e1,
        e2,
        e3,
        ref f @ ..,
    ] = rest
    else {
        return None;
    };
    let f = f.try_into().ok()?;
    let half = |high, low| Some(u64::from(hex8(high)?) << 32 | u64::from(hex8(low)?));
    let high = half(*a, [b0, b1, b2, b3, c0, c1, c2, c3])?;
    Some([high, half([d0, d1, d2, d3, e0, e1, e2, e3], f)?])
}

fn hashed(text: &str) -> [u64; 2] {
    let hash = blake3::hash(text.as_bytes());
    let (words, _) = hash.as_bytes().as_chunks::<8>();
    match words {
        [a, b, ..] => [u64::from_le_bytes(*a), u64::from_le_bytes(*b)],
        _ => [0, 0],
    }
}

/// Names that are written together.
pub(super) const NAMES: usize = 256;

/// Texts in the order of their first use, each with its number.
#[derive(Clone, Debug, Default)]
pub(super) struct Interner {
    ids: Map<Box<str>, u32>,
    pub(super) texts: Table<Box<str>, NAMES>,
}

impl Interner {
    pub(super) fn intern(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        // 2³² distinct names do not fit in memory; the last id is shared rather than wrapped.
        let id = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.ids.insert(text.into(), id);
        self.texts.push(text.into());
        id
    }

    pub(super) fn text(&self, id: u32) -> &str {
        self.texts.get(id as usize).map_or("", |t| t)
    }

    /// Forgets all but the first `count` texts.
    fn truncate(&mut self, count: usize) {
        while self.texts.len() > count {
            let Some(text) = self.texts.pop() else { return };
            self.ids.remove(&text);
        }
    }

    /// Finds the texts that were read into the table again.
    pub(super) fn learn(&mut self) {
        self.ids = self.texts.as_slice().iter().cloned().zip(0..).collect();
    }
}

/// Every name that the ledger has met.
#[derive(Clone, Debug)]
pub struct Names {
    pub(super) groups: Interner,
    pub(super) keys: Interner,
    pub(super) clusters: Interner,
    /// By key: of `cash/K` the key K, of any other none.
    budgeted: Vec<Option<KeyId>>,
    /// What pods like these ask for, worked out before.
    demands: Demands,
    /// While decisions are tried out: how many names the log has used.
    settled: Option<Settled>,
}

/// How many names there were.
#[derive(Clone, Copy, Debug)]
struct Settled {
    groups: usize,
    keys: usize,
    clusters: usize,
}

/// Names that may be learned from reviews, until this is dropped: the log alone decides which numbers names have,
/// so that every replica has the same.
#[derive(Debug)]
pub struct Learning<'n>(&'n mut Names);

impl<'n> Learning<'n> {
    /// From here on names are learned for a while.
    pub fn new(names: &'n mut Names) -> Self {
        names.settled = Some(Settled {
            groups: names.groups.texts.len(),
            keys: names.keys.texts.len(),
            clusters: names.clusters.texts.len(),
        });
        Self(names)
    }
}

impl Deref for Learning<'_> {
    type Target = Names;
    fn deref(&self) -> &Names {
        self.0
    }
}

impl DerefMut for Learning<'_> {
    fn deref_mut(&mut self) -> &mut Names {
        self.0
    }
}

impl Drop for Learning<'_> {
    fn drop(&mut self) {
        let names = &mut *self.0;
        let Some(settled) = names.settled.take() else { return };
        names.groups.truncate(settled.groups);
        names.keys.truncate(settled.keys);
        names.budgeted.truncate(settled.keys);
        names.clusters.truncate(settled.clusters);
    }
}

/// Saves work and says nothing, so that it is not shown.
#[derive(Clone, Default)]
struct Demands(Map<(Arc<Resources>, Models<'static>), Arc<Amounts>>);

impl fmt::Debug for Demands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demands").finish_non_exhaustive()
    }
}

/// So many demands are kept: a cluster's reviews ask for the same few hundred again and again.
const DEMANDS: usize = 4096;

impl Default for Names {
    fn default() -> Self {
        let mut names = Self {
            groups: Interner::default(),
            keys: Interner::default(),
            clusters: Interner::default(),
            budgeted: Vec::new(),
            demands: Demands::default(),
            settled: None,
        };
        names.group("");
        names
    }
}

impl Names {
    /// The number of a group's name.
    pub fn group(&mut self, name: &str) -> GroupId {
        GroupId(self.groups.intern(name))
    }

    /// The number of a group's name, if it was met before.
    #[must_use]
    pub fn known_group(&self, name: &str) -> Option<GroupId> {
        self.groups.ids.get(name).copied().map(GroupId)
    }

    /// A group's name.
    #[must_use]
    pub fn group_name(&self, id: GroupId) -> &str {
        self.groups.text(id.0)
    }

    /// Every group met so far.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..u32::try_from(self.groups.texts.len()).unwrap_or(u32::MAX)).map(GroupId)
    }

    /// The number of a normalised key.
    pub fn key(&mut self, key: &str) -> KeyId {
        if let Some(id) = self.keys.ids.get(key) {
            return KeyId(*id);
        }
        let budgeted = key.strip_prefix("cash/").map(|k| self.key(k));
        let id = KeyId(self.keys.intern(key));
        self.budgeted.push(budgeted);
        id
    }

    /// The number of a key, if it was met before.
    #[must_use]
    pub fn known_key(&self, key: &str) -> Option<KeyId> {
        self.keys.ids.get(key).copied().map(KeyId)
    }

    /// A key's text.
    #[must_use]
    pub fn key_name(&self, id: KeyId) -> &str {
        self.keys.text(id.0)
    }

    /// Of `cash/K` the key K whose spend it limits; of any other key none.
    #[must_use]
    pub fn budgeted(&self, key: KeyId) -> Option<KeyId> {
        self.budgeted.get(key.index()).copied().flatten()
    }

    /// What a pod that reserves `reserved` on `models` asks for, if that was worked out before.
    #[must_use]
    pub fn known_demand<'m>(
        &self,
        reserved: &Arc<Resources>,
        models: &Models<'m>,
    ) -> Option<Arc<Amounts>> {
        // The table's keys live for ever, so it can be asked for what lives shorter.
        let demands: &Map<(Arc<Resources>, Models<'m>), Arc<Amounts>> = &self.demands.0;
        demands.get(&(Arc::clone(reserved), models.clone())).cloned()
    }

    /// Remembers what such a pod asks for; not if it has keys that will be taken back.
    pub fn remember_demand(
        &mut self,
        reserved: &Arc<Resources>,
        models: &Models<'_>,
        demand: &Arc<Amounts>,
    ) {
        let settled = self.settled.map_or(usize::MAX, |settled| settled.keys);
        if demand.iter().any(|(key, _)| key.index() >= settled) {
            return;
        }
        if self.demands.0.len() >= DEMANDS {
            self.demands.0.clear();
        }
        let key = (Arc::clone(reserved), models.clone().into_owned());
        self.demands.0.insert(key, Arc::clone(demand));
    }

    /// Finds again what follows from the tables that were read.
    pub(super) fn resume(&mut self) {
        for names in [&mut self.groups, &mut self.keys, &mut self.clusters] {
            names.learn();
        }
        let keys = self.keys.texts.as_slice().iter();
        self.budgeted = keys.map(|key| self.known_key(key.strip_prefix("cash/")?)).collect();
    }

    /// The number of a source.
    pub fn cluster(&mut self, source: &str) -> ClusterId {
        ClusterId(self.clusters.intern(source))
    }

    /// The number of a source, if it was met before.
    #[must_use]
    pub fn known_cluster(&self, source: &str) -> Option<ClusterId> {
        self.clusters.ids.get(source).copied().map(ClusterId)
    }

    /// The number of the cluster of this name.
    pub fn cluster_of(&mut self, name: &str) -> ClusterId {
        self.cluster(&source(name))
    }

    /// The number of the cluster of this name, if it was met before.
    #[must_use]
    pub fn known_cluster_of(&self, name: &str) -> Option<ClusterId> {
        self.known_cluster(&source(name))
    }

    /// Every source met so far.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterId> + use<> {
        (0..u32::try_from(self.clusters.texts.len()).unwrap_or(u32::MAX)).map(ClusterId)
    }

    /// A source's text.
    #[must_use]
    pub fn cluster_name(&self, id: ClusterId) -> &str {
        self.clusters.text(id.0)
    }
}

/// The source that the cluster of this name is in events.
fn source(cluster: &str) -> String {
    ["/clusters/", cluster].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_knows_the_key_it_limits() {
        let mut names = Names::default();
        let budget = names.key("cash/limits.cpu");
        let key = names.key("limits.cpu");
        assert_eq!((names.budgeted(budget), names.budgeted(key)), (Some(key), None));
        assert_eq!(names.key_name(budget), "cash/limits.cpu");
    }

    #[test]
    fn what_a_review_taught_is_taken_back() {
        let mut names = Names::default();
        names.key("limits.cpu");
        {
            let mut learned = Learning::new(&mut names);
            learned.key("cash/limits.memory");
            learned.group("team-a");
            learned.cluster("/clusters/east");
        }
        assert_eq!(names.known_key("cash/limits.memory"), None);
        assert_eq!(
            (names.known_group("team-a"), names.known_cluster("/clusters/east")),
            (None, None)
        );
        let next = names.key("limits.nvidia.com/gpu");
        assert_eq!((next, names.budgeted(next)), (KeyId(1), None), "as if it had never been");
    }

    #[test]
    fn a_uuid_is_its_own_bits() {
        let bits = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128;
        let halves = [(bits >> 64) as u64, bits as u64];
        assert_eq!(Uid::of("01234567-89ab-cdef-fedc-ba9876543210"), Uid(halves));
        for other in
            ["01234567-89ab-cdef-fedc-ba987654321g", "01234567089ab-cdef-fedc-ba9876543210"]
        {
            assert_ne!(Uid::of(other), Uid(halves), "{other}");
        }
    }

    #[test]
    fn no_two_spellings_are_one_uid() {
        let lower = "3e9c0000-0000-0000-0000-00000000000a";
        let texts =
            [lower, "3E9C0000-0000-0000-0000-00000000000A", "3e9c", "", "train-0", &lower[1..]];
        for (i, a) in texts.iter().enumerate() {
            for b in &texts[..i] {
                assert_ne!(Uid::of(a), Uid::of(b), "{a} {b}");
            }
        }
    }
}
