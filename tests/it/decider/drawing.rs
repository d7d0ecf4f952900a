//! Pods that draw on their workload's promise need no record. What was let through and is not seen yet counts all the
//! same: of two that come at once, to whichever replica, one may have what is left.

use super::{
    basics::reason,
    faults::{Dice, Net, Wire},
    replica::{CPU, Replica, create, declared, fact, observed, options, roles},
};
use bizrq::{
    decider::{Answer, Ask, Options, What},
    domain::{
        admission::Reason,
        event::{Data, PodCreated, PodResize, PodStopped, StopBasis},
        resources::Resources,
        time::ORIGIN,
    },
    event_log::{EventLog, NewEvent, memory::MemoryLog},
};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// `team` may use three cores: `w1` was promised three pods of one, and two of them are there.
async fn two_of_three() -> MemoryLog {
    let log = MemoryLog::default();
    let facts = vec![declared("team", "", 3), observed("w1", "team", 3), came("p1"), came("p2")];
    log.append(facts).await.unwrap();
    log
}

fn came(uid: &str) -> NewEvent {
    let Ask { what: What::Workload(top), .. } = create("", "w1", "team", 1) else { panic!() };
    let [role] = &roles(1)[..] else { panic!() };
    let created = PodCreated {
        uid: uid.to_owned().into(),
        owner: Some(top.workload),
        group: "team".into(),
        models: role.models.clone(),
        reserved: Arc::clone(&role.pod),
    };
    fact(&format!("pods/{uid}"), Data::PodCreated(created))
}

fn went(uid: &str) -> NewEvent {
    let stopped = PodStopped {
        uid: uid.to_owned().into(),
        earliest: ORIGIN,
        latest: ORIGIN,
        basis: StopBasis::Deleted,
        phase: "".into(),
        reason: "".into(),
        ran: None,
    };
    fact(&format!("pods/{uid}"), Data::PodStopped(stopped))
}

/// `w1`'s controller makes a pod.
fn pod(request: &str, uid: &str) -> Ask {
    let mut ask = create(request, "w1", "team", 1);
    let What::Workload(workload) = &mut ask.what else { panic!() };
    workload.draws_on = Some(workload.workload.clone());
    let role = &workload.roles[0];
    let (from, to) = (Arc::<Resources>::default(), Arc::clone(&role.pod));
    let models = role.models.clone();
    workload.resize = Some(PodResize { uid: uid.to_owned().into(), models, from, to });
    ask
}

fn without_a_record() -> Answer {
    Answer::Allowed { recorded: None, warnings: Vec::new() }
}

async fn read_all(replica: &Replica, log: &MemoryLog) {
    let head = log.head().await.unwrap().position;
    replica.projection.clone().wait_for(head).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_two_pods_at_once_one_has_what_is_left_of_the_promise() {
    let log = two_of_three().await;
    let replica = Replica::start(Arc::new(log.clone()), options());
    read_all(&replica, &log).await;
    assert_eq!(replica.ask(pod("r3", "p3")).await, without_a_record());
    let refused = replica.ask(pod("r4", "p4")).await;
    assert_eq!(reason(&refused), Some(Reason::QuotaExceeded), "{refused:?}");
    assert_eq!(replica.ask(pod("r5", "p3")).await, without_a_record(), "the same pod, asked anew");
    // It never came.
    sleep(Duration::from_secs(36)).await;
    assert_eq!(replica.ask(pod("r6", "p4")).await, without_a_record());
    assert_eq!(log.head().await.unwrap().position, 4, "nothing was recorded");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_and_went_leaves_its_room_at_once() {
    let log = two_of_three().await;
    let replica = Replica::start(Arc::new(log.clone()), options());
    read_all(&replica, &log).await;
    for round in 3..10 {
        let uid = format!("p{round}");
        assert_eq!(replica.ask(pod(&format!("r{round}"), &uid)).await, without_a_record());
        log.append(vec![came(&uid), went(&uid)]).await.unwrap();
        read_all(&replica, &log).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_takes_no_room() {
    let log = two_of_three().await;
    let replica = Replica::start(Arc::new(log.clone()), options());
    read_all(&replica, &log).await;
    let dry = Ask { dry_run: true, ..pod("r3", "p3") };
    assert_eq!(replica.ask(dry).await, without_a_record());
    assert_eq!(replica.ask(pod("r4", "p4")).await, without_a_record());
}

#[tokio::test(start_paused = true)]
async fn of_two_pods_at_once_at_two_replicas_one_has_what_is_left() {
    let (log, net) = (two_of_three().await, Net::new(Dice::new(1), 0));
    let replicas = ["a", "b"].map(|name| {
        let wire = Wire { net: Arc::clone(&net), away: 0..2 };
        let options = Options { replica: name.into(), ..options() };
        Replica::with(Arc::new(log.clone()), wire, options)
    });
    for replica in &replicas {
        read_all(replica, &log).await;
    }
    sleep(Duration::from_secs(2)).await;
    let decide = replicas.iter().filter(|replica| replica.decider.decides()).count();
    assert_eq!(decide, 1, "one decides for both");
    let [a, b] = &replicas;
    let (one, other) = tokio::join!(a.ask(pod("r3", "p3")), b.ask(pod("r4", "p4")));
    let allowed = [&one, &other].iter().filter(|answer| answer.is_allowed()).count();
    assert_eq!(allowed, 1, "{one:?}, {other:?}, of {CPU}");
}
