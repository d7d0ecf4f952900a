//! Projection: the fold that runs. It reads the log in order, keeps the ledger in memory for whoever asks, and
//! commits what changed to a store, so that a restart need not begin at the first record.
//!
//! ```text
//!  event_log ──read in order──▶ [fold] ──▶ Ledger in memory ──▶ webhook, api, status, notify  (they only read)
//!                                  │
//!                                  └─ every N events or T ms: changed rows ‖ position ‖ tree ──▶ [store::Store]
//! ```
//!
//! Rows are a cache: they say nothing that the log does not say, and may be thrown away at any time. Nobody but
//! the [`runner`] writes them. Bytes of rows are known to no one here; a store that needs bytes has one file for
//! them (`keys`).

pub mod checkpoint;
pub mod conformance;
pub mod daily;
pub mod desk;
pub mod fold;
pub mod keys;
pub mod memory;
#[cfg(feature = "service")]
pub mod metrics;
pub mod runner;
#[cfg(feature = "sled")]
pub mod sled;
pub mod snapshot;
pub mod store;

pub use desk::Desk;
pub use memory::MemoryStore;
pub use runner::{Projection, Runner};
#[cfg(feature = "sled")]
pub use sled::SledStore;
pub use snapshot::{Snapshot, Snapshots};
pub use store::{Batch, Mark, Store};
