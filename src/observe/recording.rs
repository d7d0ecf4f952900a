//! A recorded watch as a source of events: reads what `kubectl get KIND -A -o json --watch --output-watch-events`
//! prints, one file a kind, any number of files in any order; lists and plain objects too.
//!
//! Nothing is concluded before [`Recorder::finish`]: owners may come in a later file than their pods. Only what
//! counts of each object is kept. Lists and plain objects show no deletions: what vanished without a trace runs on,
//! so record with `--output-watch-events`. It never asks what time it is: a recording ends with the newest instant in it.

mod envelope;
mod events;
pub mod objects;
#[cfg(test)]
mod tests;

pub use events::Recording;

use self::{
    envelope::{Event, Opened},
    objects::{Objects, Problem},
};
use super::{
    owners::{Declared, Object, Owners, Timeline, Version},
    pods::{History, Sighting, State},
    shared::Shared,
};
use crate::{
    domain::{
        label_keys::LabelKeys,
        names::{Map, Uid},
        time::Timestamp,
    },
    k8s::{
        kinds::{self, MIRROR},
        meta::ObjectMeta,
        pod::Pod,
    },
};
use std::{io::Read, sync::Arc};

/// Bytes of kept state that any recording may need before it is refused: with the buffers and the events, well below
/// 256 MiB.
///
/// A real pod leaves some 20 KiB of text and 2 KiB of state. So a recording may keep a quarter of its own text, if
/// that is more, up to [`LARGE`] times this; what needs more per byte is made to fill the memory.
pub const DEFAULT_LIMIT: usize = 64 << 20;

/// How many times the limit a large recording may keep.
const LARGE: usize = 8;

/// Remarks that are kept; further ones are only counted.
const MAX_NOTES: usize = 1000;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{file}, line {line}: {problem}")]
pub struct RecordingError {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong, and what would help.
    pub problem: RecordingProblem,
}

/// What is wrong with a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingProblem {
    /// Its text.
    #[error(transparent)]
    Text(#[from] Problem),
    /// Its size.
    #[error(
        "more pods than fit into {0} MiB; record a shorter time or fewer namespaces, file by file"
    )]
    TooMany(usize),
}

/// A remark about an object that could not be taken as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file's name; empty when it concerns several.
    pub file: String,
    /// The line, from 1; 0 when it concerns several.
    pub line: u64,
    /// The object and what is the matter with it.
    pub text: String,
}

/// Takes in recorded objects.
#[derive(Debug)]
pub struct Recorder {
    source: String,
    limit: usize,
    /// Bytes of text that were read.
    text: usize,
    pods: Map<Uid, Kept>,
    owners: Owners,
    shared: Shared,
    /// (version, newest instant on it) of every object; of neighbours with one instant the last.
    api_times: Vec<(u64, Timestamp)>,
    newest: Option<Timestamp>,
    keeps_status_writes: bool,
    notes: Vec<Note>,
    quarantined: u64,
}

/// What is kept of a pod.
#[derive(Debug)]
struct Kept {
    uid: Arc<str>,
    namespace: Arc<str>,
    name: Arc<str>,
    node: Arc<str>,
    declared: Timeline,
    history: History,
}

/// Where an object was read.
#[derive(Clone, Copy)]
struct Place<'f> {
    file: &'f str,
    line: u64,
}

impl Recorder {
    /// A recorder of what happened in `cluster`, within [`DEFAULT_LIMIT`].
    #[must_use]
    pub fn new(cluster: &str) -> Self {
        Self::with_limit(cluster, DEFAULT_LIMIT)
    }

    /// A recorder that refuses what needs more than `limit` bytes of state and far more than it has text for.
    #[must_use]
    pub fn with_limit(cluster: &str, limit: usize) -> Self {
        Self {
            source: format!("/clusters/{cluster}"),
            limit,
            text: 0,
            pods: Map::default(),
            owners: Owners::default(),
            shared: Shared::default(),
            api_times: Vec::new(),
            newest: None,
            keeps_status_writes: false,
            notes: Vec::new(),
            quarantined: 0,
        }
    }

    /// The same, of a cluster whose objects name group and models by other labels.
    #[must_use]
    pub fn with_labels(mut self, labels: Arc<LabelKeys>) -> Self {
        self.shared = Shared::new(labels);
        self
    }

    /// Reads all of `input`, which errors call `file`.
    ///
    /// # Errors
    /// [`RecordingError`] with file, line and remedy. What was read before it is kept.
    pub fn read(&mut self, file: &str, input: impl Read) -> Result<(), RecordingError> {
        let mut objects = Objects::new(input);
        loop {
            let failed = |line, problem| RecordingError { file: file.to_owned(), line, problem };
            let object = match objects.next_object() {
                Ok(Some(object)) => object,
                Ok(None) => return Ok(()),
                Err(problem) => return Err(failed(objects.line(), problem.into())),
            };
            let (line, length) = (object.line, object.text.len());
            let opened = envelope::open(&object);
            let taken = opened.and_then(|opened| self.take(&opened, Place { file, line }));
            taken.map_err(|(line, problem)| failed(line, problem.into()))?;
            self.text = self.text.saturating_add(length);
            let limit = self.limit.max(self.limit.saturating_mul(LARGE).min(self.text >> 2));
            if self.shared.bytes > limit {
                return Err(failed(line, RecordingProblem::TooMany(limit >> 20)));
            }
        }
    }

    /// Everything that happened, by all that was read.
    #[must_use]
    pub fn finish(self) -> Recording {
        Recording::of(self)
    }

    fn take(&mut self, opened: &Opened<'_>, place: Place<'_>) -> Result<(), envelope::Placed> {
        match opened.event {
            Event::Nothing => {}
            Event::Broken => {
                self.note(place, "the watch broke off here: what follows may have gaps")
            }
            Event::Seen | Event::Deleted if opened.kind == "Pod" => {
                self.take_pod(&opened.read()?, opened.event == Event::Deleted, place);
            }
            Event::Seen | Event::Deleted => self.take_object(&opened.read()?, place),
        }
        Ok(())
    }

    /// Uid, version and newest instant, or a remark that says which is missing.
    fn identity(
        &mut self,
        kind: &str,
        meta: &ObjectMeta,
        place: Place<'_>,
    ) -> Option<(Uid, u64, Timestamp)> {
        let missing = match (&*meta.uid, meta.resource_version.parse(), meta.newest_api_time()) {
            ("", _, _) => "uid",
            (_, Err(_), _) => "resourceVersion (a whole number)",
            (_, _, None) => "creationTimestamp",
            (uid, Ok(version), Some(time)) => {
                self.observe_time(version, time);
                self.keeps_status_writes |=
                    meta.managed_fields.iter().any(|f| !f.subresource.is_empty());
                return Some((Uid::of(uid), version, time));
            }
        };
        let (namespace, name) = (&meta.namespace, &meta.name);
        let text = format!(
            "{kind} {namespace}/{name} has no metadata.{missing}; record it from the API server"
        );
        self.quarantine(place, &text);
        None
    }

    fn take_object(&mut self, object: &kinds::Object, place: Place<'_>) {
        let meta = &object.metadata;
        let kind = if object.kind.is_empty() { "object" } else { &object.kind };
        let Some((uid, version, time)) = self.identity(kind, meta, place) else { return };
        let declared = Arc::new(self.shared.declared(meta));
        let version = Version { version, time, learned: None, declared };
        let shared = &mut self.shared;
        let grown = if object.kind == "Namespace" {
            self.owners.see_namespace(shared.text(&meta.name), version)
        } else {
            let (kind, namespace, name) =
                (shared.text(&object.kind), shared.text(&meta.namespace), shared.text(&meta.name));
            let object = || Object { kind, namespace, name, timeline: Timeline::default() };
            self.owners.see(uid, object, version)
        };
        if grown {
            self.shared.count(
                size_of::<Object>().saturating_add(size_of::<Version>()).saturating_add(128),
            );
        }
    }

    fn take_pod(&mut self, pod: &Pod, deleted: bool, place: Place<'_>) {
        let meta = &pod.metadata;
        let Some((_, version, time)) = self.identity("Pod", meta, place) else { return };
        let mut sighting = match Sighting::of(pod, version) {
            Ok(sighting) => sighting,
            Err(error) => {
                let text = format!("Pod {}/{}: {error}", meta.namespace, meta.name);
                return self.quarantine(place, &text);
            }
        };
        self.shared.share(&mut sighting);
        self.observe_node_times(&sighting);
        let declared = Arc::new(self.shared.declared(meta));
        let node = Arc::clone(&sighting.state.node);
        // Mirror pods of one file on several nodes may share a uid.
        let mirrored = meta.annotations.contains_key(MIRROR);
        let uid = if mirrored { format!("{}@{node}", meta.uid) } else { meta.uid.clone() };
        let shared = &mut self.shared;
        let kept = self.pods.entry(Uid::of(&uid)).or_insert_with(|| {
            shared.count(size_of::<Kept>().saturating_add(uid.len()).saturating_add(64));
            Kept {
                uid: uid.into(),
                namespace: shared.text(&meta.namespace),
                name: shared.text(&meta.name),
                node: Arc::clone(&node),
                declared: Timeline::default(),
                history: History::default(),
            }
        });
        if kept.node.is_empty() {
            kept.node = Arc::clone(&node);
        }
        let (other, before) =
            (kept.node != node && !node.is_empty(), kept.history.sightings().len());
        if other {
            let text = format!(
                "Pod {}/{} is on node {node}, but was on {}; its uid stands for one node only",
                meta.namespace, meta.name, kept.node
            );
            return self.quarantine(place, &text);
        }
        let declared = Version { version, time, learned: None, declared };
        let grown = kept.declared.see(declared);
        if deleted {
            kept.history.see_deleted(sighting)
        } else {
            kept.history.see(sighting)
        }
        let more = kept.history.sightings().len().saturating_sub(before);
        let state = size_of::<Sighting>().saturating_add(size_of::<State>()).saturating_add(32);
        self.shared.count(more.saturating_mul(state));
        if grown {
            self.shared.count(size_of::<Version>().saturating_add(size_of::<Declared>()));
        }
    }

    /// Notes an instant of the API server's clock.
    fn observe_time(&mut self, version: u64, time: Timestamp) {
        self.newest = self.newest.max(Some(time));
        match self.api_times.last_mut() {
            Some((last, same)) if *same == time && *last <= version => *last = version,
            _ => {
                self.api_times.push((version, time));
                self.shared.count(size_of::<(u64, Timestamp)>());
            }
        }
    }

    /// Notes the instants of the node's clock: a recording ends after all that is in it.
    fn observe_node_times(&mut self, sighting: &Sighting) {
        let state = &sighting.state;
        let finished = match state.containers {
            super::pods::Containers::Ended(finished) => finished,
            _ => None,
        };
        let start = state.start.map(|(time, _)| time);
        self.newest = self.newest.max(state.first_started).max(finished).max(start);
    }

    fn quarantine(&mut self, place: Place<'_>, text: &str) {
        self.quarantined = self.quarantined.saturating_add(1);
        self.note(place, text);
    }

    fn note(&mut self, place: Place<'_>, text: &str) {
        if self.notes.len() < MAX_NOTES {
            let text = text.chars().take(500).collect();
            self.notes.push(Note { file: place.file.to_owned(), line: place.line, text });
        }
    }
}
