//! Where one stream ends and the next begins, and how a stream is kept. An administrator's work: bizrq's own user may
//! not edit streams.
//!
//! ```text
//! BIZRQ: one edit: sealed, its subjects given up ──▶ BIZRQ-2: made with these subjects; first record log.opened
//! ```

use super::{
    Guard, JetStreamLog, OpenError, Options,
    connect::reason,
    state::Shared,
    stream::{self, Use},
};
use crate::{
    domain::{event::Position, merkle::Frontier},
    event_log::{self, AppendError, EventLog, Facts, NewEvent},
};
use async_nats::jetstream::stream::Config;
use std::path::PathBuf;

/// What a stream that was rolled over listens to: nothing is published there. It names the stream that goes on.
const SEALED: &str = "bizrq.sealed";

impl JetStreamLog {
    /// Begins the stream that continues `base` with `opening`, its `log.opened`; one that is begun is left alone.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn begin(
        options: Options,
        base: &Frontier,
        opening: &NewEvent,
    ) -> Result<(), OpenError> {
        let log = Self::open(options).await?;
        if log.shared.end().await? > 0 {
            return Ok(());
        }
        let appended = log.append_at(1, std::slice::from_ref(opening)).await;
        let failed = |error: AppendError| OpenError::Create {
            log: log.shared.name.clone(),
            why: format!("it cannot be begun behind position {}: {error}", base.position()),
        };
        appended.map_err(failed)
    }

    /// Ends a stream for ever, so that `next` can go on; gives its tree. One that was ended for the sake of `next`
    /// before stays as it is.
    ///
    /// # Errors
    /// [`event_log::OpenError`]: it was rolled over to another stream, or may not be edited.
    pub async fn seal(options: Options, next: Options) -> Result<Frontier, event_log::OpenError> {
        let shared = Shared::connect(options.clone()).await?;
        stream::check(&shared, Use::Read).await?;
        let config = shared.settings().await.map_err(OpenError::from)?.known;
        let subjects = vec![format!("{SEALED}.{}", next.stream)];
        let log = Self::open_read(options).await?;
        if config.sealed && config.subjects != subjects {
            let of = |subject: &String| {
                subject.trim_start_matches(SEALED).trim_start_matches('.').to_owned()
            };
            let path = PathBuf::from(&shared.name);
            let position = log.head().await?.position;
            let next = config.subjects.first().map(of).unwrap_or_default();
            return Err(event_log::OpenError::Sealed { path, position, next });
        }
        if !config.sealed {
            let sealed = Config { subjects, sealed: true, ..config };
            let edited = shared.jetstream.update_stream(sealed).await;
            edited.map_err(|error| OpenError::Create {
                log: shared.name.clone(),
                why: format!("it cannot be sealed: {}", reason(&error)),
            })?;
        }
        Ok(log.tree().await?)
    }

    /// Appends records of another log, the first of them at position `first`; where the log ends elsewhere, nothing.
    ///
    /// # Errors
    /// [`AppendError`].
    pub async fn append_at(
        &self,
        first: Position,
        records: &[NewEvent],
    ) -> Result<(), AppendError> {
        let appender = self.appender.as_ref().ok_or(AppendError::ReadOnly)?;
        appender.append(Guard::Copy(first), records).await.map(drop)
    }

    /// How the stream is kept: for a person who looks after it.
    ///
    /// # Errors
    /// [`event_log::OpenError`] when the server does not say.
    pub async fn storage(&self) -> Result<Facts, event_log::OpenError> {
        let info = self.shared.info().await.map_err(OpenError::from)?;
        let limit = |n: i64| if n > 0 { n.to_string() } else { "none".to_owned() };
        Ok(Facts::from([
            ("provider", "jetstream".to_owned()),
            ("server", self.shared.client.server_info().version),
            ("stream", info.config.name),
            ("replicas", info.config.num_replicas.to_string()),
            ("bytes", info.state.bytes.to_string()),
            ("limit of bytes", limit(info.config.max_bytes)),
            ("limit of records", limit(info.config.max_messages)),
            ("sealed", info.config.sealed.to_string()),
        ]))
    }
}
