//! What is kept of a ledger: one row a thing, under names that outlive the process.
//!
//! Amounts stand as the exact integers of the ledger. Rows are compared as values: what a fold gives must be
//! equal to what a store holds for the same position, or the store is thrown away.

use super::store::{Batch, Mark};
use crate::domain::{
    book,
    event::Position,
    ledger::{Counts, Ledger},
    names::GroupId,
    sums::{Parts, Sums},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row(pub RowKey, pub RowValue);

/// What a row is about. New kinds are added at the end: a store may keep them by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RowKey {
    /// How many records became what.
    Counts,
    /// A record that was not taken, by its number in the order in which that was found out.
    Quarantined(u64),
    /// Usage of the group of that name; empty for none.
    Usage(Box<str>),
    /// What the group of that name says and uses.
    Quota(Box<str>),
}

/// What a row says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowValue {
    /// Of [`RowKey::Counts`].
    Counts {
        /// Records that said something new.
        changed: u64,
        /// Records that repeated what was known.
        repeated: u64,
        /// Notes and unknown types.
        ignored: u64,
        /// Records that repeated what was forgotten.
        dropped: u64,
    },
    /// Of [`RowKey::Quarantined`].
    Quarantined {
        /// The record.
        position: Position,
        /// What is wrong with it.
        reason: String,
    },
    /// Of [`RowKey::Usage`], sorted by key.
    Usage(Vec<UsageLine>),
    /// Of [`RowKey::Quota`], sorted by key.
    Quota(Vec<QuotaLine>),
}

/// Usage under one key: `usage(t) = closed + running × (t − origin) − started`, for every t not before the newest
/// boundary. Milli-units × milliseconds, or milli-units; see [`Parts`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageLine {
    /// The key.
    pub key: Box<str>,
    /// Of segments that ended.
    pub closed: i128,
    /// Milli-units of segments that run.
    pub running: i128,
    /// Σ rate × (start − origin) of segments that run.
    pub started: i128,
    /// Σ amount × (latest − earliest) of ends that nobody saw.
    pub uncertain: i128,
    /// Milli-units of segments that ended, of pods that still run or whose stop may be withdrawn.
    pub provisional: i128,
}

/// What a group says and uses under one key, in milli-units (`cash/K`: milli-units × milliseconds).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaLine {
    /// The key.
    pub key: Box<str>,
    /// What it may use; `None` where it does not list the key.
    pub limit: Option<i128>,
    /// What it claims of its parent.
    pub claim: i128,
    /// What its own workloads are charged.
    pub self_used: i128,
    /// What it uses with its children's carve-outs.
    pub used: i128,
    /// The part of `self_used` that no review admitted.
    pub self_unreviewed: i128,
}

/// Rows as a store holds them after its last commit: what is equal to them need not be written again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    rows: BTreeMap<RowKey, RowValue>,
}

/// Every row of `ledger`, in order of keys.
#[must_use]
pub fn of(ledger: &Ledger) -> BTreeMap<RowKey, RowValue> {
    let names = ledger.names();
    let mut rows = BTreeMap::from([(RowKey::Counts, counts(ledger.counts()))]);
    for (number, record) in (0..).zip(ledger.quarantined()) {
        let (position, reason) = (record.position, record.reason.clone());
        rows.insert(RowKey::Quarantined(number), RowValue::Quarantined { position, reason });
    }
    for group in names.groups() {
        let name: Box<str> = names.group_name(group).into();
        let usage = usage(ledger, group);
        if !usage.is_empty() {
            rows.insert(RowKey::Usage(name.clone()), RowValue::Usage(usage));
        }
        let quota = ledger.book().map(|book| quota(ledger, book, group)).unwrap_or_default();
        if !quota.is_empty() {
            rows.insert(RowKey::Quota(name), RowValue::Quota(quota));
        }
    }
    rows
}

fn counts(counts: Counts) -> RowValue {
    let Counts { changed, repeated, ignored, dropped } = counts;
    RowValue::Counts { changed, repeated, ignored, dropped }
}

fn usage(ledger: &Ledger, group: GroupId) -> Vec<UsageLine> {
    let parts = ledger.meter().sums(group).into_iter().flat_map(Sums::parts);
    let lines = parts.map(|(key, parts)| {
        // `settled` is about the end of a window, which a projection has not.
        let Parts { closed, running, started, uncertain, provisional, settled: _ } = parts;
        let key = ledger.names().key_name(key).into();
        UsageLine { key, closed, running, started, uncertain, provisional }
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    lines
}

fn quota(ledger: &Ledger, book: &book::Book, group: GroupId) -> Vec<QuotaLine> {
    let line = |key| {
        let book::Line { limit, claim, self_used, used, self_unreviewed } = book.line(group, key);
        let key = ledger.names().key_name(key).into();
        QuotaLine { key, limit, claim, self_used, used, self_unreviewed }
    };
    let mut lines: Vec<_> = book.keys(group).iter().map(|key| line(*key)).collect();
    lines.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    lines
}

/// The first key under which two sets of rows differ.
#[must_use]
pub fn first_difference<'r>(
    held: &'r BTreeMap<RowKey, RowValue>,
    expected: &'r BTreeMap<RowKey, RowValue>,
) -> Option<&'r RowKey> {
    let differs = |key: &&RowKey| held.get(*key) != expected.get(*key);
    let missing = expected.keys().find(differs);
    let wrong = held.keys().find(differs);
    missing.into_iter().chain(wrong).min()
}

impl Written {
    /// What a commit of `ledger` changes; from then on that is written.
    pub fn batch(&mut self, ledger: &Ledger) -> Batch {
        let now = of(ledger);
        let gone = self.rows.keys().filter(|key| !now.contains_key(*key));
        let mut rows: BTreeMap<_, _> = gone.map(|key| (key.clone(), None)).collect();
        for (key, value) in &now {
            if self.rows.get(key) != Some(value) {
                rows.insert(key.clone(), Some(value.clone()));
            }
        }
        self.rows = now;
        Batch { rows, mark: Mark { tree: ledger.frontier().clone() } }
    }

    /// Takes over what a store was found to hold.
    #[must_use]
    pub const fn found(rows: BTreeMap<RowKey, RowValue>) -> Self {
        Self { rows }
    }
}
