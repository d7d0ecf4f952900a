//! The harness itself: what later tests take for granted.

use super::{
    cluster::Cluster,
    proxy::Proxy,
    server::{PATIENCE, Server, Version, ask},
};
use std::{
    net::TcpStream,
    panic::catch_unwind,
    time::{Duration, Instant},
};

/// Asks until it answers: it may be slow beside compilers.
fn answers(server: &Server) {
    let begun = Instant::now();
    while ask(server.port(), "$JS.API.INFO").is_none() {
        assert!(begun.elapsed() < PATIENCE, "it answers nothing");
    }
}

#[test]
fn a_server_comes_back_where_it_was_with_what_it_had() {
    for version in Version::ALL {
        let mut server = Server::start(version);
        answers(&server);
        server.kill();
        assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err(), "it is dead");
        server.restart();
        answers(&server);
        assert!(server.dir().join("store/jetstream").is_dir());
    }
}

#[test]
fn a_frozen_server_answers_nobody_until_it_thaws() {
    let server = Server::start(Version::New);
    server.freeze();
    assert_eq!(ask(server.port(), "$JS.API.INFO"), None);
    server.thaw();
    answers(&server);
}

#[test]
fn a_test_that_panics_leaves_no_server() {
    let port = catch_unwind(|| {
        let server = Server::start(Version::Old);
        std::panic::resume_unwind(Box::new(server.port()));
    });
    let port: u16 = *port.unwrap_err().downcast().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn three_servers_elect_a_leader() {
    for version in Version::ALL {
        let mut cluster = Cluster::start(version);
        cluster.servers[0].restart();
        cluster.wait();
    }
}

#[tokio::test]
async fn a_proxy_delays_cuts_and_swallows() {
    let server = Server::start(Version::New);
    let proxy = Proxy::start(server.port()).await;
    proxy.delay(Duration::from_millis(20));
    let client = async_nats::ConnectOptions::new()
        .request_timeout(Some(PATIENCE))
        .connect(proxy.url())
        .await
        .unwrap();
    let ask = || client.request("$JS.API.INFO", "".into());
    let begun = Instant::now();
    ask().await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(40));

    for swallow in [Proxy::swallow_answers, Proxy::swallow_requests] {
        swallow(&proxy, true);
        let lost = tokio::time::timeout(Duration::from_millis(200), ask()).await;
        assert!(lost.is_err(), "it is lost: {lost:?}");
        proxy.cut();
        swallow(&proxy, false);
    }
    let near = async_nats::connect(server.url()).await.unwrap();
    near.request("$JS.API.INFO", "".into()).await.expect("only what goes by the proxy was lost");
    proxy.away();
    while client.connection_state() == async_nats::connection::State::Connected {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    proxy.back();
    ask().await.unwrap();
}
