//! The stream: made as a log needs it, or looked at whether it is. One table says what a safe stream is, why, and
//! what to do about one that is not.

use super::{
    OpenError, StreamError,
    connect::reason,
    state::{DECISIONS, FACTS, NOTES, Shared},
};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use std::fmt;

/// Something about a stream that is not as a log needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The setting, in the server's words, and its value.
    pub found: String,
    /// What it must be.
    pub wanted: String,
    /// What would happen.
    pub why: &'static str,
}

/// Makes the stream, or sees that the one that is there is safe.
pub(super) async fn create_or_check(shared: &Shared) -> Result<(), OpenError> {
    match check(shared).await {
        Err(OpenError::Absent { .. }) => {}
        checked => return checked,
    }
    // Of two who make it at once the second finds it made.
    match shared.jetstream.create_stream(wanted(shared)).await {
        Ok(_) => check(shared).await,
        Err(error) => match check(shared).await {
            Err(OpenError::Absent { log }) => Err(OpenError::Create { log, why: reason(&error) }),
            checked => checked,
        },
    }
}

/// Sees that the stream is there and safe.
pub(super) async fn check(shared: &Shared) -> Result<(), OpenError> {
    let config = match shared.info().await {
        Ok(info) => info.config,
        Err(StreamError::Gone { log }) => return Err(OpenError::Absent { log }),
        Err(error) => return Err(error.into()),
    };
    let differences = differences(&config);
    if differences.is_empty() {
        return Ok(());
    }
    Err(OpenError::Unsafe { log: shared.name.clone(), differences })
}

/// The stream as we make it.
fn wanted(shared: &Shared) -> Config {
    Config {
        name: shared.options.stream.clone(),
        subjects: subjects(),
        description: Some("bizrq: the log of facts and decisions; never delete from it".to_owned()),
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        retention: RetentionPolicy::Limits,
        num_replicas: shared.options.replicas,
        duplicate_window: shared.options.duplicate_window,
        deny_delete: true,
        deny_purge: true,
        max_bytes: -1,
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        ..Config::default()
    }
}

fn subjects() -> Vec<String> {
    vec![DECISIONS.to_owned(), format!("{FACTS}.*"), format!("{NOTES}.*")]
}

/// What is not as it must be.
fn differences(config: &Config) -> Vec<Difference> {
    let limited = |n: i64| n > 0;
    let mut subjects_found = config.subjects.clone();
    subjects_found.sort();
    let checks: [(bool, String, &str, &'static str); 14] = [
        (
            config.storage != StorageType::File,
            format!("storage is {:?}", config.storage),
            "file",
            "a restart would lose it",
        ),
        (!config.deny_delete, "deny_delete is false".into(), "true", "records could be removed"),
        (!config.deny_purge, "deny_purge is false".into(), "true", "the log could be emptied"),
        (
            config.allow_rollup,
            "allow_rollup_hdrs is true".into(),
            "false",
            "a message could replace all before it",
        ),
        (
            config.discard != DiscardPolicy::New,
            "discard is old".into(),
            "new",
            "a full stream would drop its oldest records",
        ),
        (
            config.retention != RetentionPolicy::Limits,
            format!("retention is {:?}", config.retention),
            "limits",
            "records would go once they are read",
        ),
        (
            !config.max_age.is_zero(),
            format!("max_age is {:?}", config.max_age),
            "0",
            "records would expire",
        ),
        (
            limited(config.max_messages_per_subject),
            format!("max_msgs_per_subject is {}", config.max_messages_per_subject),
            "-1",
            "decisions would be refused or dropped",
        ),
        (config.no_ack, "no_ack is true".into(), "false", "no append would be acknowledged"),
        (
            config.sealed,
            "sealed is true".into(),
            "false",
            "it was closed by a roll-over; open its successor",
        ),
        (config.mirror.is_some(), "it is a mirror".into(), "none", "nobody can append to it"),
        (
            config.sources.as_ref().is_some_and(|s| !s.is_empty()),
            "it has sources".into(),
            "none",
            "others' messages would come in",
        ),
        (
            config.republish.is_some(),
            "it republishes".into(),
            "nothing",
            "records would be told to whoever listens",
        ),
        (
            subjects_found != subjects(),
            format!("subjects are {}", config.subjects.join(", ")),
            "",
            "appends would miss it, or others' messages would come in",
        ),
    ];
    let wrong = checks.into_iter().filter(|(wrong, ..)| *wrong);
    wrong
        .map(|(_, found, wanted, why)| {
            let wanted = if wanted.is_empty() { subjects().join(", ") } else { wanted.to_owned() };
            Difference { found, wanted, why }
        })
        .collect()
}

/// All of them, with the remedy.
pub(super) fn list(differences: &[Difference]) -> String {
    let each = differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    format!("{each}. Let an administrator edit the stream, or name another with BIZRQ_NATS_STREAM")
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, must be {} ({})", self.found, self.wanted, self.why)
    }
}
