//! A second cluster at the log of the first ([super::installation]): an API server of its own with bizrq of its own. Its
//! quota objects are not those that count; what it forgot when it was restored an operator must confirm.

use super::{
    control_plane::{eventually, own},
    installation::{Installed, bizrq, installed, quota},
    oracle,
    pods::{deployment, of_app, runs},
};
use serde_json::json;

const CLUSTER: &str = "second";

/// Two clusters are one company's: the tree is one, and so is its limit.
#[test]
fn two_clusters_share_one_tree_and_the_seconds_own_copy_of_a_quota_changes_nothing() {
    let test = "two_clusters_share_one_tree";
    let Some(first) = installed(test) else { return };
    let Some(plane) = own(test) else { return };
    let second = Installed::on(plane, CLUSTER, first.log.clone());
    for cluster in [&*first, &second] {
        cluster.plane.namespace("both", &[]);
    }
    second.apply("both", "six", "both", 6).succeeds();
    let full = [
        "exceeded quota: both, requested: limits.cpu=5, used: limits.cpu=6, limited: limits.cpu=10",
    ];
    first.apply("both", "five", "both", 5).fails_with(&full);
    first.apply("both", "four", "both", 4).succeeds();
    second.apply("both", "one", "both", 1).fails_with(&["used: limits.cpu=10"]);

    let position = || second.tail("quota").last().unwrap()["position"].as_u64();
    let before = position();
    second.plane.admin().apply(&quota("both", "", 100)).succeeds();
    second.apply("both", "one", "both", 1).fails_with(&["used: limits.cpu=10"]);
    first.apply("both", "one", "both", 1).fails_with(&["limited: limits.cpu=10"]);
    second.plane.admin().run("delete bizrq both").succeeds();
    second.apply("both", "one", "both", 1).fails_with(&["limited: limits.cpu=10"]);
    assert_eq!(position(), before, "nothing was told of the copy");
}

/// Objects that it knew when it was copied, changed or gone since, and objects that it never heard of.
#[test]
fn an_api_server_that_was_restored_is_observed_again_when_an_operator_says_so() {
    let test = "an_api_server_that_was_restored";
    let Some(first) = installed(test) else { return };
    let Some(plane) = own(test) else { return };
    let (name, log) = ("restored", first.log.clone());
    let mut second = Installed::on(plane, name, log);
    let group = json!({"biz.group.resource.quota": name});
    let deploy = |second: &Installed, app: &str, pods: usize| {
        let object = deployment(name, app, &group, u32::try_from(pods).unwrap(), "1");
        second.plane.alice().apply(&object).succeeds();
        runs(&second.plane, name, app, pods);
    };
    second.plane.namespace(name, &[]);
    deploy(&second, "kept", 3);
    second.plane.back_up();
    deploy(&second, "forgotten", 2);
    let [one, ..] = &of_app(&second.plane, name, "kept")[..] else { panic!("three run") };
    let replaced = one.metadata.name.clone().unwrap();
    second.plane.alice().run(&format!("delete pod {replaced} -n {name}")).succeeds();
    runs(&second.plane, name, "kept", 3);
    oracle::agrees(&second, name, name);

    second.plane.restore();
    eventually("its observer says why it stops", || {
        let said = second.said();
        let why = "restored from an older copy";
        if said.contains(why) { Ok(()) } else { Err(said) }
    });
    let told = second.tail("pod").len();
    bizrq(&["cluster", "rebind", name, "--log", &second.log], "");
    for place in 0..2 {
        second.terminate(place);
        second.run(place);
    }
    eventually("what it forgot is charged no more, and marked", || {
        let pods = second.tail("pod");
        let absent = pods[told..].iter().filter(|pod| pod["event"]["data"]["basis"] == "Absent");
        // The two of the Deployment that it never heard of, and the pod that replaced another.
        if absent.count() == 3 { Ok(()) } else { Err(format!("{:?}", &pods[told..])) }
    });
    runs(&second.plane, name, "kept", 3);
    deploy(&second, "after", 2);
    assert_eq!(second.counted("bizrq_observe_drift_total"), 0);
}
