//! The rules of admission: every trace that broke a promise of the executable model, the model's fold as a slow
//! oracle for random histories, and budgets that no sequence of edits refills.

mod budgets;
mod children;
mod histories;
pub(crate) mod model;
mod paces;
mod periods;
mod refusals;
mod told;
mod traces;
pub(crate) mod world;
