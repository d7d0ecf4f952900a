//! The log of facts and decisions: the only truth, everything else is a fold over it.

pub mod codec;
pub mod schema;
