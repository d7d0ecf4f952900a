//! Owners: whose a pod is, and so which group and models it counts under, at every version. Pure.
//!
//! Owners are followed by uid alone (a name can be used again), and only where kind, name and namespace agree with
//! the reference, since anybody may write a reference. What an ancestor's labels were is asked as of the pod's
//! version: resourceVersions of one cluster are one order.

use crate::domain::{
    names::{Map, Uid},
    time::Timestamp,
};
use std::sync::Arc;

/// Longest chain of owners that is followed; the longest real one (LeaderWorkerSet) has four links.
const MAX_DEPTH: usize = 8;

/// What an object's labels and owner references say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The group.
    pub group: Option<Arc<str>>,
    /// Models of cpu, memory and extended resources.
    pub models: [Option<Arc<str>>; 3],
    /// The owner that manages it.
    pub owner: Option<Arc<Reference>>,
}

/// A named and identified object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// `apps/v1`.
    pub api_version: Arc<str>,
    /// `Deployment`.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Identity.
    pub uid: Arc<str>,
}

/// What an object declared, version by version.
#[derive(Clone, Debug, Default)]
pub struct Timeline(Vec<Version>);

/// One version of what an object declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its resourceVersion.
    pub version: u64,
    /// The newest instant of the API server's clock on it.
    pub time: Timestamp,
    /// When it was learned, of a server that may leave no instant on a write: before 1.22, where a manager writes anew
    /// what it wrote before.
    pub learned: Option<Timestamp>,
    /// What it says.
    pub declared: Arc<Declared>,
}

/// An object that owns or may own pods.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its kind.
    pub kind: Arc<str>,
    /// Its namespace; empty for what has none.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What it declared.
    pub timeline: Timeline,
}

/// What a pod counts under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The top-level workload; `None` when the pod is its own.
    pub owner: Option<Arc<Reference>>,
    /// The group; empty for none.
    pub group: Arc<str>,
    /// Models of cpu, memory and extended resources.
    pub models: [Option<Arc<str>>; 3],
    /// The group that the pod's own label names, where the workload's label overrules it.
    pub overruled: Option<Arc<str>>,
}

/// Every object by uid, and namespaces and nodes by name.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    objects: Map<Uid, Object>,
    namespaces: Map<Arc<str>, Timeline>,
    nodes: Map<Arc<str>, Timeline>,
}

/// When a version was written: at the newest instant on it, unless that is no newer than the newest on the version
/// before it; then when it was learned, if the server may leave no instant on a write.
pub fn written(
    newest: Timestamp,
    before: Option<Timestamp>,
    learned: Option<Timestamp>,
) -> Timestamp {
    let is_dated = before.is_none_or(|before| before < newest);
    learned.filter(|_| !is_dated).map_or(newest, |learned| newest.max(learned))
}

impl Assignment {
    /// Whether a pod counts under the same.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.owner == other.owner && self.group == other.group && self.models == other.models
    }
}

impl Timeline {
    /// Takes in a version; the same one again changes nothing. Of a run of equal ones the ends are kept.
    ///
    /// Returns whether it is one entry longer now.
    pub fn see(&mut self, mut version: Version) -> bool {
        let entries = &mut self.0;
        let at = entries.partition_point(|v| v.version < version.version);
        if entries.get(at).is_some_and(|v| v.version == version.version) {
            return false;
        }
        let before = at.checked_sub(1).and_then(|i| entries.get(i));
        let neighbours = [before, entries.get(at)];
        if let Some(same) =
            neighbours.into_iter().flatten().find(|v| v.declared == version.declared)
        {
            version.declared = Arc::clone(&same.declared);
        }
        let length = entries.len();
        entries.insert(at, version);
        for middle in [at.saturating_add(1), at, at.saturating_sub(1)] {
            let first = middle.checked_sub(1);
            let triple = first.and_then(|f| entries.get(f..)).and_then(<[_]>::first_chunk);
            if let Some([a, b, c]) = triple
                && Arc::ptr_eq(&a.declared, &b.declared)
                && Arc::ptr_eq(&b.declared, &c.declared)
            {
                entries.remove(middle);
            }
        }
        entries.len() > length
    }

    /// What was declared at `version`: by the last entry up to it, else by the first.
    #[must_use]
    pub fn at(&self, version: u64) -> Option<&Arc<Declared>> {
        let after = self.0.partition_point(|v| v.version <= version);
        self.0.get(after.saturating_sub(1)).map(|v| &v.declared)
    }

    /// What was declared last.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Declared>> {
        self.0.last().map(|v| &v.declared)
    }

    /// Versions, and when they were written.
    fn dated(&self) -> impl Iterator<Item = (u64, Timestamp)> {
        let mut before = None;
        self.0.iter().map(move |v| (v.version, written(v.time, before.replace(v.time), v.learned)))
    }

    /// Every owner, of neighbouring versions with one owner once.
    fn owners(&self) -> impl Iterator<Item = &Arc<Reference>> {
        let mut last = None;
        let owners = self.0.iter().filter_map(|v| workload(&v.declared));
        owners.filter(move |owner| last.replace(Arc::as_ptr(owner)) != Some(Arc::as_ptr(owner)))
    }
}

impl Owners {
    /// Takes in a version of an object. Returns whether there is more to remember now.
    pub fn see(&mut self, uid: Uid, object: impl FnOnce() -> Object, version: Version) -> bool {
        let known = self.objects.len();
        let grown = self.objects.entry(uid).or_insert_with(object).timeline.see(version);
        grown || self.objects.len() > known
    }

    /// Takes in a version of a namespace.
    pub fn see_namespace(&mut self, name: Arc<str>, version: Version) -> bool {
        self.namespaces.entry(name).or_default().see(version)
    }

    /// Takes in a version of a node, whose models are those of the pods that are bound to it.
    pub fn see_node(&mut self, name: Arc<str>, version: Version) -> bool {
        self.nodes.entry(name).or_default().see(version)
    }

    /// An object, if it was seen.
    #[must_use]
    pub fn object(&self, uid: Uid) -> Option<&Timeline> {
        self.objects.get(&uid).map(|object| &object.timeline)
    }

    /// A namespace, if it was seen.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<&Timeline> {
        self.namespaces.get(name)
    }

    /// A node, if it was seen.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Timeline> {
        self.nodes.get(name)
    }

    /// Nobody asks for this object any more.
    pub fn forget(&mut self, uid: Uid) {
        self.objects.remove(&uid);
    }

    /// What a pod with `own` labels in `namespace`, on `node` if it is bound, counts under at `version`.
    #[must_use]
    pub fn assignment(
        &self,
        own: &Timeline,
        namespace: &str,
        node: &str,
        version: u64,
    ) -> Assignment {
        let Some(pod) = own.at(version) else { return Assignment::default() };
        let (owner, top) = self.top(pod, namespace, version);
        let group = |d: Option<&Arc<Declared>>| d.and_then(|d| d.group.clone());
        let namespaced = || group(self.namespaces.get(namespace).and_then(|t| t.at(version)));
        let top_group = group(top);
        let overruled =
            pod.group.clone().filter(|own| top_group.as_ref().is_some_and(|t| t != own));
        let mut models = pod.models.clone();
        for (model, above) in models.iter_mut().zip(top.map(|t| &t.models).into_iter().flatten()) {
            *model = model.take().or_else(|| above.clone());
        }
        let real = self.nodes.get(node).and_then(|t| t.at(version)).map(|node| &node.models);
        for (model, real) in models.iter_mut().zip(real.into_iter().flatten()) {
            *model = real.clone().or_else(|| model.take());
        }
        let group = top_group.or_else(|| pod.group.clone()).or_else(namespaced);
        Assignment { owner, group: group.unwrap_or_default(), models, overruled }
    }

    /// The last owner that can be named, and what it declares if it was seen.
    fn top<'o>(
        &'o self,
        pod: &'o Arc<Declared>,
        namespace: &str,
        version: u64,
    ) -> (Option<Arc<Reference>>, Option<&'o Arc<Declared>>) {
        let (mut owner, mut current) = (None, Some(pod));
        for _ in 0..MAX_DEPTH {
            let Some(reference) = current.and_then(|d| workload(d)) else { break };
            owner = Some(Arc::clone(reference));
            current = self.find(reference, namespace).and_then(|o| o.timeline.at(version));
        }
        let top = owner.is_some().then_some(current).flatten();
        (owner, top)
    }

    /// The object that `reference` names, if it was seen and is the one that is meant.
    fn find(&self, reference: &Reference, namespace: &str) -> Option<&Object> {
        let object = self.objects.get(&Uid::of(&reference.uid))?;
        let same = object.kind == reference.kind
            && object.name == reference.name
            && (object.namespace.is_empty() || &*object.namespace == namespace);
        same.then_some(object)
    }

    /// The versions after `from` and before `to` at which the assignment of a pod may change, in order, with their
    /// instants; at most `most` of them, which then are any.
    #[must_use]
    pub fn changes(
        &self,
        own: &Timeline,
        namespace: &str,
        node: &str,
        from: u64,
        to: Option<u64>,
        most: usize,
    ) -> Vec<(u64, Timestamp)> {
        let within = |(v, _): &(u64, Timestamp)| *v > from && to.is_none_or(|to| *v < to);
        let mut timelines = self.timelines(own, namespace);
        timelines.extend(self.nodes.get(node));
        let versions = timelines.iter().flat_map(|t| t.dated()).filter(within);
        let mut changes: Vec<_> = versions.take(most).collect();
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    /// The newest instant on a pod, its namespace, and everything that ever owned it.
    #[must_use]
    pub fn newest(&self, own: &Timeline, namespace: &str) -> Option<Timestamp> {
        let timelines = self.timelines(own, namespace);
        timelines.iter().flat_map(|t| t.dated()).map(|(_, time)| time).max()
    }

    /// Calls `each` with the uid of everything that ever owned a pod.
    pub fn above(&self, own: &Timeline, namespace: &str, mut each: impl FnMut(Uid)) {
        for timeline in self.timelines(own, namespace) {
            timeline.owners().for_each(|owner| each(Uid::of(&owner.uid)));
        }
    }

    /// What was ever declared by a pod, by its namespace, and by everything that ever owned it.
    fn timelines<'o>(&'o self, own: &'o Timeline, namespace: &str) -> Vec<&'o Timeline> {
        let mut timelines = vec![own];
        timelines.extend(self.namespaces.get(namespace));
        let mut level: Vec<&Timeline> = vec![own];
        for _ in 0..MAX_DEPTH {
            let references = level.iter().flat_map(|t| t.owners());
            let mut above: Vec<&Timeline> =
                references.filter_map(|r| self.find(r, namespace).map(|o| &o.timeline)).collect();
            above.sort_by_key(|t| std::ptr::from_ref::<Timeline>(t));
            above.dedup_by(|a, b| std::ptr::eq(*a, *b));
            timelines.extend(&above);
            if above.is_empty() {
                break;
            }
            level = above;
        }
        timelines
    }
}

/// The owner, unless it is no workload: the node that runs a mirrored pod, or what makes workloads: a CronJob's Jobs
/// and a TrainJob's JobSet stand for themselves.
fn workload(declared: &Declared) -> Option<&Arc<Reference>> {
    declared.owner.as_ref().filter(|o| !matches!(&*o.kind, "Node" | "CronJob" | "TrainJob"))
}
