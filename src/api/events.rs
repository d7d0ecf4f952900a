//! `/v1/events`: the log's records as they come, as server-sent events; an event's id is its position.
//!
//! ```text
//!  log ──reader of its own──▶ task ──128 KiB──▶ connection
//! ```
//!
//! Who was away asks with `Last-Event-ID` and gets what follows, each record once. Who does not read for 30 s is
//! dropped, with the reason as the last event; nobody waits for anybody else. Who sees some groups only gets the events
//! of these, once the ledger has applied them, and is asked every minute whether that is still so.

pub(super) mod tenant;

use super::{
    Api, Seen, Shared,
    access::{Asker, Sees},
    problem::Problem,
    view::View,
};
use crate::{
    domain::{event::Position, merkle::LeafHasher},
    event_log::{
        AnyLog, EventLog, NewEvent, Reader, Records,
        codec::{Decoded, Decoder},
        records::Raw,
    },
};
use axum::{
    Extension,
    extract::{Query, State, rejection::QueryRejection},
    http::HeaderMap,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use serde::Deserialize;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, timeout},
};

/// Streams at once.
pub(super) const LISTENERS: usize = 1024;
/// Events that wait for one client, and bytes of them: 1,024 clients that take nothing have 128 MiB.
const WAITING: usize = 64;
const ROOM: u32 = 128 << 10;
/// Clients that have records in hand at once, a MiB each; the others wait for a turn.
pub(super) const READERS: usize = 64;
/// So long a turn lasts.
const TURN: Duration = Duration::from_secs(1);
/// A client that takes nothing for so long is slow …
const SOON: Duration = Duration::from_millis(100);
/// … and one that does not take half of what waits in this time is dropped.
const PATIENCE: Duration = Duration::from_secs(30);
/// Records that are looked at without letting the fold in between.
const AT_ONCE: usize = 64;
/// How long it holds what somebody may see.
const HOLDS: Duration = Duration::from_secs(60);
/// How far back `last` goes.
const MOST: u64 = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// From this position on.
    from: Option<Position>,
    /// The last so many, and what comes.
    last: Option<u64>,
}

pub(super) async fn events(
    State(api): Shared,
    Extension(asker): Extension<Asker>,
    Extension(sees): Seen,
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(asked) = asked?;
    let from = asked.begin(&headers, &api.source.log).await?;
    let place = Arc::clone(&api.listeners).try_acquire_owned().map_err(|_| Problem::busy())?;
    let (told, heard) = mpsc::channel(WAITING);
    let queue = Queue { told, room: Arc::new(Semaphore::new(ROOM as usize)) };
    tokio::spawn(tell(Client { api, asker, sees, queue }, from, place));
    let events = stream::unfold(heard, async |mut heard| {
        let (event, _room) = heard.recv().await?;
        Some((Ok::<_, Infallible>(event), heard))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

impl Asked {
    /// The first position to tell.
    async fn begin(&self, headers: &HeaderMap, log: &AnyLog) -> Result<Position, Problem> {
        if let Some(last) = headers.get("last-event-id") {
            let text = last.to_str().unwrap_or("?");
            let wrong = |_| Problem::wrong("Last-Event-ID", text, "is no position");
            return Ok(text.parse::<Position>().map_err(wrong)?.saturating_add(1));
        }
        let head = log.head().await.map_err(|why| Problem::internal(&why))?.position;
        match (self.from, self.last) {
            (Some(_), Some(last)) => {
                Err(Problem::wrong("last", &last.to_string(), "cannot stand beside from"))
            }
            (None, Some(last)) if last > MOST => {
                Err(Problem::wrong("last", &last.to_string(), "is more than 1000; give from"))
            }
            (Some(0), None) => Err(Problem::wrong("from", "0", "is no position; the first is 1")),
            (Some(from), None) => Ok(from),
            (None, last) => Ok(head.saturating_sub(last.unwrap_or(0)).saturating_add(1)),
        }
    }
}

/// Somebody who listens.
struct Client {
    api: Api,
    asker: Asker,
    sees: Sees,
    queue: Queue,
}

/// What waits for one client: so many bytes, or one event.
struct Queue {
    told: mpsc::Sender<Told>,
    room: Arc<Semaphore>,
}

/// An event, and the room that it takes until the connection has it.
type Told = (Event, Option<OwnedSemaphorePermit>);

/// Why records are not read on.
enum Stop {
    /// The client takes nothing at the moment; the event at this position is the next.
    Slow(Position),
    /// Nothing more is told, and why.
    Ended(String),
}

/// Tells one client until it goes, the process ends, it may not listen any more, or the log cannot be read.
async fn tell(client: Client, from: Position, _place: OwnedSemaphorePermit) {
    // There is always room for the last word.
    let Ok(last) = client.queue.told.clone().reserve_owned().await else { return };
    let mut ending = client.api.ending.clone();
    let why = tokio::select! {
        why = client.tell_all(from) => why,
        why = client.hold() => why,
        () = client.queue.told.closed() => return,
        _ = ending.wait_for(|ends| *ends) => "the server ends; come again".to_owned(),
    };
    // A client that took nothing for so long reads it when it wakes up.
    last.send((Event::default().event("end").data(why), None));
}

impl Queue {
    /// Waits for room, and puts an event there.
    async fn put(&self, event: Event, bytes: usize) {
        let room = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, ROOM);
        let room = Arc::clone(&self.room).acquire_many_owned(room).await.ok();
        // A client that is gone is noticed elsewhere.
        let _ = self.told.send((event, room)).await;
    }

    /// Whether half of what waits is taken in time.
    async fn drains(&self) -> bool {
        let half = async {
            let _events = self.told.reserve_many(WAITING / 2).await;
            let _bytes = self.room.acquire_many(ROOM / 2).await;
        };
        timeout(PATIENCE, half).await.is_ok()
    }
}

impl Client {
    /// Gives why nothing more is told.
    async fn tell_all(&self, mut from: Position) -> String {
        loop {
            // A client that is slow has its queue and nothing else: records are read again when it goes on.
            match self.tell_from(from).await {
                Stop::Slow(at) => from = at,
                Stop::Ended(why) => return why,
            }
            if !self.queue.drains().await {
                let seconds = PATIENCE.as_secs();
                return format!(
                    "dropped: half of what waited was not taken in {seconds} s; go on from your last"
                );
            }
        }
    }

    async fn tell_from(&self, from: Position) -> Stop {
        let mut reader = match self.api.source.log.read(from) {
            Ok(reader) => reader,
            Err(why) => return Stop::Ended(why.to_string()),
        };
        let (mut hasher, mut decoder) = (LeafHasher::default(), Decoder::default());
        loop {
            // Who has records in hand is one of so many; who waits for some is not.
            let mut reads = self.api.readers.acquire().await.ok();
            let records = match reader.next().await {
                Ok(None) => {
                    drop(reads.take());
                    let records = reader.tail().await;
                    reads = self.api.readers.acquire().await.ok();
                    records
                }
                Ok(Some(records)) => Ok(records),
                Err(why) => Err(why),
            };
            let _reads = reads;
            let records = match records {
                Ok(records) => records,
                Err(why) => return Stop::Ended(why.to_string()),
            };
            let told = match self.sees == Sees::default() {
                true => self.tell_each(sent(&records, &mut hasher)).await,
                false => self.tell_shown(&records, &mut decoder).await,
            };
            if let Err(stop) = told {
                return stop;
            }
        }
    }

    async fn tell_each(&self, events: impl Iterator<Item = Line>) -> Result<(), Stop> {
        let began = Instant::now();
        for Line { position, event, bytes } in events {
            if began.elapsed() > TURN {
                return Err(Stop::Slow(position));
            }
            let put = timeout(SOON, self.queue.put(event, bytes)).await;
            put.map_err(|_| Stop::Slow(position))?;
        }
        Ok(())
    }

    /// Tells what is shown of some records.
    async fn tell_shown(&self, records: &Records, decoder: &mut Decoder) -> Result<(), Stop> {
        let ended = |why: &dyn ToString| Stop::Ended(why.to_string());
        let mut projection = self.api.source.projection.clone();
        if let Some((last, _)) = records.last() {
            projection.wait_for(last).await.map_err(|why| ended(&why))?;
        }
        let mut records = records.iter().peekable();
        while records.peek().is_some() {
            let lines: Vec<_> = {
                let ledger = projection.ledger();
                let view = View::new(&ledger, &self.sees).map_err(|why| ended(&why))?;
                let shown = |(position, raw): (Position, Raw<'_>)| {
                    let scanned = raw.scan().ok()?;
                    let Ok(Decoded::Event(event)) = decoder.decode(&scanned) else { return None };
                    Some(Line::of(position, &tenant::shown(&view, &event)?))
                };
                records.by_ref().take(AT_ONCE).filter_map(shown).collect()
            };
            self.tell_each(lines.into_iter()).await?;
        }
        Ok(())
    }

    /// Waits until what the client may see is not what it was, and says so.
    async fn hold(&self) -> String {
        loop {
            tokio::time::sleep(HOLDS).await;
            match self.api.source.access.sees(&self.asker).await {
                Ok(sees) if sees == self.sees => {}
                // Who knows them is away: that takes nothing from them.
                Err(problem) if !problem.is_denial() => {}
                Ok(_) => return "what you may see has changed; come again".to_owned(),
                Err(problem) => return problem.to_string(),
            }
        }
    }
}

/// An event on its way, and how long its text is.
struct Line {
    position: Position,
    event: Event,
    bytes: usize,
}

impl Line {
    fn of(position: Position, text: &str) -> Self {
        let event = Event::default().id(position.to_string()).data(text);
        Self { position, event, bytes: text.len() }
    }
}

/// Records as `bizrq log tail -o lines` prints them; one that is no event is named and not shown.
fn sent<'r>(
    records: &'r Records,
    hasher: &'r mut LeafHasher,
) -> impl Iterator<Item = Line> + use<'r> {
    records.iter().map(|(position, raw)| {
        let mut line = Vec::new();
        let copied = raw
            .scan()
            .map_err(|why| why.to_string())
            .and_then(|scanned| NewEvent::copied(&scanned).map_err(|why| why.to_string()));
        match copied {
            Ok(event) => {
                event.write_line(position, hasher, &mut line);
                Line::of(position, String::from_utf8_lossy(&line).trim_end())
            }
            Err(why) => {
                let Line { event, bytes, .. } = Line::of(position, &why);
                Line { position, event: event.event("undecodable"), bytes }
            }
        }
    })
}
