//! Observing: from versions of Kubernetes objects to facts. Nothing here decides, and nothing here has a clock.
//!
//! ```text
//! bytes ─▶ recording/objects ─▶ recording/sight ─▶ pods (versions → facts) ─┐
//!                                               └▶ owners (group, models) ──┴▶ recording: events in order of time
//! ```
//!
//! A recorded watch and a live one differ in where versions come from, not in what they mean.

pub mod owners;
pub mod pods;
pub mod recording;
