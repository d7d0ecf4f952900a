//! The decider: what it promises to whoever asks, and what the log must show afterwards.

mod basics;
mod replica;
mod untouched;
