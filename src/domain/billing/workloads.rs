//! Names of workloads, as the records of their pods tell them: what a line is about. The ledger itself knows uids only.

use crate::domain::{
    event::{Data, Event, ObjectRef},
    names::{Interner, Map, Names, ObjectId, Set},
};

/// What the workloads of remembered pods are called.
#[derive(Clone, Debug)]
pub(super) struct Workloads {
    /// Namespaces and kinds.
    words: Interner,
    names: Map<ObjectId, Name>,
    /// So many names are kept before those that nobody needs are looked for.
    most: usize,
}

/// What a workload is called within its cluster.
#[derive(Clone, Debug, Default)]
struct Name {
    namespace: u32,
    kind: u32,
    name: Box<str>,
}

/// A workload for people: of one name, whatever its uid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload<'b> {
    /// The source that speaks of it: `/clusters/NAME`.
    pub source: &'b str,
    /// Namespace.
    pub namespace: &'b str,
    /// `Job`; `Pod` for a pod that nothing owns; empty where a line is about none.
    pub kind: &'b str,
    /// Name.
    pub name: &'b str,
}

/// Below this many names nothing is looked for.
const FEW: usize = 4096;

impl Default for Workloads {
    fn default() -> Self {
        let (words, names) = Default::default();
        Self { words, names, most: FEW }
    }
}

impl Workloads {
    /// Learns what the workload `id` is called from an event about a pod of it.
    pub(super) fn learn(&mut self, id: ObjectId, event: &Event<'_>) {
        let owner = match &event.data {
            Data::PodStarted(data) => &data.owner,
            Data::PodMoved(data) => &data.owner,
            // Its name came with its start.
            _ => return,
        };
        if !self.names.contains_key(&id) {
            let name = self.name(owner.as_ref(), &event.subject);
            self.names.insert(id, name);
        }
    }

    fn name(&mut self, owner: Option<&ObjectRef<'_>>, subject: &str) -> Name {
        let pod = subject.strip_prefix("pods/").unwrap_or(subject);
        let (of_pod, pod) = pod.split_once('/').unwrap_or(("", pod));
        let (namespace, kind, name) = match owner {
            Some(owner) => (owner.namespace.as_deref(), &*owner.kind, &*owner.name),
            None => (None, "Pod", pod),
        };
        let namespace = self.words.intern(namespace.unwrap_or(of_pod));
        Name { namespace, kind: self.words.intern(kind), name: name.into() }
    }

    /// Whether there are so many that forgetting some is worth the search.
    pub(super) fn is_full(&self) -> bool {
        self.names.len() > self.most
    }

    /// Forgets all but these.
    pub(super) fn keep(&mut self, needed: &Set<ObjectId>) {
        self.names.retain(|id, _| needed.contains(id));
        self.names.shrink_to_fit();
        self.most = self.names.len().saturating_mul(2).max(FEW);
    }

    /// What a workload is called; nothing if it is none.
    pub(super) fn get<'b>(&'b self, id: ObjectId, names: &'b Names) -> Workload<'b> {
        let Some(name) = self.names.get(&id) else { return Workload::default() };
        Workload {
            source: names.cluster_name(id.cluster),
            namespace: self.words.text(name.namespace),
            kind: self.words.text(name.kind),
            name: &name.name,
        }
    }
}
