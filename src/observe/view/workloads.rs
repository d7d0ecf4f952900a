//! Workloads: the objects of declared kinds that nothing above them speaks for, and what they ask for.

use super::{Changed, View, WAITS};
use crate::{
    domain::{
        event::{Data, ObjectRef, Role, WorkloadGone, WorkloadObserved},
        ledger::Ledger,
        names::{ObjectId, Uid},
        resources::{Models, Resources},
        text::Text,
        time::Timestamp,
    },
    k8s::{
        context::{Context, Known},
        demand::demand,
        kinds::{self, Kind},
        meta::ObjectMeta,
    },
    observe::{
        inventory::Named,
        owners::{self, Timeline},
    },
};
use std::sync::Arc;

/// What is kept of an object of a declared kind; the object itself is in the context.
pub(super) struct Workload {
    pub(super) namespace: Arc<str>,
    kind: Arc<Kind>,
    api_version: Box<str>,
    /// Its owner speaks for it.
    child: bool,
    waited: bool,
    /// Version, group and roles that were told last.
    told: Option<Told>,
    pub(super) compared: bool,
}

struct Told {
    version: String,
    group: String,
    roles: Vec<Role<'static>>,
}

/// One pod like this.
pub(super) fn one_pod(models: Models<'static>, reserved: &Arc<Resources>) -> Role<'static> {
    Role { name: Text::default(), count: 1, peak: 1, models, pod: Arc::clone(reserved) }
}

impl View {
    pub(super) fn see_object(
        &mut self,
        kind: &Arc<Kind>,
        object: &kinds::Object,
        received: Option<Timestamp>,
    ) {
        let meta = &object.metadata;
        self.keeps_status_writes |= meta.managed_fields.iter().any(|f| !f.subresource.is_empty());
        let Some(version) = self.version(meta, received) else { return };
        let uid = Uid::of(&meta.uid);
        let shared = &mut self.shared;
        let [name, of_kind, namespace] =
            [&meta.name, &object.kind, &meta.namespace].map(|text| shared.text(text));
        let last = |owners: &owners::Owners| owners.object(uid).and_then(Timeline::last).cloned();
        let before = last(&self.owners);
        let new = || owners::Object {
            kind: of_kind,
            namespace: Arc::clone(&namespace),
            name,
            timeline: Timeline::default(),
        };
        self.owners.see(uid, new, version);
        if before.is_some() && before != last(&self.owners) {
            self.touch_namespace(&namespace);
        }
        self.workloads.entry(uid).or_insert_with(|| Workload {
            namespace,
            kind: Arc::clone(kind),
            api_version: object.api_version.as_str().into(),
            child: false,
            waited: false,
            told: None,
            compared: false,
        });
        self.changed.push_back(Changed::Workload(uid));
    }

    pub(super) fn lose_object(&mut self, named: &Named, absent: bool) {
        let uid = Uid::of(&named.uid);
        let Some(work) = self.workloads.remove(&uid) else { return };
        self.graves.push_back((self.ticks + super::REMEMBERED, Arc::clone(&work.namespace), uid));
        if work.child {
            return;
        }
        let cause = if absent { "Absent" } else { "Deleted" };
        let text = |text: &str| Text::from(text.to_owned());
        let workload = ObjectRef {
            api_version: text(&work.api_version),
            kind: text(&work.kind.kind),
            namespace: (!named.namespace.is_empty()).then(|| text(&named.namespace)),
            name: text(&named.name),
            uid: text(&named.uid),
        };
        let subject = subject(&work.api_version, &work.kind.kind, &named.namespace, &named.name);
        let gone = WorkloadGone { workload, cause: cause.into() };
        self.pending.push((subject, self.reached, Data::WorkloadGone(gone)));
    }

    /// What the ledger believes to be there and was not listed, is gone. Of these nobody here knows more than the uid.
    pub(super) fn find_vanished_workloads(&mut self, ledger: &Ledger) {
        let Some(cluster) = ledger.names().known_cluster_of(&self.cluster.name) else { return };
        let Some(book) = ledger.book() else { return };
        let there = |uid: &Uid| self.workloads.contains_key(uid) || self.pods.contains_key(uid);
        let vanished = book.observed(cluster).map(|object| object.uid).filter(|uid| !there(uid));
        for uid in vanished {
            let uid = uid.to_string();
            let subject = format!("workloads/{uid}");
            let workload = ObjectRef { uid: uid.into(), ..ObjectRef::default() };
            let gone = WorkloadGone { workload, cause: "Absent".into() };
            self.pending.push((subject, self.reached, Data::WorkloadGone(gone)));
        }
    }

    /// Whether the owner of a workload is not known yet.
    pub(super) fn lacks_owner(&self, uid: Uid) -> bool {
        let declared = self.owners.object(uid).and_then(Timeline::last);
        declared.and_then(|d| d.owner.as_deref()).is_some_and(|owner| self.lacks(owner))
    }

    pub(super) fn look_at_workload(&mut self, uid: Uid, context: &Context, ledger: &Ledger) {
        let Some(known) = context.known(uid).cloned() else { return };
        if self.is_child(uid, &known, context) {
            return;
        }
        let Some(mut work) = self.workloads.remove(&uid) else { return };
        let comparing = self.comparing && !work.compared;
        if comparing && work.told.as_ref().is_some_and(|told| !self.is_known(uid, told, ledger)) {
            // It was told, and the ledger does not have it.
            (work.told, work.compared) = (None, true);
            self.facts.drift += 1;
        }
        work.compared = true;
        self.tell_workload(&mut work, &known, context, ledger);
        self.workloads.insert(uid, work);
    }

    fn is_known(&self, uid: Uid, told: &Told, ledger: &Ledger) -> bool {
        let cluster = ledger.names().known_cluster_of(&self.cluster.name);
        let object = cluster.map(|cluster| ObjectId { cluster, uid });
        let book = ledger.book();
        object.zip(book).is_some_and(|(object, book)| book.is_observed(object, &told.version))
    }

    /// Whether another object speaks for this one, or may, once it is known.
    fn is_child(&mut self, uid: Uid, known: &Known, context: &Context) -> bool {
        let Some(work) = self.workloads.get_mut(&uid) else { return true };
        let meta = &known.object.metadata;
        let Some(owner) = meta.controller() else { return false };
        let kind = self.kinds.find_in_group(&owner.api_version, &owner.kind);
        if kind.is_none_or(|kind| kind.makes) {
            return false;
        }
        let owner_uid = Uid::of(&owner.uid);
        let there =
            context.meant(owner, &meta.namespace).is_some() || self.pods.contains_key(&owner_uid);
        work.child |= there;
        if work.child {
            return true;
        }
        if !work.waited {
            work.waited = true;
            if self.ticks > 0 {
                self.waiting.push((self.ticks + WAITS, Changed::Workload(uid)));
                return true;
            }
        }
        self.waiting.iter().any(|(_, waiting)| *waiting == Changed::Workload(uid))
    }

    fn tell_workload(
        &mut self,
        work: &mut Workload,
        known: &Known,
        context: &Context,
        ledger: &Ledger,
    ) {
        let object = &known.object;
        let meta = &object.metadata;
        // What is being deleted asks for nothing new.
        if meta.deletion_timestamp.is_some() && work.told.is_none() {
            return;
        }
        let asked = match demand(&known.kind, object, None, context, true) {
            Ok(asked) => asked,
            Err(why) => {
                let (kind, namespace, name) = (&object.kind, &meta.namespace, &meta.name);
                (self.cluster.notice)(&format!("{kind} {namespace}/{name}: {why}"));
                return;
            }
        };
        // What makes workloads is one object, and asks for nothing itself.
        let roles = if known.kind.makes { Vec::new() } else { asked.roles };
        let own = meta.label(&context.labels().group).map(str::to_owned).or(asked.group);
        let group = own.or_else(|| context.namespace_group(&meta.namespace).map(str::to_owned));
        let group = group.unwrap_or_else(|| self.cluster.default_group.clone());
        if work.told.as_ref().is_some_and(|told| told.group == group && told.roles == roles) {
            return;
        }
        let version = meta.resource_version.clone();
        work.told =
            Some(Told { version: version.clone(), group: group.clone(), roles: roles.clone() });
        let observed = WorkloadObserved {
            workload: reference(object.api_version.as_str(), &known.kind.kind, meta),
            resource_version: version.into(),
            generation: meta.generation,
            group: group.into(),
            roles,
        };
        let subject = subject(&object.api_version, &known.kind.kind, &meta.namespace, &meta.name);
        let time = meta.newest_api_time().unwrap_or(self.reached);
        self.facts.tell(ledger, subject, time, Data::WorkloadObserved(observed));
    }
}

fn reference(api_version: &str, kind: &str, meta: &ObjectMeta) -> ObjectRef<'static> {
    let text = |text: &str| Text::from(text.to_owned());
    ObjectRef {
        api_version: text(api_version),
        kind: text(kind),
        namespace: (!meta.namespace.is_empty()).then(|| text(&meta.namespace)),
        name: text(&meta.name),
        uid: text(&meta.uid),
    }
}

/// `workloads/apps/Deployment/web/shop`.
fn subject(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    format!("workloads/{group}/{kind}/{namespace}/{name}")
}
