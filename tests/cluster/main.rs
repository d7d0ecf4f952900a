//! bizrq on a real API server: one test binary, one module a subject. `make e2e` fetches what it needs and runs it.
//!
//! ```text
//!  kubectl (alice) ─▶ kube-apiserver ─reviews─▶ bizrq          etcd, kube-apiserver and kube-controller-manager are
//!                      ▲          ▲                            real; [nodes] stands for scheduler and kubelets.
//!           nodes ─────┘          └──── kube-controller-manager
//! ```
//!
//! The tests share a control plane, each with namespaces, groups and a webhook of its own; those of `bizrq serve` as it
//! is installed ([installation]) share another, of which some kill a part ([outages]).
// Helpers of tests fail like tests do; clippy's own exception covers `#[test]` functions only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod asked;
mod control_plane;
mod crowd;
mod definition;
mod first;
mod helm;
mod installation;
mod installed;
mod kubectl;
mod mirrors;
mod moves;
mod neighbours;
mod nodes;
mod oracle;
mod outages;
mod pods;
mod reviews;
mod second;
#[allow(dead_code, reason = "of the integration tests' servers, processes and ports are used here")]
#[path = "../it/nats/server.rs"]
mod server;
#[allow(dead_code, reason = "nothing here needs shared data")]
#[path = "../it/shared.rs"]
mod shared;
mod told;
mod uninstalled;
mod webhook;
