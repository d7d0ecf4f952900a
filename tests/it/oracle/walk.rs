//! The sum, one grain of time after another.

use super::{
    Oracle, PodName,
    holding::{Held, Holding},
};
use std::collections::BTreeMap;

/// Which of the two numbers is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// What the node gave.
    Held,
    /// While containers ran.
    Ran,
}

/// Whether a number may still change; where the contract's words allow both answers, either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Provisional {
    /// Every contributing pod has a final stop.
    #[default]
    No,
    /// Both answers can be defended.
    Either,
    /// A contributing pod runs, or nobody witnessed its stop.
    Yes,
}

/// One line of usage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Milli-units × milliseconds.
    pub(crate) exact: i128,
    /// Milli-units held at the end of the interval.
    pub(crate) running: i128,
    /// Whether it may change.
    pub(crate) provisional: Provisional,
    /// Milli-units × milliseconds, of stops up to the end of the interval.
    pub(crate) uncertain: i128,
}

/// Lines by group and key.
pub(crate) type Tally = BTreeMap<(String, String), Line>;

impl Holding {
    /// What it holds at `t` by `basis`.
    pub(crate) fn by(&self, basis: Basis, t: i64) -> Option<&Held> {
        match basis {
            Basis::Held => self.at(t),
            Basis::Ran => self.ran_at(t),
        }
    }
}

impl Oracle {
    /// Usage in `[from, to)`, in milliseconds since 1970.
    pub(crate) fn tally(&self, basis: Basis, from: i64, to: i64) -> Tally {
        let mut tally = Tally::new();
        for pod in self.pods.values() {
            for (row, line) in self.tally_pod(pod, basis, from, to) {
                let sum = tally.entry(row).or_default();
                sum.exact += line.exact;
                sum.running += line.running;
                sum.uncertain += line.uncertain;
                sum.provisional = sum.provisional.max(line.provisional);
            }
        }
        tally
    }

    /// Usage in `[from, to)` by pod.
    pub(crate) fn tally_pods(&self, basis: Basis, from: i64, to: i64) -> BTreeMap<PodName, Tally> {
        let tally = |pod| self.tally_pod(pod, basis, from, to);
        self.pods.iter().map(|(name, pod)| (name.clone(), tally(pod))).collect()
    }

    /// To the next grain; where nothing can change any more, or not yet, as far as that goes.
    fn step(&self, pod: &Holding, t: i64) -> i64 {
        match (pod.instants().min(), pod.instants().max()) {
            (Some(first), Some(last)) if first <= t && t <= last => {
                self.grain - (t - first).rem_euclid(self.grain)
            }
            (Some(first), _) if t < first => first - t,
            _ => i64::MAX,
        }
    }

    fn tally_pod(&self, pod: &Holding, basis: Basis, from: i64, to: i64) -> Tally {
        let mut tally = Tally::new();
        let mut t = from;
        while t < to {
            let step = self.step(pod, t).min(to - t);
            for (row, milli) in pod.by(basis, t).into_iter().flatten() {
                let line = tally.entry(row.clone()).or_default();
                line.exact += milli * i128::from(step);
            }
            t += step;
        }
        for (row, milli) in pod.by(basis, to).into_iter().flatten() {
            tally.entry(row.clone()).or_default().running += milli;
        }
        if let Some(end) = pod.end.as_ref().filter(|end| from < end.at && end.at <= to) {
            for (row, milli) in pod.last().into_iter().flatten() {
                let line = tally.entry(row.clone()).or_default();
                line.uncertain += milli * i128::from(end.uncertain);
            }
        }
        for line in tally.values_mut() {
            line.provisional = provisional(pod, line, to);
        }
        tally
    }
}

/// Whether a pod makes a line provisional that it gave `line` to.
fn provisional(pod: &Holding, line: &Line, to: i64) -> Provisional {
    let open = pod.end.as_ref().is_none_or(|end| end.provisional);
    let ahead = pod.end.as_ref().is_some_and(|end| end.at > to);
    match (open, line.exact > 0) {
        (true, true) => Provisional::Yes,
        (true, false) => Provisional::Either,
        (false, _) if ahead || pod.contradicted => Provisional::Either,
        (false, _) => Provisional::No,
    }
}
