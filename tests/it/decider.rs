//! The decider: what it promises to whoever asks, and what the log must show afterwards.

mod basics;
mod company;
mod faults;
mod judge;
mod replica;
mod simulation;
mod untouched;
