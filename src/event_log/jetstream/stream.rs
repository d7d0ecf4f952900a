//! The stream: made as a log needs it, or looked at whether it is. One table says what a safe stream is, why, and
//! what to do about one that is not.

use super::{
    OpenError, StreamError,
    connect::reason,
    rollover,
    state::{DECISIONS, FACTS, NOTES, Shared},
};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use serde::Deserialize;
use serde_json::{Map, Value, json};
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

/// What a stream is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// One that was rolled over is as good as any other.
    Read,
    /// It must take appends.
    Append,
}

/// Makes the stream, or sees that the one that is there is safe.
pub(super) async fn create_or_check(shared: &Shared) -> Result<(), OpenError> {
    match check(shared, Use::Append).await {
        Err(OpenError::Absent { .. }) => {}
        checked => return checked,
    }
    let connected = shared.client.server_info().version;
    if let Some(difference) = copies_may_differ(shared.options.replicas, "a server", &connected) {
        let differences = vec![difference];
        return Err(OpenError::Unsafe { log: shared.name.clone(), differences });
    }
    // Of two who make it at once the second finds it made.
    match shared.jetstream.create_stream(wanted(shared)).await {
        Ok(_) => check(shared, Use::Append).await,
        Err(error) => match check(shared, Use::Append).await {
            Err(OpenError::Absent { log }) => Err(OpenError::Create { log, why: reason(&error) }),
            checked => checked,
        },
    }
}

/// The name of the stream beside the log that takes `subject`: of one that is there, when it keeps what it is told as
/// safely as a log; else of one that is made, called `stream`.
pub(super) async fn beside(
    log: &Shared,
    stream: &str,
    subject: &str,
    description: &str,
) -> Result<String, OpenError> {
    let subjects = [subject.to_owned()];
    // By its subject: the log may have had another name when it was made.
    let name = rollover::names(log, subject).await?.pop().unwrap_or_else(|| stream.to_owned());
    let side = log.beside(&name);
    match check_for(&side, Use::Append, &subjects).await {
        Err(OpenError::Absent { .. }) => {}
        checked => return checked.map(|()| name),
    }
    let config = Config {
        subjects: subjects.to_vec(),
        description: Some(description.to_owned()),
        ..wanted(&side)
    };
    let made = side.jetstream.create_stream(config).await;
    match check_for(&side, Use::Append, &subjects).await {
        Err(OpenError::Absent { log }) => {
            let why = made.err().map_or_else(|| "it is gone".to_owned(), |error| reason(&error));
            Err(OpenError::Create { log, why })
        }
        checked => checked.map(|()| name),
    }
}

/// Whether its settings are safe, in words.
pub(super) async fn judged(shared: &Shared) -> Result<String, StreamError> {
    match check(shared, Use::Append).await {
        Ok(()) => Ok("safe".to_owned()),
        Err(OpenError::Stream(error)) => Err(error),
        Err(_) if shared.is_sealed() => Ok("ended by a roll-over".to_owned()),
        Err(error) => Ok(error.to_string()),
    }
}

/// Sees that the stream is there and safe.
pub(super) async fn check(shared: &Shared, wanted: Use) -> Result<(), OpenError> {
    check_for(shared, wanted, &subjects()).await
}

async fn check_for(shared: &Shared, wanted: Use, subjects: &[String]) -> Result<(), OpenError> {
    let config = match shared.settings().await {
        Ok(config) => config,
        Err(StreamError::Gone { log }) => return Err(OpenError::Absent { log }),
        Err(error) => return Err(error.into()),
    };
    let was_rolled_over = wanted == Use::Read && config.known.sealed;
    let mut differences = differences(&config.known, was_rolled_over, subjects);
    differences.extend(newer_differences(&config.all));
    let (copies, connected) = (config.known.num_replicas, shared.client.server_info().version);
    let differ = copies_may_differ(copies, "a server", &connected);
    differences.extend(differ.or_else(|| copies_may_differ(copies, "a leader", config.answered())));
    if differences.is_empty() {
        return Ok(());
    }
    Err(OpenError::Unsafe { log: shared.name.clone(), differences })
}

/// A stream's settings: those that the client knows, and all that the server told.
#[derive(Deserialize)]
pub(super) struct Settings {
    // First: who takes named fields takes them away, who takes all does not.
    #[serde(flatten)]
    all: Map<String, Value>,
    #[serde(flatten)]
    pub(super) known: Config,
}

impl Settings {
    /// The version of the server that answered, which leads the stream: told since 2.11.
    fn answered(&self) -> &str {
        let told = self.all.get("metadata").and_then(|metadata| metadata.get("_nats.ver"));
        told.and_then(Value::as_str).unwrap_or("2.10 or older")
    }
}

/// What servers after 2.9 can do to a stream: setting, what it must be, what would happen.
const NEWER: &[(&str, &str, &str)] = &[
    ("subject_transform", "absent", "decisions would miss their subject"),
    ("allow_msg_ttl", "false", "records could expire"),
    ("subject_delete_marker_ttl", "absent", "the server would add messages of its own"),
    ("persist_mode", "absent", "acknowledged records could be lost in a crash"),
    ("first_seq", "absent", "positions would not begin with the stream"),
];

fn newer_differences(all: &Map<String, Value>) -> Vec<Difference> {
    let usual = [json!(null), json!(false), json!(0), json!(""), json!("default")];
    let set = |name: &str| all.get(name).filter(|value| !usual.contains(value));
    let differs = |(name, wanted, why): &(&str, &str, &'static str)| {
        let found = format!("{name} is {}", set(name)?);
        Some(Difference { found, wanted: (*wanted).to_owned(), why })
    };
    NEWER.iter().filter_map(differs).collect()
}

/// The first servers whose leader counts only what followers said in its own term, and not while they were catching up.
/// What older ones show to readers, and acknowledge, may be on no majority: after an election another record stands
/// there, on one copy or on all (seen of 2.9.10).
const MAJORITIES: [u64; 3] = [2, 12, 6];

/// Several copies on a server of which we hear, `whose`, that may let them differ.
fn copies_may_differ(copies: usize, whose: &str, version: &str) -> Option<Difference> {
    if copies < 2 || numbers(version) >= Some(MAJORITIES) {
        return None;
    }
    let [major, minor, patch] = MAJORITIES;
    Some(Difference {
        found: format!("num_replicas is {copies} on {whose} of version {version}"),
        wanted: format!("1 there, or every server of version {major}.{minor}.{patch} or newer"),
        why: "when a leader is lost, copies could differ from then on, and acknowledged records be lost",
    })
}

/// The numbers of a version `1.2.3-more`.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let plain = version.split(['-', '+']).next()?;
    let numbers: Option<Vec<u64>> = plain.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
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

/// Makes the stream that continues `old`, kept as that one is; one that is there already must be safe.
pub(super) async fn create_next(next: &Shared, old: &Shared) -> Result<(), OpenError> {
    match check(next, Use::Append).await {
        Err(OpenError::Absent { .. }) => {}
        checked => return checked,
    }
    let kept = old.info().await?.config;
    let config = Config {
        num_replicas: kept.num_replicas,
        duplicate_window: kept.duplicate_window,
        placement: kept.placement,
        ..wanted(next)
    };
    let failed = |why| OpenError::Create { log: next.name.clone(), why };
    next.jetstream.create_stream(config).await.map_err(|error| failed(reason(&error)))?;
    check(next, Use::Append).await
}

/// Sees that there is no stream of this name: the old one does not end before the next can begin.
pub(super) async fn must_be_free(next: &Shared) -> Result<(), OpenError> {
    let why = if is_name(&next.options.stream) {
        match next.info().await {
            Err(StreamError::Gone { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(_) => "there is a stream of this name already; give another",
        }
    } else {
        "a stream's name has letters, digits, - and _"
    };
    Err(OpenError::Create { log: next.name.clone(), why: why.to_owned() })
}

/// Whether a stream can be called so.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !text.is_empty() && text.len() <= 128 && text.chars().all(plain)
}

/// Ends a stream for ever, in one step: it leaves its subjects and takes no more messages.
pub(super) async fn seal(old: &Shared, subject: &str) -> Result<(), OpenError> {
    check(old, Use::Append).await?;
    let mut config = old.info().await?.config;
    config.subjects = vec![subject.to_owned()];
    config.sealed = true;
    let updated = old.jetstream.update_stream(&config).await;
    updated.map(drop).map_err(|error| {
        let why = format!(
            "it cannot be ended ({}); this takes an operator's credentials",
            reason(&error)
        );
        StreamError::Malformed { log: old.name.clone(), why }.into()
    })
}

fn subjects() -> Vec<String> {
    vec![DECISIONS.to_owned(), format!("{FACTS}.*"), format!("{NOTES}.*")]
}

/// What is not as it must be.
fn differences(config: &Config, was_rolled_over: bool, subjects: &[String]) -> Vec<Difference> {
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
            config.sealed && !was_rolled_over,
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
            subjects_found != subjects && !was_rolled_over,
            format!("subjects are {}", config.subjects.join(", ")),
            "",
            "appends would miss it, or others' messages would come in",
        ),
    ];
    let wrong = checks.into_iter().filter(|(wrong, ..)| *wrong);
    wrong
        .map(|(_, found, wanted, why)| {
            let wanted = if wanted.is_empty() { subjects.join(", ") } else { wanted.to_owned() };
            Difference { found, wanted, why }
        })
        .collect()
}

/// All of them, with the remedy.
pub(super) fn list(differences: &[Difference]) -> String {
    let each = differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    format!(
        "{each}. Let an administrator edit the stream, or, of a log, name another in the address: nats://host:port/STREAM"
    )
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, must be {} ({})", self.found, self.wanted, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAJORITIES, numbers};

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for newer in ["2.12.6", "2.12.10", "2.14.0-RC.1", "2.15.1+build", "3.0.0"] {
            assert!(numbers(newer) >= Some(MAJORITIES), "{newer}");
        }
        for older in ["2.9.10", "2.10 or older", "2.11.17", "2.12.5", "2.12", "", "next"] {
            assert!(numbers(older) < Some(MAJORITIES), "{older}");
        }
    }
}
