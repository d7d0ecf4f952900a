//! A stream that could lose records is refused, by name and with what to do.

use super::{
    cluster::Cluster,
    server::{PATIENCE, Server, Version},
};
use async_nats::jetstream::{
    self,
    stream::{Config, DiscardPolicy, Republish, RetentionPolicy, Source, StorageType},
};
use bizrq::event_log::jetstream::{JetStreamLog, OpenError, Options};
use std::time::{Duration, Instant};

/// What is changed of a safe stream, and what the refusal says.
type Case = (fn(&mut Config), &'static str);

const CASES: &[Case] = &[
    (|c| c.storage = StorageType::Memory, "storage is Memory, must be file"),
    (|c| c.deny_delete = false, "deny_delete is false, must be true"),
    (|c| c.deny_purge = false, "deny_purge is false, must be true"),
    (|c| c.discard = DiscardPolicy::Old, "discard is old, must be new"),
    (|c| c.retention = RetentionPolicy::Interest, "retention is Interest, must be limits"),
    (|c| c.max_age = Duration::from_secs(3600), "max_age is 3600s, must be 0"),
    (|c| c.max_messages_per_subject = 5, "max_msgs_per_subject is 5, must be -1"),
    (|c| c.no_ack = true, "no_ack is true, must be false"),
    (|c| (c.deny_purge, c.allow_rollup) = (false, true), "allow_rollup_hdrs is true"),
    (|c| c.sources = Some(vec![source()]), "it has sources"),
    (|c| (c.subjects, c.mirror) = (vec![], Some(source())), "it is a mirror"),
    (|c| c.republish = Some(republish()), "it republishes"),
    (|c| drop(c.subjects.pop()), "subjects are bizrq.v1.decision, bizrq.v1.fact.*, must be"),
    (|c| c.subjects.push("others".into()), "others, must be bizrq.v1.decision, bizrq"),
];

fn source() -> Source {
    Source { name: "OTHER".into(), ..Source::default() }
}

fn republish() -> Republish {
    Republish { source: ">".into(), destination: "copies.>".into(), headers_only: false }
}

#[tokio::test]
async fn a_stream_that_could_lose_records_is_refused_by_name() {
    for version in Version::ALL {
        let server = Server::start(version);
        let client = async_nats::connect(server.url()).await.unwrap();
        let jetstream = jetstream::new(client);
        drop(JetStreamLog::open(Options::new(&server.url())).await.unwrap());
        let safe = jetstream.get_stream("BIZRQ").await.unwrap().get_info().await.unwrap().config;
        for (change, says) in CASES {
            jetstream.delete_stream("BIZRQ").await.unwrap();
            let mut config = safe.clone();
            change(&mut config);
            let made = jetstream.create_stream(config).await;
            made.unwrap_or_else(|error| panic!("{says}: {error}"));
            for opened in [
                JetStreamLog::open(Options::new(&server.url())).await,
                JetStreamLog::open_read(Options::new(&server.url())).await,
            ] {
                let error = opened.unwrap_err();
                assert!(matches!(error, OpenError::Unsafe { .. }), "{error}");
                let said = error.to_string();
                assert!(said.contains(says), "`{said}` does not say `{says}`");
                assert!(said.contains("Let an administrator edit the stream"), "{said}");
            }
        }
    }
}

#[tokio::test]
async fn settings_that_only_the_newest_servers_have_are_seen_too() {
    let server = Server::start(Version::New);
    let client = async_nats::connect(server.url()).await.unwrap();
    drop(JetStreamLog::open(Options::new(&server.url())).await.unwrap());
    let ask = async |verb: &str, body: serde_json::Value| -> serde_json::Value {
        let subject = format!("$JS.API.STREAM.{verb}.BIZRQ");
        let answer = client.request(subject, body.to_string().into()).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    };
    let safe = ask("INFO", serde_json::json!({})).await["config"].clone();
    let cases = [
        ("subject_transform", serde_json::json!({"src": "bizrq.>", "dest": "other.>"})),
        ("allow_msg_ttl", true.into()),
        ("persist_mode", "async".into()),
        ("first_seq", 7.into()),
    ];
    for (setting, value) in cases {
        ask("DELETE", serde_json::json!({})).await;
        let mut config = safe.clone();
        config[setting] = value;
        let made = ask("CREATE", config).await;
        assert!(made["error"].is_null(), "{setting}: {made}");
        let error = JetStreamLog::open(Options::new(&server.url())).await.unwrap_err().to_string();
        assert!(error.contains(setting), "{setting}: {error}");
    }
}

#[tokio::test]
async fn a_place_that_is_none_says_so() {
    let server = Server::start(Version::New);
    let at = |location: &str| {
        JetStreamLog::open_read(Options {
            deadline: Duration::from_millis(500),
            ..Options::new(location)
        })
    };
    let absent = at(&server.url()).await.unwrap_err().to_string();
    assert!(absent.contains("there is no such stream"), "{absent}");
    let nobody = at(&format!("nats://127.0.0.1:{}", super::server::free_port())).await;
    assert!(matches!(nobody.unwrap_err(), OpenError::Connect { .. }));
    for location in ["nats://", "nats://a,,b", "http://a", "nats://me:secret@host"] {
        let error = at(location).await.unwrap_err().to_string();
        assert!(error.contains("BIZRQ_NATS_") || error.contains("write nats://"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

/// Before 2.12.6 a leader counts what followers said in earlier terms; what 2.9.10 made of that was seen: two copies
/// had another history than the third, and acknowledged records were gone from them.
#[tokio::test]
async fn several_copies_are_refused_on_servers_that_may_let_them_differ() {
    let mut cluster = Cluster::start(Version::Old);
    let options = Options::new(&cluster.url());
    let refused = JetStreamLog::open(Options { replicas: 3, ..options.clone() }).await.unwrap_err();
    let says = "num_replicas is 3 on a server of version 2.9.10, must be 1 there, or every server of version 2.12.6";
    assert!(refused.to_string().contains(says), "{refused}");
    let admin = jetstream::new(async_nats::connect(cluster.servers[0].url()).await.unwrap());
    assert!(admin.get_stream("BIZRQ").await.is_err(), "nothing was made");

    // One copy is as safe as its server, and no longer so when somebody gives it two more.
    drop(JetStreamLog::open(options.clone()).await.unwrap());
    let mut config = admin.get_stream("BIZRQ").await.unwrap().get_info().await.unwrap().config;
    config.num_replicas = 3;
    admin.update_stream(&config).await.unwrap();
    let begun = Instant::now();
    for open in [true, false] {
        let error = loop {
            let options = options.clone();
            let opened = match open {
                true => JetStreamLog::open(options).await,
                false => JetStreamLog::open_read(options).await,
            };
            match opened.unwrap_err() {
                // Its copies elect a leader.
                OpenError::Stream(_) if begun.elapsed() < PATIENCE => {}
                error => break error,
            }
        };
        assert!(error.to_string().contains(says), "{error}");
    }
    an_old_leader_is_found_through_a_new_member(&mut cluster).await;
}

/// Somebody upgrades one member after another, and so far one that follows.
async fn an_old_leader_is_found_through_a_new_member(cluster: &mut Cluster) {
    const NEW: usize = 2;
    let admin = async_nats::connect(cluster.servers[0].url()).await.unwrap();
    cluster.servers[NEW].become_version(Version::New);
    cluster.wait();
    let begun = Instant::now();
    let error = loop {
        match JetStreamLog::open_read(Options::new(&cluster.servers[NEW].url())).await {
            Err(error @ OpenError::Unsafe { .. }) => break error,
            // Nobody leads, or the new one does: another shall.
            told => assert!(begun.elapsed() < PATIENCE, "{told:?}"),
        }
        let _ = admin.request("$JS.API.STREAM.LEADER.STEPDOWN.BIZRQ", "".into()).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let says = "num_replicas is 3 on a leader of version 2.10 or older, must be 1 there";
    assert!(error.to_string().contains(says), "{error}");
}
