//! The core: quantities, the tree, the ledger, admission, metering. Pure.
//!
//! No I/O, no clock, no randomness, no async, no float: every instant came in an event or an argument.
#![deny(clippy::float_arithmetic, clippy::arithmetic_side_effects, clippy::indexing_slicing)]

pub mod amounts;
pub mod event;
pub mod ident;
pub mod names;
pub mod merkle;
pub mod pod_resources;
pub mod quantity;
pub mod quota;
pub mod resources;
pub mod text;
pub mod time;
