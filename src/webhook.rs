//! The webhook: what an API server asks before it stores an object, answered in time.
//!
//! It decides nothing itself, and on the way of a review it asks no API server for anything.

#[cfg(feature = "service")]
pub mod metrics;
#[cfg(feature = "service")]
pub mod server;
#[cfg(feature = "service")]
pub mod tls;
