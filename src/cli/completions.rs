//! `bizrq completions SHELL`: the completion script of a shell, from the same definitions as `--help`.

use super::{Answer, Cli, Error, out::Out};
use clap::CommandFactory;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq completions bash > /etc/bash_completion.d/bizrq
  bizrq completions zsh > \"${fpath[1]}/_bizrq\"")]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: Args, out: &mut Out) -> Result<Answer, Error> {
    // The generator panics when its writer fails: give it memory, and write that ourselves.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bizrq", &mut script);
    out.bytes(&script)?;
    Ok(Answer::Yes)
}
