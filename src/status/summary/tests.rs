//! What is shown of a small company, event by event.

use super::{Parts, Statuses, all};
use crate::{
    domain::{
        event::{Data, Event, EventId},
        ledger::Ledger,
        merkle::Hash,
        time::{HOUR_MS, ORIGIN, Timestamp},
    },
    k8s::crd::BizGroupResourceQuotaStatus,
};

/// A ledger that is told one thing an hour.
struct Company {
    ledger: Ledger,
    told: u64,
}

impl Company {
    /// A department with ten cores and a budget, and a team in it with four.
    fn new() -> Self {
        let mut company = Self { ledger: Ledger::default(), told: 0 };
        company.quota("dept", 1, r#"{"hard":{"limits.cpu":"10","cash/limits.cpu":"8"}}"#);
        company.quota("team", 1, r#"{"parent":"dept","hard":{"limits.cpu":"4"}}"#);
        company
    }

    fn now(&self) -> Timestamp {
        ORIGIN.shifted(HOUR_MS * i64::try_from(self.told).unwrap())
    }

    fn tell(&mut self, subject: String, data: Data<'_>) {
        self.told += 1;
        let (time, id) = (self.now(), EventId(self.told.into()));
        let source = "/clusters/east".into();
        let event = Event { id, source, subject: subject.into(), time, recorded_at: time, data };
        self.ledger.apply(self.told, Hash::default(), &event).unwrap();
    }

    fn quota(&mut self, name: &str, generation: u32, spec: &str) {
        let text = format!(
            r#"{{"uid":"uid-{name}","resourceVersion":"{generation}","generation":{generation},"spec":{spec}}}"#
        );
        let data = Data::QuotaDeclared(serde_json::from_str(&text).unwrap());
        self.tell(format!("quotas/{name}"), data);
    }

    /// A Deployment that was there before anybody asked.
    fn deployment(&mut self, group: &str, cores: u32) {
        let version = self.told + 100;
        let text = format!(
            r#"{{"workload":{{"apiVersion":"apps/v1","kind":"Deployment","namespace":"n","name":"{group}","uid":"w-{group}"}},
                "resourceVersion":"{version}","generation":1,"group":"{group}",
                "roles":[{{"name":"","count":{cores},"peak":{cores},"models":{{}},"pod":{{"requests":{{}},"limits":{{"cpu":"1"}}}}}}]}}"#
        );
        let data = Data::WorkloadObserved(serde_json::from_str(&text).unwrap());
        self.tell(format!("workloads/apps/Deployment/n/{group}"), data);
    }

    /// A pod of two cores that runs from now on.
    fn pod(&mut self, group: &str) {
        let text = format!(
            r#"{{"uid":"p-{group}","group":"{group}","models":{{}},"node":"n1","basis":"Bound",
                "held":{{"requests":{{}},"limits":{{"cpu":"2"}}}}}}"#
        );
        let data = Data::PodStarted(serde_json::from_str(&text).unwrap());
        self.tell(format!("pods/n/p-{group}"), data);
    }

    fn statuses(&self) -> Statuses {
        let (now, shown) = (self.now(), Statuses::new());
        let all = all(&self.ledger, now, &shown);
        let mut parts = Parts::default();
        while parts.read(&self.ledger, now, &shown, 1) {}
        assert_eq!(parts.statuses, all, "read a group at a time");
        all
    }
}

/// Type, status and reason of each condition.
fn conditions(status: &BizGroupResourceQuotaStatus) -> Vec<String> {
    let said = status.conditions.iter();
    said.map(|c| format!("{} {} {}", c.kind, c.status, c.reason)).collect()
}

const FINE: [&str; 3] =
    ["Ready True InForce", "WithinHard True WithinHard", "CashAvailable True CashLeft"];

#[test]
fn a_tree_shows_limits_use_and_what_children_were_given() {
    let mut company = Company::new();
    company.deployment("team", 3);
    let statuses = company.statuses();
    let names: Vec<_> = statuses.keys().collect();
    assert_eq!(names, ["dept", "team"]);
    let (dept, team) = (&statuses["dept"], &statuses["team"]);
    assert_eq!(team.hard["limits.cpu"], "4");
    assert_eq!(team.used["limits.cpu"], "3");
    assert_eq!(team.self_used["limits.cpu"], "3");
    assert_eq!(team.unreviewed["limits.cpu"], "3", "nobody admitted it");
    assert_eq!(team.summary.cpu, "3/4");
    assert_eq!(dept.used["limits.cpu"], "4", "what the team was given");
    assert_eq!(dept.self_used["limits.cpu"], "0");
    assert_eq!(dept.hard["cash/limits.cpu"], "8");
    assert_eq!(dept.summary.cash_left, "limits.cpu=8");
    assert_eq!(conditions(dept), FINE);
    assert_eq!((dept.observed_generation, dept.position), (1, 3));
}

#[test]
fn a_budget_says_how_long_it_lasts_and_when_it_was_used_up() {
    let mut company = Company::new();
    company.pod("dept");
    let begun = company.now();
    let dept = &company.statuses()["dept"];
    // Eight core-hours at two cores.
    let until = begun.shifted(4 * HOUR_MS);
    let words = format!("cash/limits.cpu lasts until {until} if all goes on as it is");
    assert_eq!(dept.conditions[2].message, words);
    company.told += 1;
    let dept = &company.statuses()["dept"];
    assert_eq!(dept.consumed["cash/limits.cpu"], "2");
    assert_eq!(dept.summary.cash_left, "limits.cpu=6");
    company.told += 4;
    let dept = &company.statuses()["dept"];
    assert_eq!(dept.summary.cash_left, "limits.cpu=-2");
    assert_eq!(conditions(dept)[2], "CashAvailable False CashExhausted");
    assert_eq!(dept.conditions[2].message, format!("cash/limits.cpu is used up since {until}"));
}

#[test]
fn what_is_over_and_what_breaks_a_rule_is_said() {
    let mut company = Company::new();
    company.deployment("team", 6);
    let statuses = company.statuses();
    assert_eq!(conditions(&statuses["team"])[1], "WithinHard False OverHard");
    let message = &statuses["team"].conditions[1].message;
    assert_eq!(message, "limits.cpu: 6 of 4; nothing more is admitted");
    assert_eq!(statuses["dept"].used["limits.cpu"], "6");

    company.quota("team", 2, r#"{"parent":"dept","hard":{"limits.cpu":"11"}}"#);
    let team = &company.statuses()["team"];
    assert_eq!(conditions(team)[0], "Ready False ParentExceeded");
    assert!(team.conditions[0].message.ends_with("the last valid object stays in force"));
    assert_eq!((team.hard["limits.cpu"].as_str(), team.observed_generation), ("4", 2));
}

#[test]
fn a_condition_keeps_the_time_since_which_it_holds() {
    let mut company = Company::new();
    let first = company.statuses();
    company.deployment("team", 6);
    let second = all(&company.ledger, company.now(), &first);
    let since =
        |statuses: &Statuses, n: usize| statuses["team"].conditions[n].last_transition_time.clone();
    assert_eq!(since(&second, 0), since(&first, 0));
    assert_ne!(since(&second, 1), since(&first, 1));
    assert_eq!(since(&second, 1), company.now().to_string());
}
