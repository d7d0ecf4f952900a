//! What a quota object may say: group names, keys, amounts; and what a workload demands under those keys.
//!
//! A spec is judged alone here. Whether it fits its tree is the book's business.

mod demand;
mod key;
mod period;
mod spec;

pub use demand::{ambiguous_models, count_key, demand, pod_demand};
pub use key::{Known, Unit, is_group_name, normalise};
pub use period::{PeriodField, TypedPeriod};
pub use spec::{Place, SpecError, TypedSpec};

/// The uid of a quota object that no API server has given one (contract §4): a hash of its name.
#[must_use]
pub fn uid_of(name: &str) -> String {
    let hash = blake3::hash(name.as_bytes()).to_hex();
    hash.chars().take(32).collect()
}

/// What is wrong with a name or a key, and what would be right; it follows the value in a sentence.
pub type Why = String;
