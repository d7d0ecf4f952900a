//! Deployments under a quota, as people meet it: refused whole, admitted, scaled, updated at the limit, deleted.

use super::{
    control_plane::{ControlPlane, eventually, runtime, shared},
    pods::{deployment, of_app, runs},
    webhook::Webhook,
};
use bizrq::event_log::EventLog;
use serde_json::{Value, json};

fn group(name: &str) -> Value {
    json!({"biz.group.resource.quota": name})
}

/// A namespace whose Deployments are reviewed, for the group `team-a` with ten cores.
fn ten_cores(plane: &ControlPlane, name: &str) -> Webhook {
    let webhook = Webhook::start(plane, name, &[("team-a", &[("limits.cpu", "10")])]);
    plane.namespace(name, &[("e2e", name)]);
    webhook
}

#[test]
fn a_deployment_over_quota_is_refused_whole_and_one_within_runs() {
    let test = "refused-whole";
    let Some(plane) = shared("a_deployment_over_quota_is_refused_whole") else { return };
    let _webhook = ten_cores(&plane, test);
    let alice = plane.alice();
    alice.apply(&deployment(test, "web", &group("team-a"), 12, "1")).fails_with(&[
        "admission webhook \"workloads.bizrq.io\" denied the request: exceeded quota: team-a, \
         requested: limits.cpu=12, used: limits.cpu=0, limited: limits.cpu=10; 10 of 12 replicas would fit",
    ]);
    assert_eq!(plane.admin().get(&format!("all -n {test}"))["items"], json!([]));
    alice.apply(&deployment(test, "web", &group("team-a"), 10, "1")).succeeds();
    runs(&plane, test, "web", 10);
    alice
        .apply(&deployment(test, "more", &group("team-a"), 1, "1m"))
        .fails_with(&["exceeded quota: team-a"]);
    assert_eq!(of_app(&plane, test, "more").len(), 0);
}

#[test]
fn scaling_is_refused_beyond_the_quota_and_allowed_within_from_zero_too() {
    let test = "scaled";
    let Some(plane) = shared("scaling_is_refused_beyond_the_quota") else { return };
    let _webhook = ten_cores(&plane, test);
    let alice = plane.alice();
    alice.apply(&deployment(test, "web", &group("team-a"), 0, "2")).succeeds();
    let scale =
        |replicas: u32| alice.run(&format!("scale deployment web -n {test} --replicas={replicas}"));
    // What a watch has not shown yet is refused for the moment.
    eventually("from zero to two", || scale(2).done());
    runs(&plane, test, "web", 2);
    eventually("six are refused", || {
        let said = scale(6);
        assert!(!said.ok, "{}", said.out);
        let expected = "requested: limits.cpu=8, used: limits.cpu=4, limited: limits.cpu=10";
        if said.err.contains(expected) { Ok(()) } else { Err(said.err) }
    });
    eventually("five are allowed", || scale(5).done());
    runs(&plane, test, "web", 5);
    scale(1).succeeds();
    runs(&plane, test, "web", 1);
}

#[test]
fn a_dry_run_is_judged_and_writes_nothing() {
    let test = "dry-run";
    let Some(plane) = shared("a_dry_run_is_judged_and_writes_nothing") else { return };
    let webhook = ten_cores(&plane, test);
    let head = || runtime().block_on(webhook.log.head()).unwrap().position;
    let before = head();
    let apply = |replicas| {
        let object = deployment(test, "web", &group("team-a"), replicas, "1").to_string();
        plane.alice().with_input("apply --dry-run=server -f -", &object)
    };
    apply(10).succeeds();
    apply(11).fails_with(&["exceeded quota: team-a"]);
    assert_eq!(head(), before);
    assert_eq!(plane.admin().get(&format!("deployments -n {test}"))["items"], json!([]));
}

#[test]
fn a_rolling_update_at_the_limit_completes() {
    let test = "rolled";
    let Some(plane) = shared("a_rolling_update_at_the_limit_completes") else { return };
    let _webhook = ten_cores(&plane, test);
    let alice = plane.alice();
    alice.apply(&deployment(test, "web", &group("team-a"), 5, "2")).succeeds();
    runs(&plane, test, "web", 5);
    alice.run(&format!("set image deployment web main=stand-in:2 -n {test}")).succeeds();
    alice.run(&format!("rollout status deployment web -n {test} --timeout=100s")).succeeds();
    runs(&plane, test, "web", 5);
    let pods = of_app(&plane, test, "web");
    let images = pods.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref());
    assert!(
        images.clone().all(|image| image == Some("stand-in:2")),
        "{:?}",
        images.collect::<Vec<_>>()
    );
}

#[test]
fn a_namespace_with_everything_in_it_can_be_deleted_while_nobody_answers() {
    let test = "unanswered";
    let Some(plane) = shared("a_namespace_can_be_deleted_while_nobody_answers") else { return };
    let webhook = ten_cores(&plane, test);
    plane.alice().apply(&deployment(test, "web", &group("team-a"), 3, "1")).succeeds();
    runs(&plane, test, "web", 3);
    webhook.stop();
    let down = plane.alice().apply(&deployment(test, "more", &group("team-a"), 1, "1"));
    down.fails_with(&["failed calling webhook"]);
    plane.admin().run(&format!("delete namespace {test} --timeout=100s")).succeeds();
}
