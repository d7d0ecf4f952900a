//! The webhook: what an API server asks before it stores an object, answered in time.
//!
//! ```text
//!  server ─bytes─▶ review ─▶ Request ─workloads, quotas─▶ Next ─┬─ Said: nothing grows, or it is malformed ─▶ Response
//!                    │ context (what a watch knows)             └─ Ask ─▶ decider ─▶ Answer ───────────────▶ Response
//! ```
//!
//! It decides nothing itself, and on the way of a review it asks no API server for anything: what reads reviews is pure.

#[cfg(feature = "service")]
pub mod clusters;
#[cfg(feature = "service")]
pub mod configuration;
#[cfg(feature = "service")]
pub mod manifest;
#[cfg(feature = "service")]
pub mod metrics;
#[cfg(feature = "service")]
mod mirrors;
#[cfg(feature = "service")]
mod owners;
#[cfg(feature = "service")]
pub mod question;
#[cfg(feature = "service")]
mod quotas;
#[cfg(feature = "service")]
pub mod refusals;
pub mod response;
#[cfg(feature = "service")]
pub mod review;
#[cfg(feature = "service")]
mod scale;
#[cfg(feature = "service")]
pub mod server;
#[cfg(feature = "service")]
pub mod tls;
#[cfg(feature = "service")]
mod workloads;

#[cfg(feature = "service")]
pub use {
    question::{Next, Options, Question, Surroundings, Unavailable},
    response::Response,
    review::{Malformed, Request},
};
