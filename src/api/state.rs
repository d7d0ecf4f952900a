//! `/v1/state?at=`: the tree as it stood at an instant, by the records that were published by then.
//!
//! ```text
//!  log ──from the first record, or from where the last question ended──▶ a ledger of its own ──▶ View ──▶ Tree
//! ```
//!
//! One such ledger is kept, and one question is worked on at a time. What takes longer than a question may, goes on
//! where it was when the same is asked again.

use super::{
    Api, Seen, Shared,
    answer::{Paged, answer},
    problem::Problem,
    quotas::{self, Page},
    view::View,
};
use crate::{
    domain::{event::Position, ledger::Ledger, time::Timestamp},
    event_log::{EventLog, Reader, codec::Decoder, records::Raw},
    projection::fold::Read,
};
use axum::{Extension, extract::State, http::HeaderMap, response::Response};
use serde::Deserialize;
use std::time::Duration;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

/// So long records are read for one question.
const PATIENCE: Duration = Duration::from_secs(8);
/// So long a question waits for the one before it.
const TURN: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    at: String,
}

/// The ledger of a while ago. Held while it is read forward, by one at a time.
pub(super) type Past = Mutex<Then>;

/// See [`Past`].
#[derive(Default)]
pub(super) struct Then {
    ledger: Ledger,
    /// The newest instant at which any of its records was published.
    published: Option<Timestamp>,
    /// The record after it was published later than this.
    until: Option<Timestamp>,
}

pub(super) async fn state(
    State(api): Shared,
    Extension(sees): Seen,
    headers: HeaderMap,
    asked: Paged<Asked>,
) -> Result<Response, Problem> {
    let limit = asked.limit(quotas::MOST, quotas::MOST)?;
    let after = asked.after()?.map(|[group]| group);
    let Asked { at } = asked.of;
    let wrong = |why: &str| Problem::wrong("at", &at, why);
    let at = Timestamp::parse(&at).map_err(|why| wrong(&format!("is no instant: {why}")))?;
    let now = (api.source.now)();
    if at > now {
        return Err(wrong(&format!("lies ahead; it is {now}")));
    }
    // Who may see which groups is what holds now.
    let shown = api.ask(sees, |view, _| Ok(view.shown())).await?;
    let mut then = timeout(TURN, api.past.lock()).await.map_err(|_| Problem::busy())?;
    read_to(&api, &mut then, at).await?;
    let view = View::of(&then.ledger, shown);
    let (tree, more) = view.page(at, after.as_deref(), limit)?;
    let page = Page::new(tree, more);
    answer(&headers, (page.tree.position, at), &page)
}

/// Brings `then` to what was published by `at`.
async fn read_to(api: &Api, then: &mut Then, at: Timestamp) -> Result<(), Problem> {
    if then.published.is_some_and(|published| published > at) {
        *then = Then::default();
    }
    // The head that the answer is of: what is appended meanwhile was published later.
    let head = api.source.projection.status().position;
    if then.ledger.position() >= head || then.until.is_some_and(|until| until > at) {
        return Ok(());
    }
    then.until = None;
    let failed = |why: &dyn ToString| Problem::internal(why);
    let (began, from) = (Instant::now(), then.ledger.position().saturating_add(1));
    let mut reader = api.source.log.read(from).map_err(|why| failed(&why))?;
    let mut decoder = Decoder::default();
    while let Some(records) = reader.next().await.map_err(|why| failed(&why))? {
        for (position, raw) in records.iter() {
            if position > head || !then.take(position, raw, &mut decoder, at)? {
                return Ok(());
            }
        }
        if then.ledger.position() >= head {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(Problem::unfinished(then.ledger.position(), head));
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

impl Then {
    /// Takes a record that was published by `at`; `false`: it was later, and so is what follows.
    fn take(
        &mut self,
        position: Position,
        raw: Raw<'_>,
        decoder: &mut Decoder,
        at: Timestamp,
    ) -> Result<bool, Problem> {
        let scanned = raw.scan();
        let read = match &scanned {
            Ok(scanned) => Read::new(decoder, scanned),
            Err(why) => Read::Undecodable(why.to_string()),
        };
        if let Some(event) = read.event() {
            if event.recorded_at > at {
                self.until = Some(event.recorded_at);
                return Ok(false);
            }
            self.published = self.published.max(Some(event.recorded_at));
        }
        let folded = self.ledger.fold(position, &read.record());
        folded.map(|_| true).map_err(|why| Problem::internal(&why))
    }
}
