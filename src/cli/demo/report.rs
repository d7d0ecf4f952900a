//! What the demo found in its log, as one JSON object; the same numbers that `meter` and `quota tree` print.

use crate::{
    cli::Error,
    demo::{self, Options, Played},
    domain::{
        book::Exhaustion,
        hours::NanoHours,
        ledger::{Ledger, Usage},
        merkle::Hash,
        quota::Unit,
        standing::Tree,
        time::Timestamp,
    },
};
use serde::Serialize;

/// Everything.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) pods: u64,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// The folder, if it was kept.
    pub(super) log: Option<String>,
    pub(super) position: u64,
    pub(super) root: String,
    pub(super) quarantined: usize,
    pub(super) verified: Verified,
    pub(super) story: Vec<Scene>,
    pub(super) groups: Tree,
    pub(super) usage: Vec<Line>,
    pub(super) refusals: Vec<Refusal>,
    pub(super) exhausted: Vec<Exhausted>,
}

/// What was proved of the log.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verified {
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Recorded roots that the records gave again.
    pub(super) roots: u64,
    /// Whether roots are recorded there at all.
    #[serde(skip)]
    pub(super) keeps_roots: bool,
    /// The last recorded root is the root of all records.
    pub(super) root_recorded: bool,
    /// Quotas as folded from the log are those that decided.
    pub(super) same_quotas: bool,
}

#[derive(Serialize)]
pub(super) struct Scene {
    pub(super) time: Timestamp,
    pub(super) text: String,
}

/// As `meter` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) group: String,
    pub(super) key: String,
    pub(super) unit: &'static str,
    pub(super) hours: String,
    pub(super) exact: String,
    pub(super) running: String,
    pub(super) provisional: bool,
    pub(super) uncertain_hours: String,
    /// The same as `hours`, for sums.
    #[serde(skip)]
    pub(super) nano_hours: NanoHours,
    /// The same as `exact`, for sums.
    #[serde(skip)]
    pub(super) exact_sum: i128,
}

#[derive(Serialize)]
pub(super) struct Refusal {
    pub(super) time: Timestamp,
    pub(super) cluster: &'static str,
    pub(super) workload: String,
    pub(super) group: String,
    pub(super) reason: String,
    pub(super) message: String,
}

/// A budget that was used up within the fortnight.
#[derive(Serialize)]
pub(super) struct Exhausted {
    pub(super) group: String,
    pub(super) key: String,
    pub(super) at: Timestamp,
}

/// What reading the log gave.
pub(super) struct Proof {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) roots: u64,
    pub(super) root: Hash,
    /// The last that was recorded.
    pub(super) last_root: Option<Hash>,
    /// Whether roots are recorded there at all: a stream keeps none.
    pub(super) keeps_roots: bool,
}

impl Report {
    pub(super) fn of(
        options: Options,
        log: Option<&str>,
        played: &Played,
        ledger: &Ledger,
        proof: Proof,
    ) -> Result<Self, Error> {
        let to = demo::end();
        let usage = ledger.usage(to).map_err(|e| Error::log("demo", e))?;
        let scene = |s: &demo::Scene| Scene { time: s.time, text: s.text.clone() };
        Ok(Self {
            seed: options.seed,
            pods: played.pods,
            from: demo::begin(),
            to,
            log: log.map(str::to_owned),
            position: ledger.position(),
            root: proof.root.to_string(),
            quarantined: ledger.quarantined().len(),
            verified: Verified {
                records: proof.records,
                bytes: proof.bytes,
                roots: proof.roots,
                keeps_roots: proof.keeps_roots,
                root_recorded: proof
                    .last_root
                    .map_or(!proof.keeps_roots, |last| last == proof.root),
                same_quotas: demo::difference(&played.ledger, ledger).is_none(),
            },
            story: played.scenes.iter().map(scene).collect(),
            groups: Tree::of(ledger, to, false).map_err(|e| Error::log("demo", e))?,
            usage: usage.iter().map(Line::of).collect(),
            refusals: played.refusals.iter().map(Refusal::of).collect(),
            exhausted: exhausted(ledger, to),
        })
    }

    /// Whether the log is what was written, and says what was decided.
    pub(super) fn is_proved(&self) -> bool {
        let Verified { records, root_recorded, same_quotas, .. } = self.verified;
        records == self.position && root_recorded && same_quotas && self.quarantined == 0
    }
}

impl Line {
    fn of(usage: &Usage) -> Self {
        let unit = Unit::of(&usage.key);
        let nano_hours = NanoHours::of(usage.exact);
        Self {
            group: usage.group.clone(),
            key: usage.key.clone(),
            unit: unit.name(),
            hours: nano_hours.to_string(),
            exact: usage.exact.to_string(),
            running: unit.written(usage.running),
            provisional: usage.provisional,
            uncertain_hours: NanoHours::of(usage.uncertain).to_string(),
            nano_hours,
            exact_sum: usage.exact,
        }
    }
}

impl Refusal {
    fn of(refused: &demo::Refused) -> Self {
        let demo::Refused { time, cluster, workload, group, reason, message } = refused.clone();
        Self { time, cluster, workload, group, reason, message }
    }
}

/// Budgets that were used up by `to`, the first one first.
fn exhausted(ledger: &Ledger, to: Timestamp) -> Vec<Exhausted> {
    let (Some(book), names) = (ledger.book(), ledger.names()) else { return Vec::new() };
    let mut all = Vec::new();
    for group in book.accounts() {
        for (key, budget) in book.budgets() {
            match book.exhaustion(group, key, ledger.meter(), to) {
                Some(Exhaustion::At(at) | Exhaustion::By(at)) if at <= to => all.push(Exhausted {
                    group: names.group_name(group).to_owned(),
                    key: names.key_name(budget).to_owned(),
                    at,
                }),
                _ => {}
            }
        }
    }
    all.sort_by(|a, b| (a.at, &a.group).cmp(&(b.at, &b.group)));
    all
}
