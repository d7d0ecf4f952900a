//! What usage is shown by: group and key from the ledger's sums, anything finer from the rows of its pods.

use crate::{
    cli::Error,
    domain::{
        amounts::{Overflow, product},
        event::{Data, Event, ObjectRef},
        ledger::Ledger,
        names::{Map, Uid},
        pod::{Pod, Segment},
        quantity::Milli,
        time::Timestamp,
    },
};
use std::collections::BTreeMap;

/// A dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum By {
    /// The group that is billed; empty for none
    Group,
    /// The key: limits.cpu, limits.nvidia.com/gpu.A30, …
    Key,
    /// The cluster, or the import
    Cluster,
    /// The namespace
    Namespace,
    /// The top-level workload: Kind/name
    Workload,
    /// The pod's name
    Pod,
}

impl By {
    /// The name of the column.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Key => "key",
            Self::Cluster => "cluster",
            Self::Namespace => "namespace",
            Self::Workload => "workload",
            Self::Pod => "pod",
        }
    }
}

/// Usage of one combination; amounts in milli-units × milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The dimensions' values, the key among them whether it was asked for or not.
    pub(super) values: Vec<(By, String)>,
    pub(super) key: String,
    pub(super) exact: i128,
    pub(super) running: Milli,
    pub(super) provisional: bool,
    pub(super) uncertain: i128,
}

/// Names that the ledger does not keep, learned on the way.
#[derive(Debug, Default)]
pub(super) struct Names {
    pods: Map<Uid, PodName>,
}

#[derive(Debug, Default)]
struct PodName {
    namespace: Box<str>,
    name: Box<str>,
    workload: Option<Box<str>>,
}

/// Whether lines by these need the rows of all pods.
pub(super) fn needs_pods(by: &[By]) -> bool {
    by.iter().any(|by| !matches!(by, By::Group | By::Key))
}

impl Names {
    /// Learns what an event says about a pod's name and workload.
    pub(super) fn learn(&mut self, event: &Event<'_>) {
        let (uid, owner) = match &event.data {
            Data::PodCreated(data) => (&data.uid, &data.owner),
            Data::PodStarted(data) => (&data.uid, &data.owner),
            Data::PodMoved(data) => (&data.uid, &data.owner),
            _ => return,
        };
        let Some((namespace, name)) =
            event.subject.strip_prefix("pods/").and_then(|pod| pod.split_once('/'))
        else {
            return;
        };
        let workload = |owner: &ObjectRef<'_>| format!("{}/{}", owner.kind, owner.name).into();
        let pod = self.pods.entry(Uid::of(uid)).or_default();
        (pod.namespace, pod.name) = (namespace.into(), name.into());
        pod.workload = owner.as_ref().map(workload);
    }

    fn value(&self, by: By, pod: &Pod) -> String {
        let Some(known) = self.pods.get(&pod.id.uid) else { return String::new() };
        match by {
            By::Namespace => known.namespace.to_string(),
            By::Pod => known.name.to_string(),
            _ => match &known.workload {
                Some(workload) => workload.to_string(),
                None => format!("Pod/{}", known.name),
            },
        }
    }
}

/// Usage by the dimensions `by`, up to `at`, in order of their values.
pub(super) fn lines(
    ledger: &Ledger,
    names: &Names,
    by: &[By],
    at: Timestamp,
) -> Result<Vec<Line>, Error> {
    let lines =
        if needs_pods(by) { from_pods(ledger, names, by, at) } else { from_sums(ledger, by, at) };
    let mut lines: Vec<Line> =
        lines.map_err(|why| Error::input("usage", why))?.into_values().collect();
    lines.retain(|l| l.exact != 0 || l.running != 0 || l.uncertain != 0);
    Ok(lines)
}

type Lines = BTreeMap<Vec<String>, Line>;

/// The line of a combination; lines of different keys are never one.
fn line<'l>(
    lines: &'l mut Lines,
    by: &[By],
    key: &str,
    value: impl Fn(By) -> String,
) -> &'l mut Line {
    let values: Vec<(By, String)> = by.iter().map(|by| (*by, value(*by))).collect();
    let mut order: Vec<String> = values.iter().map(|(_, value)| value.clone()).collect();
    order.push(key.to_owned());
    lines.entry(order).or_insert_with(|| Line { values, key: key.to_owned(), ..Line::default() })
}

fn from_sums(ledger: &Ledger, by: &[By], at: Timestamp) -> Result<Lines, String> {
    let mut lines = Lines::new();
    for usage in ledger.usage(at).map_err(|e| e.to_string())? {
        let value = |by| if by == By::Group { usage.group.clone() } else { usage.key.clone() };
        let line = line(&mut lines, by, &usage.key, value);
        let add = |a: i128, b: i128| a.checked_add(b).ok_or_else(|| Overflow.to_string());
        line.exact = add(line.exact, usage.exact)?;
        line.running = add(line.running, usage.running)?;
        line.uncertain = add(line.uncertain, usage.uncertain)?;
        line.provisional |= usage.provisional;
    }
    Ok(lines)
}

fn from_pods(ledger: &Ledger, names: &Names, by: &[By], at: Timestamp) -> Result<Lines, String> {
    let mut lines = Lines::new();
    let mut result = Ok(());
    ledger.meter().each_segment(at, |pod, group, measure, segment| {
        for (key, amount) in measure.usage.iter() {
            let key = ledger.names().key_name(key);
            let value = |by| match by {
                By::Group => ledger.names().group_name(group).to_owned(),
                By::Key => key.to_owned(),
                By::Cluster => {
                    let source = ledger.names().cluster_name(pod.cluster());
                    source.strip_prefix("/clusters/").unwrap_or(source).to_owned()
                }
                _ => names.value(by, pod),
            };
            let line = line(&mut lines, by, key, value);
            let added = line.add(&segment, amount, at);
            result = result.and(added);
        }
    });
    result.map_err(|e| e.to_string()).map(|()| lines)
}

impl Line {
    fn add(&mut self, segment: &Segment, amount: Milli, at: Timestamp) -> Result<(), Overflow> {
        let sum = |sum: i128, millis| {
            product(amount, millis).and_then(|a| sum.checked_add(a)).ok_or(Overflow)
        };
        self.exact = sum(self.exact, segment.to.unwrap_or(at).since(segment.from))?;
        if segment.to.is_none() {
            self.running = self.running.checked_add(amount).ok_or(Overflow)?;
        }
        if let Some(doubt) = segment.uncertain {
            self.uncertain = sum(self.uncertain, doubt.to.since(doubt.from))?;
        }
        self.provisional |= segment.provisional;
        Ok(())
    }
}
