//! The first start on a cluster that has run for long: 2,000 Deployments with 10,000 pods, of a group that gets exactly
//! what it holds, and of one that gets less. What is there is taken over as it is.

use super::{
    control_plane::{ControlPlane, eventually, own},
    crowd::{self, Answers},
    installation::{Installed, quota},
    oracle,
    pods::{deployment, runs},
};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

/// Pods of each Deployment.
const EACH: usize = 5;
/// Pods of each group, one core each.
const CORES: usize = crowd::ALL / 2 * EACH;
/// How long all those pods may take to come; nothing of it is bizrq's.
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn a_first_start_on_a_busy_cluster_refuses_nothing_and_loses_nothing() {
    let Some(plane) = own("a_first_start_on_a_busy_cluster") else { return };
    for group in ["exact", "short"] {
        plane.namespace(group, &[]);
    }
    let begun = Instant::now();
    fill(&plane);
    println!("{} pods run after {:?}", 2 * CORES, begun.elapsed());
    let mut installed = Installed::alone(plane, &[]);
    println!("both replicas are ready, and asked, after {:?}", begun.elapsed());
    let admin = installed.plane.admin();
    admin.apply(&quota("exact", "", u32::try_from(CORES).unwrap())).succeeds();
    // Less than it holds: what runs goes on.
    admin.apply(&quota("short", "", 1000)).succeeds();
    for group in ["exact", "short"] {
        eventually(&format!("{group} is charged for what was there"), || {
            let status = admin.get(&format!("bizrq {group}"))["status"].take();
            let used = &status["used"];
            if used["limits.cpu"] == "5k" && used["pods"] == "5k" {
                Ok(())
            } else {
                Err(status.to_string())
            }
        });
    }
    let observed = installed.tail("workload.observed");
    let of_ours = |record: &&Value| record["event"]["data"]["group"] != "";
    assert_eq!(observed.iter().filter(of_ours).count(), crowd::ALL);
    println!("everything is told after {:?}", begun.elapsed());

    // What asks for no more passes, in a full group and in one that holds too much.
    let alice = installed.plane.alice();
    for (group, deployment) in [("exact", "d-0"), ("short", "d-1")] {
        alice
            .run(&format!("set image deployment {deployment} main=stand-in:2 -n {group}"))
            .succeeds();
        let rolled = format!("rollout status deployment {deployment} -n {group} --timeout=100s");
        alice.run(&rolled).succeeds();
        runs(&installed.plane, group, deployment, EACH);
    }
    alice.run("scale deployment d-3 -n short --replicas=4").succeeds();
    alice.run("delete deployment d-5 -n short").succeeds();
    assert_eq!(installed.tail("workloads.refused").len(), 0);
    // What asks for more does not.
    let full = [
        "exceeded quota: exact, requested: limits.cpu=1, used: limits.cpu=5k, limited: limits.cpu=5k",
    ];
    alice.run("scale deployment d-2 -n exact --replicas=6").fails_with(&full);
    let over = ["exceeded quota: short, requested: limits.cpu=1"];
    alice.run("scale deployment d-7 -n short --replicas=6").fails_with(&over);

    let before = installed.last_comparison();
    installed.hand_over();
    eventually("everything was compared", || {
        let last = installed.last_comparison();
        if last > before { Ok(()) } else { Err(last.to_string()) }
    });
    assert_eq!(installed.counted("bizrq_observe_drift_total"), 0);
    for group in ["exact", "short"] {
        oracle::agrees(&installed, group, group);
    }
    println!("done after {:?}", begun.elapsed());
}

/// Nobody is asked yet.
fn fill(plane: &ControlPlane) {
    let object = |group: &str, n: usize| {
        let labels = json!({"biz.group.resource.quota": group});
        deployment(group, &format!("d-{n}"), &labels, u32::try_from(EACH).unwrap(), "1")
    };
    let answers = Arc::<Answers>::default();
    crowd::create(&plane.file("kubeconfig"), ["exact", "short"], Arc::new(object), &answers);
    assert_eq!(answers.counts(), [crowd::ALL, 0, 0]);
    let begun = Instant::now();
    loop {
        let running = ["exact", "short"].map(|group| plane.nodes.written(group).len());
        if running == [CORES; 2] {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{running:?} pods run");
        sleep(Duration::from_secs(1));
    }
}
