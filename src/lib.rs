//! bizrq
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod clock;
pub mod domain;
#[cfg(feature = "cli")]
pub mod event_log;
#[cfg(feature = "cli")]
pub mod import;
pub mod input;
#[cfg(feature = "cli")]
pub mod k8s;
#[cfg(feature = "cli")]
pub mod observe;
#[cfg(feature = "cli")]
pub mod projection;
