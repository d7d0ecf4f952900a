//! `bizrq-replay`: the auditor's program. It reads a log of bizrq and nothing else: no cluster, no server, no store.
//!
//! It never writes to a log. Everything that it says follows from the records by the same fold that bizrq runs.

mod consistency;
mod diff;
mod explain;
mod invoice;
mod prove;
mod reading;
mod state;
mod verify;

use bizrq::cli::{
    Answer, Error, help,
    out::{self, Out},
    stop,
};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::{io, process::ExitCode};

/// Replays a log of bizrq: is it what was written, what did it say when, and which records make a number?
#[derive(Debug, Parser)]
#[command(name = "bizrq-replay", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  bizrq-replay verify --log ./log
  bizrq-replay state --log ./log --at 2026-11-30T00:00:00Z
  bizrq-replay explain --log ./log --group team-a --key limits.cpu
  bizrq-replay invoice --log ./log --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z -o json

Exit codes:
  0  fine
  1  the answer is no: the history differs
  2  the command line is wrong
  3  an input cannot be read, or the output cannot be written
  4  the log cannot be opened
  130, 143  it was stopped by Ctrl-C or SIGTERM")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prove that a log is what was written: structure, leaves, order, types, roots
    Verify(verify::Args),
    /// Say what was used, allowed and left at an instant, or as it was known then
    State(state::Args),
    /// List the segments that a number is the sum of, with the records that made them
    Explain(explain::Args),
    /// Say what changed between two positions or instants, and by which records
    Diff(diff::Args),
    /// Bill a period: exact amounts by group, key, model and workload
    Invoice(invoice::Args),
    /// Prove a line of an invoice by the records that it is the sum of
    Prove(prove::Args),
    /// Check a proof against its invoice, without the log
    CheckProof(prove::CheckArgs),
    /// Prove that the log only grew since it had an older root
    Consistency(consistency::Args),
}

/// Which clock is metered; the two are never mixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Basis {
    /// From binding to the recorded end, on the API server's clock
    #[default]
    Held,
    /// From the first container's start to the last one's end, on the node's clock
    Ran,
}

impl Basis {
    /// As programs read it.
    const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Ran => "ran",
        }
    }
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

impl From<Basis> for bizrq::domain::pod::Basis {
    fn from(basis: Basis) -> Self {
        match basis {
            Basis::Held => Self::Held,
            Basis::Ran => Self::Ran,
        }
    }
}

fn main() -> ExitCode {
    let typed = help::flowing(Cli::command()).try_get_matches();
    let cli = match typed.and_then(|typed| Cli::from_arg_matches(&typed)) {
        Ok(cli) => cli,
        Err(usage) => {
            // Help for a reader that has gone is no error.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    stop::listen();
    let mut out = Out::stdout();
    let done = match &cli.command {
        Command::Verify(args) => verify::run(args, &mut out),
        Command::State(args) => state::run(args, &mut out),
        Command::Explain(args) => explain::run(args, &mut out),
        Command::Diff(args) => diff::run(args, &mut out),
        Command::Invoice(args) => invoice::run(args, &mut out),
        Command::Prove(args) => prove::run(args, &mut out),
        Command::CheckProof(args) => prove::check(args, &mut out),
        Command::Consistency(args) => consistency::run(args, &mut out),
    };
    match done.and_then(|answer| out.flush().map(|()| answer)) {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        // Whoever read the output has seen enough.
        Err(Error::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            // What was found before the error is worth printing.
            let _ = out.flush();
            out::complain(&e);
            ExitCode::from(e.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_shows_examples() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands().filter(|c| c.get_name() != "help") {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            // A proof is checked without the log.
            let input = if command.get_name() == "check-proof" { "--invoice" } else { "--log" };
            let example = format!("bizrq-replay {} {input}", command.get_name());
            assert!(help.contains("Examples:") && help.contains(&example), "{example}");
        }
    }
}
