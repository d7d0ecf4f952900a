//! bizrq as it is installed ([super::installation]): what its rights and certificates are, and what two replicas of it
//! refuse, admit and show.

use super::{
    control_plane::eventually,
    crowd::{self, Answers},
    definition,
    installation::{ACCOUNT, installed, installed_alone, paused, quota},
    oracle,
    outages::job,
    pods::{deployment, of_app, runs},
};
use bizrq::clock;
use serde_json::json;
use std::sync::Arc;

#[test]
fn certificates_of_its_own_are_kept_in_a_secret_and_trusted_by_both_configurations() {
    let Some(installed) = installed("certificates_of_its_own") else { return };
    let admin = installed.plane.admin();
    let bundle = admin.get("secret bizrq-webhook-tls -n bizrq")["data"]["ca.crt"].clone();
    for name in ["bizrq-workloads", "bizrq-quotas"] {
        let configuration = admin.get(&format!("validatingwebhookconfiguration {name}"));
        for webhook in configuration["webhooks"].as_array().unwrap() {
            assert_eq!(webhook["clientConfig"]["caBundle"], bundle, "{name}");
        }
    }
}

#[test]
fn its_service_account_can_read_no_other_secret_and_change_no_workload() {
    let Some(installed) = installed("its_service_account_can_read_no_other_secret") else { return };
    for what in [
        "get secrets -n kube-system",
        "list secrets -n bizrq",
        "create deployments -n default",
        "patch bizgroupresourcequotas",
        "delete validatingwebhookconfigurations",
        "update validatingwebhookconfigurations/another",
    ] {
        let may = installed.plane.kubectl(ACCOUNT).run(&format!("auth can-i {what}"));
        assert!(!may.ok && may.out.trim() == "no", "{what}: {}{}", may.out, may.err);
    }
}

#[test]
fn two_replicas_refuse_and_admit_as_one() {
    let Some(installed) = installed("two_replicas_refuse_and_admit_as_one") else { return };
    installed.plane.namespace("as-one", &[]);
    installed.apply("as-one", "large", "small", 11).fails_with(&[
        "exceeded quota: small, requested: limits.cpu=11, used: limits.cpu=0, limited: limits.cpu=10; \
         10 of 11 replicas would fit",
    ]);
    for n in 0..10 {
        installed.apply("as-one", &format!("one-{n}"), "small", 1).succeeds();
    }
    let full = ["exceeded quota: small, requested: limits.cpu=1, used: limits.cpu=10"];
    installed.apply("as-one", "eleventh", "small", 1).fails_with(&full);
}

#[test]
fn the_tree_shows_what_is_used() {
    let Some(installed) = installed("the_tree_shows_what_is_used") else { return };
    installed.plane.namespace("shown", &[]);
    installed.apply("shown", "four", "shown", 4).succeeds();
    eventually("`kubectl get bizrq` shows 4 of 8", || {
        let shown = installed.plane.admin().run("get bizrq shown").succeeds().out;
        let words: Vec<_> = shown.lines().last().unwrap().split_whitespace().collect();
        let is_right = words[..3] == ["shown", "company", "4/8"] && words.contains(&"True");
        if is_right { Ok(()) } else { Err(shown) }
    });
}

#[test]
fn a_parent_is_neither_removed_nor_made_smaller_than_what_it_gave() {
    let Some(installed) = installed("a_parent_is_neither_removed_nor_made_smaller") else { return };
    let admin = installed.plane.admin();
    admin.run("delete bizrq company").fails_with(&["groups count in `company`: "]);
    let smaller = ["groups below `company` have been given more: spec.hard[limits.cpu]=500"];
    admin.apply(&quota("company", "", 500)).fails_with(&smaller);
    assert_eq!(admin.get("bizrq company")["spec"]["hard"]["limits.cpu"], 1000);
    admin.apply(&quota("orphan", "nobody", 1)).fails_with(&["`nobody` is not declared"]);
}

#[test]
fn a_group_in_which_workloads_run_is_not_removed() {
    let Some(installed) = installed("a_group_in_which_workloads_run_is_not_removed") else {
        return;
    };
    installed.plane.namespace("held", &[]);
    installed.apply("held", "one", "held", 1).succeeds();
    let refused = ["workloads are charged in `held`"];
    installed.plane.admin().run("delete bizrq held").fails_with(&refused);
}

/// Its pods are asked about one by one, too: there is no room for a surge, so each old one goes before a new one comes, and
/// a new one is never let into a room that another, which is on its way, has taken. (With a surge it completes as well, but
/// when is up to the ReplicaSet controller, which doubles its pause, up to 1000 s, with each sync in which a pod was refused.)
#[test]
fn a_rolling_update_at_the_limit_completes_where_pods_are_asked_about() {
    let (test, name) = ("a_rolling_update_at_the_limit_completes", "rolled");
    let Some(installed) = installed(test) else { return };
    let plane = &installed.plane;
    plane.namespace(name, &[("bizrq.io/managed", "true")]);
    let group = json!({"biz.group.resource.quota": name});
    let mut web = deployment(name, "web", &group, 5, "2");
    let one_by_one = json!({"maxSurge": 0, "maxUnavailable": 2});
    web["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": one_by_one});
    plane.alice().apply(&web).succeeds();
    runs(plane, name, "web", 5);
    plane.alice().run(&format!("set image deployment web main=stand-in:2 -n {name}")).succeeds();
    let rolled = format!("rollout status deployment web -n {name} --timeout=300s");
    plane.alice().run(&rolled).succeeds();
    runs(plane, name, "web", 5);
    for pod in of_app(plane, name, "web") {
        assert_eq!(pod.spec.unwrap().containers[0].image.as_deref(), Some("stand-in:2"));
    }
    let refusals = plane.admin().run(&format!("get events -n {name} -o json")).succeeds().out;
    assert!(!refusals.contains("used: limits.cpu=12"), "a pod too many was let in: {refusals}");
    let full = ["used: limits.cpu=10, limited: limits.cpu=10"];
    plane.alice().run(&format!("scale deployment web -n {name} --replicas=6")).fails_with(&full);
}

/// Deployments, Jobs, pods: whatever goes is asked about by nobody.
#[test]
fn a_namespace_goes_with_all_that_is_in_it_while_both_replicas_are_away() {
    let (test, name) = ("a_namespace_goes_while_both_replicas_are_away", "going");
    let Some(mut installed) = installed_alone(test) else { return };
    installed.plane.namespace(name, &[("bizrq.io/managed", "true")]);
    let group = json!({"biz.group.resource.quota": name});
    let alice = installed.plane.alice();
    alice.apply(&deployment(name, "web", &group, 3, "1")).succeeds();
    alice.apply(&job(name, "batch", 600)).succeeds();
    runs(&installed.plane, name, "web", 3);
    runs(&installed.plane, name, "batch", 2);
    for place in 0..2 {
        installed.kill(place);
    }
    installed.apply(name, "more", name, 1).fails_with(&["failed calling webhook"]);
    let gone = format!("delete namespace {name} --timeout=100s --request-timeout=0");
    installed.plane.admin().run(&gone).succeeds();
    for place in 0..2 {
        installed.run(place);
    }
    eventually("nothing is charged any more", || match installed.used_now(name) {
        0 => Ok(()),
        used => Err(used.to_string()),
    });
    oracle::agrees(&installed, name, name);
}

/// It goes once nothing is charged in it any more; what it spent stays spent.
#[test]
fn what_a_removed_group_spent_shows_in_its_parent() {
    let test = "what_a_removed_group_spent_shows_in_its_parent";
    let Some(installed) = installed(test) else { return };
    let (plane, admin) = (&installed.plane, installed.plane.admin());
    let hard = json!({"limits.cpu": 1000, "cash/limits.cpu": 1000});
    for (name, parent) in [("spending", ""), ("spent", "spending")] {
        let spec = json!({"parent": parent, "hard": hard});
        admin.apply(&definition::quota(name, spec)).succeeds();
    }
    plane.namespace("spent", &[]);
    let group = json!({"biz.group.resource.quota": "spent"});
    plane.alice().apply(&deployment("spent", "web", &group, 2, "100")).succeeds();
    runs(plane, "spent", "web", 2);
    let spent = || {
        let line = installed.used("spent", clock::now());
        line["exact"].as_str().unwrap_or("0").parse::<u64>().unwrap() / 3_600_000
    };
    eventually("a tenth of a core-hour is spent", || match spent() {
        100.. => Ok(()),
        thousandths => Err(thousandths.to_string()),
    });
    plane.alice().run("delete deployment web -n spent").succeeds();
    eventually("the group can go", || admin.run("delete bizrq spent").done());
    let spent = format!("{}m", spent());
    eventually(&format!("{spent} are shown in the parent"), || {
        let status = admin.get("bizrq spending")["status"].take();
        let is_right = status["consumed"]["cash/limits.cpu"] == *spent;
        if is_right { Ok(()) } else { Err(status.to_string()) }
    });
}

/// Each of them would fit alone.
#[test]
fn of_two_children_created_at_once_that_together_exceed_their_parent_one_passes() {
    let Some(installed) = installed("of_two_children_created_at_once") else { return };
    let admin = installed.plane.admin();
    let create = &|name| admin.create(&quota(name, "company", 300));
    let said = std::thread::scope(|scope| {
        let both = ["first", "second"].map(|name| scope.spawn(move || create(name)));
        both.map(|one| one.join().unwrap())
    });
    let passed = said.iter().filter(|said| said.ok).count();
    assert_eq!(passed, 1, "{said:?}");
    assert!(said.iter().any(|said| said.err.contains("limits.cpu")), "{said:?}");
}

/// Groups with room for 300 and 200; one replica is killed on the way.
#[test]
fn of_two_thousand_deployments_at_once_exactly_as_many_are_admitted_as_fit() {
    let Some(mut installed) = installed_alone("of_two_thousand_deployments_at_once") else {
        return;
    };
    installed.plane.namespace("crowd", &[]);
    let object = |group: &str, n: usize| {
        let labels = json!({"biz.group.resource.quota": group});
        paused("crowd", &format!("d-{n}"), &labels, 1)
    };
    let answers = Arc::<Answers>::default();
    std::thread::scope(|scope| {
        let (kubeconfig, told) = (installed.plane.file("kubeconfig"), Arc::clone(&answers));
        let crowd = scope.spawn(move || {
            crowd::create(&kubeconfig, ["left", "right"], Arc::new(object), &told);
        });
        eventually("some were refused", || match answers.counts() {
            [_, 0..50, _] => Err("too few".to_owned()),
            _ => Ok(()),
        });
        installed.kill(0);
        installed.run(0);
        crowd.join().unwrap();
    });
    assert_eq!(answers.counts(), [500, 1500, 0]);
    for (group, fit) in [("left", 300), ("right", 200)] {
        installed.counts(group, fit);
    }
}
