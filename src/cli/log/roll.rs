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
#[cfg(feature = "service")]
use std::path::Path;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq log roll --log ./log --to ./log-2027
  bizrq log roll --log nats://localhost:4222 --to BIZRQ-2027 --as alice

The old log takes no more records and can be archived. Of a log on NATS, whoever reads and writes it goes on with the
next stream by itself; this takes an operator's credentials. Interrupted and started again, the command finishes.")]
pub(super) struct Args {
    /// The log to end
    #[arg(long, value_name = "LOG")]
    log: String,
    /// The log that goes on: a new folder, or the name of the next stream
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
    let now = clock::now();
    let opening = |tree: &Frontier, previous: &str| {
        let opened = LogOpened {
            base: tree.position(),
            root: tree.root().to_string().into(),
            frontier: tree.hashes().iter().map(|hash| hash.to_string().into()).collect(),
            previous: previous.into(),
        };
        NewEvent::of_the_log(Data::LogOpened(opened), &args.operator, now)
    };
    let tree = OpenedLog::roll(&args.log, &args.to, opening)?;
    #[cfg(feature = "service")]
    if Path::new(&args.log).is_dir() {
        let carried = crate::notify::carry(Path::new(&args.log), Path::new(&args.to));
        carried.map_err(|error| Error::log(&args.log, error))?;
    }
    let report = Report {
        sealed: args.log.clone(),
        base: tree.position(),
        root: tree.root(),
        next: args.to.clone(),
    };
    report.print(args.output, out)?;
    Ok(Answer::Yes)
}

impl Report {
    fn print(&self, format: Format, out: &mut Out) -> Result<(), Error> {
        if format == Format::Json {
            return out.json(self);
        }
        let lines = [
            ("sealed", format!("{} at position {}", self.sealed, self.base)),
            ("root", self.root.to_string()),
            ("goes on in", self.next.clone()),
        ];
        facts(out, &lines)
    }
}
