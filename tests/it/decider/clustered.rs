//! Three replicas over three copies of the log, of which the leader is lost again and again: every request has one
//! answer, and the log says the same.

use super::replica::{CPU, Replica, create, declared, options};
use crate::{
    chaos::kills::decisions,
    nats::{
        cluster::Cluster,
        clustered::{open, patiently},
        quorum::lose_the_leader,
        server::{PATIENCE, Version},
    },
    oracle::world::Dice,
};
use bizrq::{
    decider::{Answer, Options, nats::Nats},
    event_log::EventLog,
};
use rand::SeedableRng;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};

const ROUNDS: u32 = 3;
const CALLERS: u64 = 12;
/// Between an answer and the next request: the cores shall last until leaders were lost.
const PAUSE: Duration = Duration::from_millis(20);
/// Cores that may be given away.
const CORES: u64 = 4000;

/// One new request after another, of one replica or, while it has no answer, of the next.
async fn ask(
    replicas: Arc<[Replica; 3]>,
    next: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
) -> BTreeMap<String, Answer> {
    let mut told = BTreeMap::new();
    while !end.load(Relaxed) {
        let n = next.fetch_add(1, Relaxed);
        let (request, workload) = (format!("r{n}"), format!("w{n}"));
        let mut asked = n as usize;
        let answer = loop {
            let replica = &replicas[asked % replicas.len()];
            match replica.ask(create(&request, &workload, "team", 1)).await {
                Answer::Unavailable(_) => asked += 1,
                answer => break answer,
            }
        };
        told.insert(request, answer);
        sleep(PAUSE).await;
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_has_one_answer_whoever_led_and_is_gone() {
    let seed = std::env::var("BIZRQ_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    println!("BIZRQ_SEED={seed}");
    let (mut dice, mut cluster) = (Dice::seed_from_u64(seed), Cluster::start(Version::New));
    let log = open(&cluster).await;
    let cores = i64::try_from(CORES).unwrap();
    patiently(async || log.append(vec![declared("team", "", cores)]).await).await;
    let replica = async |name: &str| {
        let log = open(&cluster).await;
        let transport = Nats::new(&log);
        Replica::with(Arc::new(log), transport, Options { replica: name.into(), ..options() })
    };
    let replicas = Arc::new([replica("a").await, replica("b").await, replica("c").await]);
    let (next, end) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(false)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| tokio::spawn(ask(Arc::clone(&replicas), Arc::clone(&next), Arc::clone(&end))))
        .collect();
    for round in 1..=ROUNDS {
        let before = next.load(Relaxed);
        tokio::task::block_in_place(|| lose_the_leader(&mut cluster, &mut dice, round));
        // Everybody who asked before has an answer, and asks on.
        timeout(PATIENCE, async {
            while next.load(Relaxed) < before + 2 * CALLERS {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("decisions go on");
    }
    end.store(true, Relaxed);
    let mut told = BTreeMap::new();
    for caller in callers {
        told.extend(timeout(PATIENCE, caller).await.expect("everybody is answered").unwrap());
    }

    patiently(async || log.head().await).await;
    let given = decisions(&log).await;
    for (request, answer) in &told {
        let stands = given.get(request).copied();
        match answer {
            Answer::Allowed { recorded, .. } => {
                assert_eq!(*recorded, stands, "seed {seed}: {request}");
            }
            answer => assert_eq!(stands, None, "seed {seed}: {request}: {answer:?}"),
        }
    }
    println!("{} answers, {} decisions", told.len(), given.len());
    assert!(given.len() as u64 <= CORES && given.len() > 50, "seed {seed}: {}", given.len());
    let tree = patiently(async || log.tree().await).await;
    for replica in &*replicas {
        let mut projection = replica.projection.clone();
        timeout(PATIENCE, projection.wait_for(tree.position())).await.unwrap().unwrap();
        let ledger = projection.ledger();
        assert_eq!(ledger.root(), tree.root(), "seed {seed}");
        let names = ledger.names();
        let (team, cpu) = (names.known_group("team").unwrap(), names.known_key(CPU).unwrap());
        let used = ledger.book().unwrap().line(team, cpu).used;
        assert_eq!(used, given.len() as i128 * 1000, "seed {seed}: each counts once");
    }
}
