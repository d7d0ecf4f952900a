//! The decider: what it promises to whoever asks, and what the log must show afterwards.

mod away;
mod basics;
mod clustered;
mod company;
mod drawing;
mod faults;
mod judge;
mod reading;
pub(crate) mod replica;
mod servers;
mod simulation;
mod untouched;
