//! Facts on their way to the log: a bounded queue, one batch after another. While the log is away they wait, and so
//! does whoever watches; nothing is lost, and nothing is appended by who no longer leads.

use crate::{
    domain::event::{Event, EventId, Position},
    event_log::{AppendError, EventLog, NewEvent},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep,
};

/// Facts that wait at most: some ten megabytes.
const WAITING: usize = 16_384;
/// Facts of one append.
const BATCH: usize = 512;
/// So long a fact waits for others: each append is a synchronisation of the disk, and changes come in crowds.
const GATHER: Duration = Duration::from_millis(5);
/// The first pause after a failure; each further one is twice as long, up to five seconds.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Where facts are given. Clones are the same.
#[derive(Clone)]
pub(super) struct Feed(mpsc::Sender<Entry>);

/// What puts them on the log; see [`Appender::run`].
pub(super) struct Appender<L> {
    log: Arc<L>,
    queue: mpsc::Receiver<Entry>,
    leads: watch::Receiver<bool>,
    notice: Arc<dyn Fn(&str) + Send + Sync>,
}

enum Entry {
    Fact(NewEvent),
    /// Tell where the last one stands, once those before are there.
    Flush(oneshot::Sender<Position>),
}

/// Nothing is appended any more.
#[derive(Debug)]
pub(super) struct Ended;

/// A feed of `log`, as long as `leads` says so.
pub(super) fn feed<L: EventLog>(
    log: Arc<L>,
    leads: watch::Receiver<bool>,
    notice: Arc<dyn Fn(&str) + Send + Sync>,
) -> (Feed, Appender<L>) {
    let (entries, queue) = mpsc::channel(WAITING);
    (Feed(entries), Appender { log, queue, leads, notice })
}

impl Feed {
    /// Gives a fact; waits while the queue is full. One that cannot be written is returned as what is wrong with it.
    pub(super) async fn push(&self, event: &Event<'_>) -> Result<Result<(), String>, Ended> {
        let new = match event.id == EventId::default() {
            true => NewEvent::note(event),
            false => NewEvent::new(event),
        };
        match new {
            Ok(new) => self.0.send(Entry::Fact(new)).await.map(Ok).map_err(|_| Ended),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// Waits until everything that was given is on the log; says where the last of it stands.
    pub(super) async fn flush(&self) -> Result<Position, Ended> {
        let (reply, told) = oneshot::channel();
        self.0.send(Entry::Flush(reply)).await.map_err(|_| Ended)?;
        told.await.map_err(|_| Ended)
    }

    /// How many facts wait.
    pub(super) fn len(&self) -> usize {
        self.0.max_capacity().saturating_sub(self.0.capacity())
    }
}

impl<L: EventLog> Appender<L> {
    /// Appends what is given until nobody gives any more, or this process no longer leads.
    pub(super) async fn run(mut self) {
        let (mut last, mut entries) = (0, Vec::new());
        while self.queue.recv_many(&mut entries, BATCH).await > 0 {
            self.gather(&mut entries).await;
            let mut batch = Vec::with_capacity(entries.len());
            for entry in entries.drain(..) {
                match entry {
                    Entry::Fact(fact) => batch.push(fact),
                    Entry::Flush(reply) => {
                        let Ok(position) = self.append(&mut batch, last).await else { return };
                        last = position;
                        // Who asked may be gone.
                        let _ = reply.send(last);
                    }
                }
            }
            let Ok(position) = self.append(&mut batch, last).await else { return };
            last = position;
        }
    }

    /// Takes what else is given within a moment, unless somebody waits.
    async fn gather(&mut self, entries: &mut Vec<Entry>) {
        let is_awaited = entries.iter().any(|entry| matches!(entry, Entry::Flush(_)));
        if entries.len() < BATCH && !is_awaited {
            sleep(GATHER).await;
            while entries.len() < BATCH
                && let Ok(entry) = self.queue.try_recv()
            {
                entries.push(entry);
            }
        }
    }

    /// Appends a batch, however long that takes: facts may stand twice in a log.
    async fn append(&self, batch: &mut Vec<NewEvent>, last: Position) -> Result<Position, Ended> {
        let facts = std::mem::take(batch);
        if facts.is_empty() {
            return Ok(last);
        }
        let (mut pause, mut leads) = (PAUSE, self.leads.clone());
        loop {
            if !*leads.borrow_and_update() {
                return Err(Ended);
            }
            match self.log.append(facts.clone()).await {
                Ok(appended) => return Ok(appended.last),
                Err(error) => self.say(&error, facts.len()),
            }
            tokio::select! {
                () = sleep(pause) => {}
                _ = leads.wait_for(|leads| !leads) => return Err(Ended),
            }
            pause = LONGEST_PAUSE.min(pause.saturating_mul(2));
        }
    }

    fn say(&self, error: &AppendError, facts: usize) {
        (self.notice)(&format!("{facts} facts wait for the log: {error}"));
    }
}
