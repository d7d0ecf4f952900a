//! A team with a budget of eight core-hours and two cores from the third hour on: four hours to the end.

mod model;

use super::{Due, Notice, Parts, Told, What};
use crate::domain::{
    event::{Data, Event, EventId},
    ledger::{Ledger, Record},
    merkle::Hash,
    time::{HOUR_MS, ORIGIN, Timestamp},
};
use std::collections::BTreeSet;

struct World {
    ledger: Ledger,
    position: u64,
    told: Told,
}

fn hour(n: i64) -> Timestamp {
    ORIGIN.shifted(HOUR_MS * n)
}

impl World {
    fn tell(&mut self, at: Timestamp, subject: &str, data: Data<'_>) {
        self.position += 1;
        let (id, source) = (EventId(self.position.into()), "/clusters/east".into());
        let event = Event { id, source, subject: subject.into(), time: at, recorded_at: at, data };
        self.ledger.apply(self.position, Hash::default(), &event).unwrap();
    }

    fn quota(&mut self, at: Timestamp, generation: u32, hard: &str) {
        self.quota_that_asks(at, generation, hard, "");
    }

    fn quota_that_asks(&mut self, at: Timestamp, generation: u32, hard: &str, notify: &str) {
        let text = format!(
            r#"{{"uid":"uid","resourceVersion":"{generation}","generation":{generation},
                "spec":{{"hard":{{{hard}}}{notify}}}}}"#
        );
        let data = Data::QuotaDeclared(serde_json::from_str(&text).unwrap());
        self.tell(at, "quotas/team", data);
    }

    fn pod(&mut self, group: &str, cores: u32, at: Timestamp) {
        let text = format!(
            r#"{{"uid":"pod of {group}","group":"{group}","node":"a","models":{{}},
            "held":{{"requests":{{}},"limits":{{"cpu":"{cores}"}}}},"basis":"Bound"}}"#
        );
        self.tell(at, "pods/n/p", Data::PodStarted(serde_json::from_str(&text).unwrap()));
    }

    fn new() -> Self {
        Self { ledger: Ledger::default(), position: 0, told: Told::default() }
    }

    fn team() -> Self {
        let mut world = Self::new();
        world.quota(hour(1), 1, r#""cash/limits.cpu":"8""#);
        world.pod("team", 2, hour(3));
        world
    }

    fn look(&self, at: Timestamp) -> Due {
        let due = Due::at(&self.ledger, &self.told, at, None);
        // Group by group it is the same.
        let mut parts = Parts::default();
        while parts.groups(&self.ledger, &self.told, at, 1) {}
        assert_eq!(parts.end(&self.ledger, &self.told, at, None), due);
        due
    }

    /// What is told at an instant, and told with that.
    fn all_told(&mut self, at: Timestamp) -> Vec<Notice> {
        let notices = self.look(at).notices;
        notices.iter().for_each(|notice| self.told.note(notice.clone()));
        notices
    }

    /// The same without forecasts.
    fn told(&mut self, at: Timestamp) -> Vec<Notice> {
        let mut notices = self.all_told(at);
        notices.retain(|notice| notice.topic.what != What::Forecast);
        notices
    }

    fn forecasts(&mut self, at: Timestamp) -> Vec<(bool, Option<Timestamp>)> {
        let mut notices = self.all_told(at);
        notices.retain(|notice| notice.topic.what == What::Forecast);
        notices.into_iter().map(|notice| (notice.stands, notice.forecast)).collect()
    }

    fn stop(&mut self, group: &str, at: Timestamp) {
        let text = format!(
            r#"{{"uid":"pod of {group}","earliest":"{at}","latest":"{at}",
                "basis":"TerminalStatus","phase":"Succeeded","reason":""}}"#
        );
        self.tell(at, "pods/n/p", Data::PodStopped(serde_json::from_str(&text).unwrap()));
    }
}

fn kinds(notices: &[Notice]) -> Vec<(&str, Option<u16>)> {
    notices.iter().map(|n| (n.kind.as_str(), n.threshold)).collect()
}

#[test]
fn each_threshold_is_due_at_its_millisecond_and_the_next_is_known() {
    let mut world = World::team();
    // Two cores spend 4, 6.4, 7.2 and 8 core-hours in 2, 3.2, 3.6 and 4 hours.
    let crossings = [2 * HOUR_MS, HOUR_MS * 16 / 5, HOUR_MS * 18 / 5, 4 * HOUR_MS];
    let crossings = crossings.map(|after| hour(3).shifted(after));
    for (threshold, at) in [50, 80, 90, 100].into_iter().zip(crossings) {
        assert_eq!(world.told(at.shifted(-1)), []);
        assert_eq!(world.look(at.shifted(-1)).next, Some(at));
        let told = world.told(at);
        assert_eq!(
            told.iter().map(|n| (n.threshold, n.at)).collect::<Vec<_>>(),
            [(Some(threshold), at)]
        );
    }
    let end = hour(7).shifted(1);
    assert_eq!(world.look(hour(7)).next, Some(end));
    assert_eq!(kinds(&world.told(end)), [("cash.overdraft", None)]);
    assert_eq!(world.told(hour(100)), []);
}

#[test]
fn what_is_far_off_is_looked_for_when_it_is_near() {
    let world = World::team();
    assert_eq!(world.look(hour(3)).next, Some(hour(3).shifted(super::AHEAD)));
}

#[test]
fn whoever_asks_again_finds_the_same_ids_and_no_two_notices_share_one() {
    let world = World::team();
    let ids = |due: Due| due.notices.into_iter().map(|n| n.id).collect::<Vec<_>>();
    let (first, later) = (ids(world.look(hour(8))), ids(world.look(hour(50))));
    assert_eq!(first, later);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 5);
}

#[test]
fn an_edit_of_anything_else_tells_nothing() {
    let mut world = World::team();
    assert_eq!(world.told(hour(8)).len(), 5);
    world.quota(hour(8), 2, r#""requests.memory":"5","cash/limits.cpu":"8""#);
    world.quota(hour(8), 3, r#""requests.memory":"6","cash/limits.cpu":"8""#);
    assert_eq!(world.told(hour(8)), []);
}

#[test]
fn a_larger_budget_takes_back_what_is_no_more_and_it_is_told_again_when_it_is_crossed_again() {
    let mut world = World::team();
    let first: Vec<_> = world.told(hour(7));
    assert_eq!(first.len(), 4);
    world.quota(hour(7), 2, r#""cash/limits.cpu":"16""#);
    let replenished = world.told(hour(7));
    let expected = [80, 90, 100].map(|percent| ("cash.replenished", Some(percent)));
    assert_eq!(kinds(&replenished), expected, "half of sixteen is still used");
    assert!(replenished.iter().all(|n| !n.stands && n.number == 2));
    // 80 % of 16 are 12.8: 6.4 hours from the third on.
    let again = world.told(hour(3).shifted(HOUR_MS * 64 / 10));
    assert_eq!(kinds(&again), [("cash.threshold", Some(80))]);
    assert_eq!(again[0].number, 3);
    assert!(first.iter().all(|n| n.id != again[0].id));
    // The limit goes: nothing of it is left standing.
    world.quota(hour(10), 3, "");
    assert_eq!(kinds(&world.told(hour(10))), [50, 80].map(|p| ("cash.lifted", Some(p))));
    assert_eq!(world.told.standing().count(), 0);
}

#[test]
fn a_correction_takes_back_what_it_makes_untrue() {
    let mut world = World::team();
    assert_eq!(world.told(hour(7)).len(), 4);
    let text = format!(
        r#"{{"key":"limits.cpu","exact":"{}","period":{{"from":"{}","to":"{}"}},"why":"w","by":"b"}}"#,
        -1_000 * i128::from(HOUR_MS) * 3 / 2,
        hour(4),
        hour(5),
    );
    let data = Data::UsageAdjusted(serde_json::from_str(&text).unwrap());
    world.tell(hour(7), "accounts/team", data);
    let told = world.told(hour(7));
    assert_eq!(kinds(&told), [90, 100].map(|percent| ("cash.withdrawn", Some(percent))));
}

#[test]
fn what_children_have_is_not_the_groups_own() {
    let mut world = World::new();
    world.quota(hour(0), 1, r#""cash/limits.cpu":"10""#);
    let child = r#"{"uid":"child","resourceVersion":"2","generation":1,
        "spec":{"parent":"team","hard":{"cash/limits.cpu":"8"}}}"#;
    world.tell(hour(0), "quotas/child", Data::QuotaDeclared(serde_json::from_str(child).unwrap()));
    assert_eq!(world.told(hour(1)), [], "given, and not spent");
    world.pod("team", 1, hour(1));
    let told = world.told(hour(2));
    assert_eq!(kinds(&told), [("cash.threshold", Some(50))], "one of its own two");
    assert!(
        told[0].message.contains("50 % of its own 2 of cash/limits.cpu"),
        "{}",
        told[0].message
    );
    world.pod("child", 4, hour(2));
    // One hour later: team spent 2 of its own, the child 4 of its 8; together 6 of 10.
    let told = world.told(hour(3));
    let own = [80, 90, 100].map(|p| ("team", Some(p)));
    let groups: Vec<_> = told.iter().map(|n| (n.group.as_str(), n.threshold)).collect();
    assert_eq!(groups, [&own[..], &[("team", Some(50)), ("child", Some(50))]].concat());
    assert_eq!(told[3].kind, "consumed.threshold");
}

#[test]
fn whoever_has_read_less_tells_nothing_newer() {
    let mut world = World::team();
    let mut behind = World::team();
    world.quota(hour(7), 2, r#""cash/limits.cpu":"16""#);
    for notice in world.told(hour(8)) {
        behind.told.note(notice);
    }
    // By the old budget all of it is used; 50 % was told by a ledger that knew the new one.
    let told: Vec<_> = behind.told(hour(8)).iter().map(|n| n.threshold).collect();
    assert_eq!(told, [Some(80), Some(90), Some(100), None]);
    let behind = kinds_of_standing(&behind.told);
    assert_eq!(behind.len(), 5);
}

fn kinds_of_standing(told: &Told) -> Vec<Option<u16>> {
    told.standing().map(|(_, notice)| notice.threshold).collect()
}

#[test]
fn a_clock_that_is_behind_takes_nothing_back() {
    let mut world = World::team();
    assert_eq!(world.told(hour(7)).len(), 4);
    assert_eq!(world.told(hour(5)), []);
}

#[test]
fn a_group_without_a_budget_is_told_nothing() {
    assert_eq!(Due::at(&Ledger::default(), &Told::default(), hour(9), None), Due::default());
}

#[test]
fn an_end_that_is_near_is_told_beforehand_and_anew_when_the_pace_changes() {
    let mut world = World::new();
    world.quota(hour(0), 1, r#""cash/limits.cpu":"100""#);
    world.pod("team", 1, hour(0));
    // A hundred hours: not before the last day of them.
    assert_eq!(world.forecasts(hour(75)), []);
    let before = hour(76).shifted(-1);
    assert_eq!((world.forecasts(before), world.look(before).next), (vec![], Some(hour(76))));
    assert_eq!(world.forecasts(hour(76)), [(true, Some(hour(100)))]);
    assert_eq!(world.forecasts(hour(80)), [], "as was told");
    // With two cores more the 20 hours that are left last less than 7.
    let again = r#"{"uid":"second","group":"team","node":"a","models":{},
        "held":{"requests":{},"limits":{"cpu":"2"}},"basis":"Bound"}"#;
    world.tell(hour(80), "pods/n/q", Data::PodStarted(serde_json::from_str(again).unwrap()));
    let end = hour(80).shifted(HOUR_MS * 20 / 3);
    assert_eq!(world.forecasts(hour(80)), [(true, Some(end))]);
    let words = world.told.standing().map(|(_, n)| n.message.clone()).collect::<Vec<_>>();
    let says = |text: &str| words.iter().any(|words| words.contains(text));
    assert!(says("own 100 of cash/limits.cpu are used up at"), "{words:?}");
    assert!(says("if the 3 that run now run on"), "{words:?}");
    // Nothing runs any more: it does not end.
    world.stop("team", hour(81));
    let stop = format!(
        r#"{{"uid":"second","earliest":"{0}","latest":"{0}","basis":"TerminalStatus","phase":"Succeeded","reason":""}}"#,
        hour(81)
    );
    world.tell(hour(81), "pods/n/q", Data::PodStopped(serde_json::from_str(&stop).unwrap()));
    assert_eq!(world.forecasts(hour(81)), [(false, None)]);
}

#[test]
fn what_has_come_is_no_forecast() {
    let mut world = World::team();
    assert_eq!(world.forecasts(hour(4)), [(true, Some(hour(7)))]);
    assert_eq!(world.forecasts(hour(7)), []);
}

#[test]
fn a_limit_that_is_nearly_full_is_told_until_there_is_room_again() {
    let mut world = World::new();
    world.quota(hour(0), 1, r#""limits.cpu":"10""#);
    world.pod("team", 9, hour(1));
    let told = world.told(hour(1));
    let expected = [("limit.full", Some(90)), ("limit.unreviewed", None)];
    assert_eq!(kinds(&told), expected);
    assert_eq!(told[0].message, "team uses 9 of its own 10 of limits.cpu");
    assert_eq!(world.told(hour(2)), []);
    world.quota(hour(2), 2, r#""limits.cpu":"11""#);
    assert_eq!(world.told(hour(2)), [], "82 % is not room enough");
    world.stop("team", hour(3));
    let told = world.told(hour(3));
    assert_eq!(kinds(&told), [("limit.free", Some(90)), ("limit.reviewed", None)]);
}

#[test]
fn records_that_were_not_taken_are_told_at_the_first_and_when_they_have_doubled() {
    let mut world = World::new();
    let mut told = Vec::new();
    for n in 1..=8_u64 {
        world.position += 1;
        let record = Record::Undecodable(format!("fault {n}"));
        world.ledger.apply_record(world.position, Hash::default(), &record).unwrap();
        told.extend(world.told(hour(1)).into_iter().map(|notice| (n, notice.of, notice.number)));
    }
    let told: Vec<_> = told.iter().map(|(n, of, number)| (*n, of.as_str(), *number)).collect();
    assert_eq!(told, [(1, "1", 1), (2, "2", 2), (4, "4", 3), (8, "8", 4)]);
    let last = world.told.standing().next().unwrap().1;
    assert_eq!((last.kind.as_str(), last.group.as_str()), ("records.quarantined", ""));
    assert!(
        last.message.contains("8 records were not taken; the newest is at position 8: fault 8")
    );
}

#[test]
fn a_cluster_that_nobody_observes_is_told_after_three_heartbeats_and_when_it_is_heard_again() {
    let mut world = World::new();
    let synced = |world: &mut World, at: Timestamp| {
        let text = format!(r#"{{"resourceVersions":{{"pods":"7"}},"since":"{}"}}"#, hour(0));
        let data = Data::ObserverSynced(serde_json::from_str(&text).unwrap());
        world.tell(at, "observers/east", data);
    };
    let bound = Data::ClusterBound(serde_json::from_str(r#"{"uid":"u"}"#).unwrap());
    world.tell(hour(0), "clusters/east", bound);
    synced(&mut world, hour(1));
    let silent = hour(1).shifted(15 * 60_000);
    let before = world.look(silent.shifted(-1));
    assert_eq!((before.notices, before.next), (vec![], Some(silent)));
    let told = world.told(silent);
    assert_eq!(
        (told[0].kind.as_str(), told[0].key.as_str(), told[0].at),
        ("source.silent", "east", silent)
    );
    assert_eq!(world.told(hour(2)), []);
    synced(&mut world, hour(3));
    assert_eq!(kinds(&world.told(hour(3))), [("source.heard", None)]);
    assert_eq!(kinds(&world.told(hour(4))), [("source.silent", None)]);
    let retired =
        Data::ClusterRetired(serde_json::from_str(&format!(r#"{{"at":"{}"}}"#, hour(4))).unwrap());
    world.tell(hour(4), "clusters/east", retired);
    assert_eq!(kinds(&world.told(hour(4))), [("source.lifted", None)]);
}

#[test]
fn a_fold_that_stopped_is_told_once() {
    let mut world = World::new();
    let due = Due::at(&world.ledger, &world.told, hour(1), Some("records 4 to 5 are missing"));
    assert_eq!(kinds(&due.notices), [("fold.stopped", None)]);
    assert!(due.notices[0].message.contains("records 4 to 5 are missing"));
    due.notices.into_iter().for_each(|notice| world.told.note(notice));
    let due = Due::at(&world.ledger, &world.told, hour(2), Some("records 4 to 5 are missing"));
    assert_eq!(due.notices, []);
    assert_eq!(kinds(&world.told(hour(3))), [("fold.resumed", None)]);
}

#[test]
fn a_group_is_told_at_the_percentages_that_it_asks_for() {
    let mut world = World::team();
    let hard = r#""cash/limits.cpu":"8""#;
    world.quota_that_asks(hour(3), 2, hard, r#","notifyCash":[25,75,120]"#);
    let told: Vec<_> = world.told(hour(6)).iter().map(|n| (n.threshold, n.at)).collect();
    assert_eq!(told, [(Some(25), hour(4)), (Some(75), hour(6))]);
    // 120 % are 9.6: 4.8 hours from the third on.
    let told = world.told(hour(3).shifted(HOUR_MS * 48 / 10));
    assert_eq!(kinds(&told), [("cash.exhausted", Some(120)), ("cash.overdraft", None)]);
    world.quota_that_asks(hour(8), 3, hard, r#","notifyCash":[]"#);
    let told = world.told(hour(8));
    assert_eq!(kinds(&told), [25, 75, 120].map(|percent| ("cash.lifted", Some(percent))));
}

/// The team with a budget of eight core-hours a day.
fn team_by_the_day() -> World {
    let mut world = World::new();
    let text = r#"{"uid":"uid","resourceVersion":"1","generation":1,"spec":{"hard":{"cash/limits.cpu":"8"},
        "cashPeriod":{"every":"Day","timeZone":"UTC","anchor":"2024-01-01","carryOver":"None","rule":"UTC0"}}}"#;
    world.tell(hour(1), "quotas/team", Data::QuotaDeclared(serde_json::from_str(text).unwrap()));
    world.pod("team", 2, hour(3));
    world
}

/// Nobody looked at midnight: what stood then stands again, and is told once more.
#[test]
fn what_is_crossed_again_in_the_next_period_is_told_again_once_whoever_looked_in_between() {
    let mut world = team_by_the_day();
    assert_eq!(world.told(hour(10)).len(), 5);
    let told = world.told(hour(30));
    let crossings = [(50, 26 * 60), (80, 27 * 60 + 12), (90, 27 * 60 + 36), (100, 28 * 60)];
    for (threshold, minute) in crossings {
        let notice = told.iter().find(|notice| notice.threshold == Some(threshold)).unwrap();
        assert_eq!((notice.stands, notice.number, notice.exact), (true, 2, true), "{notice:?}");
        assert_eq!(notice.at, hour(0).shifted(minute * 60_000), "{notice:?}");
        assert_eq!(notice.id, notice.topic.id(2));
    }
    assert_eq!(told.len(), 5);
    assert_eq!(world.told(hour(31)), []);
    assert_eq!(world.told(hour(47)), []);
    let third = world.told(hour(54));
    assert_eq!(third.iter().map(|notice| notice.number).collect::<Vec<_>>(), [3; 5]);
}

#[test]
fn a_new_period_ends_what_was_told_of_the_one_before_and_tells_it_anew() {
    let mut world = team_by_the_day();
    let told = world.told(hour(10));
    let all = [Some(50), Some(80), Some(90), Some(100), None];
    assert_eq!(told.iter().map(|n| n.threshold).collect::<Vec<_>>(), all);
    assert!(world.look(hour(24).shifted(-1)).next.is_some_and(|next| next <= hour(24)));
    let over = world.told(hour(24));
    assert_eq!(over.len(), all.len());
    for notice in over {
        assert!(!notice.stands && notice.kind == "cash.replenished", "{notice:?}");
        assert!(notice.message.ends_with("(a new period began)"), "{notice:?}");
    }
    let told = world.told(hour(30));
    let all_of_it = told.iter().find(|n| n.threshold == Some(100)).unwrap();
    assert_eq!((all_of_it.at, all_of_it.exact), (hour(28), true));
}
