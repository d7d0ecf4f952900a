//! The rules of the house, as tests: which room may know which, what stays out of the core, and that the
//! documents say what the programs do. Each failure names the file, the rule and the way out.

mod bytes;
mod core;
mod dependencies;
mod documents;
mod examples;
mod imports;
mod layout;
mod paths;
mod source;
