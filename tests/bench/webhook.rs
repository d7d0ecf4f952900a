//! Reviews over HTTPS, every admission durable before its answer: 32 connections, the load made on the same machine.
//!
//! `cargo bench --bench webhook` prints, of five alternating runs, medians of reviews per second, and how long reviews
//! take at 500 a second; beside it a server of the same crates that echoes the uid and says yes. `--runs N` and
//! `--seconds N` (behind `--`) make it shorter.
// A bench fails by panicking and tells by printing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]
// The server's harness serves the tests, which use more of it.
#![allow(dead_code)]

#[path = "../it/webhook/answering.rs"]
mod answering;
#[path = "webhook/load.rs"]
mod load;
#[path = "../it/nats/server.rs"]
mod server;
#[path = "webhook/stand.rs"]
mod stand;

use load::{Load, Spread};
use stand::{Kind, Stand};
use std::{env, time::Duration};

const CONNECTIONS: usize = 32;
const PACED_PER_SECOND: u32 = 500;

fn main() {
    let number = |name: &str, otherwise: u64| {
        let mut args = env::args().skip_while(|arg| arg != name).skip(1);
        args.next().map_or(otherwise, |text| text.parse().unwrap())
    };
    let (runs, seconds) = (number("--runs", 5), Duration::from_secs(number("--seconds", 5)));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let kinds = [Kind::Echo, Kind::File, Kind::Nats];
    let mut rates = kinds.map(|_| Vec::new());
    let mut spreads = kinds.map(|_| Vec::new());
    for run in 0..runs {
        for (at, kind) in kinds.into_iter().enumerate() {
            let stand = Stand::start(kind);
            let load = Load::new(&stand, run);
            let rate = runtime.block_on(load.full(CONNECTIONS, seconds));
            let spread = runtime.block_on(load.paced(CONNECTIONS, PACED_PER_SECOND, seconds));
            say(&format!("run {run}"), kind, rate, spread);
            rates[at].push(rate);
            spreads[at].push(spread);
            stand.stop();
        }
    }
    for (at, kind) in kinds.into_iter().enumerate().filter(|_| runs > 0) {
        rates[at].sort_unstable();
        let rate = rates[at][rates[at].len() / 2];
        say("median", kind, rate, Spread::median(&spreads[at]));
    }
}

fn say(what: &str, kind: Kind, rate: u64, spread: Spread) {
    let name = kind.name();
    println!("{what:<8}{name:<6}{rate:>7} reviews/s   at {PACED_PER_SECOND}/s: {spread}");
}
