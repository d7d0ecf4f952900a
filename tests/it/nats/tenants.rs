//! What `bizrq nats permissions` prints, on real servers: a tenant's user gets the usage of its subtree, and nothing else
//! by any way.

use super::{
    credentials::options,
    permissions,
    server::{Server, Version},
};
use async_nats::{Client, ConnectOptions, HeaderMap, jetstream};
use bizrq::{
    clock,
    domain::{
        event::{Data, Event, EventId},
        time::Timestamp,
    },
    event_log::{AnyLog, EventLog, NewEvent, jetstream::JetStreamLog},
    usage::{Teller, event::UsageMetered, metrics::Metrics},
};
use futures_util::StreamExt;
use prometheus::Registry;
use std::{collections::BTreeSet, process::Command, sync::Arc, time::Duration};

/// Group, and its parent.
const GROUPS: [(&str, &str); 3] = [("language", ""), ("eval.x", "language"), ("vision", "")];

/// A server with a log, a teller's rights, and a tenant `language`.
pub(super) struct Stage {
    pub(super) server: Server,
    pods: usize,
}

impl Stage {
    pub(super) async fn new(version: Version) -> Self {
        let mut stage = Self { server: permissions::start(version), pods: 0 };
        drop(stage.log("bizrq-admin", "of-admin").await);
        let log = stage.log("bizrq", "of-bizrq").await;
        for (n, (group, parent)) in GROUPS.into_iter().enumerate() {
            let text = format!(
                r#"{{"uid":"q{n}","resourceVersion":"1","generation":1,
                    "spec":{{"parent":"{parent}","hard":{{"limits.cpu":"9"}}}}}}"#
            );
            let data = Data::QuotaDeclared(serde_json::from_str(&text).unwrap());
            append(&log, n as u128 + 1, clock::now(), &format!("quotas/{group}"), data).await;
        }
        stage.uses().await;
        let exports = stage.printed("exports");
        let accounts = stage.printed("accounts");
        let lines = permissions::lines();
        let lines = lines.replacen("  BIZRQ: {\n", &format!("  BIZRQ: {{\n{exports}"), 1);
        let end = lines.rfind('}').unwrap();
        let accounts = accounts
            .replace("$BIZRQ_TENANT_LANGUAGE_PASSWORD", "of-language")
            .replace("$BIZRQ_TENANT_VISION_PASSWORD", "of-vision");
        stage.server.configure(&format!("{}{accounts}}}\n", &lines[..end]));
        stage
    }

    async fn log(&self, user: &str, password: &str) -> JetStreamLog {
        JetStreamLog::open(options(&self.server, permissions::user(user, password))).await.unwrap()
    }

    fn printed(&self, part: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command.args(["nats", "permissions", "--log", &self.server.url()]);
        command.args(["--group", "language", "--group", "vision", "--part", part]);
        command.arg("--make-consumers");
        command.envs([("BIZRQ_NATS_USER", "bizrq-admin"), ("BIZRQ_NATS_PASSWORD", "of-admin")]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("3 durable consumers"), "{said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A pod of each group comes and goes, and that is told.
    pub(super) async fn uses(&mut self) {
        let log = self.log("bizrq", "of-bizrq").await;
        // After the last hour that was told, so that it is one event a key.
        let begun = clock::now().shifted(-5_000);
        for (group, _) in GROUPS {
            self.pods += 1;
            let (n, pod) = (100 * self.pods as u128, self.pods);
            let text = format!(
                r#"{{"uid":"p{pod}","group":"{group}","node":"n","models":{{}},
                    "held":{{"requests":{{}},"limits":{{"cpu":"2","memory":"1Gi"}}}},"basis":"Bound"}}"#
            );
            let data = Data::PodStarted(serde_json::from_str(&text).unwrap());
            let subject = format!("pods/n/p{pod}");
            append(&log, n, begun, &subject, data).await;
            let end = begun.shifted(1_000 + i64::try_from(pod).unwrap());
            let text = format!(
                r#"{{"uid":"p{pod}","earliest":"{end}","latest":"{end}","basis":"TerminalStatus",
                    "phase":"Succeeded","reason":""}}"#
            );
            let data = Data::PodStopped(serde_json::from_str(&text).unwrap());
            append(&log, n + 1, end, &subject, data).await;
        }
        let metrics = Metrics::new(&Registry::new()).unwrap();
        let before = self.messages("BIZRQ_USAGE").await;
        let log = Arc::new(AnyLog::JetStream(log));
        let teller = Teller::new(log, None, metrics, clock::now);
        let all = async {
            // Two keys of each group.
            while self.messages("BIZRQ_USAGE").await < before + 6 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            ended = teller.tell() => panic!("{ended:?}"),
            () = all => {}
        }
    }

    pub(super) async fn connect(&self, user: &str, password: &str) -> Client {
        let options = ConnectOptions::with_user_and_password(user.into(), password.into());
        options
            .request_timeout(Some(Duration::from_millis(500)))
            .connect(self.server.url())
            .await
            .unwrap()
    }

    /// How many messages a stream has; none where there is no such stream.
    async fn messages(&self, stream: &str) -> u64 {
        let admin = jetstream::new(self.connect("bizrq-admin", "of-admin").await);
        let Ok(mut stream) = admin.get_stream(stream).await else { return 0 };
        stream.info().await.unwrap().state.messages
    }

    /// The ids of the usage of these groups, as an administrator reads them.
    pub(super) async fn ids(&self, groups: &[&str]) -> BTreeSet<String> {
        let admin = jetstream::new(self.connect("bizrq-admin", "of-admin").await);
        let mut stream = admin.get_stream("BIZRQ_USAGE").await.unwrap();
        let mut ids = BTreeSet::new();
        for sequence in 1..=stream.info().await.unwrap().state.last_sequence {
            let message = stream.get_raw_message(sequence).await.unwrap();
            let event: UsageMetered = serde_json::from_slice(&message.payload).unwrap();
            if groups.contains(&&*event.data.group) {
                assert!(ids.insert(event.id));
            }
        }
        ids
    }
}

async fn append(log: &JetStreamLog, id: u128, at: Timestamp, subject: &str, data: Data<'_>) {
    let (id, source) = (EventId(id), "/clusters/east".into());
    let event = Event { id, source, subject: subject.into(), time: at, recorded_at: at, data };
    log.append(vec![NewEvent::new(&event).unwrap()]).await.unwrap();
}

/// All that a durable consumer has for whoever asks, acknowledged.
async fn pull(client: &Client, durable: &str) -> Vec<UsageMetered> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.unwrap();
    let next = format!("$JS.API.CONSUMER.MSG.NEXT.BIZRQ_USAGE.{durable}");
    let ask = r#"{"batch":100,"no_wait":true}"#;
    client.publish_with_reply(next, inbox, ask.into()).await.unwrap();
    let mut events = Vec::new();
    while let Ok(Some(message)) = tokio::time::timeout(Duration::from_secs(5), answers.next()).await
    {
        let Ok(event) = serde_json::from_slice(&message.payload) else { break };
        events.push(event);
        client.publish(message.reply.unwrap(), "+ACK".into()).await.unwrap();
    }
    events
}

/// What an API of streams is asked, and with what.
fn requests() -> Vec<(String, String)> {
    let all = r#"{"config":{"deliver_policy":"all","ack_policy":"none","deliver_subject":"mine"},"stream_name":"STREAM"}"#;
    let durable =
        r#"{"config":{"durable_name":"mine","ack_policy":"explicit"},"stream_name":"STREAM"}"#;
    let made = r#"{"name":"MINE","sources":[{"name":"STREAM"}],"storage":"memory"}"#;
    let mut requests = Vec::new();
    for stream in ["BIZRQ_USAGE", "BIZRQ"] {
        for (subject, ask) in [
            ("STREAM.INFO.STREAM", ""),
            ("STREAM.NAMES", ""),
            ("STREAM.LIST", ""),
            ("STREAM.CREATE.MINE", made),
            ("STREAM.UPDATE.STREAM", made),
            ("STREAM.PURGE.STREAM", ""),
            ("STREAM.DELETE.STREAM", ""),
            ("STREAM.SNAPSHOT.STREAM", r#"{"deliver_subject":"mine"}"#),
            ("STREAM.MSG.GET.STREAM", r#"{"seq":1}"#),
            ("STREAM.MSG.GET.STREAM", r#"{"last_by_subj":"bizrq.usage.v1.vision"}"#),
            ("DIRECT.GET.STREAM", r#"{"seq":1}"#),
            ("DIRECT.GET.STREAM.bizrq.usage.v1.vision", ""),
            ("CONSUMER.CREATE.STREAM", all),
            ("CONSUMER.CREATE.STREAM.mine", durable),
            ("CONSUMER.CREATE.STREAM.language.bizrq.usage.v1.vision", durable),
            ("CONSUMER.DURABLE.CREATE.STREAM.mine", durable),
            ("CONSUMER.DELETE.STREAM.vision", ""),
            ("CONSUMER.NAMES.STREAM", ""),
            ("CONSUMER.LIST.STREAM", ""),
            ("CONSUMER.INFO.STREAM.vision", ""),
            ("CONSUMER.MSG.NEXT.STREAM.vision", r#"{"batch":1,"no_wait":true}"#),
            ("INFO", ""),
        ] {
            let of = |text: &str| text.replace("STREAM\"", &format!("{stream}\""));
            let subject = subject.split('.').enumerate();
            let subject =
                subject.map(|(n, token)| if n > 0 && token == "STREAM" { stream } else { token });
            let subject = subject.collect::<Vec<_>>().join(".");
            requests.push((format!("$JS.API.{subject}"), of(ask)));
        }
    }
    requests
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_gets_its_subtree_and_nothing_else_by_any_way() {
    for version in Version::ALL {
        let mut stage = Stage::new(version).await;
        let tenant = stage.connect("bizrq-tenant-language", "of-language").await;
        let mut everything = tenant.subscribe(">").await.unwrap();
        let mut live = tenant.subscribe("bizrq.usage.v1.*").await.unwrap();
        let mut others = tenant.subscribe("bizrq.usage.v1.vision").await.unwrap();
        tenant.flush().await.unwrap();
        let before = stage.ids(&["language", "eval.x"]).await;
        stage.uses().await;
        let own = stage.ids(&["language", "eval.x"]).await;
        let both = stage.ids(&["language", "eval.x", "vision"]).await;
        assert!(before.len() == 4 && own.len() == 8 && both.len() == 12);

        // As it comes.
        let mut heard = BTreeSet::new();
        while heard.len() < 4 {
            let message = tokio::time::timeout(Duration::from_secs(5), live.next()).await.unwrap();
            let event: UsageMetered = serde_json::from_slice(&message.unwrap().payload).unwrap();
            heard.insert(event.id);
        }
        assert_eq!(heard, own.difference(&before).cloned().collect());
        // All of it, from where the last one who asked was.
        let mut pulled = BTreeSet::new();
        for durable in ["language", "eval=2Ex@language"] {
            let events = pull(&tenant, durable).await;
            assert_eq!(events.len(), 4, "{version:?} {durable}");
            for event in events {
                assert!(pulled.insert(event.id), "{durable}");
            }
        }
        assert_eq!(pulled, own);
        assert!(pull(&tenant, "vision").await.is_empty());

        let counts = async || {
            let mut counts = Vec::new();
            for stream in ["BIZRQ", "BIZRQ_USAGE"] {
                counts.push(stage.messages(stream).await);
            }
            counts
        };
        let held = counts().await;
        // What it publishes stays in its own account, and so do the answers to what it asks.
        let subjects = [
            "bizrq.v1.decision",
            "bizrq.v1.fact.east",
            "bizrq.usage.v1.vision",
            "bizrq.usage.v1.language",
        ];
        for subject in subjects {
            tenant.publish(subject, "{}".into()).await.unwrap();
            let asked = [
                ("$JS.API.CONSUMER.MSG.NEXT.BIZRQ_USAGE.language", r#"{"batch":1,"no_wait":true}"#),
                ("$JS.ACK.BIZRQ_USAGE.language.1.1.1.1.1", "+NXT"),
            ];
            for (asked, with) in asked {
                tenant.publish_with_reply(asked, subject, with.into()).await.unwrap();
            }
        }
        tenant.flush().await.unwrap();
        for (subject, ask) in requests() {
            let answer = tenant
                .request_with_headers(subject.clone(), HeaderMap::new(), ask.clone().into())
                .await;
            let refused = answer.as_ref().map_or(true, |answer| {
                let status = answer.status.is_some_and(|status| !status.is_success());
                status || String::from_utf8_lossy(&answer.payload).contains("\"error\":")
            });
            assert!(refused, "{version:?} {subject} {ask}: {answer:?}");
        }
        assert_eq!(counts().await, held);
        assert_eq!(stage.ids(&["language", "eval.x", "vision"]).await, both);
        let mut seen = 0;
        while let Ok(Some(message)) =
            tokio::time::timeout(Duration::from_millis(200), everything.next()).await
        {
            seen += 1;
            let text = String::from_utf8_lossy(&message.payload);
            assert!(!text.contains("\"group\":\"vision\""), "{text}");
        }
        assert!(seen >= 12, "{seen}");
        // Of the others' subject it got its own message alone.
        let own = others.next().await.unwrap();
        assert_eq!(&own.payload[..], b"{}");
        let more = tokio::time::timeout(Duration::from_millis(100), others.next()).await;
        assert!(
            more.is_err()
                || more
                    .unwrap()
                    .is_some_and(|m| !String::from_utf8_lossy(&m.payload).contains("vision"))
        );
        let other = stage.connect("bizrq-tenant-vision", "of-vision").await;
        assert_eq!(pull(&other, "vision").await.len(), 4);
        assert!(pull(&other, "language").await.is_empty());
    }
}
