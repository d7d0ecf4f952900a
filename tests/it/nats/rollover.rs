//! A roll-over while everybody writes and reads: nothing lost, nothing twice, no hole.

use super::server::{PATIENCE, Server, Version};
use crate::log_cli::{bizrq, info};
use async_nats::jetstream;
use bizrq::{
    domain::event::Position,
    event_log::{
        AppendError, EventLog, ReadError, Reader,
        conformance::{decision, fact, numbers},
        jetstream::{JetStreamLog, Options},
    },
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

async fn open(server: &Server) -> JetStreamLog {
    JetStreamLog::open(Options::new(&server.url())).await.unwrap()
}

/// The command, on a thread of its own: tasks of the test go on meanwhile.
async fn roll(server: &Server, next: &'static str) -> Value {
    let url = server.url();
    let run = move || {
        bizrq(&["log", "roll", "-o", "json", "--as", "ann", "--log", &url, "--to", next]).report()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// Appends one number after another until it is told to end; gives those that were acknowledged, with their places.
async fn write(log: JetStreamLog, first: u64, end: Arc<AtomicBool>) -> Vec<(Position, u64)> {
    let (mut acknowledged, mut n) = (Vec::new(), first);
    while !end.load(SeqCst) {
        let appended = log.append(vec![fact(n)]).await.unwrap();
        acknowledged.push((appended.first, n));
        n += 1;
    }
    acknowledged
}

/// Decides one number after another, by what it was told of the last decision.
async fn decide(log: JetStreamLog, first: u64, end: Arc<AtomicBool>) -> Vec<(Position, u64)> {
    let mut last = log.head().await.unwrap().last_decision;
    let (mut acknowledged, mut n) = (Vec::new(), first);
    while !end.load(SeqCst) {
        match log.decide(last, decision(n)).await {
            Ok(appended) => {
                last = appended.first;
                acknowledged.push((last, n));
                n += 1;
            }
            Err(AppendError::Conflict { last_decision, .. }) => last = last_decision,
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

/// Reads from the first record on until it has `to`; gives the ids.
async fn follow(log: JetStreamLog, to: tokio::sync::oneshot::Receiver<Position>) -> Vec<String> {
    let (mut reader, mut ids, mut to) = (log.read(1).unwrap(), Vec::new(), to);
    let mut last = Position::MAX;
    while (ids.len() as u64) < last {
        let records = tokio::select! {
            told = &mut to, if last == Position::MAX => {
                last = told.unwrap();
                continue;
            }
            records = tokio::time::timeout(PATIENCE, reader.tail()) => records.unwrap().unwrap(),
        };
        for (position, raw) in records.iter() {
            assert_eq!(position, ids.len() as u64 + 1, "no hole, nothing twice");
            ids.push(raw.scan().unwrap().id.to_string());
        }
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_readers_go_on_through_two_roll_overs() {
    for version in Version::ALL {
        let server = Server::start(version);
        let end = Arc::new(AtomicBool::new(false));
        let first = open(&server).await;
        first.append(vec![decision(1), fact(2)]).await.unwrap();
        let mut writers = Vec::new();
        for n in 1..=2 {
            writers.push(tokio::spawn(write(open(&server).await, n << 32, Arc::clone(&end))));
        }
        writers.push(tokio::spawn(decide(open(&server).await, 3 << 32, Arc::clone(&end))));
        let (tell, told) = tokio::sync::oneshot::channel();
        let reader = tokio::spawn(follow(open(&server).await, told));
        for next in ["BIZRQ-2", "BIZRQ-3"] {
            tokio::time::sleep(Duration::from_millis(300)).await;
            roll(&server, next).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        end.store(true, SeqCst);
        let mut acknowledged = Vec::new();
        for writer in writers {
            let of_one = writer.await.unwrap();
            assert!(of_one.len() > 10, "{version:?}: a writer stood still");
            acknowledged.extend(of_one);
        }
        let head = first.head().await.unwrap();
        tell.send(head.position).unwrap();
        let ids = reader.await.unwrap();
        for (position, n) in &acknowledged {
            let at = usize::try_from(position - 1).unwrap();
            assert_eq!(ids[at], format!("{n:032x}"), "position {position}");
        }
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{version:?}: a record is there twice");
        // The first two, what was acknowledged, and the first records of two streams.
        assert_eq!(ids.len(), 2 + acknowledged.len() + 2);

        // Whoever comes now finds one history, too, and the same numbers from the middle on.
        let report = info(&server.url());
        assert_eq!((&report["base"], &report["position"]), (&0.into(), &head.position.into()));
        assert_eq!(report["storage"]["stream"], "BIZRQ-3");
        assert_eq!(report["types"]["io.bizrq.log.opened.v1"], 2);
        let log = JetStreamLog::open_read(Options::new(&server.url())).await.unwrap();
        assert_eq!(log.tree().await.unwrap().root().to_string(), report["root"]);
        let begins = |n: u64| log.read(n).unwrap();
        for from in [1, head.position / 2, head.position] {
            let records = begins(from).next().await.unwrap().unwrap();
            assert_eq!(records.first(), from);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_over_that_was_interrupted_is_finished_and_writers_wait_for_it() {
    for version in Version::ALL {
        let server = Server::start(version);
        let mut options = Options::new(&server.url());
        options.deadline = Duration::from_secs(2);
        let log = JetStreamLog::open(options.clone()).await.unwrap();
        log.append((1..=500).map(fact).collect()).await.unwrap();
        let tree = log.tree().await.unwrap();

        // The operator was killed between the two steps.
        let client = async_nats::connect(server.url()).await.unwrap();
        let operator = jetstream::new(client.clone());
        let mut config = operator.get_stream("BIZRQ").await.unwrap().cached_info().config.clone();
        (config.subjects, config.sealed) = (vec!["bizrq.sealed.BIZRQ".into()], true);
        operator.update_stream(&config).await.unwrap();
        let error = log.append(vec![fact(501)]).await.unwrap_err();
        assert!(matches!(&error, AppendError::Away { why } if why.contains("roll")), "{error}");
        let error = JetStreamLog::open(options.clone()).await.unwrap_err();
        assert!(
            error.to_string().contains("let an operator run `bizrq log roll` again"),
            "{error}"
        );
        let reading = JetStreamLog::open_read(options.clone()).await.unwrap();
        assert_eq!(numbers(&reading, 1).await.len(), 500, "it can be read");

        // Killed behind the second: the stream is there, its first record is not.
        let wanted = jetstream::stream::Config {
            name: "NEXT".to_owned(),
            subjects: ["bizrq.v1.decision", "bizrq.v1.fact.*", "bizrq.v1.note.*"]
                .map(str::to_owned)
                .to_vec(),
            deny_delete: true,
            deny_purge: true,
            discard: jetstream::stream::DiscardPolicy::New,
            max_messages: -1,
            max_bytes: -1,
            max_messages_per_subject: -1,
            max_consumers: -1,
            ..Default::default()
        };
        operator.create_stream(wanted).await.unwrap();
        let error = log.append(vec![fact(501)]).await.unwrap_err();
        assert!(
            matches!(error, AppendError::Away { .. }),
            "nobody writes before it is open: {error}"
        );

        let waiting = tokio::spawn({
            let log = log.clone();
            async move { log.append(vec![fact(501)]).await }
        });
        let report = roll(&server, "NEXT").await;
        assert_eq!(
            (&report["base"], &report["root"]),
            (&500.into(), &tree.root().to_string().into())
        );
        assert_eq!(waiting.await.unwrap().unwrap().first, 502);
        assert_eq!(roll(&server, "NEXT").await, report, "done twice is done once");
        let head = log.head().await.unwrap();
        assert_eq!((head.position, head.last_decision), (502, 501));

        // Conditions meet the last decision, which is the beginning of the stream.
        let stale = log.decide(0, decision(503)).await.unwrap_err();
        assert!(matches!(stale, AppendError::Conflict { last_decision: 501, .. }), "{stale}");
        assert_eq!(log.decide(501, decision(503)).await.unwrap().first, 503);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_or_taken_is_not_rolled_over() {
    let server = Server::start(Version::New);
    let url = server.url();
    let refused = |to: &'static str, words: &'static str| {
        let url = url.clone();
        tokio::task::spawn_blocking(move || {
            bizrq(&["log", "roll", "--log", &url, "--to", to]).refused(4, words);
        })
    };
    refused("NEXT", "there is no such stream").await.unwrap();
    let log = open(&server).await;
    refused("NEXT", "it is empty").await.unwrap();
    log.append(vec![fact(1)]).await.unwrap();
    refused("no/name", "letters, digits").await.unwrap();
    let operator = jetstream::new(async_nats::connect(&url).await.unwrap());
    let other = jetstream::stream::Config {
        name: "OTHER".to_owned(),
        subjects: vec!["other".to_owned()],
        ..Default::default()
    };
    operator.create_stream(other).await.unwrap();
    refused("OTHER", "there is a stream of this name already").await.unwrap();
    assert_eq!(log.append(vec![fact(2)]).await.unwrap().first, 2, "nothing was ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_stream_before_a_continued_log_says_what_is_missing() {
    let server = Server::start(Version::New);
    let log = open(&server).await;
    log.append((1..=10).map(fact).collect()).await.unwrap();
    roll(&server, "NEXT").await;
    let operator = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    operator.delete_stream("BIZRQ").await.unwrap();
    assert_eq!(log.head().await.unwrap().position, 11, "who slept through it all finds it, too");
    assert_eq!(log.append(vec![fact(12)]).await.unwrap().first, 12);
    let log = open(&server).await;
    assert_eq!(log.append(vec![fact(13)]).await.unwrap().first, 13, "it is found all the same");
    let error = log.read(1).unwrap().next().await.unwrap_err();
    assert!(matches!(error, ReadError::Stream(_)), "{error}");
    assert!(error.to_string().contains("the records 1 to 10 are missing"), "{error}");
    let url = server.url();
    let said = tokio::task::spawn_blocking(move || bizrq(&["meter", "--log", &url])).await.unwrap();
    said.refused(4, "continues a log that ends at position 10");
    // Another name is another log's: what is meant for that does not get into this one.
    for (stream, is_known) in [("BIZRQ", true), ("NEXT", true), ("OTHER", false)] {
        let named = || Options { stream: stream.to_owned(), ..Options::new(&server.url()) };
        for opened in [JetStreamLog::open(named()).await, JetStreamLog::open_read(named()).await] {
            match opened {
                Ok(log) => assert!(is_known && log.head().await.unwrap().position == 13),
                Err(error) => {
                    let error = error.to_string();
                    assert!(!is_known && error.contains("there is no stream OTHER"), "{error}");
                }
            }
        }
    }
    roll(&server, "LAST").await;
    operator.delete_stream("NEXT").await.unwrap();
    let named = Options { stream: "NEXT".to_owned(), ..Options::new(&server.url()) };
    let log = JetStreamLog::open_read(named).await.unwrap();
    assert_eq!(log.head().await.unwrap().position, 14, "it was continued");
}
