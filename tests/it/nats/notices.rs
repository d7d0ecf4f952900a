//! Notices on real servers: each is taken once whoever brings it, and a stream that could lose them is refused.

use super::server::{Server, Version};
use async_nats::jetstream::{
    self,
    stream::{Config, DiscardPolicy, StorageType},
};
use bizrq::{
    domain::time::ORIGIN,
    event_log::{
        AnyLog,
        jetstream::{JetStreamLog, Options},
    },
    notify::{
        Kept,
        notice::{Notice, Scope, Told, Topic, What},
    },
};
use std::time::Duration;

pub(crate) fn notice(percent: u16, number: u64) -> Notice {
    let topic = Topic { scope: Scope::of(&["uid", "cash/limits.cpu"]), what: What::Cash(percent) };
    Notice {
        id: topic.id(number),
        topic,
        number,
        kind: "cash.threshold".to_owned(),
        stands: number % 2 == 1,
        // Not a token of NATS as it is.
        group: "team.of *".to_owned(),
        key: "cash/limits.cpu".to_owned(),
        uid: Some("uid".to_owned()),
        threshold: Some(percent),
        generation: Some(1),
        at: ORIGIN,
        exact: true,
        forecast: None,
        hard: "8".to_owned(),
        of: "28800000000".to_owned(),
        message: "m".to_owned(),
        position: 3,
    }
}

async fn log(server: &Server) -> AnyLog {
    AnyLog::JetStream(JetStreamLog::open(Options::new(&server.url())).await.unwrap())
}

async fn open(log: &AnyLog) -> (Kept, Told) {
    Kept::of(log).await.unwrap().unwrap()
}

fn standing(told: &Told) -> Vec<Notice> {
    told.standing().map(|(_, notice)| notice.clone()).collect()
}

#[tokio::test]
async fn of_two_who_tell_the_same_one_does_and_the_next_knows_how_things_stand() {
    for version in Version::ALL {
        let server = Server::start(version);
        let log = log(&server).await;
        let (mut a, told) = open(&log).await;
        assert!(standing(&told).is_empty());
        let (mut b, _) = open(&log).await;
        assert_eq!(a.tell(&notice(50, 1)).await.unwrap(), None);
        assert_eq!(b.tell(&notice(50, 1)).await.unwrap(), Some(notice(50, 1)), "told already");
        // What follows is taken from whoever comes first; the other hears what was told.
        assert_eq!(b.tell(&notice(50, 2)).await.unwrap(), None);
        assert_eq!(a.tell(&notice(50, 2)).await.unwrap(), Some(notice(50, 2)));
        assert_eq!(a.tell(&notice(50, 3)).await.unwrap(), None);
        assert_eq!(a.tell(&notice(80, 1)).await.unwrap(), None);
        // After an answer that was lost it is told again, by one that does not know.
        let (mut c, told) = open(&log).await;
        assert_eq!(standing(&told), [notice(50, 3), notice(80, 1)]);
        assert_eq!(c.tell(&notice(80, 2)).await.unwrap(), None);
        assert_eq!(standing(&open(&log).await.1), [notice(50, 3)]);
    }
}

#[tokio::test]
async fn as_many_as_a_company_has_are_read_at_a_start() {
    let server = Server::start(Version::Old);
    let log = log(&server).await;
    let (mut kept, _) = open(&log).await;
    for percent in 1..=2_000 {
        assert_eq!(kept.tell(&notice(percent, 1)).await.unwrap(), None);
    }
    assert_eq!(standing(&open(&log).await.1).len(), 2_000);
}

/// What is changed of a safe stream, and what the refusal says.
type Case = (fn(&mut Config), &'static str);

const CASES: &[Case] = &[
    (|c| c.storage = StorageType::Memory, "storage is Memory, must be file"),
    (|c| c.deny_delete = false, "deny_delete is false, must be true"),
    (|c| c.discard = DiscardPolicy::Old, "discard is old, must be new"),
    (|c| c.max_age = Duration::from_secs(3600), "max_age is 3600s, must be 0"),
    (|c| c.max_messages_per_subject = 1, "max_msgs_per_subject is 1, must be -1"),
    (|c| c.subjects = vec!["bizrq.notice.>".into()], "bizrq.notice.>, must be bizrq.notice.v1.>"),
];

#[tokio::test]
async fn a_stream_that_could_lose_notices_is_refused_by_name() {
    let server = Server::start(Version::New);
    let log = log(&server).await;
    drop(open(&log).await);
    let client = async_nats::connect(server.url()).await.unwrap();
    let jetstream = jetstream::new(client);
    let safe = jetstream.get_stream("BIZRQ_NOTICES").await.unwrap().get_info().await.unwrap();
    for (change, says) in CASES {
        jetstream.delete_stream("BIZRQ_NOTICES").await.unwrap();
        let mut config = safe.config.clone();
        change(&mut config);
        jetstream.create_stream(config).await.unwrap();
        let error = Kept::of(&log).await.unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("BIZRQ_NOTICES"), "{says}: {error}");
    }
    // One that was made under another name is theirs all the same.
    jetstream.delete_stream("BIZRQ_NOTICES").await.unwrap();
    let config = Config { name: "OLD_NOTICES".into(), ..safe.config.clone() };
    jetstream.create_stream(config).await.unwrap();
    assert_eq!(open(&log).await.0.tell(&notice(50, 1)).await.unwrap(), None);
    let mut old = jetstream.get_stream("OLD_NOTICES").await.unwrap();
    assert_eq!(old.info().await.unwrap().state.messages, 1);
}
