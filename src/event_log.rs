//! The log of facts and decisions: the only truth, everything else is a fold over it.
//!
//! ```text
//!  observe, import ──append─────▶ ┌───┬───┬───┬───┬───┐
//!  webhook, sweeper ──decide────▶ │ 1 │ 2 │ 3 │ 4 │ 5 │ ──read(from)──▶ projection, replay, meter
//!                                 └───┴───┴───┴───┴───┘
//!                                  f   D   f   f   D      head: position 5, last decision 5
//! ```
//!
//! Providers: [`mod@file`] (a folder; the embedded default and the archive format), `jetstream` (a stream on a NATS
//! server) and [`memory`]. One contract, on [`EventLog`]; one suite that checks it, [`conformance`]. Bytes are known
//! to [`codec`] only. Nothing here knows what an event means beyond whether it is a decision.

pub mod any;
pub mod archive;
pub mod bulk;
pub mod chain;
pub mod codec;
pub mod conformance;
pub mod error;
pub mod file;
#[cfg(feature = "jetstream")]
pub mod jetstream;
pub mod lock;
pub mod memory;
pub mod records;
pub mod schema;
pub mod survey;

use crate::domain::{event::Position, merkle::Frontier};
pub use any::{AnyLog, AnyReader, Facts, shown};
pub use codec::NewEvent;
pub use error::{AppendError, LineError, OpenError, ReadError};
pub use records::Records;
use std::future::Future;

/// An append-only sequence of events with positions 1, 2, 3 … without holes.
///
/// ```text
///  append(facts)            ── any number of events, in this order, one behind another or between others'
///  decide(expected, event)  ── one event, only if the last decision record is still at `expected`
///
///       last_decision = 2                       last_decision = 5
///            ▼                                       ▼
///   │ f │ D │ f │ f │   decide(2, D) ─▶ │ f │ D │ f │ f │ D │    decide(2, D) ─▶ Conflict{last: 5}
///     1   2   3   4                        1   2   3   4   5     (facts in between do not matter)
/// ```
///
/// What every provider keeps:
///
/// 1. **Acknowledged means durable.** `Ok` is said after the record would survive a crash.
/// 2. **Order.** Events of one append stand in its order, one behind another or between others'. An append that was
///    begun after another was acknowledged stands behind it. A batch is not atomic: after a failure a part of it may be
///    there (of a file its first part, of a stream any).
/// 3. **Decisions.** The condition is compared and the record written as one step. Decisions in a plain
///    `append` move the last decision, too.
/// 4. **Unclear is not no.** After [`AppendError::Unclear`] the record may be there, now or soon: read the log
///    to its end, look for it, and only then decide again. Every other error says: nothing was written.
///    A provider that knows ids may answer a repetition with the place of the record that it holds already.
/// 5. **Readers need no lock**, never see a half-written record, and see each record once, in order. What
///    was read once never changes.
pub trait EventLog: Send + Sync {
    /// Reads records in order.
    type Reader: Reader;

    /// Appends events in their order, without a condition. Of no events it does nothing.
    fn append(
        &self,
        events: Vec<NewEvent>,
    ) -> impl Future<Output = Result<Appended, AppendError>> + Send;

    /// Appends one decision if the last decision record is at `expected` (0: there is none).
    fn decide(
        &self,
        expected: Position,
        decision: NewEvent,
    ) -> impl Future<Output = Result<Appended, AppendError>> + Send;

    /// Where the log ends: at least everything that was acknowledged before the call. Cheap.
    fn head(&self) -> impl Future<Output = Result<Head, ReadError>> + Send;

    /// The Merkle tree of all records up to the head. A provider that keeps no tree reads all of them; who folds the
    /// log has it anyway.
    fn tree(&self) -> impl Future<Output = Result<Frontier, ReadError>> + Send;

    /// The same where it costs no reading of all records; else `None`.
    fn known_tree(&self) -> impl Future<Output = Result<Option<Frontier>, ReadError>> + Send {
        async { Ok(None) }
    }

    /// Reads from the record at `from` (1 is the first) on, which need not be there yet.
    fn read(&self, from: Position) -> Result<Self::Reader, ReadError>;

    /// Bytes that an event's attributes and data may have together: of a server, what it takes at the moment.
    fn max_event_bytes(&self) -> usize {
        usize::MAX
    }
}

/// A place in a log from which records are read in order.
pub trait Reader: Send {
    /// The next records, at least one; `None` when there are no more for now. A call that is dropped before it
    /// ends loses no record.
    fn next(&mut self) -> impl Future<Output = Result<Option<Records>, ReadError>> + Send;

    /// The next records, at least one; waits for them as long as it takes.
    fn tail(&mut self) -> impl Future<Output = Result<Records, ReadError>> + Send;
}

/// Where a log ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Position of the last record; 0 for none.
    pub position: Position,
    /// Position of the last decision record; 0 for none.
    pub last_decision: Position,
}

/// Where appended events stand; of no events `first` is `last + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Position of the first.
    pub first: Position,
    /// Position of the last.
    pub last: Position,
}
