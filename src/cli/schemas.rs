//! `bizrq schemas DIR`: the JSON Schemas of all events, for whoever reads a log without us.

use super::{Answer, Error, out::Out};
use crate::{domain::event::Kind, event_log::schema};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq schemas schemas/event/v1")]
pub(super) struct Args {
    /// The folder; it is made when it is missing
    dir: PathBuf,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let dir = args.dir.display();
    schema::write_schemas(&args.dir)
        .map_err(|e| Error::input(&dir, format!("cannot write the schemas: {e}")))?;
    out.line(format_args!("{} schemas in {dir}", Kind::ALL.len()))?;
    Ok(Answer::Yes)
}
