//! Both providers keep the contract.

use bizrq::event_log::{
    conformance,
    file::{FileLog, Options},
    memory::MemoryLog,
};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn the_memory_log_keeps_the_contract() {
    runtime().block_on(async {
        conformance::run(MemoryLog::default).await;
        let log = MemoryLog::default();
        conformance::reopened(|| log.clone()).await;
    });
}

#[test]
fn the_file_log_keeps_the_contract_whatever_the_size_of_its_segments() {
    for segment_bytes in [2000, 100_000, 64 << 20] {
        let options = Options { segment_bytes };
        let dirs = super::scratch();
        let count = std::cell::Cell::new(0);
        let empty = || {
            count.set(count.get() + 1);
            FileLog::open(&dirs.path().join(count.get().to_string()), &options).unwrap()
        };
        runtime().block_on(conformance::run(empty));
        let dir = dirs.path().join("again");
        runtime().block_on(conformance::reopened(|| FileLog::open(&dir, &options).unwrap()));
    }
}
