//! Refusals, gathered until somebody tells the log: one for each workload and reason, with how often. Controllers try
//! again for hours; people and audits want to know that, and not each time.

use crate::{
    decider::{Ask, Missing, Refused as No, What},
    domain::{
        event::{Data, Refused, WorkloadsRefused},
        time::Timestamp,
    },
};
use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

/// Workloads and reasons that are kept apart; what is more is only counted.
const MOST: usize = 1_000;
/// Refusals of one cluster that are told at once, those that came most often.
const TOLD: usize = 100;

/// What was refused and is not told yet. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<Mutex<Gathered>>);

#[derive(Debug, Default)]
struct Gathered {
    /// By cluster, group, reason and object.
    refusals: BTreeMap<[String; 4], Refused<'static>>,
    untold: u64,
}

/// What is to be told now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Data of `workloads.refused`, by cluster.
    pub notes: Vec<(String, Vec<Refused<'static>>)>,
    /// So many refusals are in none of them.
    pub untold: u64,
}

impl Refusals {
    /// Notes that `ask` was answered with `no`.
    pub fn note(&self, ask: &Ask, no: &No, now: Timestamp) {
        let What::Workload(asked) = &ask.what else { return };
        if ask.dry_run {
            return;
        }
        let object = asked.draws_on.as_ref().unwrap_or(&asked.workload);
        let group = match (&asked.group, &asked.missing) {
            (Some(group), _) | (None, Missing::Default(group)) => group.clone(),
            (None, _) => String::new(),
        };
        let reason = no.reason.name();
        let key = [
            ask.cluster.clone(),
            group.clone(),
            reason.to_owned(),
            format!(
                "{} {}/{}",
                object.kind,
                object.namespace.as_deref().unwrap_or_default(),
                object.name
            ),
        ];
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = gathered.refusals.len() >= MOST && !gathered.refusals.contains_key(&key);
        if is_full {
            gathered.untold = gathered.untold.saturating_add(1);
            return;
        }
        let refused = gathered.refusals.entry(key).or_insert_with(|| Refused {
            cluster: ask.cluster.clone().into(),
            workload: object.clone(),
            group: group.into(),
            reason: reason.into(),
            message: String::new().into(),
            count: 0,
            first: now,
            last: now,
        });
        refused.message = no.message.clone().into();
        refused.count = refused.count.saturating_add(1);
        refused.last = now;
    }

    /// What came since it was last taken.
    #[must_use]
    pub fn take(&self) -> Told {
        let gathered = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut told = Told { notes: Vec::new(), untold: gathered.untold };
        let mut by_cluster: BTreeMap<String, Vec<Refused<'static>>> = BTreeMap::new();
        for ([cluster, ..], refused) in gathered.refusals {
            by_cluster.entry(cluster).or_default().push(refused);
        }
        for (cluster, mut refusals) in by_cluster {
            refusals.sort_by_key(|refused| std::cmp::Reverse(refused.count));
            let rest = refusals.split_off(refusals.len().min(TOLD));
            let rest = rest.iter().fold(0_u64, |sum, r| sum.saturating_add(r.count));
            told.untold = told.untold.saturating_add(rest);
            told.notes.push((cluster, refusals));
        }
        told
    }
}

/// The event that says so.
#[must_use]
pub fn note(refusals: Vec<Refused<'_>>) -> Data<'_> {
    Data::WorkloadsRefused(WorkloadsRefused { refusals })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        decider::Workload,
        domain::{
            admission::Reason,
            event::{ObjectRef, Operation},
            time::ORIGIN,
        },
    };

    fn ask(name: &str) -> Ask {
        let workload = ObjectRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: Some("web".into()),
            name: name.to_owned().into(),
            uid: String::new().into(),
        };
        let workload = Workload {
            operation: Operation::Create,
            workload,
            old_resource_version: None,
            group: Some("team".to_owned()),
            missing: Missing::Allow,
            labels: Arc::default(),
            roles: Vec::new(),
            old: None,
            resize: None,
            undeclared: Vec::new(),
            name_is_taken: false,
            draws_on: None,
            makes: Vec::new(),
            invalid: None,
        };
        Ask {
            request: "r".to_owned(),
            cluster: "east".to_owned(),
            dry_run: false,
            what: What::Workload(Box::new(workload)),
        }
    }

    fn no(message: &str) -> No {
        No { reason: Reason::QuotaExceeded, message: message.to_owned(), fit: None }
    }

    #[test]
    fn a_workload_that_is_tried_again_is_told_once_with_how_often() {
        let refusals = Refusals::default();
        for n in 0..5 {
            refusals.note(&ask("shop"), &no(&format!("try {n}")), ORIGIN.shifted(n));
        }
        refusals.note(&ask("api"), &no("one"), ORIGIN);
        refusals.note(&Ask { dry_run: true, ..ask("api") }, &no("dry"), ORIGIN);
        let told = refusals.take();
        let [(cluster, refused)] = &told.notes[..] else { panic!("{told:?}") };
        assert_eq!((&**cluster, refused.len(), told.untold), ("east", 2, 0));
        let first = &refused[0];
        assert_eq!((&*first.workload.name, first.count, &*first.message), ("shop", 5, "try 4"));
        assert_eq!((first.first, first.last), (ORIGIN, ORIGIN.shifted(4)));
        assert_eq!(refusals.take(), Told::default());
    }

    #[test]
    fn what_is_more_than_can_be_told_is_counted() {
        let refusals = Refusals::default();
        for n in 0..MOST + 7 {
            refusals.note(&ask(&format!("d{n}")), &no("m"), ORIGIN);
        }
        refusals.note(&ask("d3"), &no("m"), ORIGIN);
        let told = refusals.take();
        assert_eq!(told.notes[0].1.len(), TOLD);
        assert_eq!(&*told.notes[0].1[0].workload.name, "d3", "the most frequent first");
        let counted: u64 = told.notes[0].1.iter().map(|r| r.count).sum();
        assert_eq!(counted + told.untold, MOST as u64 + 8);
    }
}
