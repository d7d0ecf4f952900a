//! `bizrq log upgrade`: permits newer versions of events in a log.
//!
//! A release reads a version before it writes it, and writes it only after this permission: until then an older
//! release can take over at any time.

use super::{Format, facts};
use crate::{
    cli::{Answer, Error, opened_log::OpenedLog, operator, out::Out},
    clock,
    domain::event::{Data, LOG_VERSION, LogVersionRaised},
    event_log::NewEvent,
};
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq log upgrade --log ./log
  bizrq log upgrade --log ./log --to 1 --as alice

Raise the version when every bizrq that reads or writes the log knows it: an older one stops at the record that says
so, and says why. There is no way back.")]
pub(super) struct Args {
    /// The log
    #[arg(long, value_name = "LOG")]
    log: String,
    /// The version to permit [default: the newest that this build knows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    to: Option<u32>,
    /// Who does it: the source becomes /operators/NAME
    #[arg(long = "as", value_name = "NAME", env = "USER", default_value = "cli", value_parser = operator)]
    operator: String,
    /// How the report is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Serialize)]
struct Report {
    version: u32,
    before: u32,
    position: u64,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let to = args.to.unwrap_or(LOG_VERSION);
    if to > LOG_VERSION {
        return Err(Error::Usage(format!(
            "--to {to}: this build reads and writes up to version {LOG_VERSION}; use the release that brings version {to}"
        )));
    }
    // A log that is not there is not made for that.
    drop(OpenedLog::open_read(&args.log)?);
    let log = OpenedLog::open(&args.log)?;
    let survey = log.survey("reading", |_, _, _| Ok(()))?;
    if survey.version > LOG_VERSION {
        let why = format!(
            "version {} is in force, this build knows up to {LOG_VERSION}: use a newer bizrq",
            survey.version
        );
        return Err(Error::log(log.address(), why));
    }
    let mut report = Report {
        version: survey.version.max(to),
        before: survey.version,
        position: survey.tree.position(),
    };
    if to > survey.version {
        let raised = Data::LogVersionRaised(LogVersionRaised { version: to });
        let event = NewEvent::of_the_log(raised, &args.operator, clock::now())
            .map_err(|e| Error::log(log.address(), e))?;
        report.position = log.append(vec![event])?.last;
    }
    log.close()?;
    match args.output {
        Format::Json => out.json(&report)?,
        Format::Table => report.print(out)?,
    }
    Ok(Answer::Yes)
}

impl Report {
    fn print(&self, out: &mut Out) -> Result<(), Error> {
        let version = match self.version > self.before {
            true => format!("{} from here on, {} before", self.version, self.before),
            false => format!("{}, as before; nothing was appended", self.version),
        };
        facts(out, &[("version", version), ("position", self.position.to_string())])
    }
}
