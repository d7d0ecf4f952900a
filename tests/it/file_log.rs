//! The file log under everything that can happen to a folder: kills, truncation, two writers, lies.

mod conformance;
