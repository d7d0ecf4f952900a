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

#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    before: u32,
    position: u64,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let report = raise(args, LOG_VERSION)?;
    match args.output {
        Format::Json => out.json(&report)?,
        Format::Table => report.print(out)?,
    }
    Ok(Answer::Yes)
}

/// Raises the version, as a build does that knows versions up to `newest`.
fn raise(args: &Args, newest: u32) -> Result<Report, Error> {
    let to = args.to.unwrap_or(newest);
    if to > newest {
        return Err(Error::Usage(format!(
            "--to {to}: this build reads and writes up to version {newest}; use the release that brings version {to}"
        )));
    }
    // A log that is not there is not made for that.
    drop(OpenedLog::open_read(&args.log)?);
    let log = OpenedLog::open(&args.log)?;
    let survey = log.survey("reading", |_, _, _| Ok(()))?;
    if survey.version > newest {
        let why = format!(
            "version {} is in force, this build knows up to {newest}: use a newer bizrq",
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
    Ok(report)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event_log::{AnyLog, EventLog, conformance::fact},
        projection::{MemoryStore, Runner, runner},
    };

    fn args(log: &str, to: Option<u32>) -> Args {
        let (log, operator, output) = (log.to_owned(), "ann".to_owned(), Format::Json);
        Args { log, to, operator, output }
    }

    /// What a projector of this build makes of the log.
    async fn projected(log: &AnyLog) -> (String, runner::Projection) {
        let (runner, mut seen) = Runner::new(MemoryStore::default(), runner::Options::default());
        let ended = runner.run(log, std::future::pending::<()>()).await;
        seen.caught_up().await.unwrap_err();
        (ended.unwrap_err().to_string(), seen)
    }

    #[test]
    fn what_a_newer_build_raises_stops_an_older_reader_which_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("log").display().to_string();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let log = AnyLog::open(&place).await.unwrap();
            log.append(vec![fact(1), fact(2)]).await.unwrap();
            log.close().unwrap();
        });
        // A build that knows version 2, and is told twice.
        let (older, newer) = (LOG_VERSION, LOG_VERSION + 1);
        for before in [older, newer] {
            let report = raise(&args(&place, None), newer).unwrap();
            assert_eq!((report.version, report.before, report.position), (newer, before, 3));
        }
        // An older one.
        let refused = raise(&args(&place, None), older).unwrap_err().to_string();
        assert!(refused.contains(&format!("version {newer} is in force")), "{refused}");
        let refused = raise(&args(&place, Some(newer)), older).unwrap_err();
        assert_eq!(refused.code(), 2, "{refused}");
        runtime.block_on(async {
            let log = AnyLog::open(&place).await.unwrap();
            log.append(vec![fact(4)]).await.unwrap();
            let (said, seen) = projected(&log).await;
            for words in ["position 3", &format!("version {newer}")] {
                assert!(said.contains(words), "{said}");
            }
            assert_eq!(seen.status().position, 2, "nothing behind it is applied");
            assert_eq!(seen.status().stopped.as_deref(), Some(&*said), "everybody is told");
        });
    }
}
