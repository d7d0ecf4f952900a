//! The kinds of one cluster that are watched at present: a task each, what they tell in one queue, and what is there
//! by what they told.

use super::{
    inventory::{Inventory, Named},
    objects::{Object, Topic},
    server::{Failure, Server},
    sweeper,
    view::Complete,
    watch::{Update, Watcher},
};
use crate::domain::time::Timestamp;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinSet,
    time::Instant,
};

/// Updates that wait; each is at most a page of objects.
const WAITING: usize = 16;
/// A kind that could not be listed for so long is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the head of this file.
pub(super) struct Watching {
    kinds: Vec<Watched>,
    updates: mpsc::Receiver<(usize, Update<Object>)>,
    began: Instant,
    /// End with this.
    _tasks: JoinSet<()>,
}

/// A kind that is watched.
pub(super) struct Watched {
    /// Which.
    pub(super) topic: Topic,
    /// What of it is there.
    pub(super) inventory: Inventory,
    /// Why it does not work, if it does not.
    failure: Option<Failure>,
    relist: Arc<Notify>,
    /// Up to which version everything was passed on, and how many objects there are.
    reached: watch::Sender<u64>,
    count: watch::Sender<usize>,
}

impl Watching {
    /// Watches `topics`, beginning with a list of each. `before` was watched before: what vanishes between is found.
    pub(super) fn begin(
        server: &Server,
        topics: Vec<Topic>,
        now: &Arc<dyn Fn() -> Timestamp + Send + Sync>,
        before: Vec<Watched>,
    ) -> Self {
        let (out, updates) = mpsc::channel(WAITING);
        let mut before: BTreeMap<_, _> =
            before.into_iter().map(|watched| (watched.topic.key(), watched.inventory)).collect();
        let mut tasks = JoinSet::new();
        let kinds = (0..).zip(topics).map(|(number, topic)| {
            let mut inventory = before.remove(&topic.key()).unwrap_or_default();
            inventory.restart();
            let (reads, relist) = (topic.clone(), Arc::new(Notify::new()));
            let watcher = Watcher {
                server: server.clone(),
                resource: topic.resource(),
                read: move |path: &str, text: &str| reads.read(path, text),
                now: Arc::clone(now),
                number,
                out: out.clone(),
                relist: Arc::clone(&relist),
                // Of a quota only what it says now counts, and no list takes it back.
                past: !matches!(topic, Topic::Quotas),
            };
            tasks.spawn(watcher.run());
            let (reached, count) = (watch::Sender::new(0), watch::Sender::new(0));
            Watched { topic, inventory, failure: None, relist, reached, count }
        });
        let kinds = kinds.collect();
        Self { kinds, updates, began: Instant::now(), _tasks: tasks }
    }

    /// What is told next, of which kind; and what is gone by it, of a list.
    pub(super) async fn next(&mut self) -> Option<(usize, Update<Object>, Vec<Named>)> {
        let (number, update) = self.updates.recv().await?;
        let kind = self.kinds.get_mut(number)?;
        let inventory = &mut kind.inventory;
        let mut gone = Vec::new();
        match &update {
            Update::Begins(_) => inventory.begins(),
            Update::Objects(objects) => {
                for sent in objects {
                    match &sent.object {
                        Ok(object) if sent.deleted => inventory.loses(object),
                        Ok(object) => inventory.sees(object),
                        Err(_) => {}
                    }
                }
            }
            Update::Listed { version, .. } => gone = inventory.listed(*version),
            Update::Reached(version) => inventory.reached(*version),
            Update::Failed(_) => {}
        }
        kind.failure = match &update {
            Update::Failed(failure) => Some(failure.clone()),
            _ => None,
        };
        Some((number, update, gone))
    }

    /// What was told so far was passed on.
    pub(super) fn passed(&self) {
        for kind in &self.kinds {
            let Some(version) = kind.inventory.version() else { continue };
            kind.count.send_if_modified(|count| {
                std::mem::replace(count, kind.inventory.len()) != kind.inventory.len()
            });
            kind.reached.send_if_modified(|reached| std::mem::replace(reached, version) != version);
        }
    }

    /// The kinds that were listed, and up to which version each was told.
    pub(super) fn versions(&self) -> impl Iterator<Item = (&Topic, u64)> {
        self.kinds.iter().filter_map(|kind| Some((&kind.topic, kind.inventory.version()?)))
    }

    /// The kinds, as far as the sweeper looks at them.
    pub(super) fn swept(&self) -> Vec<sweeper::Kind> {
        let kind = |kind: &Watched| sweeper::Kind {
            topic: kind.topic.clone(),
            resource: kind.topic.resource(),
            relist: Arc::clone(&kind.relist),
            reached: kind.reached.subscribe(),
            count: kind.count.subscribe(),
        };
        self.kinds.iter().map(kind).collect()
    }

    /// What was listed to its end: pods, objects of declared kinds, quotas.
    pub(super) fn complete(&self) -> Complete {
        let listed = |is: &dyn Fn(&Topic) -> bool| {
            let mut kinds = self.kinds.iter().filter(|kind| is(&kind.topic));
            kinds.all(|kind| {
                kind.inventory.version().is_some() || kind.failure == Some(Failure::NotServed)
            })
        };
        let pods = listed(&|topic| matches!(topic, Topic::Pods));
        Complete {
            pods,
            // Pods without owners are workloads, too.
            workloads: pods && listed(&|topic| matches!(topic, Topic::Kind(_))),
            quotas: self.kinds.iter().any(|kind| {
                matches!(kind.topic, Topic::Quotas) && kind.inventory.version().is_some()
            }),
        }
    }

    /// The kind of this number.
    pub(super) fn kind(&self, number: usize) -> Option<&Watched> {
        self.kinds.get(number)
    }

    /// Whether everything that is there was told: each kind was listed, is not served there, or has had its time.
    pub(super) fn is_synced(&self) -> bool {
        let late = self.began.elapsed() > PATIENCE;
        self.kinds.iter().all(|kind| match &kind.failure {
            _ if kind.inventory.version().is_some() => true,
            Some(Failure::NotServed) => true,
            // A list that takes its time is waited for.
            Some(_) => late,
            None => false,
        })
    }

    /// The kinds that do not work, and why; those that are not served there are none of them.
    pub(super) fn failing(&self) -> BTreeMap<String, Failure> {
        let failing = self.kinds.iter().filter_map(|kind| {
            let failure = kind.failure.clone().filter(|failure| *failure != Failure::NotServed)?;
            Some((kind.topic.name(), failure))
        });
        failing.collect()
    }

    /// Ends watching.
    pub(super) fn end(self) -> Vec<Watched> {
        self.kinds
    }
}
