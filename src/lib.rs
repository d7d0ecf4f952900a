//! bizrq
pub mod domain;
