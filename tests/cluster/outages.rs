//! A part of the installation dies while pods start and end, and comes back: afterwards the log says what the stand-in
//! wrote into statuses ([super::oracle]), what nobody could see is marked, and a comparison finds nothing missing.

use super::{
    control_plane::{ControlPlane, eventually},
    installation::{Installed, installed, installed_alone},
    nodes::SECONDS,
    oracle,
    pods::{deployment, of_app, runs, template},
};
use serde_json::{Value, json};
use std::{thread::sleep, time::Duration};

/// How a part dies and comes back.
type Outage = fn(&mut Installed);

/// Each with a namespace and a group of its name, and what dies.
const OUTAGES: [(&str, Outage); 4] = [
    ("replicas-away", both_replicas),
    ("leader-killed", the_leader),
    ("log-restarted", the_log),
    ("api-restarted", the_api_server),
];

#[test]
fn what_happens_while_a_part_is_away_is_metered_as_it_was() {
    let test = "what_happens_while_a_part_is_away";
    let Some(mut alone) = installed_alone(test) else { return };
    for (name, dies) in OUTAGES {
        begin(&alone, name);
        dies(&mut alone);
        let before = alone.last_comparison();
        alone.hand_over();
        eventually(&format!("{name}: everything was compared"), || {
            let last = alone.last_comparison();
            if last > before { Ok(()) } else { Err(last.to_string()) }
        });
        assert_eq!(alone.counted("bizrq_observe_drift_total"), 0, "{name}");
        oracle::agrees(&alone, name, name);
    }
    drop(alone);
    let Some(installed) = installed(test) else { return };
    for (name, _) in OUTAGES {
        eventually(&format!("{name}: what remains is charged, and nothing else"), || {
            let used =
                installed.plane.admin().get(&format!("bizrq {name}"))["status"]["used"].take();
            if used["limits.cpu"] == "3" { Ok(()) } else { Err(used.to_string()) }
        });
    }
}

/// kill -9 of both; meanwhile a pod of a Deployment is replaced, and a Job ends.
fn both_replicas(installed: &mut Installed) {
    let name = "replicas-away";
    for place in 0..2 {
        installed.kill(place);
    }
    let refused = installed.apply(name, "unanswered", name, 1);
    refused.fails_with(&["failed calling webhook"]);
    replace_one(&installed.plane, name);
    wait_for(&installed.plane, name, "across");
    for place in 0..2 {
        installed.run(place);
    }
}

/// kill -9 of the replica that tells the log.
fn the_leader(installed: &mut Installed) {
    let (name, leader) = ("leader-killed", installed.leader());
    installed.kill(leader);
    replace_one(&installed.plane, name);
    // The other one answers.
    installed.apply(name, "answered", name, 0).succeeds();
    wait_for(&installed.plane, name, "across");
    installed.run(leader);
}

/// kill -9 of the NATS server.
fn the_log(installed: &mut Installed) {
    let name = "log-restarted";
    installed.apply(name, "spare", name, 1).succeeds();
    installed.nats().kill();
    replace_one(&installed.plane, name);
    installed
        .apply(name, "grown", name, 1)
        .fails_with(&["the event log did not take the decision in time"]);
    let fewer = format!("scale deployment spare -n {name} --replicas=0");
    installed.plane.alice().run(&fewer).succeeds();
    wait_for(&installed.plane, name, "across");
    installed.nats().restart();
    eventually("growth is judged again", || installed.apply(name, "empty", name, 1).done());
    let gone = format!("delete deployment empty spare -n {name}");
    installed.plane.alice().run(&gone).succeeds();
}

/// kill -9 of the API server.
fn the_api_server(installed: &mut Installed) {
    let name = "api-restarted";
    installed.plane.restart_api_server(|| sleep(Duration::from_secs(3)));
    replace_one(&installed.plane, name);
    wait_for(&installed.plane, name, "across");
}

/// Nothing of bizrq is left but its webhook configurations: what it needs to come back is not asked about, and what it
/// knew it knows again.
#[test]
fn when_everything_but_the_webhook_configurations_is_gone_all_comes_back_by_itself() {
    let Some(mut installed) = installed_alone("when_everything_is_gone") else { return };
    let name = "cold";
    installed.plane.namespace(name, &[("bizrq.io/managed", "true")]);
    installed.apply(name, "six", name, 6).succeeds();
    for place in 0..2 {
        installed.kill(place);
    }
    installed.nats().kill();
    installed.plane.restart_api_server(|| {});
    installed.apply(name, "one", name, 1).fails_with(&["failed calling webhook"]);
    // bizrq's own namespace, and kube-system: whatever brings it back.
    for excluded in ["bizrq", "kube-system"] {
        let object = deployment(excluded, "needed", &json!({}), 1, "1");
        eventually("what is excluded starts", || installed.plane.admin().apply(&object).done());
        runs(&installed.plane, excluded, "needed", 1);
    }
    installed.nats().restart();
    for place in 0..2 {
        installed.run(place);
    }
    let full = ["used: limits.cpu=6, limited: limits.cpu=10"];
    installed.apply(name, "five", name, 5).fails_with(&full);
    installed.apply(name, "four", name, 4).succeeds();
}

/// A Deployment that runs, a Job that is over and one that is not.
fn begin(installed: &Installed, name: &str) {
    let (plane, group) = (&installed.plane, json!({"biz.group.resource.quota": name}));
    plane.namespace(name, &[]);
    plane.alice().apply(&deployment(name, "serving", &group, 3, "1")).succeeds();
    plane.alice().apply(&job(name, "before", 1)).succeeds();
    wait_for(plane, name, "before");
    plane.alice().apply(&job(name, "across", 12)).succeeds();
    runs(plane, name, "serving", 3);
    runs(plane, name, "across", 2);
}

/// A Job of two pods with a core each, for so many seconds.
pub(super) fn job(name: &str, job: &str, seconds: u32) -> Value {
    let mut template = template(&json!({"app": job}), "1");
    template["metadata"]["annotations"][SECONDS] = seconds.to_string().into();
    template["spec"]["restartPolicy"] = "Never".into();
    let group = json!({"biz.group.resource.quota": name});
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": name, "name": job, "labels": group},
        "spec": {"parallelism": 2, "completions": 2, "template": template}})
}

fn wait_for(plane: &ControlPlane, namespace: &str, job: &str) {
    let complete = "--for=condition=Complete --timeout=120s --request-timeout=0";
    plane.alice().run(&format!("wait job/{job} -n {namespace} {complete}")).succeeds();
}

/// A pod goes, and its Deployment makes another.
fn replace_one(plane: &ControlPlane, namespace: &str) {
    let pods = of_app(plane, namespace, "serving");
    let name = pods[0].metadata.name.as_ref().unwrap();
    plane.alice().run(&format!("delete pod {name} -n {namespace}")).succeeds();
    runs(plane, namespace, "serving", 3);
}
