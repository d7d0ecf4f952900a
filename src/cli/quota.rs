//! `bizrq quota`: validate, apply and draw the tree of business groups.

pub(crate) mod file;
