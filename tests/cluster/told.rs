//! What a group is told, as the API server keeps it beside its quota object.

use super::{
    control_plane::{eventually, runtime, shared},
    definition::{install, quota},
};
use bizrq::{
    clock,
    notify::{
        events,
        notice::{Notice, Scope, Told, Topic, What},
    },
};
use serde_json::json;
use tokio::sync::{oneshot, watch};

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
    let mut ends = Vec::new();
    for replica in ["a", "b"] {
        let (sender, seen) = watch::channel(Some(told.clone()));
        let (end, ended) = oneshot::channel();
        let client = plane.nodes.client.clone();
        let failed = |why: &str| panic!("{why}");
        let task =
            runtime().spawn(events::run(client, replica.into(), seen, clock::now, ended, failed));
        ends.push((sender, end, task));
    }
    eventually("it is shown", || {
        let said = plane.admin().run("describe bizrq told").succeeds().out;
        let line = said.lines().find(|line| line.contains("CashExhausted"));
        let line = line.ok_or_else(|| said.clone())?;
        line.contains(&notice.message).then_some(()).ok_or(said)
    });
    for (_, end, task) in ends {
        end.send(()).unwrap();
        runtime().block_on(task).unwrap();
    }
    let events = plane.admin().get("events.events.k8s.io --namespace default");
    let ours = events["items"].as_array().unwrap().iter();
    assert_eq!(ours.filter(|event| event["regarding"]["name"] == "told").count(), 1);
}
