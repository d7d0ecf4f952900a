//! Bodies: each bounded in bytes and time, and all together bounded in bytes.
//!
//! Room is taken as bytes come, not as a client promises them, so that a promise costs others nothing. The first
//! 64 KiB of a body come from one half of the budget and what it has beyond from the other: large bodies,
//! however many, leave room for usual ones.

use axum::body::Body;
use axum::body::HttpBody as _;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use std::sync::Arc;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// Of a body so much is usual.
const USUAL: usize = 64 << 10;

/// The bytes that bodies may hold.
pub(super) struct Budget {
    one: usize,
    usual: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// A body, and the room that it takes.
#[derive(Debug)]
pub(super) struct Whole {
    bytes: Bytes,
    _room: Vec<OwnedSemaphorePermit>,
}

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoBody {
    #[error("a review has at most {most} bytes")]
    TooLarge { most: usize },
    #[error("the body did not come in time")]
    Slow,
    #[error("the body broke off: {0}")]
    Broken(axum::Error),
    #[error("too many large reviews are being read")]
    NoRoom,
}

impl Budget {
    /// Of `one` body, and of all of them.
    pub(super) fn new(one: usize, all: usize) -> Self {
        let half = || Arc::new(Semaphore::new((all / 2).min(Semaphore::MAX_PERMITS)));
        Self { one, usual: half(), large: half() }
    }

    /// Reads a body until `deadline`.
    pub(super) async fn read(&self, body: Body, deadline: Instant) -> Result<Whole, NoBody> {
        let too_large = NoBody::TooLarge { most: self.one };
        let promised = body.size_hint().lower();
        if promised > self.one as u64 {
            return Err(too_large);
        }
        let mut stream = body.into_data_stream();
        let mut bytes = BytesMut::with_capacity(usize::try_from(promised).unwrap_or(0).min(USUAL));
        let mut room = Vec::new();
        loop {
            let next = timeout_at(deadline, stream.next()).await.map_err(|_| NoBody::Slow)?;
            let Some(chunk) = next else { break };
            let chunk = chunk.map_err(NoBody::Broken)?;
            if bytes.len() + chunk.len() > self.one {
                return Err(too_large);
            }
            let still_usual = USUAL.saturating_sub(bytes.len()).min(chunk.len());
            take(&self.usual, still_usual, &mut room)?;
            take(&self.large, chunk.len() - still_usual, &mut room)?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(Whole { bytes: bytes.freeze(), _room: room })
    }
}

fn take(
    budget: &Arc<Semaphore>,
    bytes: usize,
    room: &mut Vec<OwnedSemaphorePermit>,
) -> Result<(), NoBody> {
    let Some(bytes) = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0) else { return Ok(()) };
    let taken = Arc::clone(budget).try_acquire_many_owned(bytes).map_err(|_| NoBody::NoRoom)?;
    // Permits of one budget become one.
    match room.iter_mut().find(|r| Arc::ptr_eq(r.semaphore(), budget)) {
        Some(held) => held.merge(taken),
        None => room.push(taken),
    }
    Ok(())
}

impl Whole {
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::{convert::Infallible, time::Duration};

    fn chunks(sizes: &[usize]) -> Body {
        let chunks: Vec<_> = sizes.iter().map(|n| Ok::<_, Infallible>(vec![b' '; *n])).collect();
        Body::from_stream(stream::iter(chunks))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[tokio::test]
    async fn a_body_is_read_whole_up_to_its_bound_whether_it_says_its_length_or_not() {
        let budget = Budget::new(1000, 1 << 20);
        let read = async |body| budget.read(body, soon()).await.map(|whole| whole.bytes.len());
        assert_eq!(read(chunks(&[400, 600])).await.unwrap(), 1000);
        assert_eq!(read(Body::from(vec![b' '; 1000])).await.unwrap(), 1000);
        assert_eq!(read(Body::empty()).await.unwrap(), 0);
        assert!(matches!(read(chunks(&[400, 601])).await, Err(NoBody::TooLarge { most: 1000 })));
        let promised = Body::from(vec![b' '; 1001]);
        assert!(matches!(read(promised).await, Err(NoBody::TooLarge { .. })));
    }

    #[tokio::test]
    async fn large_bodies_leave_room_for_usual_ones_and_room_comes_back() {
        let budget = Budget::new(1 << 20, 4 * USUAL);
        let large = budget.read(chunks(&[USUAL, 2 * USUAL]), soon()).await.unwrap();
        let another = budget.read(chunks(&[USUAL + 1]), soon()).await;
        assert!(matches!(another, Err(NoBody::NoRoom)), "{another:?}");
        let usual = budget.read(chunks(&[USUAL]), soon()).await.unwrap();
        assert_eq!(usual.bytes().len(), USUAL);
        let third = budget.read(chunks(&[1]), soon()).await;
        assert!(matches!(third, Err(NoBody::NoRoom)), "{third:?}");
        drop((large, usual));
        assert!(budget.read(chunks(&[USUAL, 2 * USUAL]), soon()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        let half = stream::iter([Ok::<_, Infallible>("{")]).chain(stream::pending());
        let budget = Budget::new(1000, 1 << 20);
        let read = budget.read(Body::from_stream(half), soon()).await;
        assert!(matches!(read, Err(NoBody::Slow)), "{read:?}");
    }
}
