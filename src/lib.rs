//! Exact quota and usage accounting for Kubernetes, event-sourced. The rooms below are in reading order.
#![doc = include_str!("ARCHITECTURE.md")]

pub mod domain;

#[cfg(feature = "cli")]
pub mod event_log;

#[cfg(feature = "cli")]
pub mod projection;

#[cfg(feature = "cli")]
pub mod decider;

#[cfg(feature = "cli")]
pub mod k8s;

#[cfg(feature = "cli")]
pub mod observe;

#[cfg(feature = "cli")]
pub mod webhook;

#[cfg(feature = "service")]
pub mod status;

#[cfg(feature = "service")]
pub mod api;
#[cfg(feature = "service")]
pub mod notify;
#[cfg(feature = "service")]
pub mod usage;

#[cfg(feature = "cli")]
pub mod import;

#[cfg(feature = "cli")]
pub mod input;

#[cfg(feature = "cli")]
pub mod demo;

#[cfg(feature = "cli")]
pub mod clock;

#[cfg(feature = "service")]
pub mod telemetry;

#[cfg(feature = "service")]
pub mod metrics;

#[cfg(feature = "service")]
pub mod shutdown;

#[cfg(feature = "service")]
pub mod config;

#[cfg(feature = "service")]
pub mod run;

#[cfg(feature = "cli")]
pub mod cli;
