//! What README says of uninstalling, typed as it stands: nothing is left in the cluster, and the log is kept.

use super::{
    control_plane::{eventually, own},
    installation::{Installed, quota},
    pods::{deployment, runs},
};
use serde_json::json;
use std::{fs, path::Path};

/// The commands of README's paragraph.
fn commands() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let (_, paragraph) = readme.split_once("**Uninstall**").unwrap();
    let (_, block) = paragraph.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.lines().map(|line| line.strip_prefix("kubectl ").unwrap().to_owned()).collect()
}

#[test]
fn after_an_uninstall_nothing_is_left_but_the_log() {
    let Some(plane) = own("after_an_uninstall_nothing_is_left_but_the_log") else { return };
    let mut installed = Installed::alone(plane, &[quota("leaving", "", 10)]);
    let (name, group) = ("leaving", json!({"biz.group.resource.quota": "leaving"}));
    installed.plane.namespace(name, &[("bizrq.io/managed", "true")]);
    installed.plane.alice().apply(&deployment(name, "web", &group, 3, "1")).succeeds();
    runs(&installed.plane, name, "web", 3);
    eventually("it is charged", || match installed.used_now(name) {
        3 => Ok(()),
        used => Err(used.to_string()),
    });
    let commands = commands();
    assert!(commands.len() >= 5 && commands[0].contains("validatingwebhookconfiguration"));
    let admin = installed.plane.admin();
    for (n, command) in commands.iter().enumerate() {
        admin.run(command).succeeds();
        if n == 0 {
            // Its pods go with the StatefulSet; here its processes do.
            for place in 0..2 {
                installed.terminate(place);
            }
        }
    }
    for what in [
        "validatingwebhookconfigurations,clusterroles,clusterrolebindings -l app.kubernetes.io/name=bizrq",
        "statefulsets,services,networkpolicies,poddisruptionbudgets,roles,rolebindings,serviceaccounts -A -l app.kubernetes.io/name=bizrq",
        "namespaces -l bizrq.io/excluded",
        "namespaces -l bizrq.io/managed",
    ] {
        eventually(&format!("no {what}"), || {
            let left = admin.get(what)["items"].take();
            if left == json!([]) { Ok(()) } else { Err(left.to_string()) }
        });
    }
    for gone in [
        "crd bizgroupresourcequotas.bizrq.io",
        "secret bizrq-webhook-tls -n bizrq",
        "lease bizrq-leader -n bizrq",
    ] {
        admin.run(&format!("get {gone}")).fails_with(&["not found"]);
    }
    // Nobody is asked any more, and what ran runs on.
    installed.plane.alice().apply(&deployment(name, "more", &group, 20, "1")).succeeds();
    runs(&installed.plane, name, "web", 3);
    assert!(!installed.tail("quota.declared").is_empty(), "the log is kept");
    // Beside bizrq's own.
    let started = installed.tail("pod.started");
    let subjects = started.iter().filter_map(|record| record["event"]["subject"].as_str());
    assert_eq!(subjects.filter(|subject| subject.starts_with("pods/leaving/web-")).count(), 3);
}
