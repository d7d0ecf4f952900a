//! `bizrq schemas DIR`: the JSON Schemas of all events, for whoever reads a log without us; and the query API's OpenAPI.

use super::{Answer, Error, out::Out};
use crate::{domain::event::Kind, event_log::schema};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq schemas schemas/event/v1
  bizrq schemas --api schemas/api/openapi.json")]
#[command(arg_required_else_help = true)]
pub(super) struct Args {
    /// The folder of the events' schemas; it is made when it is missing
    dir: Option<PathBuf>,
    /// The file of the query API's description (OpenAPI 3.1)
    #[cfg(feature = "service")]
    #[arg(long, value_name = "FILE")]
    api: Option<PathBuf>,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    if let Some(dir) = &args.dir {
        let shown = dir.display();
        schema::write_schemas(dir)
            .map_err(|e| Error::input(&shown, format!("cannot write the schemas: {e}")))?;
        out.line(format_args!("{} schemas in {shown}", Kind::ALL.len()))?;
    }
    #[cfg(feature = "service")]
    if let Some(file) = &args.api {
        let shown = file.display();
        std::fs::write(file, crate::api::openapi::text())
            .map_err(|e| Error::input(&shown, format!("cannot write it: {e}")))?;
        out.line(format_args!("the query API in {shown}"))?;
    }
    Ok(Answer::Yes)
}
