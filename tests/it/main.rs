//! The integration tests: one binary, one module a subject.
// Helpers of tests fail like tests do; clippy's own exception covers `#[test]` functions only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// What a random test drew (its seed, its classes) belongs in the output of a run.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod api;
mod billing;
mod chaos;
mod cluster_cli;
mod corrections;
mod crd;
mod decider;
mod demo;
mod deploy;
mod file_log;
mod golden_pods;
mod help;
mod histories;
mod house;
mod import_cli;
mod kinds;
mod labels;
mod log_cli;
mod meter;
mod nats;
mod notices;
mod observe;
mod oracle;
mod quota_cli;
mod recordings;
mod restored;
mod reviews;
mod rules;
mod schemas;
mod serve;
mod shared;
mod store;
mod terminal;
mod through;
mod trace;
mod usage;
mod webhook;
