//! A server that is away or frozen: who appends hears so in time, however many they are; memory stays bounded;
//! everything goes on by itself. Most outages are of seconds, with shorter deadlines; one is of a minute, as in production.

use super::{child, folded, new_events, open, pod, server};
use crate::{
    decider::replica::{self, Replica, create, declared},
    nats::{
        proxy::Proxy,
        server::{PATIENCE, Server, Version},
    },
};
use bizrq::{
    decider::{self, Answer},
    event_log::{AppendError, EventLog, Reader, conformance::fact, jetstream::JetStreamLog},
    projection::{MemoryStore, Runner, runner},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Lines},
    process::ChildStdout,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, task::JoinSet, time::timeout};

/// More than the client's own queue holds (2,048).
const CALLERS: u64 = 3000;

/// Callers who all ask at once: each is told, in time, that it failed and that it may try again.
async fn all_are_told(log: &JetStreamLog) {
    let mut callers = JoinSet::new();
    for n in 0..CALLERS {
        let log = log.clone();
        callers.spawn(async move {
            let appended = log.append(vec![fact(n)]).await;
            // Every third asks where the log ends, too.
            (appended, if n.is_multiple_of(3) { log.head().await.err() } else { None })
        });
    }
    let told = timeout(PATIENCE, callers.join_all()).await.expect("somebody waits for ever");
    for (appended, _) in &told {
        let error = appended.as_ref().unwrap_err();
        let clear = matches!(error, AppendError::Away { .. } | AppendError::Unclear { .. });
        assert!(clear && !error.to_string().is_empty(), "{error}");
    }
    let asked = told.iter().filter(|(_, head)| head.is_some()).count() as u64;
    assert_eq!(asked, CALLERS / 3, "the end of a log that is away is not told");
}

async fn goes_on(log: &JetStreamLog) {
    let events = new_events(&pod(1));
    let again = async {
        while log.append(events.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("appends go on by themselves");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_told_in_time_and_survived() {
    for version in Version::ALL {
        let server = server(version);
        let proxy = Proxy::start(server.port()).await;
        let log = open(&proxy.url()).await;
        goes_on(&log).await;
        let mut tail = log.read(1).unwrap();
        let mut read = tail.tail().await.unwrap().len();
        proxy.away();
        all_are_told(&log).await;
        proxy.back();
        goes_on(&log).await;
        server.freeze();
        all_are_told(&log).await;
        server.thaw();
        goes_on(&log).await;
        // Who was reading goes on, too: it misses nothing and sees nothing twice.
        let (_, ids) = folded(&log).await;
        while read < ids.len() {
            let records = timeout(PATIENCE, tail.tail()).await.expect("reading goes on").unwrap();
            for (position, raw) in records.iter() {
                assert_eq!(raw.scan().unwrap().id.as_str(), ids[position as usize - 1]);
                read += 1;
                assert_eq!(position, read as u64, "in order, each once");
            }
        }
    }
}

#[test]
fn memory_is_bounded_while_callers_flood_a_server_that_is_frozen() {
    let server = server(Version::New);
    let dir = tempfile::tempdir().unwrap();
    let mut flood = child::command("flood", &server.url(), dir.path(), 0, 0).spawn().unwrap();
    let mut lines = BufReader::new(flood.stdout.take().unwrap()).lines();
    next(&mut lines, "ready");
    server.freeze();
    let kib: Vec<u64> = (0..3).map(|_| next(&mut lines, "kib ")).collect();
    server.thaw();
    let answered = next(&mut lines, "resumed ");
    flood.wait().unwrap();
    println!("KiB as it went: {kib:?}; {answered} appends after the thaw");
    // 2,000 callers with 4 KiB each, 16 MiB under way, and what lies in queues; it does not grow with time.
    assert!(kib[2] < kib[0] + (64 << 10), "it grows: {kib:?}");
}

/// A second of the child that outlasts an outage.
#[derive(Clone, Copy, Debug)]
struct Second {
    kib: u64,
    failed: u64,
    slowest_ms: u64,
    /// Answers of the caller that has the fewest.
    least: u64,
    read: u64,
}

#[test]
fn a_minute_without_the_server_is_told_in_time_and_survived() {
    std::thread::scope(|scope| {
        scope.spawn(|| outlast("frozen", |server| server.freeze(), |server| server.thaw()));
        scope.spawn(|| outlast("killed", Server::kill, Server::restart));
    });
}

fn outlast(what: &str, leaves: impl FnOnce(&mut Server), comes_back: impl FnOnce(&mut Server)) {
    let (mut server, dir) = (server(Version::New), tempfile::tempdir().unwrap());
    let mut child = child::command("outlast", &server.url(), dir.path(), 0, 0).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut second = || second(what, &mut lines);
    let until = |second: &mut dyn FnMut() -> Second, enough: &dyn Fn(&Second) -> bool| {
        let begun = Instant::now();
        loop {
            let now = second();
            if enough(&now) {
                return now;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {now:?}");
        }
    };
    let before = until(&mut second, &|now| now.least > 2 && now.read > 2000);
    leaves(&mut server);
    let gone = Instant::now();
    let mut minute = Vec::new();
    while gone.elapsed() < Duration::from_secs(60) {
        minute.push(second());
    }
    comes_back(&mut server);
    let last = *minute.last().unwrap();
    // Every caller is answered again, and what they append is read.
    let after =
        until(&mut second, &|now| now.least > last.least + 1 && now.read > last.read + 2000);
    child.kill().unwrap();
    child.wait().unwrap();
    let slowest = minute.iter().chain([&after]).map(|now| now.slowest_ms).max().unwrap();
    let settled = minute.iter().filter(|now| now.failed > before.failed).map(|now| now.kib).next();
    let most = minute.iter().chain([&after]).map(|now| now.kib).max().unwrap();
    println!(
        "{what}: {before:?}, then {last:?}, then {after:?}; slowest {slowest} ms, at most {most} KiB"
    );
    assert!(
        last.failed > before.failed + 5000,
        "{what}: a thousand callers fail every six seconds"
    );
    // The deadline is 5 s; a busy machine gets more.
    assert!((4000..10_000).contains(&slowest), "{what}: the slowest took {slowest} ms");
    assert!(most < settled.unwrap() + (32 << 10), "{what}: it grows: {minute:?}");
}

/// What the child says of its next second.
fn second(what: &str, lines: &mut Lines<BufReader<ChildStdout>>) -> Second {
    for line in lines.map(|line| line.unwrap()) {
        assert!(!line.starts_with("said"), "{what}: the child cannot go on: {line}");
        if let Some(error) = line.strip_prefix("error ") {
            println!("{what}: {error}");
        }
        let Some(numbers) = line.strip_prefix("second ") else { continue };
        let numbers: Vec<u64> = numbers.split(' ').map(|n| n.parse().unwrap()).collect();
        let [kib, failed, slowest_ms, least, read] = numbers[..] else { panic!("{line}") };
        return Second { kib, failed, slowest_ms, least, read };
    }
    panic!("{what}: the child has ended")
}

/// The number behind `word` of the next line that begins with it.
fn next(lines: &mut Lines<BufReader<ChildStdout>>, word: &str) -> u64 {
    let mut said = lines.map(|line| line.unwrap());
    let line = said.find(|line| line.starts_with(word)).expect("the child says it");
    line[word.len()..].trim().parse().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_consumer_is_made_anew() {
    for version in Version::ALL {
        let server = server(version);
        let log = open(&server.url()).await;
        log.append(vec![fact(1)]).await.unwrap();
        let mut reader = log.read(1).unwrap();
        reader.tail().await.unwrap();
        get_stuck(&server, version).await;
        log.append(vec![fact(2), fact(3)]).await.unwrap();
        let begun = Instant::now();
        let mut next = 2;
        while next < 4 {
            let records = timeout(PATIENCE, reader.tail()).await.expect("it is stuck").unwrap();
            assert_eq!(records.first(), next, "nothing is skipped");
            next += records.len() as u64;
        }
        // Two looks at the stream and a new consumer, four seconds; a busy machine gets more.
        assert!(begun.elapsed() < Duration::from_secs(20), "{version:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fold_that_begins_while_nobody_is_there_waits_and_ends_when_it_is_told_to() {
    let server = server(Version::New);
    let proxy = Proxy::start(server.port()).await;
    let log = open(&proxy.url()).await;
    log.append(vec![fact(1)]).await.unwrap();
    for comes_back in [true, false] {
        let (runner, mut seen) = Runner::new(MemoryStore::default(), runner::Options::default());
        let (end, ended) = oneshot::channel::<()>();
        let of = log.clone();
        proxy.away();
        let folding = tokio::spawn(async move { runner.run(&of, ended).await });
        // Longer than a question waits for its answer.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!folding.is_finished(), "{:?}", seen.status());
        if comes_back {
            proxy.back();
            timeout(PATIENCE, seen.caught_up()).await.expect("it goes on by itself").unwrap();
            assert_eq!(seen.status().position, 1);
        }
        drop(end);
        let store = timeout(PATIENCE, folding).await.expect("it ends").unwrap().unwrap();
        assert!(store.is_some());
    }
}

/// Heartbeats go on and no message comes (2.15 can pause), or nothing comes at all.
async fn get_stuck(server: &Server, version: Version) {
    let admin = async_nats::connect(server.url()).await.unwrap();
    let ask = async |subject: String, body: Value| {
        let answer = admin.request(format!("$JS.API.{subject}"), body.to_string().into()).await;
        serde_json::from_slice::<Value>(&answer.unwrap().payload).unwrap()
    };
    let names = ask("CONSUMER.NAMES.BIZRQ".to_owned(), json!({})).await;
    let name = names["consumers"][0].as_str().unwrap();
    let answer = match version {
        Version::New => {
            let until = json!({ "pause_until": "2100-01-01T00:00:00Z" });
            ask(format!("CONSUMER.PAUSE.BIZRQ.{name}"), until).await
        }
        Version::Old => ask(format!("CONSUMER.DELETE.BIZRQ.{name}"), json!({})).await,
    };
    assert!(answer.get("error").is_none(), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decider_far_away_goes_on_after_an_answer_that_was_lost() {
    let server = server(Version::New);
    let direct = open(&server.url()).await;
    direct.append(vec![declared("team", "", 4)]).await.unwrap();
    let proxy = Proxy::start(server.port()).await;
    proxy.delay(Duration::from_millis(60));
    let once = decider::Options { append_within: Duration::from_secs(1), ..replica::options() };
    let replica = Arc::new(Replica::start(Arc::new(open(&proxy.url()).await), once));
    assert!(replica.ask(create("r1", "w1", "team", 1)).await.is_allowed());
    proxy.swallow_answers(true);
    let asked = tokio::spawn({
        let replica = Arc::clone(&replica);
        async move { replica.ask(create("r2", "w2", "team", 3)).await }
    });
    while direct.head().await.unwrap().position < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    proxy.cut();
    proxy.swallow_answers(false);
    let told = asked.await.unwrap();
    assert!(matches!(told, Answer::Allowed { recorded: Some(3), .. }), "{told:?}");
}
