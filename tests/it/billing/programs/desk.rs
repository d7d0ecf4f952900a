//! Where the logs of one case lie, how they come into being, and the auditor's program run on them.

use super::{Totals, without_nothing};
use crate::{log_cli::bizrq, nats::server::scratch, shared};
use bizrq::{
    domain::{
        event::{Data, Event, EventId, LogOpened, Position},
        merkle::{Frontier, Hash, LeafHasher},
        time::{ORIGIN, Timestamp},
    },
    event_log::{
        AnyLog, EventLog, NewEvent,
        file::{FileLog, Options},
    },
};
use serde_json::Value;
use std::{fs, process::Command};
use tempfile::TempDir;

/// Folders of one case.
pub(super) struct Desk(TempDir);

/// The records of a log as they stand in it: closings state the root that it had.
pub(super) struct Told {
    pub(super) events: Vec<Event<'static>>,
    tree: Frontier,
    /// By position.
    roots: Vec<Hash>,
    hasher: LeafHasher,
    /// The record that begins the log that continues the first.
    opened: Option<Position>,
}

/// What the program said.
pub(super) struct Ran {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Told {
    fn nothing() -> Self {
        let tree = Frontier::default();
        let (events, roots, hasher) = (Vec::new(), vec![tree.root()], LeafHasher::default());
        Self { events, tree, roots, hasher, opened: None }
    }

    pub(super) fn of(events: &[Event<'static>]) -> Self {
        let mut told = Self::nothing();
        events.iter().for_each(|event| drop(told.push(event.clone())));
        told
    }

    /// The next record, whose positions are those of a log that was never rolled over.
    fn push(&mut self, mut event: Event<'static>) -> NewEvent {
        if let Data::PeriodClosed(data) = &mut event.data {
            let behind = self.opened.is_some_and(|opened| data.position >= opened);
            data.position += u64::from(behind);
            data.root = self.root(data.position).to_string().into();
        }
        let (position, new) = (self.roots.len() as Position, NewEvent::new(&event).unwrap());
        self.tree.append(new.write_line(position, &mut self.hasher, &mut Vec::new()));
        self.roots.push(self.tree.root());
        self.events.push(event);
        new
    }

    fn push_all(&mut self, events: &[Event<'static>]) -> Vec<NewEvent> {
        events.iter().map(|event| self.push(event.clone())).collect()
    }

    /// The record that begins the next log.
    fn open(&mut self, previous: &str) -> NewEvent {
        let opened = LogOpened {
            base: self.tree.position(),
            root: self.tree.root().to_string().into(),
            frontier: self.tree.hashes().iter().map(|hash| hash.to_string().into()).collect(),
            previous: previous.to_owned().into(),
        };
        self.opened = Some(self.roots.len() as Position);
        self.push(Event {
            id: EventId(1 << 90),
            source: "/operators/ann".into(),
            subject: "log".into(),
            time: ORIGIN,
            recorded_at: ORIGIN,
            data: Data::LogOpened(opened),
        })
    }

    /// Root of the log at a position.
    pub(super) fn root(&self, position: Position) -> Hash {
        self.roots[usize::try_from(position).unwrap()]
    }

    /// What somebody corrected in `[from, to)`, each for itself.
    pub(super) fn corrections(&self, from: i64, to: i64) -> Vec<Totals> {
        let corrected = self.events.iter().filter_map(|event| match &event.data {
            Data::UsageAdjusted(data) if (from..to).contains(&data.period.from.millis()) => {
                let group = event.subject.strip_prefix("accounts/").unwrap().to_owned();
                Some([((group, data.key.to_string()), data.exact)].into())
            }
            _ => None,
        });
        corrected.map(without_nothing).collect()
    }
}

impl Desk {
    pub(super) fn new() -> Self {
        Self(scratch())
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(super) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A file log in short segments.
    pub(super) fn log(&self, name: &str, told: &Told) -> String {
        let events = told.events.iter().map(|event| NewEvent::new(event).unwrap()).collect();
        self.append(&self.path(name), events);
        self.path(name)
    }

    fn append(&self, dir: &str, events: Vec<NewEvent>) {
        let log = FileLog::open(dir.as_ref(), &Options { segment_bytes: 4000 }).unwrap();
        block_on(log.append(events)).unwrap();
        log.close().unwrap();
    }

    /// A compressed archive of a log, or the rest of one.
    pub(super) fn archive(&self, name: &str, log: &str, until: Option<Timestamp>) -> String {
        let dir = self.path(name);
        let until = until.map(|t| t.to_string());
        let until = until.iter().flat_map(|t| ["--until", t]).collect::<Vec<_>>();
        bizrq(&[&["log", "archive", "-o", "json", "--log", log], &until[..], &[&dir]].concat())
            .report();
        dir
    }

    /// As [`Self::archive`], up to an instant; `None` if no record was published before.
    pub(super) fn try_archive(&self, name: &str, log: &str, until: Timestamp) -> Option<String> {
        let (dir, until) = (self.path(name), until.to_string());
        let args = ["log", "archive", "-o", "json", "--log", log, "--until", &until, &dir];
        let said = bizrq(&args);
        if said.code != 0 {
            said.refused(2, "nothing to archive");
            return None;
        }
        Some(dir)
    }

    /// Fills an empty log from an archive.
    pub(super) fn import(&self, log: &str, archive: &str) -> String {
        bizrq(&["log", "import", "-o", "json", "--log", log, archive]).report();
        log.to_owned()
    }

    /// A log that was rolled over behind its first `cut` records, and the next one.
    pub(super) fn rolled(&self, events: &[Event<'static>], cut: usize) -> (Told, String, String) {
        let (first, next) = (self.path("first"), self.path("next"));
        let mut told = Told::nothing();
        self.append(&first, told.push_all(&events[..cut]));
        block_on(AnyLog::roll(&first, &next, |_, previous| Ok(told.open(previous)))).unwrap();
        self.append(&next, told.push_all(&events[cut..]));
        (told, first, next)
    }

    /// The same in streams.
    pub(super) fn rolled_stream(&self, url: &str, events: &[Event<'static>], cut: usize) -> Told {
        let mut told = Told::nothing();
        let (first, second) = events.split_at(cut);
        let append = async |at: usize, events: Vec<NewEvent>| {
            let log = AnyLog::open(url).await.unwrap();
            log.append_at(at as Position, events).await.unwrap();
            log.close().unwrap();
        };
        block_on(async {
            append(1, told.push_all(first)).await;
            AnyLog::roll(url, "NEXT", |_, previous| Ok(told.open(previous))).await.unwrap();
            append(cut + 2, told.push_all(second)).await;
        });
        told
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Runs the auditor's program.
pub(super) fn replay(args: &[&str]) -> Ran {
    let program = shared::replay("").unwrap();
    let output = Command::new(program).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Ran { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// What it says of a log.
pub(super) fn asked(log: &str, args: &[String]) -> String {
    let (command, rest) = args.split_first().unwrap();
    let mut all = vec![command.as_str(), "--log", log];
    all.extend(rest.iter().map(String::as_str));
    let ran = replay(&all);
    assert_eq!(ran.code, 0, "{all:?}: {}{}", ran.stdout, ran.stderr);
    ran.stdout
}

/// The same, without what is the place's own: its name, its bytes and its file `roots`.
pub(super) fn json(log: &str, args: &[String]) -> Value {
    let said = asked(log, args);
    let mut value: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    for own in ["log", "roots", "bytes"] {
        value.as_object_mut().unwrap().remove(own);
    }
    value
}
