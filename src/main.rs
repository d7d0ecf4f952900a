//! bizrq
fn main() {}
