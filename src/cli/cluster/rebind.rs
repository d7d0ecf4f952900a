//! `bizrq cluster rebind`: an observer that finds another cluster under a name, or an older one, appends nothing until
//! an operator has said that this is meant.

use crate::{
    cli::{Answer, Error, opened_log::OpenedLog, operator, out::Out},
    clock,
    domain::event::{ClusterBound, Data, Event, EventId},
    event_log::NewEvent,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq cluster rebind east --log nats://localhost:4222

For a cluster that was made anew under its old name, or whose API server was restored from an older copy: its observer
says so and stops. Start bizrq again afterwards; the first observer binds the name to what it finds, and compares all
that it finds with the log. Nothing that was recorded is changed.")]
pub(super) struct Args {
    /// The cluster's name in the log
    #[arg(value_name = "NAME", value_parser = operator)]
    name: String,
    /// The log; a running bizrq that has one in a folder is asked to append
    #[arg(long, value_name = "LOG")]
    log: String,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    // A log that is not there is not made for that.
    drop(OpenedLog::open_read(&args.log)?);
    let now = clock::now();
    let event = Event {
        id: EventId::default(),
        source: format!("/clusters/{}", args.name).into(),
        subject: format!("clusters/{}", args.name).into(),
        time: now,
        recorded_at: now,
        data: Data::ClusterBound(ClusterBound { uid: "".into() }),
    };
    let event = NewEvent::note(&event).map_err(|error| Error::log(&args.log, error))?;
    let log = OpenedLog::open_beside(&args.log)?;
    let position = log.append(vec![event])?.last;
    log.close()?;
    out.line(format_args!(
        "{} stands for no cluster from position {position} on; start bizrq again, and it is bound to the one that is found",
        args.name
    ))?;
    Ok(Answer::Yes)
}
