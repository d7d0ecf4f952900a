//! What a group is told, as `kubectl` shows it beside its quota object.

use super::{
    control_plane::{ControlPlane, eventually, runtime, shared},
    definition::{install, quota},
    installation::installed,
};
use bizrq::{
    clock,
    notify::{
        self,
        notice::{Notice, Scope, Told, Topic, What},
    },
};
use serde_json::{Value, json};
use std::{mem, sync::mpsc};
use tokio::sync::{oneshot, watch};

/// Waits until `kubectl describe` shows such an Event of a group, and `kubectl get events` too; all that there are.
fn shows(plane: &ControlPlane, group: &str, reason: &str, message: &str) -> Vec<Value> {
    for command in [format!("describe bizrq {group}"), "get events -n default".to_owned()] {
        eventually(&format!("`kubectl {command}` shows {reason}"), || {
            let said = plane.admin().run(&command).succeeds().out;
            let mut lines = said.lines().filter(|line| line.contains(reason));
            let shown = lines.any(|line| line.contains(message) && !line.contains("<unknown>"));
            if shown { Ok(()) } else { Err(said) }
        });
    }
    let events = events(plane, group, reason);
    let object = plane.admin().get(&format!("bizrq {group}"));
    for event in &events {
        assert_eq!(event["involvedObject"]["uid"], object["metadata"]["uid"]);
    }
    events
}

fn events(plane: &ControlPlane, group: &str, reason: &str) -> Vec<Value> {
    let mut events = plane.admin().get("events -n default")["items"].take();
    let mut events = mem::take(events.as_array_mut().unwrap());
    events.retain(|event| event["involvedObject"]["name"] == group && event["reason"] == reason);
    events
}

#[test]
fn a_notice_is_an_event_of_its_quota_object_once() {
    let Some(plane) = shared("a_notice_is_an_event_of_its_quota_object_once") else { return };
    install(&plane);
    plane.admin().apply(&quota("told", json!({"hard": {"cash/limits.cpu": 8}}))).succeeds();
    let object = plane.admin().get("bizrq told");
    let topic = Topic { scope: Scope::of(&["told"]), what: What::Cash(100) };
    let notice = Notice {
        id: topic.id(1),
        topic,
        number: 1,
        kind: "cash.exhausted".to_owned(),
        stands: true,
        group: "told".to_owned(),
        key: "cash/limits.cpu".to_owned(),
        uid: Some(object["metadata"]["uid"].as_str().unwrap().to_owned()),
        threshold: Some(100),
        generation: Some(1),
        at: clock::now(),
        exact: true,
        forecast: None,
        hard: "8".to_owned(),
        of: "28800000000".to_owned(),
        message: "told spent 100 % of its own 8 of cash/limits.cpu".to_owned(),
        position: 3,
    };
    let mut told = Told::default();
    told.note(notice.clone());
    // Two replicas that both think that they lead.
    let (heard, failures) = mpsc::channel();
    let mut ends = Vec::new();
    for replica in ["a", "b"] {
        let (sender, seen) = watch::channel(Some(told.clone()));
        let (end, ended) = oneshot::channel();
        let (client, heard) = (plane.nodes.client.clone(), heard.clone());
        let failed = move |why: &str| heard.send(why.to_owned()).unwrap();
        let task = runtime().spawn(notify::events::run(
            client,
            replica.into(),
            seen,
            clock::now,
            ended,
            failed,
        ));
        ends.push((sender, end, task));
    }
    drop(heard);
    eventually("it is made, or not taken", || {
        let failures: Vec<String> = failures.try_iter().collect();
        assert_eq!(failures, [""; 0], "what the API server says no with");
        let made = plane.admin().run(&format!("get event told.{} -n default", notice.id));
        made.done()
    });
    let made = shows(&plane, "told", "CashExhausted", &notice.message);
    for (_, end, task) in ends {
        end.send(()).unwrap();
        runtime().block_on(task).unwrap();
    }
    assert_eq!(failures.iter().collect::<Vec<String>>(), [""; 0], "of the other one neither");
    assert_eq!((made.len(), events(&plane, "told", "CashExhausted").len()), (1, 1));
}

/// By `bizrq serve`, with the rights of its service account.
#[test]
fn a_full_limit_and_what_it_refuses_are_events_of_the_quota_object() {
    let test = "a_full_limit_and_what_it_refuses_are_events";
    let Some(installed) = installed(test) else { return };
    installed.plane.namespace("told", &[]);
    installed.apply("told", "two", "told", 2).succeeds();
    for _ in 0..3 {
        installed.apply("told", "third", "told", 1).fails_with(&["exceeded quota: told"]);
    }
    let full = "told uses 2 of its own 2 of limits.cpu";
    let full = shows(&installed.plane, "told", "LimitFull", full);
    assert_eq!((full.len(), &full[0]["count"]), (1, &json!(1)));
    let last = "the last time Deployment told/third: exceeded quota: told";
    shows(&installed.plane, "told", "QuotaExceeded", last);
    // Each replica tells of those that it was asked about, once a minute.
    eventually("each refusal is counted once", || {
        let told = events(&installed.plane, "told", "QuotaExceeded");
        let counted: u64 = told.iter().map(|event| event["count"].as_u64().unwrap()).sum();
        if counted == 3 { Ok(()) } else { Err(format!("{told:?}")) }
    });
}
