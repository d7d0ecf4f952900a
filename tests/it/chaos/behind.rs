//! A stream that is changed behind our back, by an administrator who may: the running projector says so and names
//! the records, and so do a start with the rows of before and the auditor.

use super::{new_events, open, pod};
use crate::{
    chaos,
    nats::server::{PATIENCE, Server, Version},
    shared,
};
use async_nats::{Client, HeaderMap, jetstream};
use bizrq::{
    event_log::{EventLog, jetstream::JetStreamLog},
    projection::{
        Projection, Runner, SledStore,
        runner::{self, Found},
    },
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{path::Path, process::Command, time::Duration};
use tokio::{
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

/// Records before the harm.
const RECORDS: u64 = 40;

/// What is done to the stream.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// Purged up to this sequence.
    Purged(u64),
    /// This message is deleted.
    Deleted(u64),
    /// The stream is deleted.
    Gone,
    /// Replaced by one with so many of the records, as from a backup; then so many other ones.
    Restored(u64, u64),
}

/// What the running projector says, and what a later start makes of the store.
const CASES: [(Harm, &str, &str); 8] = [
    (Harm::Purged(RECORDS), "the records 1 to 40 are missing", ""),
    (Harm::Purged(10), "the records 1 to 10 are missing", ""),
    (Harm::Deleted(7), "the records 7 to 7 are missing", ""),
    (Harm::Deleted(RECORDS), "the records 40 to 40 are missing", ""),
    (Harm::Gone, "the stream is gone", ""),
    (
        Harm::Restored(30, 0),
        "the log ends at position 30, but it had reached 40",
        "it stands at position 40, but the log ends at 30",
    ),
    (
        Harm::Restored(30, 10),
        "the record at position 40 is not the one that was read before",
        "its last record, at position 40, has the leaf",
    ),
    (
        Harm::Restored(0, 50),
        "the record at position 40 is not the one that was read before",
        "its last record, at position 40, has the leaf",
    ),
];

/// What a finding is, and the first and last record that it is about.
type Named = (&'static str, u64, u64);

/// What the auditor names, given the root of before and a store of before.
const VERIFIED: [(Harm, &[Named]); 7] = [
    (Harm::Purged(RECORDS), &[("removed", 1, 40)]),
    (Harm::Purged(10), &[("removed", 1, 10)]),
    (Harm::Deleted(7), &[("removed", 7, 7)]),
    (Harm::Deleted(RECORDS), &[("removed", 40, 40)]),
    (Harm::Restored(30, 0), &[("root", 0, 0), ("store", 31, 40)]),
    (Harm::Restored(30, 10), &[("root", 0, 0), ("store", 1, 40)]),
    (Harm::Restored(0, 50), &[("root", 0, 0), ("store", 1, 40)]),
];

/// A projector that runs until it cannot go on, or is told to end.
struct Projector {
    seen: Projection,
    task: JoinHandle<Result<(), String>>,
    end: oneshot::Sender<()>,
}

fn project(log: JetStreamLog, dir: &Path) -> Projector {
    let commits =
        runner::Options { commit_every: Duration::from_millis(20), ..runner::Options::default() };
    let (runner, seen) = Runner::new(SledStore::open(dir).unwrap(), commits);
    let (end, ended) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        runner.run(&log, ended).await.map(drop).map_err(|error| error.to_string())
    });
    Projector { seen, task, end }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_to_a_stream_is_named() {
    let mut all = JoinSet::new();
    for version in Version::ALL {
        for case in CASES {
            all.spawn(check(version, case));
        }
    }
    all.join_all().await;
}

async fn check(version: Version, (harm, running, starting): (Harm, &str, &str)) {
    let what = format!("{version:?} {harm:?}");
    let (mut server, dir) = (chaos::server(version), tempfile::tempdir().unwrap());
    let log = open(&server.url()).await;
    append(&log, 0..10).await;
    let mut projector = project(log.clone(), dir.path());
    projector.seen.wait_for(RECORDS).await.unwrap();
    while projector.seen.status().committed < RECORDS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    harm.happens(&mut server).await;
    let Projector { seen, task, end } = projector;
    let said = timeout(PATIENCE, task).await.unwrap_or_else(|_| panic!("{what} is not noticed"));
    let said = said.unwrap().expect_err(&what);
    assert!(said.contains(running), "{what}: {said}");
    assert_eq!(seen.status().stopped.as_deref(), Some(&*said), "{what}: everybody is told");
    drop(end);
    if starting.is_empty() {
        // Whether it is the same process that starts again or another, no row is served.
        let Projector { mut seen, task, .. } = project(log, dir.path());
        let refused = seen.caught_up().await.unwrap_err();
        assert!(refused.to_string().contains(running), "{what}: {refused}");
        assert!(task.await.unwrap().is_err() && seen.status().position == 0, "{what}");
    } else {
        let Projector { mut seen, task, end } = project(open(&server.url()).await, dir.path());
        seen.caught_up().await.unwrap();
        let Found::Discarded { why } = seen.status().store else { panic!("{what} is not said") };
        assert!(why.contains(starting), "{what}: {why}");
        assert_eq!(seen.status().began, 0, "{what}: the rows are not begun with");
        drop(end);
        task.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_auditor_names_what_was_done_to_a_stream() {
    if shared::replay("chaos::behind::the_auditor").is_none() {
        return;
    }
    for version in Version::ALL {
        for (harm, named) in VERIFIED {
            verified(version, harm, named).await;
        }
    }
}

async fn verified(version: Version, harm: Harm, named: &[Named]) {
    let (mut server, dir) = (chaos::server(version), tempfile::tempdir().unwrap());
    let (url, log) = (server.url(), open(&server.url()).await);
    append(&log, 0..10).await;
    let root = log.tree().await.unwrap().root().to_string();
    let Projector { mut seen, task, end } = project(log, dir.path());
    seen.wait_for(RECORDS).await.unwrap();
    drop((end, seen));
    task.await.unwrap().unwrap();
    let store = dir.path().display().to_string();
    let verify = async || {
        let (url, root, store) = (url.clone(), root.clone(), store.clone());
        let run = move || {
            let replay = shared::replay("").unwrap();
            let args = ["verify", "-o", "json", "--log", &url, "--root", &root, "--store", &store];
            Command::new(replay).args(args).output().unwrap()
        };
        let ran = tokio::task::spawn_blocking(run).await.unwrap();
        let said: Value = serde_json::from_slice(&ran.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&ran.stderr)));
        (ran.status.code(), said)
    };
    let (code, said) = verify().await;
    assert_eq!((code, said["findings"].as_array().unwrap().len()), (Some(0), 0), "{said}");
    harm.happens(&mut server).await;
    cover(&admin(&url).await).await;
    let (code, said) = verify().await;
    let findings = said["findings"].as_array().unwrap().iter();
    let number = |n: &Value| n.as_u64().unwrap();
    let found: Vec<_> = findings
        .map(|f| (f["what"].as_str().unwrap(), number(&f["from"]), number(&f["to"])))
        .collect();
    assert_eq!((code, &*found), (Some(1), named), "{version:?} {harm:?}: {said}");
}

/// An administrator, who waits as long as a busy machine may take.
async fn admin(url: &str) -> Client {
    let options = async_nats::ConnectOptions::new().request_timeout(Some(PATIENCE));
    options.connect(url).await.unwrap()
}

fn patient(admin: &Client) -> jetstream::Context {
    jetstream::ContextBuilder::new().timeout(PATIENCE).build(admin.clone())
}

/// The first pods of which four events each are told.
async fn append(log: &JetStreamLog, pods: std::ops::Range<u64>) {
    let events: Vec<_> = pods.flat_map(|number| pod(number * 5 + 1)).collect();
    log.append(new_events(&events)).await.unwrap();
}

impl Harm {
    /// Another stream takes the place of this one while the server is down, as an administrator restores one: nobody
    /// sees it half made. (2.9 dies of a nil pointer when a message of a stream is asked for that is being made.)
    async fn happens(self, server: &mut Server) {
        let messages = messages(&admin(&server.url()).await).await;
        match self {
            Self::Purged(last) => {
                permit(server, &messages).await;
                let admin = admin(&server.url()).await;
                ask(&admin, "STREAM.PURGE.BIZRQ", json!({ "seq": last + 1 })).await;
            }
            Self::Deleted(sequence) => {
                permit(server, &messages).await;
                let admin = admin(&server.url()).await;
                ask(&admin, "STREAM.MSG.DELETE.BIZRQ", json!({ "seq": sequence })).await;
            }
            Self::Gone => {
                let admin = admin(&server.url()).await;
                ask(&admin, "STREAM.DELETE.BIZRQ", json!({})).await;
            }
            Self::Restored(same, others) => {
                let another = chaos::server(server.version());
                let log = open(&another.url()).await;
                publish(&admin(&another.url()).await, &messages[..same as usize]).await;
                let pods = (0..others).flat_map(|number| pod(1000 + number));
                let events: Vec<_> = pods.take(others as usize).collect();
                log.append(new_events(&events)).await.unwrap();
                server.take_store_of(another);
            }
        }
    }
}

/// Gives it a stream of which records can be deleted, with the same records: nobody notices.
async fn permit(server: &mut Server, messages: &[Kept]) {
    let another = chaos::server(server.version());
    let admin = admin(&another.url()).await;
    let config = json!({ "name": "BIZRQ", "subjects": ["bizrq.v1.>"], "storage": "file",
        "retention": "limits", "num_replicas": 1, "max_msgs": -1, "max_bytes": -1,
        "max_consumers": -1, "discard": "new" });
    ask(&admin, "STREAM.CREATE.BIZRQ", config).await;
    publish(&admin, messages).await;
    server.take_store_of(another);
}

/// Sets the stream up as it must be: only its records tell.
async fn cover(admin: &Client) {
    let jetstream = patient(admin);
    let mut config = jetstream.get_stream("BIZRQ").await.unwrap().cached_info().config.clone();
    config.subjects =
        ["bizrq.v1.decision", "bizrq.v1.fact.*", "bizrq.v1.note.*"].map(str::to_owned).into();
    (config.deny_delete, config.deny_purge) = (true, true);
    jetstream.update_stream(&config).await.unwrap();
}

async fn ask(admin: &Client, subject: &str, body: Value) -> Value {
    let answer = admin.request(format!("$JS.API.{subject}"), body.to_string().into()).await;
    let answer: Value = serde_json::from_slice(&answer.unwrap().payload).unwrap();
    assert!(answer.get("error").is_none(), "{subject}: {answer}");
    answer
}

type Kept = (String, HeaderMap, Bytes);

async fn messages(admin: &Client) -> Vec<Kept> {
    let stream = patient(admin).get_stream("BIZRQ").await.unwrap();
    let mut kept = Vec::new();
    for sequence in 1..=RECORDS {
        let message = stream.get_raw_message(sequence).await.unwrap();
        kept.push((message.subject.to_string(), message.headers, message.payload));
    }
    kept
}

async fn publish(admin: &Client, messages: &[Kept]) {
    let jetstream = patient(admin);
    for (subject, headers, payload) in messages.iter().cloned() {
        jetstream.publish_with_headers(subject, headers, payload).await.unwrap().await.unwrap();
    }
}
