//! A cluster as an observer sees it: lists and watches as an API server answers them, and what becomes of them.

pub(crate) mod api;
mod context;
pub(crate) mod facts;
mod joined;
mod moves;
pub(crate) mod played;
pub(crate) mod stand;
mod swept;
mod watched_over;
