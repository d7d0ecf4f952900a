//! Where one stream ends and the next begins, and how whoever reads or writes finds the one that holds a position.
//!
//! ```text
//!  BIZRQ    1 … n, sealed, subjects renamed to bizrq.sealed.BIZRQ
//!    ▲ previous
//!  BIZRQ-2  n+1: log.opened {base n, root, frontier, previous} …     has the subjects: found by them
//! ```
//!
//! A stream that continues another is no log before its first record is there; until then it is waited for. Nobody
//! but us writes to it before: every append names the stream that its writer has seen open.

use super::{
    OpenError, Options, StreamError,
    append::Appender,
    connect::STREAM,
    reader::JetStreamReader,
    state::{self, DECISIONS, Shared},
    stream::{self, Use},
};
use crate::{
    domain::{
        event::{Data, Position},
        merkle::Frontier,
    },
    event_log::{
        NewEvent, Reader,
        chain::Chain,
        codec::{Decoded, EncodeError, decode},
        records::Records,
    },
};
use async_nats::jetstream::response::Response;
use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

/// The streams of one log, by the one that takes records.
pub(super) struct Streams {
    /// A plain lock: held to copy a pointer, never across an await.
    current: RwLock<Arc<Shared>>,
}

/// What a roll-over did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rolled {
    /// The stream that ended.
    pub sealed: String,
    /// All its records, and those before.
    pub tree: Frontier,
}

/// Subjects of streams that were ended: nobody publishes to them.
const SEALED: &str = "bizrq.sealed";
/// How often one looks for a stream that is being opened.
const RETRY: Duration = Duration::from_millis(50);
/// Streams of one log: one a day for some years.
const MOST_ROLLED: usize = 1_000;

impl Streams {
    pub(super) fn new(current: Shared) -> Self {
        Self { current: RwLock::new(Arc::new(current)) }
    }

    /// The streams of the log that the options name; `make` makes the first one.
    pub(super) async fn open(options: Options, make: bool) -> Result<Self, OpenError> {
        let first = Shared::connect(options).await?;
        first.settle().await?;
        let state = match first.end().await {
            Ok(_) => Some(first.is_sealed()),
            Err(StreamError::Gone { .. }) => None,
            // Whether it is safe says more than that its records are not all there.
            Err(error @ StreamError::Away { .. }) => return Err(error.into()),
            Err(_) => Some(false),
        };
        if state == Some(false) {
            stream::check(&first, Use::Append).await?;
        } else if let Some(next) = open_one(&first).await? {
            stream::check(&next, Use::Append).await?;
            return Ok(Self::new(next));
        } else if make && (state.is_some() || !sealed(&first).await?.is_empty()) {
            return Err(unfinished(&first).into());
        } else if state.is_none() {
            match make {
                true => stream::create_or_check(&first).await?,
                false => return Err(OpenError::Absent { log: first.name }),
            }
        }
        first.base().await?;
        Ok(Self::new(first))
    }

    /// The stream that took records when it was last looked for.
    pub(super) fn current(&self) -> Arc<Shared> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Goes on to the stream that takes records now, if the one that did was ended and the next is open.
    pub(super) async fn look(&self) -> Result<Arc<Shared>, StreamError> {
        let current = self.current();
        if current.is_sealed()
            && let Some(next) = open_one(&current).await?
        {
            let next = Arc::new(next);
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&next);
            return Ok(next);
        }
        Ok(current)
    }

    /// The stream that takes records, for a writer that `left` turned away: another one, once it is open, or the same
    /// if it was not ended.
    pub(super) async fn follow(&self, left: &Arc<Shared>) -> Result<Arc<Shared>, StreamError> {
        let looking = async {
            loop {
                if let Some(found) = self.turned_away(left).await? {
                    return Ok(found);
                }
                sleep(RETRY).await;
            }
        };
        let found = timeout(left.options.deadline, looking).await;
        found.unwrap_or_else(|_| Err(unfinished(left)))
    }

    /// The stream to write to after `left`; `None` while the next one is not open.
    async fn turned_away(&self, left: &Arc<Shared>) -> Result<Option<Arc<Shared>>, StreamError> {
        // Asking where it ends tells whether it was ended.
        match left.end().await {
            Ok(_) | Err(StreamError::Gone { .. }) => {}
            Err(error) => return Err(error),
        }
        let found = self.look().await?;
        Ok(Some(found).filter(|found| !Arc::ptr_eq(found, left) || !left.is_sealed()))
    }

    /// The stream that holds the record at `position`, or will.
    pub(super) async fn holding(&self, position: Position) -> Result<Arc<Shared>, StreamError> {
        let mut stream = self.look().await?;
        loop {
            let base = stream.base().await?;
            if position > base {
                return Ok(stream);
            }
            let Some(before) = before(&stream).await? else {
                let log = stream.name.clone();
                return Err(StreamError::Missing { log, from: position, to: base });
            };
            stream = Arc::new(before);
        }
    }

    /// The stream that the current one continues, if the server still has it.
    pub(super) async fn before(&self) -> Result<Option<String>, StreamError> {
        Ok(before(&*self.look().await?).await?.map(|before| before.options.stream))
    }

    /// The tree before the first record that any of the streams has.
    pub(super) async fn beginning(&self) -> Result<Frontier, StreamError> {
        let mut stream = self.look().await?;
        while let Some(before) = before(&stream).await? {
            stream = Arc::new(before);
        }
        stream.beginning().await
    }
}

/// Ends the log's stream for ever and begins the next, named `next`, with the record that `opening` makes of the tree
/// and the name of the stream that ended. Begun before and interrupted, it is finished.
pub(super) async fn roll(
    options: Options,
    next: &str,
    opening: impl FnOnce(&Frontier, &str) -> Result<NewEvent, EncodeError>,
) -> Result<Rolled, OpenError> {
    let first = Shared::connect(options).await?;
    let next = first.beside(next);
    let by_subject = names(&first, DECISIONS).await?.pop().map(|name| first.beside(&name));
    if let Some(rolled) = already(&next).await? {
        return Ok(rolled);
    }
    let old = match by_subject {
        Some(current) if current.options.stream != next.options.stream => current,
        _ => last_sealed(&first).await?.ok_or(OpenError::Absent { log: first.name })?,
    };
    let tree = seal(Arc::new(old.beside(&old.options.stream)), &next).await?;
    every_copy_follows(&old).await?;
    stream::create_next(&next, &old).await?;
    let sealed = old.options.stream;
    let event = opening(&tree, &sealed).map_err(|error| StreamError::Malformed {
        log: next.name.clone(),
        why: error.to_string(),
    })?;
    let first = tree.position().saturating_add(1);
    let next = Arc::new(next);
    let appended = Appender::new(Arc::clone(&next)).append_first(event).await;
    // Whoever opened it, it must continue this tree.
    match next.beginning().await? {
        begun if begun == tree => Ok(Rolled { sealed, tree }),
        _ => {
            let why = match appended {
                Err(error) => error.to_string(),
                Ok(()) => format!("its record {first} continues another log"),
            };
            Err(StreamError::Malformed { log: next.name.clone(), why }.into())
        }
    }
}

/// What a roll-over to `next` did, if it was finished.
async fn already(next: &Shared) -> Result<Option<Rolled>, OpenError> {
    let (tree, previous) = match (next.beginning().await, previous(next).await) {
        (Ok(tree), Ok(Some(previous))) => (tree, previous),
        (Err(StreamError::Gone { .. }), _) | (Ok(_), Ok(None)) => return Ok(None),
        (Err(error), _) | (_, Err(error)) => return Err(error.into()),
    };
    Ok(Some(Rolled { sealed: previous, tree }))
}

/// Computes the tree, then ends the stream, then reads what came meanwhile: writers wait for the next one as shortly
/// as possible.
async fn seal(old: Arc<Shared>, next: &Shared) -> Result<Frontier, OpenError> {
    let streams = Arc::new(Streams { current: RwLock::new(Arc::clone(&old)) });
    let mut chain = Chain::resume(old.beginning().await?);
    let mut reader = JetStreamReader::new(streams, chain.tree().position().saturating_add(1));
    read(&mut reader, &mut chain).await?;
    if chain.tree().position() == 0 {
        let why = "it is empty: there is nothing to end".to_owned();
        return Err(StreamError::Malformed { log: old.name.clone(), why }.into());
    }
    if !old.is_sealed() {
        every_copy_follows(&old).await?;
        stream::must_be_free(next).await?;
        stream::seal(&old, &format!("{SEALED}.{}", old.options.stream)).await?;
    }
    read(&mut reader, &mut chain).await?;
    Ok(chain.tree().clone())
}

/// Waits until every copy of a stream follows its leader. A member of a cluster that comes back and has not heard that
/// the old stream left its subjects refuses the next one, and the leader then discards that one with all its records
/// (seen of 2.15: "Stream assignment rejected by assigned member: subjects overlap").
async fn every_copy_follows(stream: &Shared) -> Result<(), StreamError> {
    let begun = Instant::now();
    loop {
        let copies =
            stream.info().await?.cluster.map(|cluster| cluster.replicas).unwrap_or_default();
        let Some(away) = copies.iter().find(|copy| copy.offline || !copy.current) else {
            return Ok(());
        };
        if begun.elapsed() >= stream.options.deadline {
            return Err(stream.away_because(&format!(
                "its copy on {} does not follow, and could discard the next log when it comes back; roll over when \
                 every copy follows (`nats stream info`)",
                away.name
            )));
        }
        sleep(RETRY).await;
    }
}

async fn read(reader: &mut JetStreamReader, chain: &mut Chain) -> Result<(), OpenError> {
    let failed = |error: crate::event_log::ReadError| match error {
        crate::event_log::ReadError::Stream(error) => OpenError::Stream(error),
        other => StreamError::Malformed { log: String::new(), why: other.to_string() }.into(),
    };
    while let Some(records) = reader.next().await.map_err(failed)? {
        for (_, raw) in records.iter() {
            if let Ok(scanned) = raw.scan() {
                chain.add(&scanned);
            }
        }
    }
    Ok(())
}

/// The stream that has the log's subjects, once its first record is there.
async fn open_one(beside: &Shared) -> Result<Option<Shared>, StreamError> {
    let Some(name) = names(beside, DECISIONS).await?.pop() else { return Ok(None) };
    if name == beside.options.stream {
        return Ok(None);
    }
    let found = beside.beside(&name);
    if found.message(1).await?.is_none() {
        return Ok(None);
    }
    let named = &*beside.options.stream;
    let is_meant =
        found.base().await? != 0 && (named == STREAM || continues(&found, named).await?);
    if !is_meant {
        let is_there = !matches!(beside.end().await, Err(StreamError::Gone { .. }));
        let why = match is_there && beside.is_sealed() {
            true => "it took the place of an ended log and does not continue it".to_owned(),
            false => format!(
                "there is no stream {named}, and an account of a server has one log, which is in {name}: name that one in \
                 the address, or none"
            ),
        };
        return Err(StreamError::Malformed { log: found.name, why });
    }
    Ok(Some(found))
}

/// Whether a stream continues the one of this name, as far back as the server has them.
async fn continues(stream: &Shared, named: &str) -> Result<bool, StreamError> {
    let mut name = previous(stream).await?;
    // Names could lead in a circle where streams were made by hand.
    for _ in 0..MOST_ROLLED {
        let Some(before) = name else { return Ok(false) };
        if before == named {
            return Ok(true);
        }
        name = match previous(&stream.beside(&before)).await {
            Err(StreamError::Gone { .. }) => None,
            before => before?,
        };
    }
    Ok(false)
}

/// The stream that `stream` continues, if the server still has it.
async fn before(stream: &Shared) -> Result<Option<Shared>, StreamError> {
    let Some(name) = previous(stream).await? else { return Ok(None) };
    let before = stream.beside(&name);
    let end = match before.end().await {
        Ok(end) => end,
        Err(StreamError::Gone { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    // Another stream of this name is none of ours.
    let is_it = before.is_sealed() && end == stream.base().await?;
    Ok(is_it.then_some(before))
}

/// The log that a stream says it continues; a name of another server's or a folder finds nothing here.
async fn previous(stream: &Shared) -> Result<Option<String>, StreamError> {
    let Some(first) = stream.message(1).await? else { return Ok(None) };
    let mut records = Records::of_messages(1);
    state::push(&mut records, &first.headers, &first.payload);
    let scanned = records.last().and_then(|(_, raw)| raw.scan().ok());
    let Some(Ok(Decoded::Event(event))) = scanned.as_ref().map(decode) else { return Ok(None) };
    let Data::LogOpened(opened) = event.data else { return Ok(None) };
    Ok(stream::is_name(&opened.previous).then(|| opened.previous.to_string()))
}

/// The ended stream that reaches furthest.
async fn last_sealed(beside: &Shared) -> Result<Option<Shared>, StreamError> {
    let mut last = None;
    for name in sealed(beside).await? {
        let stream = beside.beside(&name);
        let end = stream.end().await?;
        if last.as_ref().is_none_or(|(furthest, _)| *furthest < end) {
            last = Some((end, stream));
        }
    }
    Ok(last.map(|(_, stream)| stream))
}

async fn sealed(beside: &Shared) -> Result<Vec<String>, StreamError> {
    names(beside, &format!("{SEALED}.*")).await
}

/// Names of the streams that listen to a subject.
pub(super) async fn names(shared: &Shared, subject: &str) -> Result<Vec<String>, StreamError> {
    #[derive(Serialize)]
    struct Listening<'s> {
        subject: &'s str,
    }
    #[derive(Deserialize)]
    struct Names {
        streams: Option<Vec<String>>,
    }
    match shared.jetstream.request("STREAM.NAMES", &Listening { subject }).await {
        Ok(Response::Ok(Names { streams })) => Ok(streams.unwrap_or_default()),
        Ok(Response::Err { error }) => Err(shared.away(&error)),
        Err(error) => Err(shared.away(&error)),
    }
}

fn unfinished(shared: &Shared) -> StreamError {
    shared.away_because(
        "it was ended and the next log is not open yet; if this goes on, let an operator run `bizrq log roll` again",
    )
}
