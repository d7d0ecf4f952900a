//! `bizrq log`: looks into a log, copies it to an archive and back, and ends it so that the next one goes on.
//!
//! Nothing here but `snapshot` folds: these commands know records, not what they amount to.

mod archive;
mod export;
mod import;
mod info;
mod roll;
mod snapshot;
mod tail;
mod upgrade;

use super::{Answer, Error, out::Out, stop};
use crate::{
    domain::{event::Position, merkle::Frontier},
    event_log::survey::Survey,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say where the log ends, what it holds, its root
    Info(info::Args),
    /// Show the last records, and those that come
    Tail(tail::Args),
    /// Copy the log into an archive, a folder that is itself a log
    Export(export::Args),
    /// Copy the log up to an instant into an archive of compressed segments
    Archive(archive::Args),
    /// Put an archive into a log: the same positions, the same root
    Import(import::Args),
    /// End the log and begin the next one, at the next position
    Roll(roll::Args),
    /// Write the state at the log's end into a file, from which a replica starts
    Snapshot(snapshot::Args),
    /// Let newer versions of events be written from here on
    Upgrade(upgrade::Args),
}

/// How a report is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    if !matches!(args.what, What::Tail(_) | What::Roll(_) | What::Upgrade(_)) {
        stop::listen();
    }
    match &args.what {
        What::Info(args) => info::run(args, out),
        What::Tail(args) => tail::run(args, out),
        What::Export(args) => export::run(args, out),
        What::Archive(args) => archive::run(args, out),
        What::Import(args) => import::run(args, out),
        What::Roll(args) => roll::run(args, out),
        What::Snapshot(args) => snapshot::run(args, out),
        What::Upgrade(args) => upgrade::run(args, out),
    }
}

/// Whether a copy that ends with the tree `held` has the record at `position` already, which `survey` has just
/// counted. Where the copy ends, and where the log begins if that is not before, `same` compares the log's tree with
/// it.
fn is_held(
    held: &Frontier,
    position: Position,
    survey: &Survey,
    mut same: impl FnMut(&Frontier) -> Result<(), Error>,
) -> Result<bool, Error> {
    if survey.records() == 1 && survey.base.position() >= held.position() {
        same(&survey.base)?;
    }
    if position == held.position() {
        same(&survey.tree)?;
    }
    Ok(position <= held.position())
}

/// A report as lines of a label and what it says.
fn facts(out: &mut Out, facts: &[(impl AsRef<str>, String)]) -> Result<(), Error> {
    let width = facts.iter().map(|(label, _)| label.as_ref().chars().count()).max().unwrap_or(0);
    for (label, says) in facts.iter().filter(|(_, says)| !says.is_empty()) {
        let says = super::out::printable(says);
        let label = label.as_ref();
        out.line(format_args!("{label:width$}  {says}"))?;
    }
    Ok(())
}
