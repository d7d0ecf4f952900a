//! `bizrq log roll`: ends a log and begins the next one, whose first record says what it continues.
//!
//! ```text
//! OLD  1 … n, sealed ──▶ NEXT  n+1: log.opened {base n, root, frontier} … positions run on
//! ```
//!
//! It is an operator's. Interrupted anywhere and started again it finishes what was begun.

use super::{Format, facts};
use crate::{
    cli::{Answer, Error, opened_log::OpenedLog, operator, out::Out},
    clock,
    domain::{
        event::{Data, LogOpened, Position},
        merkle::{Frontier, Hash},
    },
    event_log::NewEvent,
};
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq log roll --log ./log --to ./log-2027
  bizrq log roll --log ./log --to ./log-2027 --as alice -o json

The old log takes no more records and can be archived. Interrupted and started again, the command finishes.")]
pub(super) struct Args {
    /// The log to end
    #[arg(long, value_name = "LOG")]
    log: String,
    /// The log that goes on: a new folder
    #[arg(long, value_name = "NEXT")]
    to: String,
    /// Who does it: the source becomes /operators/NAME
    #[arg(long = "as", value_name = "NAME", env = "USER", default_value = "cli", value_parser = operator)]
    operator: String,
    /// How the report is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Serialize)]
struct Report {
    sealed: String,
    base: Position,
    root: Hash,
    next: String,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let (log, tree) = OpenedLog::seal(&args.log, &args.to)?;
    let opening = opening(&tree, log.address(), &args.operator)?;
    let next = OpenedLog::open_continued(&args.to, &tree, &opening)?;
    let begun = next.survey("reading", |_, _, _| Ok(()))?;
    if begun.base != tree {
        let why = format!("it is no continuation of {}; give a new place", log.address());
        return Err(Error::log(next.address(), why));
    }
    next.close()?;
    let report = Report {
        sealed: log.address().to_owned(),
        base: tree.position(),
        root: tree.root(),
        next: args.to.clone(),
    };
    match args.output {
        Format::Json => out.json(&report)?,
        Format::Table => facts(
            out,
            &[
                ("sealed", format!("{} at position {}", report.sealed, report.base)),
                ("root", report.root.to_string()),
                ("goes on in", report.next.clone()),
            ],
        )?,
    }
    Ok(Answer::Yes)
}

/// The first record of the next log.
fn opening(tree: &Frontier, previous: &str, operator: &str) -> Result<NewEvent, Error> {
    let opened = LogOpened {
        base: tree.position(),
        root: tree.root().to_string().into(),
        frontier: tree.hashes().iter().map(|hash| hash.to_string().into()).collect(),
        previous: previous.into(),
    };
    super::record(Data::LogOpened(opened), operator, clock::now())
}
