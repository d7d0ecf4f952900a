//! Observing: from versions of Kubernetes objects to facts. Nothing here decides.
//!
//! ```text
//! kubectl's output ─▶ recording ─┐
//!                                ├─▶ pods (versions → facts), owners (group, models) ─▶ events
//! API server ─▶ server ─▶ watch ─┴─▶ keeper (context of reviews), observer (to the log, while it leads)
//! ```
//!
//! A recorded watch and a live one differ in where versions come from, not in what they mean.

#[cfg(feature = "service")]
mod error;
#[cfg(feature = "service")]
mod feed;
#[cfg(feature = "service")]
mod inventory;
#[cfg(feature = "service")]
mod keeper;
#[cfg(feature = "service")]
pub mod metrics;
#[cfg(feature = "service")]
mod objects;
#[cfg(feature = "service")]
mod observer;
pub mod owners;
pub mod pods;
pub mod recording;
#[cfg(feature = "service")]
mod server;
mod shared;
#[cfg(feature = "service")]
mod sweeper;
#[cfg(feature = "service")]
mod view;
#[cfg(feature = "service")]
mod watch;
#[cfg(feature = "service")]
mod watching;

#[cfg(feature = "service")]
pub use {
    error::Error,
    observer::{Cluster, Observer, Progress},
    server::Failure,
};
