//! The daily snapshot: asks the runner for one, as long as this process is the one that should.
//!
//! Whoever runs it spawns it beside the fold and drops it at the end; it writes nothing itself.

use super::runner::Projection;
use std::time::Duration;
use tokio::time::sleep;

/// A day.
pub const EVERY: Duration = Duration::from_secs(24 * 3600);

/// Asks for a snapshot after `first`, and then after every `every`, if `is_due` says so then (the leader says so); for
/// ever.
pub async fn daily(seen: &Projection, first: Duration, every: Duration, is_due: impl Fn() -> bool) {
    let mut wait = first;
    loop {
        sleep(std::mem::replace(&mut wait, every)).await;
        if is_due() {
            seen.ask_for_snapshot();
        }
    }
}
