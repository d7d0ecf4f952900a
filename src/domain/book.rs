//! Quota state: who is charged what, what was promised, and what each group may use.
//!
//! ```text
//! pods     ─┐
//! observed ─┼─▶ charge of a workload ──▶ tree: used = own + Σ over children of max(claim, used), by key
//! admitted ─┘   (one maximum, in every        ▲ claims, limits, parents
//!                group where it may be)       └─ accounts: declarations, proposals
//! ```
//!
//! Facts and decisions change the book; each either changes it whole or, with an error, not at all. Whether
//! something may happen is asked of a [`Trial`] (see [`crate::domain::admission`]), which does it and takes it
//! back. The book knows no clock, and of spend only what [`Spend`] tells it.

mod cash;
mod facts;
mod members;
mod pace;
mod periods;
mod pods;
mod posting;
mod quotas;
mod reservations;
mod rules;
pub(super) mod state;
mod told;
mod tree;
mod trial;
mod version;
mod workload;

pub use cash::{Course, Exhaustion, Mark, Outlay, Piece, Spend};
pub use pace::Pace;
pub use quotas::{Declaration, Declared, Invalid, Limits, Outcome, Proposal, Spec};
pub use reservations::Asked;
pub use rules::{Exceeded, Fault, Frozen, TooFew};
pub use trial::Trial;
pub use workload::Ticket;

use super::{
    amounts::{Amounts, Overflow},
    event::{Charge as Policy, Operation, Position},
    names::{ClusterId, GroupId, KeyId, Map, ObjectId, Uid},
    quantity::Milli,
    table::{Listed, Slots, Table},
    time::Timestamp,
};
use posting::Scratch;
pub(super) use quotas::Account;
use std::sync::Arc;
use tree::{Tree, UNLISTED};
pub(super) use workload::Work;

/// No single amount may be larger: 2^36 of them then fit into 128 bits, more than there can be pods, so that
/// sums need no error of their own. A quantity is at most 2^73 thousandths; cash counts them by the hour.
pub const MOST: Milli = 1 << 90;

/// Where a record stands, and who says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Its position.
    pub position: Position,
    /// Its time.
    pub time: Timestamp,
    /// Its source.
    pub cluster: ClusterId,
}

/// Why the book does not take a record; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An amount is larger than any that can be kept.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// A version that is no whole number cannot be put in order.
    #[error(
        "resourceVersion `{0}` is no whole number, so it is neither earlier nor later than another"
    )]
    NotAVersion(String),
}

/// Everything that is known of quotas. The default is a book in which nothing was ever said.
#[derive(Clone, Debug, Default)]
pub struct Book {
    tree: Tree,
    pub(super) accounts: Table<Account, 16>,
    /// Uids of quota objects that are gone.
    pub(super) gone_quotas: Listed<Uid, 256>,
    /// Groups whose newest object is not in force, but for those whose parent is not there.
    invalid: Vec<GroupId>,
    /// By a parent that is not there: the groups that wait for it.
    waiting: Map<GroupId, Vec<GroupId>>,
    arrivals: u64,
    /// Of a key K, by its number: `cash/K`, if anybody ever limited it.
    budgets: Vec<Option<KeyId>>,
    paces: pace::Paces,
    periods: periods::Periods,
    pub(super) works: Works,
    /// Workloads that are gone, and since when.
    pub(super) ended: Ended,
    pods: Map<ObjectId, pods::Pod>,
    /// Pods that the last observation of their workload set apart, or joined.
    turned: Vec<ObjectId>,
    /// Unconfirmed creates of what nothing real was seen of, by the object's full name.
    creates: Map<Uid, Vec<u32>>,
    scratch: Scratch,
    trying: bool,
    undo: Vec<trial::Undo>,
    /// Of the trial: how much there was before it.
    size: trial::Size,
}

/// Workloads, each with a number as long as anything is known of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Works {
    slots: Map<ObjectId, u32>,
    pub(super) rows: Slots<Work, 16>,
}

/// Workloads that are gone, and since when.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    slots: Map<ObjectId, u32>,
    pub(super) rows: Slots<(ObjectId, Timestamp), 256>,
}

/// What a group says and uses under one key, in milli-units (cash: in milli-units × milliseconds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// What it may use; `None` where it does not list the key. While a change is proposed, the smaller.
    pub limit: Option<Milli>,
    /// What it claims of its parent. While a change is proposed, the larger.
    pub claim: Milli,
    /// What its own workloads are charged.
    pub self_used: Milli,
    /// What it uses with its children's carve-outs.
    pub used: Milli,
    /// The part of `self_used` that no review admitted.
    pub self_unreviewed: Milli,
}

/// Questions about groups.
impl Book {
    /// What `group` says and uses under `key` (of `cash/K` only the terms: ask [`Self::budget_used`]).
    #[must_use]
    pub fn line(&self, group: GroupId, key: KeyId) -> Line {
        let cell = self.tree.cell(group, key);
        Line {
            limit: (cell.limit != UNLISTED).then_some(cell.limit),
            claim: cell.claim,
            self_used: cell.own,
            used: cell.used(),
            self_unreviewed: cell.unreviewed,
        }
    }

    /// The keys that `group` lists, uses, or is drawn on for.
    pub fn keys(&self, group: GroupId) -> &[KeyId] {
        self.tree.keys(group)
    }

    /// What nobody reviewed: the charges in `group` and below that no review admitted, and at least what its
    /// use exceeds its limit by (`hard` was lowered).
    #[must_use]
    pub fn unreviewed(&self, group: GroupId, key: KeyId) -> Milli {
        let below = self.tree.below(group).into_iter();
        let sum =
            below.fold(0, |sum: Milli, g| sum.saturating_add(self.tree.cell(g, key).unreviewed));
        let cell = self.tree.cell(group, key);
        sum.max(cell.used().saturating_sub(cell.limit))
    }

    /// How many groups with an account are charged something themselves that no review admitted.
    #[must_use]
    pub fn unreviewed_groups(&self) -> usize {
        let is_unreviewed = |group: &GroupId| {
            self.keys(*group).iter().any(|key| self.tree.cell(*group, *key).unreviewed > 0)
        };
        self.accounts().filter(is_unreviewed).count()
    }

    /// The nearest group at or above `group` that lists `key`, if there is one.
    #[must_use]
    pub fn lister(&self, group: GroupId, key: KeyId) -> Option<GroupId> {
        self.tree.above(group).into_iter().find(|g| self.tree.lists(*g, key))
    }

    /// Where `group` counts: its parent, and while a change of parent is open, the other one too.
    #[must_use]
    pub fn parents(&self, group: GroupId) -> &[GroupId] {
        self.tree.parents(group)
    }

    /// The groups that count in `group`, in no order that means anything.
    #[must_use]
    pub fn children(&self, group: GroupId) -> &[GroupId] {
        self.tree.children(group)
    }

    /// `group` and everything above it, each once, nearest first.
    #[must_use]
    pub fn above(&self, group: GroupId) -> Vec<GroupId> {
        self.tree.above(group)
    }

    /// `group` and everything below it, each once, `group` first.
    #[must_use]
    pub fn subtree(&self, group: GroupId) -> Vec<GroupId> {
        self.tree.below(group)
    }

    /// Whether anything is charged in `group` itself.
    #[must_use]
    pub fn holds(&self, group: GroupId) -> bool {
        self.tree.keys(group).iter().any(|key| self.tree.cell(group, *key).own != 0)
    }

    /// Workloads that are charged or promised something.
    #[must_use]
    pub fn workloads(&self) -> usize {
        self.works.slots.len()
    }

    /// Pods that are charged.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    /// Every workload of which anything is known, in no order.
    pub fn held(&self) -> impl Iterator<Item = Held> + '_ {
        self.works.rows.iter().map(|(_, work)| work.held())
    }

    /// What is known of a workload, if anything is.
    #[must_use]
    pub fn held_by(&self, workload: ObjectId) -> Option<Held> {
        self.works.slots.get(&workload).and_then(|s| self.works.row(*s)).map(Work::held)
    }

    /// What is open: every admission that is neither confirmed nor expired, and every former charge that is
    /// still kept, in no order. The sweeper ends them.
    pub fn reservations(&self) -> impl Iterator<Item = OpenItem> + '_ {
        self.works.rows.iter().flat_map(|(_, work)| {
            let workload = work.object;
            work.open.iter().flat_map(move |open| {
                let item = move |what, ticket, group| OpenItem { what, workload, ticket, group };
                let held = open
                    .reservations
                    .iter()
                    .map(move |r| item(OpenKind::Admission(r.operation), r.ticket, r.group));
                let resizes = open
                    .resizes
                    .iter()
                    .map(move |r| item(OpenKind::Resize(r.pod), r.ticket, r.group));
                let kept = open.kept.iter().map(move |k| {
                    item(OpenKind::Kept, Ticket { position: k.position, item: 0 }, k.group)
                });
                held.chain(resizes).chain(kept)
            })
        })
    }

    /// What a workload is charged at present, and in which groups; its pods that are apart are not counted.
    #[must_use]
    pub fn charge_of(&self, workload: ObjectId) -> (Vec<GroupId>, Amounts) {
        let work = self.works.slots.get(&workload).and_then(|s| self.works.row(*s));
        work.map(Work::charge).map(|c| (c.groups, c.amounts)).unwrap_or_default()
    }

    /// As [`Self::charge_of`]; of a workload that nobody saw yet, what was promised to its name. Several that ask for one
    /// name are charged as the largest of them.
    #[must_use]
    pub fn shown_charge_of(&self, workload: ObjectId) -> (Vec<GroupId>, Amounts) {
        let work = self.works.slots.get(&workload).and_then(|s| self.works.row(*s));
        work.map(Work::shown).map(|c| (c.groups, c.amounts)).unwrap_or_default()
    }

    /// What of a workload's charge no pod uses yet that exists or was promised on top, and in which groups.
    #[must_use]
    pub fn unused_of(&self, workload: ObjectId) -> (Vec<GroupId>, Amounts) {
        let work = self.works.slots.get(&workload).and_then(|s| self.works.row(*s));
        work.map(Work::unused).unwrap_or_default()
    }

    /// Forgets which workloads of `cluster` were gone before `before`: whoever heard of them late would have
    /// spoken by then.
    pub fn forget(&mut self, cluster: ClusterId, before: Timestamp) {
        self.ended.forget(cluster, before);
    }

    /// Where the row of a pod's workload is: of a pod that is charged already, or of the workload that it comes to.
    pub(super) fn slot(&self, pod: ObjectId, workload: Option<ObjectId>) -> Option<u32> {
        let known = self.pods.get(&pod).map(|pod| pod.slot);
        known.or_else(|| self.works.slots.get(&workload?).copied())
    }

    /// Looks at what a pod in `group` will touch, as far as the steps before have come; see [`super::ledger::ahead`].
    pub(super) fn look(&self, group: GroupId, workload: Option<u32>, step: u8) -> Milli {
        let work = workload.and_then(|slot| self.works.row(slot));
        let work = work.map_or(0, |work| match step {
            0 => {
                let known =
                    [work.gone, work.had_pods, work.observed.is_some(), work.open.is_some()];
                Milli::from(work.members.count()) ^ Milli::from(known.contains(&true))
            }
            1 => work.members.look(),
            _ => 0,
        });
        self.tree.look(group, step) ^ work
    }

    /// How `group` charges rolling updates.
    fn policy(&self, group: GroupId) -> Policy {
        self.declaration(group).map(|d| d.spec.charge).unwrap_or_default()
    }
}

/// What is known of a workload, beside its charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which it is.
    pub object: ObjectId,
    /// Where it is; of what was promised alone, where that was asked first.
    pub group: Option<GroupId>,
    /// Its pods that count where it is.
    pub pods: u32,
    /// Its pods that are charged in groups of their own.
    pub pods_apart: u32,
    /// Whether it, or a pod of it, was ever seen.
    pub seen: bool,
    /// Admissions that are neither confirmed nor expired.
    pub promises: usize,
}

/// Something that waits for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenItem {
    /// What it is.
    pub what: OpenKind,
    /// The workload that it is charged to.
    pub workload: ObjectId,
    /// Its record.
    pub ticket: Ticket,
    /// The group that was asked.
    pub group: GroupId,
}

/// What waits for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenKind {
    /// An admission of a workload.
    Admission(Operation),
    /// An admission of a pod's resize.
    Resize(ObjectId),
    /// A former charge, kept because pods that were admitted against it may still come.
    Kept,
}

impl Works {
    fn row(&self, slot: u32) -> Option<&Work> {
        self.rows.get(slot)
    }

    fn row_mut(&mut self, slot: u32) -> Option<&mut Work> {
        self.rows.get_mut(slot)
    }

    /// A row of which only the sums over its pods change.
    fn sums_mut(&mut self, slot: u32) -> Option<&mut Work> {
        self.rows.derived_mut(slot)
    }

    /// The row of `object`, a new one if need be; and whether it is new.
    fn find_or_add(&mut self, object: ObjectId) -> (u32, bool) {
        if let Some(slot) = self.slots.get(&object) {
            return (*slot, false);
        }
        let (slot, _) = self.rows.add(Work { object, ..Work::default() });
        self.slots.insert(object, slot);
        (slot, true)
    }

    fn remove(&mut self, slot: u32) {
        if let Some(work) = self.rows.remove(slot) {
            self.slots.remove(&work.object);
        }
    }

    /// Takes back the newest row that was added; there were `rows` before the first.
    fn take_back(&mut self, slot: u32, rows: u32) {
        if let Some(work) = self.rows.take_back((slot, slot >= rows)) {
            self.slots.remove(&work.object);
        }
    }
}

impl Ended {
    fn contains(&self, object: ObjectId) -> bool {
        self.slots.contains_key(&object)
    }

    /// Returns whether it was not known yet.
    fn insert(&mut self, object: ObjectId, since: Timestamp) -> bool {
        let new = !self.contains(object);
        if new {
            let (slot, _) = self.rows.add((object, since));
            self.slots.insert(object, slot);
        }
        new
    }

    fn forget(&mut self, cluster: ClusterId, before: Timestamp) {
        for slot in 0..self.rows.count() {
            let old = |row: &&(ObjectId, Timestamp)| row.0.cluster == cluster && row.1 < before;
            if let Some((object, _)) = self.rows.get(slot).filter(old).copied() {
                self.rows.remove(slot);
                self.slots.remove(&object);
            }
        }
    }
}

/// Checks at the door what the sums rely on.
fn fits(amounts: &Amounts) -> Result<(), Overflow> {
    if amounts.iter().all(|(_, amount)| (0..=MOST).contains(&amount)) {
        Ok(())
    } else {
        Err(Overflow)
    }
}

/// `amounts`, checked at the door and shared.
fn shared(amounts: Amounts) -> Result<Arc<Amounts>, Overflow> {
    fits(&amounts).map(|()| Arc::new(amounts))
}
