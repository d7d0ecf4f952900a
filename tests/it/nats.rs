//! Real NATS servers for tests, of both versions that bizrq supports, and a proxy that loses what tests want lost.
//!
//! ```text
//!  test ──▶ [proxy: delay, cut, swallow] ──▶ nats-server, on a free port, with a folder of its own
//! ```
//!
//! A server lives as long as its [`server::Server`]; it dies with the test, also when that panics or is killed.

pub(crate) mod cluster;
pub(crate) mod proxy;
pub(crate) mod server;

mod archives;
mod clients;
pub(crate) mod clustered;
mod commands;
mod credentials;
mod faults;
mod harness;
mod log;
pub(crate) mod notices;
mod permissions;
pub(crate) mod quorum;
mod rollover;
mod tenants;
mod unsafe_streams;
mod usage;
