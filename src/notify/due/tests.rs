//! A team with a budget of eight core-hours and two cores from the third hour on: four hours to the end.

use super::{Due, Notice};
use crate::domain::{
    event::{Data, Event, EventId},
    ledger::Ledger,
    merkle::Hash,
    time::{HOUR_MS, ORIGIN, Timestamp},
};
use std::collections::BTreeMap;

struct Told {
    ledger: Ledger,
    position: u64,
}

fn hour(n: i64) -> Timestamp {
    ORIGIN.shifted(HOUR_MS * n)
}

impl Told {
    fn tell(&mut self, at: Timestamp, subject: &str, data: Data<'_>) {
        self.position += 1;
        let (id, source) = (EventId(self.position.into()), "/clusters/east".into());
        let event = Event { id, source, subject: subject.into(), time: at, recorded_at: at, data };
        self.ledger.apply(self.position, Hash::default(), &event).unwrap();
    }

    fn quota(&mut self, at: Timestamp, generation: u32, cash: u32) {
        let text = format!(
            r#"{{"uid":"uid","resourceVersion":"{generation}","generation":{generation},
                "spec":{{"hard":{{"cash/limits.cpu":"{cash}"}}}}}}"#
        );
        let data = Data::QuotaDeclared(serde_json::from_str(&text).unwrap());
        self.tell(at, "quotas/team", data);
    }

    fn team() -> Self {
        let mut told = Self { ledger: Ledger::default(), position: 0 };
        told.quota(hour(1), 1, 8);
        let text = r#"{"uid":"pod","group":"team","node":"a","models":{},
            "held":{"requests":{},"limits":{"cpu":"2"}},"basis":"Bound"}"#;
        told.tell(hour(3), "pods/n/p", Data::PodStarted(serde_json::from_str(text).unwrap()));
        told
    }

    fn due(&self, at: Timestamp) -> Due {
        Due::at(&self.ledger, at)
    }
}

fn seen(due: &Due) -> Vec<(u8, Timestamp)> {
    due.notices.iter().map(|n| (n.threshold, n.at)).collect()
}

#[test]
fn each_threshold_is_due_at_its_millisecond_and_the_next_is_known() {
    let told = Told::team();
    // Two cores spend 4, 6.4, 7.2 and 8 core-hours in 2, 3.2, 3.6 and 4 hours.
    let crossings = [2 * HOUR_MS, HOUR_MS * 16 / 5, HOUR_MS * 18 / 5, 4 * HOUR_MS];
    let crossings = crossings.map(|after| hour(3).shifted(after));
    let mut all = Vec::new();
    for (threshold, at) in [50, 80, 90, 100].into_iter().zip(crossings) {
        let before = told.due(at.shifted(-1));
        assert_eq!((seen(&before), before.next), (all.clone(), Some(at)));
        all.push((threshold, at));
        assert_eq!(seen(&told.due(at)), all);
    }
    let end = told.due(hour(100));
    assert_eq!((seen(&end), end.next), (all, None));
    assert_eq!(end.notices.last().map(|n| n.kind), Some("cash.exhausted"));
}

#[test]
fn whoever_asks_again_finds_the_same_ids_and_no_two_notices_share_one() {
    let told = Told::team();
    let ids = |due: Due| due.notices.into_iter().map(|n: Notice| n.id).collect::<Vec<_>>();
    let (first, later) = (ids(told.due(hour(7))), ids(told.due(hour(50))));
    assert_eq!(first, later);
    assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
}

#[test]
fn a_new_budget_has_notices_of_its_own() {
    let mut told = Told::team();
    let old: BTreeMap<_, _> =
        told.due(hour(7)).notices.into_iter().map(|n| (n.id, n.threshold)).collect();
    told.quota(hour(7), 2, 16);
    let due = told.due(hour(7));
    assert_eq!(seen(&due), [(50, hour(7))]);
    assert!(due.notices.iter().all(|n| !old.contains_key(&n.id)));
}

#[test]
fn a_group_without_a_budget_is_told_nothing() {
    assert_eq!(Due::at(&Ledger::default(), hour(9)), Due::default());
}
