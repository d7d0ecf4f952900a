//! `deploy/nats/permissions.conf` on real servers: what each user needs works, and what it must not do is refused.

use super::{
    credentials::options,
    notices::notice,
    server::{Server, Setup, Version},
};
use bizrq::{
    domain::event::{ClusterBound, Data, Event, EventId},
    event_log::{
        AnyLog, AppendError, EventLog, NewEvent,
        conformance::{decision, fact, numbers},
        jetstream::{Credentials, JetStreamLog, OpenError, Secret},
    },
    notify::Kept,
};
use std::time::Duration;

pub(super) fn start(version: Version) -> Server {
    Setup::new(version).with(&lines()).start()
}

/// The configuration, with passwords.
pub(super) fn lines() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/nats/permissions.conf");
    let mut lines = std::fs::read_to_string(path).unwrap();
    for (variable, password) in [
        ("$BIZRQ_ADMIN_PASSWORD", "of-admin"),
        ("$BIZRQ_PASSWORD", "of-bizrq"),
        ("$BIZRQ_EAST_PASSWORD", "of-east"),
        ("$BIZRQ_AUDITOR_PASSWORD", "of-auditor"),
    ] {
        lines = lines.replace(variable, password);
    }
    lines
}

pub(super) fn user(name: &str, password: &str) -> Credentials {
    Credentials::UserPassword(name.into(), Secret(password.into()))
}

/// A fact of another cluster than east.
fn of_west() -> NewEvent {
    let time = bizrq::domain::time::ORIGIN;
    let data = Data::ClusterBound(ClusterBound { uid: "uid".into() });
    let (source, subject) = ("/clusters/west".into(), "clusters/west".into());
    let (id, recorded_at) = (EventId(77), time);
    NewEvent::new(&Event { id, source, subject, time, recorded_at, data }).unwrap()
}

fn refused<T: std::fmt::Debug>(answer: Result<T, AppendError>) {
    let said =
        matches!(&answer, Err(AppendError::Refused { why }) if why.contains("may not publish"));
    assert!(said, "{answer:?}");
}

#[tokio::test]
async fn everybody_can_do_what_they_need_and_nothing_else() {
    for version in Version::ALL {
        let server = start(version);
        let open = async |name: &str, password: &str| {
            JetStreamLog::open(options(&server, user(name, password))).await
        };
        // A replica cannot make the stream, and says so.
        let absent = open("bizrq", "of-bizrq").await.unwrap_err();
        assert!(matches!(&absent, OpenError::Create { .. }), "{absent}");
        drop(open("bizrq-admin", "of-admin").await.unwrap());

        let replica = open("bizrq", "of-bizrq").await.unwrap();
        replica.append(vec![fact(1), of_west()]).await.unwrap();
        assert_eq!(replica.decide(0, decision(3)).await.unwrap().last, 3);
        assert!(replica.decide(0, decision(4)).await.is_err());

        let observer = open("bizrq-east", "of-east").await.unwrap();
        observer.append(vec![fact(5)]).await.unwrap();
        refused(observer.append(vec![of_west()]).await);
        refused(observer.decide(3, decision(6)).await);

        let auditor =
            JetStreamLog::open_read(options(&server, user("bizrq-auditor", "of-auditor")));
        let auditor = auditor.await.unwrap();
        assert_eq!(numbers(&auditor, 1).await, [1, 77, 3, 5]);
        for log in [&replica, &observer, &auditor] {
            nobody_else_touches_the_stream(log).await;
        }
        let (notices, notice) = (AnyLog::JetStream(replica.clone()), notice(50, 1));
        let (mut kept, _) = Kept::of(&notices).await.unwrap().unwrap();
        assert_eq!(kept.tell(&notice).await.unwrap(), None);
        let other = open("bizrq-auditor", "of-auditor").await.unwrap();
        let (mut kept, told) = Kept::of(&AnyLog::JetStream(other.clone())).await.unwrap().unwrap();
        assert_eq!(told.standing().count(), 1, "whoever may read the log may read what was told");
        let telling = tokio::time::timeout(Duration::from_secs(1), kept.tell(&notice)).await;
        assert!(!matches!(telling, Ok(Ok(None))), "{telling:?}");
        refused(other.append(vec![fact(7)]).await);
        assert_eq!(numbers(&replica, 1).await, [1, 77, 3, 5]);
    }
}

/// What would take records away is not even answered.
async fn nobody_else_touches_the_stream(log: &JetStreamLog) {
    let client = log.client();
    for verb in ["DELETE", "UPDATE", "PURGE", "MSG.DELETE", "SNAPSHOT", "RESTORE", "CREATE"] {
        let request = async_nats::Request::new()
            .payload("{\"name\":\"BIZRQ\",\"seq\":1}".into())
            .timeout(Some(Duration::from_millis(300)));
        let answer = client.send_request(format!("$JS.API.STREAM.{verb}.BIZRQ"), request).await;
        assert!(answer.is_err(), "{verb}: {answer:?}");
    }
    // The answer, had there been one, would have been quick.
    assert!(client.request("$JS.API.STREAM.INFO.BIZRQ", "".into()).await.is_ok());
}

#[tokio::test]
async fn replicas_can_ask_each_other() {
    let server = start(Version::Old);
    let admin =
        JetStreamLog::open(options(&server, user("bizrq-admin", "of-admin"))).await.unwrap();
    drop(admin);
    let open = async || {
        JetStreamLog::open(options(&server, user("bizrq", "of-bizrq"))).await.unwrap().client()
    };
    let (decider, other) = (open().await, open().await);
    let mut asked = decider.subscribe("bizrq.decide").await.unwrap();
    // The server has taken the subscription once it answers what was asked behind it.
    decider.request("$JS.API.STREAM.INFO.BIZRQ", "".into()).await.unwrap();
    let answering = async {
        let message = futures_util::StreamExt::next(&mut asked).await.unwrap();
        decider.publish(message.reply.unwrap(), "yes".into()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(other.request("bizrq.decide", "may I?".into()), answering);
    assert_eq!(&answer.unwrap().payload[..], b"yes");
}
