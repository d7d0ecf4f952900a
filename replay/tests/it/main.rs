//! The auditor's program from outside, on logs that are made here.
// Helpers of tests fail like tests do; clippy's own exception covers `#[test]` functions only.
#![allow(clippy::unwrap_used, clippy::panic)]

mod archives;
mod damaged;
mod demo;
mod explain;
mod focus;
mod independence;
mod invoice;
mod logs;
mod parquet;
mod prove;
mod state;
mod stopped;
mod store;
#[path = "../../../tests/it/terminal.rs"]
mod terminal;
mod verify;
