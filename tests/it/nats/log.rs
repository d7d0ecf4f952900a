//! The log on real servers: it keeps the contract on both versions.

use super::{
    cluster::Cluster,
    server::{Server, Setup, Version},
};
use bizrq::event_log::{
    conformance,
    jetstream::{JetStreamLog, Options},
};
use std::cell::RefCell;
use tokio::{runtime::Handle, task::block_in_place};

/// Opens a log from within a runtime, where a suite wants one at once.
pub(super) fn now<T>(work: impl Future<Output = T>) -> T {
    block_in_place(|| Handle::current().block_on(work))
}

fn open(server: &Server) -> JetStreamLog {
    now(JetStreamLog::open(Options::new(&server.url()))).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_keeps_the_contract_on_both_versions() {
    for version in Version::ALL {
        // One at a time: a stream takes all the subjects of its server.
        let server = RefCell::new(None);
        conformance::run(|| {
            let started = Setup::new(version).start();
            let log = open(&started);
            server.replace(Some(started));
            log
        })
        .await;
        let server = Server::start(version);
        conformance::reopened(|| open(&server)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_keep_three_copies_or_one_and_the_contract() {
    // Three copies are for servers that keep them the same.
    for (version, replicas) in [(Version::New, 3), (Version::New, 1), (Version::Old, 1)] {
        let cluster = Cluster::start(version);
        let options = Options { replicas, ..Options::new(&cluster.url()) };
        conformance::reopened(|| now(JetStreamLog::open(options.clone())).unwrap()).await;
    }
}
