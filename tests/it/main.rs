//! tests
mod schemas;
