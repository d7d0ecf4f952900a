//! On real NATS servers of both versions: three replicas, one of them far away, and an answer that is lost.

use super::{
    faults::Dice,
    replica::{Replica, create, declared, options},
    simulation::{Enough, Pauses, Simulation},
};
use crate::nats::{
    proxy::Proxy,
    server::{Server, Setup, Version},
};
use bizrq::{
    decider::{Answer, Options, nats::Nats},
    event_log::{
        EventLog, Reader,
        jetstream::{self, JetStreamLog},
    },
};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

async fn open(url: &str) -> JetStreamLog {
    JetStreamLog::open(jetstream::Options::new(url)).await.unwrap()
}

async fn replica(name: &str, url: &str) -> Replica {
    let log = open(url).await;
    let transport = Nats::new(&log);
    Replica::with(Arc::new(log), transport, Options { replica: name.into(), ..options() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_decide_as_one() {
    for (version, decisions) in [(Version::New, 20_000), (Version::Old, 1_000)] {
        let server = Server::start(version);
        let proxy = Proxy::start(server.port()).await;
        proxy.delay(Duration::from_millis(20));
        let replicas = vec![
            replica("near-1", &server.url()).await,
            replica("near-2", &server.url()).await,
            replica("far", &proxy.url()).await,
        ];
        let pauses = Pauses {
            think: 0..10,
            again: 0..50,
            tell: 0..1,
            facts: 200,
            sweep: 20..60,
            settle: 1000,
        };
        let log = open(&server.url()).await;
        let simulation = Simulation::over(log, Dice::new(5), replicas, pauses);
        let verdict = Arc::clone(&simulation).run(48, Enough::Recorded(decisions)).await;
        simulation.check(5, &verdict);
        let counts: Vec<_> = simulation.replicas.iter().map(|r| r.decider.counts()).collect();
        assert!(verdict.decisions >= decisions as u64 && verdict.batches > 20, "{version:?}");
        assert!(counts[2].forwarded > 100, "{version:?}: {counts:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_ends_in_the_one_decision() {
    for version in Version::ALL {
        let server = Server::start(version);
        let proxy = Proxy::start(server.port()).await;
        let direct = open(&server.url()).await;
        direct.append(vec![declared("team", "", 4)]).await.unwrap();
        let replica = Arc::new(replica("one", &proxy.url()).await);
        assert!(replica.ask(create("r1", "w1", "team", 1)).await.is_allowed());
        proxy.swallow_answers(true);
        let asked = tokio::spawn({
            let replica = Arc::clone(&replica);
            async move { replica.ask(create("r2", "w2", "team", 3)).await }
        });
        // It is on the log, and nobody heard of it.
        while direct.head().await.unwrap().position < 3 {
            sleep(Duration::from_millis(10)).await;
        }
        assert!(!asked.is_finished());
        proxy.cut();
        proxy.swallow_answers(false);
        let told = asked.await.unwrap();
        assert!(matches!(told, Answer::Allowed { recorded: Some(3), .. }), "{version:?}: {told:?}");
        let refused = replica.ask(create("r3", "w3", "team", 1)).await;
        assert!(matches!(refused, Answer::Refused(_)), "{version:?}: {refused:?}");
        assert_eq!(direct.head().await.unwrap().position, 3, "{version:?}: one record each");
        assert_eq!(replica.decider.counts().unclear, 1, "{version:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_takes_at_most_half_of_what_the_server_takes() {
    for version in Version::ALL {
        let server = Setup::new(version).with("max_payload: 16384").start();
        let log = open(&server.url()).await;
        log.append(vec![declared("team", "", 1000)]).await.unwrap();
        let replica = Arc::new(replica("one", &server.url()).await);
        let asks = (0..200).map(|n| {
            let replica = Arc::clone(&replica);
            tokio::spawn(async move {
                replica.ask(create(&format!("r{n}"), &format!("w{n}"), "team", 1)).await
            })
        });
        for ask in asks.collect::<Vec<_>>() {
            let told = ask.await.unwrap();
            assert!(told.is_allowed(), "{version:?}: {told:?}");
        }
        let (mut reader, mut most) = (log.read(2).unwrap(), 0);
        while let Some(records) = reader.next().await.unwrap() {
            let sizes = records.iter().map(|(_, raw)| raw.scan().unwrap().data.len());
            most = sizes.chain([most]).max().unwrap();
        }
        // Two hundred waiting admissions take much more; one that was cut in halves is not far below.
        assert!((2000..=8192).contains(&most), "{version:?}: {most} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_of_a_type_that_only_a_newer_build_knows_is_what_the_next_one_follows() {
    for version in Version::ALL {
        let server = Server::start(version);
        let log = open(&server.url()).await;
        log.append(vec![declared("team", "", 4)]).await.unwrap();
        let replica = replica("one", &server.url()).await;
        assert!(replica.ask(create("r1", "w1", "team", 1)).await.is_allowed());
        // On the subject of decisions, and to this build no decision.
        let mut headers = async_nats::HeaderMap::new();
        for (name, value) in [
            ("ce-specversion", "1.0"),
            ("ce-id", "00000000000000000000000000000abc"),
            ("ce-type", "io.bizrq.tomorrow.decided.v1"),
            ("ce-source", "/clusters/east"),
            ("ce-subject", "decisions"),
            ("ce-time", "2026-11-29T16:00:00.000Z"),
            ("ce-recordedat", "2026-11-29T16:00:00.000Z"),
        ] {
            headers.insert(name, value);
        }
        let jetstream = async_nats::jetstream::new(log.client());
        let told = jetstream.publish_with_headers("bizrq.v1.decision", headers, "{}".into()).await;
        assert_eq!(told.unwrap().await.unwrap().sequence, 3);
        let told = replica.ask(create("r2", "w2", "team", 1)).await;
        assert!(matches!(told, Answer::Allowed { recorded: Some(4), .. }), "{version:?}: {told:?}");
        // It decides from what it has read as well as from what it was told.
        assert!(replica.decider.counts().conflicts <= 1, "{version:?}");
        let told = replica.ask(create("r3", "w3", "team", 3)).await;
        assert!(matches!(told, Answer::Refused(_)), "{version:?}: {told:?}");
    }
}
