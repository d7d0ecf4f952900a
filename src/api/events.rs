//! `/v1/events`: the log's records as they come, as server-sent events; an event's id is its position.
//!
//! ```text
//!  log ──reader of its own──▶ task ──16 events──▶ connection
//! ```
//!
//! Who was away asks with `Last-Event-ID` and gets what follows, each record once. Who does not read for 30 s is
//! dropped, with the reason as the last event; nobody waits for anybody else.

use super::{Api, Shared, problem::Problem};
use crate::{
    domain::{event::Position, merkle::LeafHasher},
    event_log::{AnyLog, EventLog, NewEvent, Reader, Records},
};
use axum::{
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
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Streams at once.
pub(super) const LISTENERS: usize = 1024;
/// Events that wait for one client.
const WAITING: usize = 16;
/// How long a client may take none.
const PATIENCE: Duration = Duration::from_secs(30);
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
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(asked) = asked?;
    let from = asked.begin(&headers, &api.source.log).await?;
    let place = Arc::clone(&api.listeners).try_acquire_owned().map_err(|_| Problem::busy())?;
    let (told, heard) = mpsc::channel(WAITING);
    tokio::spawn(tell(api, from, told, place));
    let events = stream::unfold(heard, async |mut heard| {
        let event = heard.recv().await?;
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

/// Tells one client until it goes, the process ends, or the log cannot be read.
async fn tell(api: Api, from: Position, told: mpsc::Sender<Event>, _place: OwnedSemaphorePermit) {
    let (log, mut ending) = (Arc::clone(&api.source.log), api.ending.clone());
    let (all, gone) = (tell_all(&log, from, &told), told.closed());
    let why = tokio::select! {
        why = all => why,
        () = gone => return,
        _ = ending.wait_for(|ends| *ends) => "the server ends; come again".to_owned(),
    };
    let last = Event::default().event("end").data(why);
    // A client that took nothing for so long may read its last event when it wakes up.
    let _ = told.send_timeout(last, PATIENCE).await;
}

/// Gives why nothing more is told.
async fn tell_all(log: &AnyLog, from: Position, told: &mpsc::Sender<Event>) -> String {
    let mut reader = match log.read(from) {
        Ok(reader) => reader,
        Err(why) => return why.to_string(),
    };
    let mut hasher = LeafHasher::default();
    loop {
        let records = match reader.tail().await {
            Ok(records) => records,
            Err(why) => return why.to_string(),
        };
        for event in sent(&records, &mut hasher) {
            if told.send_timeout(event, PATIENCE).await.is_err() {
                let seconds = PATIENCE.as_secs();
                return format!(
                    "dropped: no event was taken for {seconds} s; go on from your last"
                );
            }
        }
    }
}

/// Records as `bizrq log tail -o lines` prints them; one that is no event is named and not shown.
fn sent<'r>(
    records: &'r Records,
    hasher: &'r mut LeafHasher,
) -> impl Iterator<Item = Event> + use<'r> {
    records.iter().map(|(position, raw)| {
        let mut line = Vec::new();
        let copied = raw
            .scan()
            .map_err(|why| why.to_string())
            .and_then(|scanned| NewEvent::copied(&scanned).map_err(|why| why.to_string()));
        let told = Event::default().id(position.to_string());
        match copied {
            Ok(event) => {
                event.write_line(position, hasher, &mut line);
                told.data(String::from_utf8_lossy(&line).trim_end())
            }
            Err(why) => told.event("undecodable").data(why),
        }
    })
}
