//! An invoice in its JSON form, read back: what is to be proved, and how a line is found again.

use super::print::{called, cluster, reason, status};
use crate::Basis;
use bizrq::{
    cli::Error,
    domain::{
        billing::{Correction, Line, Terms, Wanted, Workload},
        event::{Period, Position},
        merkle::Hash,
        time::Timestamp,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fs::File, io::BufReader, path::Path};

/// What an invoice says of itself, and its lines.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    from: Timestamp,
    to: Timestamp,
    basis: BasisName,
    summary: bool,
    pub(crate) position: Position,
    pub(crate) root: Hash,
    lines: Vec<Value>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum BasisName {
    Held,
    Ran,
}

/// A line, understood.
#[derive(Deserialize)]
pub(crate) struct Claim {
    group: String,
    key: String,
    model: String,
    cluster: String,
    namespace: String,
    workload: String,
    from: Timestamp,
    to: Timestamp,
    pub(crate) unit: String,
    pub(crate) hours: String,
    pub(crate) exact: String,
    pub(crate) status: String,
    pub(crate) price: Option<String>,
    pub(crate) per: Option<String>,
    pub(crate) cost: Option<String>,
    correction: Option<CorrectionClaim>,
}

#[derive(Deserialize)]
struct CorrectionClaim {
    positions: Vec<Position>,
    why: String,
    by: String,
}

/// A line's records, each with the way to the invoice's root.
#[derive(Serialize, Deserialize)]
pub(crate) struct Proof {
    /// Of this file.
    pub(crate) format: u32,
    /// The line, as the invoice has it.
    pub(crate) line: Value,
    /// What it proves, and what it does not.
    pub(crate) says: String,
    pub(crate) records: Vec<ProvedRecord>,
    /// The log's last record at the invoice's position: its way to the root has the length that no other position has.
    pub(crate) last: ProvedRecord,
}

/// A record, and the hashes that lead from its leaf to the root.
#[derive(Serialize, Deserialize)]
pub(crate) struct ProvedRecord {
    pub(crate) position: Position,
    /// A line of a file log.
    pub(crate) record: String,
    pub(crate) path: Vec<Hash>,
}

/// Reads a JSON file.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(path: &Path, what: &str) -> Result<T, Error> {
    let failed = |why: String| Error::input(path.display(), why);
    let file = File::open(path).map_err(|e| failed(e.to_string()))?;
    serde_json::from_reader(BufReader::new(file)).map_err(|e| failed(format!("is no {what}: {e}")))
}

impl Document {
    pub(crate) fn line(&self, number: usize) -> Option<&Value> {
        self.lines.iter().find(|line| line["line"] == number)
    }

    /// How many lines it has.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// What is to be billed so that the line comes out.
    pub(crate) fn terms(&self, claim: &Claim) -> Terms {
        let own = Period { from: claim.from, to: claim.to };
        let (period, cuts) = match claim.correction {
            // A correction is billed somewhere in the invoice's time, and about the line's.
            Some(_) => (Period { from: self.from, to: self.to }, vec![own.from, own.to]),
            None => (own, Vec::new()),
        };
        let extended = claim.key.strip_prefix("limits.").filter(|name| name.contains('/'));
        Terms {
            period,
            basis: match self.basis {
                BasisName::Held => Basis::Held.into(),
                BasisName::Ran => Basis::Ran.into(),
            },
            every: None,
            workloads: !self.summary,
            group: Some(claim.group.clone()),
            quotas: false,
            cuts,
            resources: extended.map(str::to_owned).into_iter().collect(),
        }
    }
}

impl Claim {
    /// The line, for who looks for the pods that it rests on.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            group: &self.group,
            key: &self.key,
            model: &self.model,
            period: Period { from: self.from, to: self.to },
            late: self.correction.is_some(),
        }
    }

    /// The records of corrections that somebody made; of any other line none.
    pub(crate) fn adjustments(&self) -> &[Position] {
        self.correction.as_ref().map_or(&[], |correction| &correction.positions)
    }

    /// Whether a workload is the line's.
    pub(crate) fn is_of(&self, workload: &Workload<'_>) -> bool {
        let Self { cluster: of, namespace, workload: name, .. } = self;
        self.is_of_all()
            || (of == cluster(workload)
                && namespace == workload.namespace
                && *name == called(workload))
    }

    /// Whether it is of no workload: a sum of all, or what somebody said.
    fn is_of_all(&self) -> bool {
        [&self.cluster, &self.namespace, &self.workload].iter().all(|part| part.is_empty())
    }

    /// Whether a line that was made again is this one, whatever its amount.
    pub(crate) fn is(&self, line: &Line<'_>) -> bool {
        let of = (self.group.as_str(), self.key.as_str(), self.model.as_str());
        let positions = line.correction.map(Correction::positions);
        let same_workload = if self.is_of_all() {
            line.workload == Workload::default()
        } else {
            self.is_of(&line.workload)
        };
        of == (line.group, line.key, line.model)
            && same_workload
            && (self.from, self.to) == (line.period.from, line.period.to)
            && self.correction.as_ref().map(|correction| correction.positions.as_slice())
                == positions
    }

    /// Whether it was corrected by whom it says, and why.
    pub(crate) fn is_said_of(&self, line: &Line<'_>) -> bool {
        let claimed = self.correction.as_ref();
        let claimed = claimed.map(|correction| (correction.why.as_str(), correction.by.as_str()));
        claimed == line.correction.map(reason)
    }

    /// Whether it is as sure as it says.
    pub(crate) fn is_as_sure_as(&self, line: &Line<'_>) -> bool {
        self.status == status(line.status)
    }
}
