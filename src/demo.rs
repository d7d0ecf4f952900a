//! A simulated fortnight of a company, told through the real code paths: quotas are proposed and declared, workloads
//! reviewed and admitted, pods bound and metered, and every record goes to a real log.
//!
//! ```text
//!  story (what must happen) ─┐                         ┌─▶ ledger ──▶ decisions on what was recorded so far
//!  crowd (so many pods)     ─┴▶ queue ─▶ life ─▶ record┴─▶ log (conditional appends for decisions)
//! ```
//!
//! The same seed gives the same bytes. Nothing here asks what time it is: the simulated clock is the queue's. Pods that
//! ended are forgotten, so that a fortnight of millions of pods needs no more memory than what lives at once.

mod cast;
mod crowd;
mod door;
mod life;
mod manifests;
mod queue;
mod random;
mod record;
mod reviews;
#[cfg(feature = "service")]
mod stage;
mod story;
mod world;

use crate::{
    domain::{
        amounts::Overflow,
        event::Position,
        ledger::{Ledger, Stop},
        time::{HOUR_MS, ORIGIN, Timestamp},
    },
    event_log::{
        AppendError, EventLog, ReadError,
        codec::{DecodeError, EncodeError},
    },
};
#[cfg(feature = "service")]
pub use stage::Stage;
use world::World;

/// The simulated clusters.
pub const CLUSTERS: [&str; 2] = ["east", "west"];

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Chance, made repeatable.
    pub seed: u64,
    /// Pods in all; the story makes some hundred of its own, whatever is asked for.
    pub pods: u64,
}

/// What was simulated.
#[derive(Debug)]
pub struct Played {
    /// Records that were appended.
    pub records: Position,
    /// Pods that were made.
    pub pods: u64,
    /// What happened, for people, by time.
    pub scenes: Vec<Scene>,
    /// What was refused, by time.
    pub refusals: Vec<Refused>,
    /// The groups that have a part in the story, or are the first of their kind.
    pub groups: Vec<String>,
    /// The ledger that decided. It has no usage of the crowd's pods, and its root is not the log's.
    pub ledger: Ledger,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// When.
    pub time: Timestamp,
    /// In one sentence.
    pub text: String,
}

/// Something that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// When.
    pub time: Timestamp,
    /// The cluster that asked.
    pub cluster: &'static str,
    /// `Deployment search/search-api`.
    pub workload: String,
    /// The group that was asked.
    pub group: String,
    /// `QuotaExceeded`, …
    pub reason: String,
    /// What the user was told.
    pub message: String,
}

/// Why the fortnight ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log cannot be read back.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What was read back is no event.
    #[error("a record that was just written cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// The webhook on this host does not work.
    #[error("the demo's own webhook: {why}; does anything keep this host from talking to itself?")]
    Stage {
        /// What is wrong.
        why: String,
    },
    /// The log does not take a record.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// A record has no bytes.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A record is not what its type says.
    #[error("a simulated record cannot be written: {0}")]
    Data(#[from] serde_json::Error),
    /// The ledger cannot go on.
    #[error(transparent)]
    Stop(#[from] Stop),
    /// An amount is too large: too many pods were asked for.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// The log holds something else; only an empty log can be told a story from its beginning.
    #[error(
        "the log is at position {found}, not {expected}: another writer is at work; stop it, and give a new folder"
    )]
    Interleaved {
        /// Where the record should be.
        expected: Position,
        /// Where it is.
        found: Position,
    },
    /// The story does not hold together.
    #[error("{time}: {what}; this is a fault of the simulator")]
    Plot {
        /// When.
        time: Timestamp,
        /// What should not have happened.
        what: String,
    },
}

/// Milliseconds of a second.
const SECOND: i64 = 1000;
/// Milliseconds of a minute.
const MINUTE: i64 = 60_000;
/// Milliseconds of a day.
const DAY: i64 = 24 * HOUR_MS;
/// Records of one append: enough for the disk, little memory.
const BATCH: usize = 4096;

/// When the fortnight begins: Monday 2026-11-02T00:00:00Z.
#[must_use]
pub fn begin() -> Timestamp {
    ORIGIN.shifted(305 * DAY)
}

/// When it ends: Monday 2026-11-16T00:00:00Z.
#[must_use]
pub fn end() -> Timestamp {
    begin().shifted(14 * DAY)
}

/// Plays the fortnight into an empty log; reviews are decided by the rules, without a webhook. `progress` hears how
/// many records there are, now and then.
///
/// # Errors
/// [`Error`]; what was appended stays.
pub async fn play(
    log: &impl EventLog,
    options: Options,
    progress: impl FnMut(u64),
) -> Result<Played, Error> {
    go_on(World::new(options)?, log, progress).await
}

/// Plays the fortnight into the empty log of `stage`: its webhook is asked about everything in the story. The crowd's
/// jobs, which come in thousands and stand for what other replicas admit meanwhile, are decided as in [`play`].
///
/// # Errors
/// [`Error`]; what was appended stays.
#[cfg(feature = "service")]
pub async fn play_on<L: EventLog + 'static>(
    stage: Stage<L>,
    options: Options,
    progress: impl FnMut(u64),
) -> Result<Played, Error>
where
    L::Reader: 'static,
{
    let log = stage.log();
    let mut world = World::new(options)?;
    world.door = Some(Box::new(stage));
    go_on(world, &*log, progress).await
}

async fn go_on(
    mut world: World,
    log: &impl EventLog,
    progress: impl FnMut(u64),
) -> Result<Played, Error> {
    let ended = to_the_end(&mut world, log, progress).await;
    // Also after an error: a stage that is dropped waits, which a thread of a runtime must not.
    if let Some(door) = world.door.take() {
        door.close();
    }
    ended.map(|()| world.into_played())
}

async fn to_the_end(
    world: &mut World,
    log: &impl EventLog,
    mut progress: impl FnMut(u64),
) -> Result<(), Error> {
    story::schedule(world);
    crowd::schedule(world);
    while let Some((now, happening)) = world.queue.pop() {
        if now >= end() {
            break;
        }
        world.happen(now, happening)?;
        if world.record.is_due() {
            world.record.send(log).await?;
            progress(world.record.ledger.position());
        }
    }
    world.record.send(log).await
}

/// The first line in which the quotas of two ledgers differ: group and key. `None`: they agree.
///
/// The ledger that decided knew the crowd's workloads only, a fold of the log knows their pods as well; every limit
/// and every charge must be the same.
#[must_use]
pub fn difference(decided: &Ledger, folded: &Ledger) -> Option<(String, String)> {
    let one_way = |a: &Ledger, b: &Ledger| {
        let (mine, theirs) = (a.book()?, b.book()?);
        a.names().groups().find_map(|group| {
            let name = a.names().group_name(group);
            let other = b.names().known_group(name);
            let key = mine.keys(group).iter().find(|key| {
                let key_name = a.names().key_name(**key);
                let there = other.zip(b.names().known_key(key_name));
                let line = there.map(|(group, key)| theirs.line(group, key));
                mine.line(group, **key) != line.unwrap_or_default()
            })?;
            Some((name.to_owned(), a.names().key_name(*key).to_owned()))
        })
    };
    one_way(decided, folded).or_else(|| one_way(folded, decided))
}
