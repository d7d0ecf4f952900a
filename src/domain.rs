//! The core: quantities, the tree, the ledger, admission, metering. Pure.
//!
//! No I/O, no clock, no randomness, no async, no float: every instant came in an event or an argument.
// Tests add and index as they like: there a panic is a failure, which is what it should be.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::float_arithmetic,
        clippy::indexing_slicing
    )
)]

pub mod admission;
pub mod amounts;
pub mod billing;
pub mod book;
pub mod calendar;
pub mod event;
mod few;
mod growth;
pub mod history;
pub mod hours;
pub mod ident;
mod ids;
pub mod label_keys;
pub mod ledger;
pub mod merkle;
pub mod meter;
pub mod metered;
pub mod names;
pub mod pod;
pub mod pod_resources;
pub mod prices;
pub mod quantity;
pub mod quota;
pub mod resources;
pub mod shapes;
pub mod sources;
pub mod standing;
pub mod sums;
pub mod table;
pub mod text;
pub mod time;
