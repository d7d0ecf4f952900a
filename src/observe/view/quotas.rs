//! Quota objects, as they really are.

use super::View;
use crate::{
    domain::{
        event::{Data, QuotaDeclared, QuotaRemoved, QuotaSpec},
        ledger::Ledger,
        names::{Map, Uid},
        quota,
        text::Text,
        time::Timestamp,
    },
    k8s::crd::QuotaObject,
    observe::{inventory::Named, owners::written},
};

/// By uid, what was told last, and the newest instant on it.
pub(super) type Quotas = Map<Uid, (QuotaSpec<'static>, Timestamp)>;

impl View {
    pub(super) fn see_quota(&mut self, object: &QuotaObject, received: Option<Timestamp>) {
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
        let newest = meta.newest_api_time().unwrap_or(self.reached);
        let known = self.quotas.insert(Uid::of(&meta.uid), (spec.clone(), newest));
        if known.as_ref().is_some_and(|(told, _)| *told == spec) {
            return;
        }
        let time = written(newest, known.map(|(_, before)| before), self.learned(received));
        let declared = QuotaDeclared {
            uid: Text::from(meta.uid.clone()),
            resource_version: Text::from(meta.resource_version.clone()),
            generation: meta.generation,
            spec,
        };
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
