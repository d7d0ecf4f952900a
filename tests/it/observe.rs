//! A cluster as an observer sees it: lists and watches as an API server answers them, and what becomes of them.

mod api;
mod context;
mod facts;
mod played;
mod stand;
mod swept;
mod watched_over;
