//! Three servers that keep one JetStream between them.

use super::server::{PATIENCE, Server, Setup, Version, ask, free_port};
use std::time::{Duration, Instant};

/// A cluster of three.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Its members.
    pub(crate) servers: Vec<Server>,
}

impl Cluster {
    /// Starts three servers and waits until they have a leader.
    pub(crate) fn start(version: Version) -> Self {
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let routes: Vec<_> = ports.iter().map(|p| format!("nats://127.0.0.1:{p}")).collect();
        let servers = ports.iter().enumerate().map(|(n, port)| {
            let lines = format!(
                "server_name: s{n}\ncluster {{ name: east, listen: 127.0.0.1:{port}, routes: [{}] }}",
                routes.join(", ")
            );
            Setup::new(version).with(&lines).start()
        });
        let cluster = Self { servers: servers.collect() };
        cluster.wait();
        cluster
    }

    /// Where clients connect: all of them.
    pub(crate) fn url(&self) -> String {
        let places = self.servers.iter().map(|s| format!("127.0.0.1:{}", s.port()));
        format!("nats://{}", places.collect::<Vec<_>>().join(","))
    }

    /// Waits until every running member knows the leader: it is the leader who lists streams.
    pub(crate) fn wait(&self) {
        let begun = Instant::now();
        let led = |server: &Server| {
            ask(server.port(), "$JS.API.STREAM.NAMES").is_some_and(|a| !a.contains("\"error\""))
        };
        while !self.servers.iter().all(led) {
            assert!(begun.elapsed() < PATIENCE, "the cluster elects no leader");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
