//! bizrq as it is installed ([super::installation]): what its rights and certificates are, and what two replicas of it
//! refuse, admit and show.

use super::{
    control_plane::{eventually, runtime},
    installation::{ACCOUNT, installed, installed_alone, paused, quota},
    nodes::client,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::PostParams};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

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

/// 20 clients, 2,000 Deployments of one core each, groups with room for 300 and 200; one replica is killed on the way.
#[test]
fn of_two_thousand_deployments_at_once_exactly_as_many_are_admitted_as_fit() {
    let Some(mut installed) = installed_alone("of_two_thousand_deployments_at_once") else {
        return;
    };
    installed.plane.namespace("crowd", &[]);
    let kubeconfig = installed.plane.file("kubeconfig");
    let refused = Arc::new(AtomicUsize::new(0));
    let crowd = async {
        let client = client(&kubeconfig, "alice").await;
        let api: Api<Deployment> = Api::namespaced(client, "crowd");
        let mut clients = tokio::task::JoinSet::new();
        for one in 0..20 {
            let (api, refused) = (api.clone(), Arc::clone(&refused));
            clients.spawn(async move {
                for n in 0..100 {
                    let group = ["left", "right"][n % 2];
                    let labels = json!({"biz.group.resource.quota": group});
                    let object = paused("crowd", &format!("d-{one}-{n}"), &labels, 1);
                    let object = serde_json::from_value(object).unwrap();
                    create(&api, &object, &refused).await;
                }
            });
        }
        clients.join_all().await;
    };
    std::thread::scope(|scope| {
        let crowd = scope.spawn(|| runtime().block_on(crowd));
        eventually("some were refused", || match refused.load(Ordering::Relaxed) {
            0..50 => Err("too few".to_owned()),
            _ => Ok(()),
        });
        installed.kill(0);
        installed.run(0);
        crowd.join().unwrap();
    });
    for (group, fit) in [("left", 300), ("right", 200)] {
        let label = format!("deployments -n crowd -l biz.group.resource.quota={group}");
        let items = installed.plane.admin().get(&label)["items"].as_array().unwrap().len();
        assert_eq!(items, fit, "{group}");
    }
    assert_eq!(refused.load(Ordering::Relaxed), 1500);
}

/// Creates it, or is refused; what fails for another reason (its replica was killed) is tried again.
async fn create(api: &Api<Deployment>, object: &Deployment, refused: &AtomicUsize) {
    loop {
        match api.create(&PostParams::default(), object).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.message.contains("exceeded quota: ") => {
                refused.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Err(kube::Error::Api(status)) if status.code == 409 => return,
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
        }
    }
}
