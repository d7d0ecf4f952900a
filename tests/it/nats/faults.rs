//! What can happen to a server and the way to it: answers lost, nobody there, kills, freezes, consumers that are gone,
//! streams that are not what they were.

use super::{
    proxy::Proxy,
    server::{PATIENCE, Server, Setup, Version},
};
use bizrq::{
    domain::event::Position,
    event_log::{
        AppendError, EventLog, ReadError, Reader,
        conformance::{decision, fact, numbers},
        jetstream::{JetStreamLog, JetStreamReader, Options, StreamError},
    },
};
use futures_util::StreamExt;
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// Short enough to wait for, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_secs(2);

fn options(url: &str) -> Options {
    Options { deadline: DEADLINE, ..Options::new(url) }
}

async fn open(url: &str) -> JetStreamLog {
    JetStreamLog::open(options(url)).await.unwrap()
}

/// Reads by `tail` until `count` records came; gives what they say.
async fn tailed(reader: &mut JetStreamReader, count: usize) -> Result<Vec<u64>, ReadError> {
    let mut all = Vec::new();
    while all.len() < count {
        let records = timeout(PATIENCE, reader.tail()).await.expect("records come")?;
        let id = |raw: bizrq::event_log::records::Raw<'_>| raw.scan().unwrap().id.to_string();
        all.extend(records.iter().map(|(_, raw)| u64::from_str_radix(&id(raw), 16).unwrap()));
    }
    Ok(all)
}

#[tokio::test]
async fn an_append_whose_answer_was_lost_is_found_when_it_is_sent_again() {
    for version in Version::ALL {
        let server = Server::start(version);
        let proxy = Proxy::start(server.port()).await;
        let log = open(&proxy.url()).await;
        let first = log.decide(0, decision(1)).await.unwrap().last;
        proxy.swallow_answers(true);
        let lost = log.decide(first, decision(2)).await;
        assert!(matches!(lost, Err(AppendError::Unclear { .. })), "{lost:?}");
        proxy.cut();
        proxy.swallow_answers(false);
        // 2.9 says "duplicate", 2.15 "wrong last sequence": both mean the one that is there.
        for _ in 0..2 {
            let again = until(async || log.decide(first, decision(2)).await).await;
            assert_eq!(again.unwrap().last, 2, "{version:?}");
        }
        let other = log.decide(first, decision(3)).await;
        let conflict = AppendError::Conflict { expected: first, last_decision: 2 };
        assert_eq!(other, Err(conflict), "another decision is not it");
        assert_eq!(numbers(&log, 1).await, [1, 2]);
    }
}

/// Members of a cluster that start again answer a second time what they have answered: seen with both versions.
#[tokio::test]
async fn an_answer_that_comes_a_second_time_is_no_answer_to_what_came_after() {
    for version in Version::ALL {
        let server = Server::start(version);
        let log = open(&server.url()).await;
        let other = async_nats::connect(server.url()).await.unwrap();
        let mut answers = other.subscribe("_INBOX.>").await.unwrap();
        other.flush().await.unwrap();
        log.append((1..=3).map(fact).collect()).await.unwrap();
        let is_acknowledgement =
            |payload: &[u8]| payload.windows(6).any(|found| found == b"\"seq\":");
        let mut heard = Vec::new();
        while heard.len() < 3 {
            let answer = timeout(PATIENCE, answers.next()).await.unwrap().unwrap();
            heard.extend(is_acknowledgement(&answer.payload).then_some(answer));
        }
        for again in heard {
            other.publish(again.subject, again.payload).await.unwrap();
        }
        other.flush().await.unwrap();
        let appended = log.append(vec![fact(4), fact(5)]).await.unwrap();
        assert_eq!((appended.first, appended.last), (4, 5), "{version:?}");
        assert_eq!(log.decide(0, decision(6)).await.unwrap().last, 6, "{version:?}");
    }
}

/// Tries until the log is reached again.
async fn until<T>(work: impl AsyncFn() -> Result<T, AppendError>) -> Result<T, AppendError> {
    let begun = Instant::now();
    loop {
        match work().await {
            Err(AppendError::Away { .. } | AppendError::Unclear { .. })
                if begun.elapsed() < PATIENCE => {}
            answer => return answer,
        }
    }
}

/// The server remembers ids for 1 s here and for 120 s otherwise: a second is to the one what 121 s are to the other,
/// and the server compares nothing but the age of the id with the window.
#[tokio::test]
async fn repetitions_within_the_servers_memory_and_beyond_it_are_one_decision_and_harmless_facts() {
    for version in Version::ALL {
        let server = Server::start(version);
        let window = Duration::from_secs(1);
        let options = Options { duplicate_window: window, ..options(&server.url()) };
        let log = JetStreamLog::open(options).await.unwrap();
        log.append(vec![fact(1), fact(2)]).await.unwrap();
        let decided = log.decide(0, decision(3)).await.unwrap();
        assert_eq!(log.append(vec![fact(1), fact(2)]).await.unwrap().last, 2, "remembered");
        assert_eq!(log.decide(0, decision(3)).await.unwrap(), decided);
        sleep(window * 3).await;
        // A fact may stand twice, which the fold ignores; a decision cannot.
        assert_eq!(log.append(vec![fact(1)]).await.unwrap().last, 4);
        assert_eq!(log.decide(0, decision(3)).await.unwrap(), decided);
        assert_eq!(numbers(&log, 1).await, [1, 2, 3, 1]);
    }
}

#[tokio::test]
async fn while_nobody_is_there_appends_fail_in_time_and_everything_resumes_by_itself() {
    for version in Version::ALL {
        let server = Server::start(version);
        let proxy = Proxy::start(server.port()).await;
        let log = open(&proxy.url()).await;
        let mut reader = log.read(1).unwrap();
        log.append(vec![fact(1)]).await.unwrap();
        assert_eq!(tailed(&mut reader, 1).await.unwrap(), [1]);
        proxy.away();
        let mut written = false;
        for n in 2..6 {
            let begun = Instant::now();
            let answer = log.append(vec![fact(n)]).await;
            // The first one may have been under way when the connection broke.
            written |= matches!(answer, Err(AppendError::Unclear { .. }));
            let away =
                matches!(answer, Err(AppendError::Away { .. } | AppendError::Unclear { .. }));
            assert!(away, "{answer:?}");
            assert!(begun.elapsed() < DEADLINE * 3, "{:?}", begun.elapsed());
        }
        let head = log.head().await;
        assert!(matches!(head, Err(ReadError::Stream(StreamError::Away { .. }))), "{head:?}");
        proxy.back();
        until(async || log.append(vec![fact(9)]).await).await.unwrap();
        let rest = tailed(&mut reader, 1).await.unwrap();
        assert!(rest.ends_with(&[9]) || written, "{rest:?}");
        assert_eq!(numbers(&log, 1).await.last(), Some(&9));
    }
}

#[tokio::test]
async fn what_was_acknowledged_outlives_kills_of_the_server() {
    for version in Version::ALL {
        let mut server = Server::start(version);
        let log = open(&server.url()).await;
        let mut reader = log.read(1).unwrap();
        let (mut acknowledged, mut read) = (Vec::new(), Vec::new());
        for round in 0..4_u64 {
            let writing = async {
                for n in round * 1000.. {
                    match log.append(vec![fact(n)]).await {
                        Ok(_) => acknowledged.push(n),
                        Err(_) => return,
                    }
                }
            };
            let killing = async {
                sleep(Duration::from_millis(150)).await;
                server.kill();
            };
            tokio::join!(writing, killing);
            server.restart();
            let marker = round * 1000 + 999_999;
            until(async || log.append(vec![fact(marker)]).await).await.unwrap();
            acknowledged.push(marker);
            while read.last() != Some(&marker) {
                read.extend(tailed(&mut reader, 1).await.unwrap());
            }
        }
        assert_eq!(read, numbers(&log, 1).await, "a reader saw everything once, in order");
        let missing: Vec<_> = acknowledged.iter().filter(|n| !read.contains(n)).collect();
        assert!(missing.is_empty(), "{missing:?} of {}", acknowledged.len());
        assert!(acknowledged.len() > 8);
    }
}

#[tokio::test]
async fn a_server_that_freezes_and_thaws_loses_nobody() {
    let server = Server::start(Version::New);
    let log = open(&server.url()).await;
    let mut reader = log.read(1).unwrap();
    log.append(vec![fact(1)]).await.unwrap();
    assert_eq!(tailed(&mut reader, 1).await.unwrap(), [1]);
    server.freeze();
    let frozen = log.append(vec![fact(2)]).await;
    assert!(matches!(frozen, Err(AppendError::Unclear { .. })), "{frozen:?}");
    // Long enough for the reader to find its consumer silent.
    let _ = timeout(Duration::from_secs(5), reader.tail()).await.map(|_| panic!("it is frozen"));
    server.thaw();
    until(async || log.append(vec![fact(3)]).await).await.unwrap();
    let mut read = Vec::new();
    while read.last() != Some(&3) {
        read.extend(tailed(&mut reader, 1).await.unwrap());
    }
    assert_eq!(read, numbers(&log, 2).await);
}

#[tokio::test]
async fn a_consumer_that_is_gone_is_noticed_and_made_anew() {
    for version in Version::ALL {
        let server = Server::start(version);
        let log = open(&server.url()).await;
        let mut reader = log.read(1).unwrap();
        log.append(vec![fact(1)]).await.unwrap();
        assert_eq!(tailed(&mut reader, 1).await.unwrap(), [1]);
        let jetstream = async_nats::jetstream::new(log.client());
        let stream = jetstream.get_stream("BIZRQ").await.unwrap();
        let mut names = stream.consumer_names();
        while let Some(name) = futures_util::StreamExt::next(&mut names).await {
            stream.delete_consumer(&name.unwrap()).await.unwrap();
        }
        log.append(vec![fact(2), fact(3)]).await.unwrap();
        assert_eq!(tailed(&mut reader, 2).await.unwrap(), [2, 3]);
    }
}

#[tokio::test]
async fn records_that_are_gone_are_named() {
    for version in Version::ALL {
        let server = Server::start(version);
        let log = open(&server.url()).await;
        let jetstream = async_nats::jetstream::new(log.client());
        let mut config =
            jetstream.get_stream("BIZRQ").await.unwrap().get_info().await.unwrap().config;
        // What the log's own stream refuses, another one in its place allows.
        jetstream.delete_stream("BIZRQ").await.unwrap();
        (config.deny_delete, config.deny_purge) = (false, false);
        let stream = jetstream.create_stream(config).await.unwrap();
        log.append((1..=9).map(fact).collect()).await.unwrap();
        let mut behind = log.read(1).unwrap();
        assert_eq!(tailed(&mut behind, 9).await.unwrap().len(), 9);
        for sequence in [4, 5, 7] {
            stream.delete_message(sequence).await.unwrap();
        }
        missing(timeout(PATIENCE, behind.tail()).await.unwrap(), 4, 5);
        missing(log.read(1).unwrap().next().await, 4, 5);
        missing(log.head().await, 4, 5);
        stream.purge().sequence(6).await.unwrap();
        missing(log.read(1).unwrap().next().await, 1, 5);
        stream.purge().await.unwrap();
        missing(log.read(1).unwrap().tail().await, 1, 9);
    }
}

fn missing<T: std::fmt::Debug>(read: Result<T, ReadError>, first: Position, last: Position) {
    match read.unwrap_err() {
        ReadError::Stream(StreamError::Missing { from, to, .. }) => {
            assert_eq!((from, to), (first, last));
        }
        other => panic!("{other}"),
    }
}

/// Copies the folder of a server that does not run.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn a_stream_from_an_older_backup_is_not_mistaken_for_the_one_that_was_read() {
    for version in Version::ALL {
        for later in [0, 1, 5] {
            let mut server = Setup::new(version).start();
            let log = open(&server.url()).await;
            log.append((1..=10).map(fact).collect()).await.unwrap();
            let mut reader = log.read(1).unwrap();
            server.kill();
            let (store, backup) = (server.dir().join("store"), server.dir().join("backup"));
            copy(&store, &backup);
            server.restart();
            until(async || log.append(vec![fact(11), fact(12)]).await).await.unwrap();
            assert_eq!(tailed(&mut reader, 12).await.unwrap().len(), 12);

            server.kill();
            fs::remove_dir_all(&store).unwrap();
            fs::rename(&backup, &store).unwrap();
            server.restart();
            let other = open(&server.url()).await;
            other.append((101..=100 + later).map(fact).collect()).await.unwrap();
            let read = timeout(PATIENCE, reader.tail()).await.unwrap();
            let error = read.expect_err("what was read is not what is there");
            match error {
                ReadError::Stream(StreamError::Truncated { known: 12, found, .. }) => {
                    assert_eq!(found, 10 + later);
                }
                ReadError::Stream(StreamError::Changed { position: 12, .. }) => {
                    assert_eq!(later, 5)
                }
                other => panic!("{other}"),
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_gone_is_not_made_again_behind_our_back() {
    let server = Server::start(Version::New);
    let log = open(&server.url()).await;
    log.append(vec![fact(1)]).await.unwrap();
    let jetstream = async_nats::jetstream::new(log.client());
    jetstream.delete_stream("BIZRQ").await.unwrap();
    let refused = log.append(vec![fact(2)]).await;
    // It may have been ended by a roll-over whose next log comes soon: the append waits for that, then gives up.
    assert!(matches!(refused, Err(AppendError::Away { .. })), "{refused:?}");
    let gone = log.read(1).unwrap().tail().await;
    assert!(matches!(gone, Err(ReadError::Stream(StreamError::Gone { .. }))), "{gone:?}");
}

#[tokio::test]
async fn what_the_server_does_not_take_is_refused_with_what_to_do() {
    let server = Setup::new(Version::New).with("max_payload: 4096").start();
    let log = open(&server.url()).await;
    assert!(log.max_event_bytes() < 4096);
    let before = log.append(vec![fact(1)]).await.unwrap();
    let jetstream = async_nats::jetstream::new(log.client());
    let mut config = jetstream.get_stream("BIZRQ").await.unwrap().get_info().await.unwrap().config;
    config.max_bytes = 1000;
    jetstream.update_stream(&config).await.unwrap();
    let mut n = 1;
    let full = loop {
        n += 1;
        match log.append(vec![fact(n)]).await {
            Ok(at) => assert!(at.last < 100, "a full stream takes no more"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&full, AppendError::Refused { why } if why.contains("maximum bytes")),
        "{full}"
    );
    assert_eq!(numbers(&log, 1).await[..1], [1], "and drops nothing: {before:?}");
}
