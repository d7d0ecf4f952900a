//! Kubernetes objects, as far as bizrq looks at them: the only place where foreign types become domain values.
//!
//! Reading is tolerant of what it does not know (unknown fields, nulls) and strict about what it counts.

pub mod context;
pub mod convert;
#[cfg(feature = "service")]
pub mod crd;
pub mod demand;
pub mod kinds;
#[cfg(feature = "service")]
pub mod lease;
pub mod meta;
#[cfg(feature = "service")]
pub mod mirror;
pub mod placement;
pub mod pod;
pub mod reviewed;
#[cfg(feature = "service")]
pub mod trust;
