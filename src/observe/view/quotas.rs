//! Quota objects, as they really are.

use super::View;
use crate::{
    domain::{
        event::{Data, QuotaDeclared, QuotaRemoved, QuotaSpec},
        ledger::Ledger,
        names::{Map, Uid},
        quota,
        text::Text,
    },
    k8s::crd::QuotaObject,
    observe::inventory::Named,
};

/// By uid, what was told last.
pub(super) type Quotas = Map<Uid, QuotaSpec<'static>>;

impl View {
    pub(super) fn see_quota(&mut self, object: &QuotaObject) {
        let meta = &object.metadata;
        let spec = match object.spec.typed().accept(&meta.name) {
            Ok(spec) => spec,
            Err(errors) => {
                let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
                let (name, errors) = (&meta.name, errors.join("; "));
                (self.cluster.notice)(&format!(
                    "quota {name}: {errors}; the last valid declaration stays in force"
                ));
                return;
            }
        };
        if self.quotas.get(&Uid::of(&meta.uid)) == Some(&spec) {
            return;
        }
        self.quotas.insert(Uid::of(&meta.uid), spec.clone());
        let declared = QuotaDeclared {
            uid: Text::from(meta.uid.clone()),
            resource_version: Text::from(meta.resource_version.clone()),
            generation: meta.generation,
            spec,
        };
        let time = meta.newest_api_time().unwrap_or(self.reached);
        self.pending.push((format!("quotas/{}", meta.name), time, Data::QuotaDeclared(declared)));
    }

    pub(super) fn lose_quota(&mut self, named: &Named) {
        if self.quotas.remove(&Uid::of(&named.uid)).is_some() {
            let removed = QuotaRemoved { uid: Text::from(named.uid.to_string()) };
            let subject = format!("quotas/{}", named.name);
            self.pending.push((subject, self.reached, Data::QuotaRemoved(removed)));
        }
    }

    /// What the ledger believes to be there and was not listed, is gone; but for what was declared without a cluster.
    pub(super) fn find_vanished_quotas(&mut self, ledger: &Ledger) {
        let objects = ledger.book().into_iter().flat_map(|book| book.quota_objects());
        for (group, uid) in objects.filter(|(_, uid)| !self.quotas.contains_key(uid)) {
            let name = ledger.names().group_name(group);
            if uid != Uid::of(&quota::uid_of(name)) {
                let removed = QuotaRemoved { uid: Text::from(uid.to_string()) };
                let subject = format!("quotas/{name}");
                self.pending.push((subject, self.reached, Data::QuotaRemoved(removed)));
            }
        }
    }
}
