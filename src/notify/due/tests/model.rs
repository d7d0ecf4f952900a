//! Models that pods were not admitted for.

use super::{World, hour, kinds};
use crate::{
    domain::event::Data,
    notify::{
        due::Due,
        notice::{Told, What},
    },
};

const A4: &str = r#"{"cpu":"A4"}"#;

/// A Deployment of two pods of two cores that declares these models; a review admitted it, or not.
fn deployment(world: &mut World, models: &str, admitted: bool) {
    let workload =
        r#"{"apiVersion":"apps/v1","kind":"Deployment","namespace":"n","name":"w","uid":"w"}"#;
    let roles = format!(
        r#"[{{"count":2,"peak":2,"models":{models},
            "pod":{{"requests":{{}},"limits":{{"cpu":"2"}}}}}}]"#
    );
    if admitted {
        let text = format!(
            r#"{{"seen":0,"admissions":[{{"request":"r","cluster":"east","operation":"CREATE",
                "workload":{workload},"group":"team","roles":{roles},"reservedUntil":"{}"}}]}}"#,
            hour(2)
        );
        let data = Data::WorkloadsAdmitted(serde_json::from_str(&text).unwrap());
        world.tell(hour(1), "workloads", data);
    }
    let text = format!(
        r#"{{"workload":{workload},"resourceVersion":"7","group":"team","roles":{roles}}}"#
    );
    let data = Data::WorkloadObserved(serde_json::from_str(&text).unwrap());
    world.tell(hour(1), "workloads/apps/Deployment/n/w", data);
}

fn pod_on(world: &mut World, name: &str, model: &str) {
    let owner = r#"{"apiVersion":"apps/v1","kind":"Deployment","name":"w","uid":"w"}"#;
    let text = format!(
        r#"{{"uid":"{name}","owner":{owner},"group":"team","node":"a","models":{{"cpu":"{model}"}},
            "held":{{"requests":{{}},"limits":{{"cpu":"2"}}}},"basis":"Bound"}}"#
    );
    world.tell(hour(2), "pods/n/p", Data::PodStarted(serde_json::from_str(&text).unwrap()));
}

fn moved_to(world: &mut World, name: &str, model: &str) {
    let owner = r#"{"apiVersion":"apps/v1","kind":"Deployment","name":"w","uid":"w"}"#;
    let text = format!(
        r#"{{"uid":"{name}","owner":{owner},"group":"team","models":{{"cpu":"{model}"}}}}"#
    );
    world.tell(hour(4), "pods/n/p", Data::PodMoved(serde_json::from_str(&text).unwrap()));
}

#[test]
fn what_runs_on_another_model_than_it_was_admitted_for_is_told_once_and_when_it_is_over() {
    let mut world = World::new();
    world.quota(hour(1), 1, r#""limits.cpu":"9","limits.cpu.A4":"9""#);
    deployment(&mut world, A4, true);
    pod_on(&mut world, "p1", "A4");
    assert_eq!(world.told(hour(2)), []);
    pod_on(&mut world, "p2", "A30");
    let told = world.told(hour(2));
    assert_eq!(kinds(&told), [("model.mismatch", None)]);
    let notice = &told[0];
    assert_eq!((notice.group.as_str(), notice.key.as_str()), ("team", "limits.cpu.A30"));
    assert_eq!(
        notice.message,
        "team uses 2 of limits.cpu.A30 that was admitted for another model, or for none"
    );
    assert_eq!(notice.topic.what.alert(), "BizrqModelMismatch");
    // Whoever looks without having heard finds the same; whoever heard, nothing.
    let again = Due::at(&world.ledger, &Told::default(), hour(3), None).notices;
    assert_eq!(again.iter().map(|n| &n.id).collect::<Vec<_>>(), [&notice.id]);
    assert_eq!(world.told(hour(3)), []);
    moved_to(&mut world, "p2", "A4");
    assert_eq!(kinds(&world.told(hour(4))), [("model.matched", None)]);
    assert_eq!(world.told(hour(5)), []);
}

#[test]
fn where_no_model_is_limited_or_nothing_was_admitted_no_mismatch_is_told() {
    for (hard, admitted) in [(r#""limits.cpu":"9""#, true), (r#""limits.cpu.A4":"9""#, false)] {
        let mut world = World::new();
        world.quota(hour(1), 1, hard);
        deployment(&mut world, A4, admitted);
        pod_on(&mut world, "p1", "A30");
        let told = world.told(hour(2));
        assert!(told.iter().all(|n| n.topic.what != What::Model), "{hard}: {told:?}");
        assert_eq!(told.is_empty(), admitted, "what nobody reviewed is told as that: {told:?}");
    }
}

#[test]
fn a_model_that_a_group_above_limits_counts_and_who_declares_none_was_admitted_for_none() {
    for models in [A4, "{}"] {
        let mut world = World::new();
        for (name, parent, hard) in [
            ("dept", "", r#""limits.cpu":"9","limits.cpu.A30":"9""#),
            ("team", "dept", r#""limits.cpu":"5""#),
        ] {
            let text = format!(
                r#"{{"uid":"of {name}","resourceVersion":"1","generation":1,
                    "spec":{{"parent":"{parent}","hard":{{{hard}}}}}}}"#
            );
            let data = Data::QuotaDeclared(serde_json::from_str(&text).unwrap());
            world.tell(hour(1), &format!("quotas/{name}"), data);
        }
        deployment(&mut world, models, true);
        pod_on(&mut world, "p1", "A30");
        let told = world.told(hour(2));
        let mismatch: Vec<_> = told.iter().filter(|n| n.topic.what == What::Model).collect();
        assert_eq!(mismatch.len(), 1, "{models}: {told:?}");
        assert_eq!((mismatch[0].group.as_str(), mismatch[0].hard.as_str()), ("team", ""));
    }
}
