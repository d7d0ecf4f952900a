//! Histories from somewhere else: any delimited export becomes `pod.started` and `pod.stopped`.
//!
//! ```text
//! map.toml ──▶ Map ─┐
//! export.csv ───────┴▶ Rows ──Row──▶ Importer ──Event──▶ (the caller appends)
//!                                       ▲ learns what the log holds already
//! ```
//!
//! Nothing here opens a log or prints. A row that cannot be taken says why and hinders no other; amounts and
//! times are exact, or the row is refused.

mod importer;
mod map;
mod number;
mod rows;

pub use importer::{Counts, Importer};
pub use map::{Map, MapError};
pub use rows::{Cause, ReadError, Row, RowError, Rows};

/// The longest record that is read, in bytes: a row of a real export has hundreds, and a quote that is never
/// closed would otherwise swallow the whole file.
pub const MAX_RECORD_BYTES: u64 = 1 << 20;

/// The longest name, group or model, in bytes: as long as a Kubernetes name.
pub const MAX_TEXT_BYTES: usize = 253;

#[cfg(test)]
mod tests;
