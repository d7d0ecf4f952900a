//! tests
// Helpers of tests fail like tests do; clippy's own exception covers `#[test]` functions only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod file_log;
mod golden_pods;
mod histories;
mod oracle;
mod recordings;
mod rules;
mod schemas;
mod shared;
mod trace;
