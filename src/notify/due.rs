//! Which notices are due: pure, by the ledger at an instant. The same ledger gives the same notices with the same ids,
//! whoever asks and however often.
//!
//! ```text
//!  used of cash ──50 %──80 %──90 %──100 %──▶     each at its millisecond; the first that is not reached is next
//! ```

use crate::domain::{
    admission::amount,
    book::{Book, Exhaustion},
    ledger::Ledger,
    names::{GroupId, KeyId},
    time::Timestamp,
};
use serde::Serialize;

/// Parts of a budget that are told, in percent; the last is all of it.
pub const THRESHOLDS: [u8; 4] = [50, 80, 90, 100];

/// One thing that a group is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Made of quota object, generation, key and threshold: the same for whoever finds it.
    pub id: String,
    /// `cash.threshold`, or `cash.exhausted`.
    pub kind: &'static str,
    /// The group.
    pub group: String,
    /// The key, `cash/K`.
    pub key: String,
    /// Percent of the budget.
    pub threshold: u8,
    /// The generation of the quota object whose budget it is.
    pub generation: i64,
    /// When it was crossed, to the millisecond; where pods of that hour were forgotten, its end.
    pub at: Timestamp,
    /// Whether `at` is the millisecond.
    pub exact: bool,
    /// The budget, as refusals write it.
    pub hard: String,
    /// What the ledger had read.
    pub position: u64,
}

/// What is due at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Everything that was crossed by then.
    pub notices: Vec<Notice>,
    /// When the next is crossed if all goes on as it is.
    pub next: Option<Timestamp>,
}

impl Due {
    /// What is due at `now`.
    #[must_use]
    pub fn at(ledger: &Ledger, now: Timestamp) -> Self {
        let mut due = Self::default();
        let Some(book) = ledger.book() else { return due };
        for group in book.accounts() {
            for (key, budget) in book.budgets() {
                due.look(ledger, book, (group, key, budget), now);
            }
        }
        due
    }

    fn look(
        &mut self,
        ledger: &Ledger,
        book: &Book,
        (group, key, budget): (GroupId, KeyId, KeyId),
        now: Timestamp,
    ) {
        let Some(declared) = book.declaration(group) else { return };
        // What is in force; a change that is only proposed is told of when it is declared.
        let listed = declared.spec.hard.iter().find(|(listed, _)| *listed == budget);
        let Some((_, hard)) = listed else { return };
        let names = ledger.names();
        for threshold in THRESHOLDS {
            let (at, exact) = match book.reaches(group, key, ledger.meter(), part(*hard, threshold))
            {
                Exhaustion::At(at) => (at, true),
                Exhaustion::By(at) => (at, false),
                Exhaustion::Never => return,
            };
            if now < at {
                self.next = Some(self.next.map_or(at, |next| next.min(at)));
                return;
            }
            let key = names.key_name(budget);
            let generation = declared.generation;
            let id = id(&declared.uid.to_string(), generation, key, threshold);
            self.notices.push(Notice {
                id,
                kind: if threshold == 100 { "cash.exhausted" } else { "cash.threshold" },
                group: names.group_name(group).to_owned(),
                key: key.to_owned(),
                threshold,
                generation,
                at,
                exact,
                hard: amount(names, budget, *hard),
                position: ledger.position(),
            });
        }
    }
}

/// `percent` of `hard`, rounded up: below it the threshold is not reached.
fn part(hard: i128, percent: u8) -> i128 {
    hard.saturating_mul(i128::from(percent)).saturating_add(99).div_euclid(100)
}

fn id(uid: &str, generation: i64, key: &str, threshold: u8) -> String {
    let mut hasher = blake3::Hasher::new();
    // A uid has no zero byte and a key none either, so no two lists of parts are written alike.
    for part in [uid, &generation.to_string(), key, &threshold.to_string()] {
        hasher.update(part.as_bytes()).update(&[0]);
    }
    let hex = hasher.finalize().to_hex();
    hex.chars().take(32).collect()
}

#[cfg(test)]
mod tests;
