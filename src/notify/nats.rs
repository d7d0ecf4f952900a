//! Notices on the server that keeps the log: each on a subject of its id, published on the condition that nothing
//! stands there. So the server takes it once, whoever publishes and however often.

use super::{Error, due::Notice};
use crate::event_log::{codec::message::token, jetstream::JetStreamLog};
use async_nats::{
    HeaderMap,
    jetstream::{self, context::PublishErrorKind, stream::Config},
};

/// What notices are published to: the group and the id follow.
const SUBJECT: &str = "bizrq.notice.v1";
const EXPECTED_LAST_OF_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence";

/// The stream of a log's notices.
#[derive(Debug)]
pub struct Notices {
    jetstream: jetstream::Context,
    stream: String,
}

impl Notices {
    pub(super) async fn open(log: &JetStreamLog) -> Result<Self, Error> {
        let jetstream = jetstream::new(log.client());
        let stream = format!("{}_NOTICES", log.stream());
        let config = Config {
            name: stream.clone(),
            subjects: vec![format!("{SUBJECT}.>")],
            description: Some(
                "bizrq: what groups were told; a notice that is deleted is told again".into(),
            ),
            deny_delete: true,
            ..Config::default()
        };
        let made = jetstream.get_or_create_stream(config).await;
        made.map_err(|error| Error::Stream { stream: stream.clone(), why: error.to_string() })?;
        Ok(Self { jetstream, stream })
    }

    pub(super) async fn tell(&self, notice: &Notice) -> Result<bool, Error> {
        let failed = |why: String| Error::Stream { stream: self.stream.clone(), why };
        let payload = serde_json::to_vec(notice).map_err(|error| failed(error.to_string()))?;
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_LAST_OF_SUBJECT, "0");
        let subject = format!("{SUBJECT}.{}.{}", token(&notice.group), notice.id);
        let sent = self.jetstream.publish_with_headers(subject, headers, payload.into()).await;
        let acknowledged = match sent {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        match acknowledged {
            Ok(_) => Ok(true),
            // It stands there already.
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(false),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}
