//! bizrq-replay
fn main() {}
