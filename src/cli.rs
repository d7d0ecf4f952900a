//! The command line: what can be typed, and what the process answers. One file a subcommand.
//!
//! Nothing here decides or sums; it reads, calls the rooms, and prints through [`out`], the one place that prints.

pub mod help;
pub mod out;
pub mod progress;
pub mod stop;

mod adjust;
#[cfg(feature = "service")]
mod ask;
mod close;
mod cluster;
mod completions;
#[cfg(feature = "service")]
mod crd;
mod demo;
mod import;
mod log;
mod meter;
#[cfg(all(feature = "service", feature = "jetstream"))]
mod nats;
mod opened_log;
pub(crate) mod quota;
#[cfg(feature = "service")]
mod review;
mod schemas;
#[cfg(feature = "service")]
mod serve;
#[cfg(feature = "service")]
mod webhook_config;

use crate::{domain::resources::is_model, event_log::shown};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use out::Out;
use std::{io, process::ExitCode};

/// Exact quota and usage accounting for Kubernetes, from recorded facts.
#[derive(Debug, Parser)]
#[command(name = "bizrq", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer API servers: enforce quotas and account usage
    #[cfg(feature = "service")]
    Serve(Box<serve::Args>),
    /// Watch a simulated fortnight: quotas, training jobs, a lost node, a budget that runs out
    Demo(demo::Args),
    /// Exact usage per group, from a log, event lines or a recorded watch
    Meter(meter::Args),
    /// Take over a history from somewhere else
    Import(import::Args),
    /// Look into a log, copy it, roll it over
    Log(log::Args),
    /// Correct what a group used: a signed amount, with who and why
    Adjust(adjust::Args),
    /// Close a period: its invoice never changes again
    Close(close::Args),
    /// Say what a cluster's name stands for
    Cluster(cluster::Args),
    /// Say what tenants may read on the NATS server that keeps the log
    #[cfg(all(feature = "service", feature = "jetstream"))]
    Nats(nats::Args),
    /// Check, declare and draw the quotas of business groups
    Quota(quota::Args),
    /// Draw the tree of groups as a server has it, now or at an instant
    #[cfg(feature = "service")]
    Tree(ask::tree::Args),
    /// List unit-hours of whole hours, as a server has them
    #[cfg(feature = "service")]
    Usage(ask::usage::Args),
    /// List the limits and budgets that are fullest
    #[cfg(feature = "service")]
    Top(ask::top::Args),
    /// Show one pod, segment by segment, and what it is billed
    #[cfg(feature = "service")]
    Explain(ask::explain::Args),
    /// Ask a server whether a manifest would fit
    #[cfg(feature = "service")]
    Fits(ask::fits::Args),
    /// Follow the log as a server tells it
    #[cfg(feature = "service")]
    Events(ask::events::Args),
    /// Say of AdmissionReviews and manifests whether they would fit
    #[cfg(feature = "service")]
    Review(review::Args),
    /// Print the CustomResourceDefinition of quota objects
    #[cfg(feature = "service")]
    Crd(crd::Args),
    /// Print the webhook configurations that make a cluster's API server ask
    #[cfg(feature = "service")]
    WebhookConfig(webhook_config::Args),
    /// Print a completion script for your shell
    Completions(completions::Args),
    /// Write the JSON Schemas of all events, or the query API's OpenAPI
    Schemas(schemas::Args),
}

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  the answer is no (an invalid quota, a refused review, rejected rows, a history that differs)
  2  the command line is wrong
  3  an input cannot be read, or the output cannot be written
  4  the log cannot be opened or written
  130, 143  long work was stopped by Ctrl-C or SIGTERM";

/// What a command found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All is well.
    Yes,
    /// The command did its work, and the answer is no.
    No,
}

/// Why a command could not do its work; each kind has its exit code.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments contradict each other or say nothing that can be done.
    #[error("{0}")]
    Usage(String),
    /// An input cannot be read or understood.
    #[error("{place}: {why}")]
    Input {
        /// File, and line where there is one: `quotas.yaml:12`.
        place: String,
        /// What is wrong, and the remedy.
        why: String,
    },
    /// The log (or store) cannot be opened, read or written.
    #[error("log {0}")]
    Log(
        /// Where, what is wrong, and the remedy.
        String,
    ),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

impl Answer {
    /// [`Answer::Yes`] if `fine`.
    #[must_use]
    pub const fn of(fine: bool) -> Self {
        if fine { Self::Yes } else { Self::No }
    }
}

impl Error {
    /// An input that cannot be read or understood.
    pub fn input(place: impl ToString, why: impl ToString) -> Self {
        Self::Input { place: place.to_string(), why: why.to_string() }
    }

    /// A log that cannot be opened, read or written.
    pub fn log(place: impl ToString, why: impl ToString) -> Self {
        let (place, why) = (shown(&place.to_string()), why.to_string());
        // Of an address the server alone, which is what errors begin with; a stream's name stands behind it.
        let hosts = place.find("://").map_or(0, |at| at.saturating_add(3));
        let server = place.get(hosts..).and_then(|hosts| hosts.find('/'));
        let server =
            server.filter(|_| hosts > 0).map_or(place.len(), |at| hosts.saturating_add(at));
        // Most of what can go wrong with a log says where.
        let says_where = place.get(..server).is_some_and(|server| why.starts_with(server));
        Self::Log(if says_where { why } else { format!("{place}: {why}") })
    }

    /// The exit code (contract §5).
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Input { .. } | Self::Output(_) => 3,
            Self::Log(_) => 4,
        }
    }

    /// Whether whoever read the output has seen enough (`bizrq … | head`).
    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// The name under which kubectl finds it: `kubectl bizrq …` runs `kubectl-bizrq …`.
const PLUGIN: &str = "kubectl-bizrq";

/// Whether it was called as a plugin of kubectl.
fn is_plugin() -> bool {
    let called = std::env::args_os().next().map(std::path::PathBuf::from);
    called.is_some_and(|path| path.file_stem().is_some_and(|name| name == PLUGIN))
}

/// What was typed; as a plugin of kubectl it is called so in its own help.
fn typed() -> Result<Cli, clap::Error> {
    let command = help::flowing(Cli::command());
    let command = if is_plugin() { command.bin_name("kubectl bizrq") } else { command };
    Cli::from_arg_matches(&command.try_get_matches()?)
}

/// Does what was typed and says how it went.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match typed() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help for a reader that has gone is no error.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    let mut out = Out::stdout();
    let done = cli.command.run(&mut out).and_then(|answer| out.flush().map(|()| answer));
    match done {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(e) if e.is_broken_pipe() => ExitCode::SUCCESS,
        Err(e) => {
            // What was found before the error is worth printing.
            let _ = out.flush();
            out::complain(&e);
            ExitCode::from(e.code())
        }
    }
}

impl Command {
    fn run(self, out: &mut Out) -> Result<Answer, Error> {
        match self {
            #[cfg(feature = "service")]
            Self::Serve(args) => serve::run(*args, out),
            Self::Demo(args) => demo::run(&args, out),
            Self::Meter(args) => {
                stop::listen();
                meter::run(&args, out)
            }
            Self::Import(args) => import::run(args, out),
            Self::Log(args) => log::run(&args, out),
            Self::Adjust(args) => adjust::run(&args, out),
            Self::Close(args) => close::run(&args, out),
            Self::Cluster(args) => cluster::run(&args, out),
            #[cfg(all(feature = "service", feature = "jetstream"))]
            Self::Nats(args) => nats::run(&args, out),
            Self::Quota(args) => quota::run(&args, out),
            #[cfg(feature = "service")]
            Self::Tree(args) => ask::tree::run(&args, out),
            #[cfg(feature = "service")]
            Self::Usage(args) => ask::usage::run(&args, out),
            #[cfg(feature = "service")]
            Self::Top(args) => ask::top::run(&args, out),
            #[cfg(feature = "service")]
            Self::Explain(args) => ask::explain::run(&args, out),
            #[cfg(feature = "service")]
            Self::Fits(args) => ask::fits::run(&args, out),
            #[cfg(feature = "service")]
            Self::Events(args) => ask::events::run(&args, out),
            #[cfg(feature = "service")]
            Self::Review(args) => review::run(&args, out),
            #[cfg(feature = "service")]
            Self::Crd(args) => crd::run(&args, out),
            #[cfg(feature = "service")]
            Self::WebhookConfig(args) => webhook_config::run(args, out),
            Self::Completions(args) => completions::run(args, out),
            Self::Schemas(args) => schemas::run(&args, out),
        }
    }
}

/// A name that can stand in a source.
fn operator(text: &str) -> Result<String, String> {
    match is_model(text) {
        true => Ok(text.to_owned()),
        false => {
            Err("use at most 63 letters, digits, `.`, `_` or `-`, beginning with a letter or digit"
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_examples() {
        fn check(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
                let path = format!("{path} {}", sub.get_name());
                let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                let shown = help.contains("Examples:") && help.contains(path.trim());
                assert!(shown || sub.has_subcommands(), "`{path} --help` shows no example");
                check(sub, &path);
            }
        }
        check(&Cli::command(), "bizrq");
    }
}
