//! bizrq
pub mod domain;
#[cfg(feature = "cli")]
pub mod event_log;
