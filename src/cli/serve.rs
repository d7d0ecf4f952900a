//! `bizrq serve`: the process that runs for long. What it does is `run`'s matter; what it was told, `config`'s.

use super::{Answer, Error, out::Out};
use crate::{
    config::{self, Config, Settings},
    run, shutdown, telemetry,
};
use tokio::runtime::Runtime;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq serve --cluster east --log ./log --store ./store --tls-dir ./tls
  bizrq serve --cluster east=in-cluster --log nats://nats.bizrq:4222 --store /var/lib/bizrq
  bizrq serve --config /etc/bizrq/bizrq.yaml --print-config

What is typed counts before the environment (BIZRQ_LOG, …), that before the file, that before the defaults.
Credentials of a NATS server come from the environment (BIZRQ_NATS_…) and are never printed.
SIGTERM ends it in stages: unready, no new connections, last answers, appends, rows.")]
pub(super) struct Args {
    #[command(flatten)]
    settings: Settings,
    /// Print what all settings together say, secrets masked, and end
    #[arg(long)]
    print_config: bool,
}

pub(super) fn run(args: Args, out: &mut Out) -> Result<Answer, Error> {
    let settings = Config::settings(args.settings).map_err(told)?;
    let config = Config::check(settings.clone()).map_err(told)?;
    if args.print_config {
        out.bytes(config.print(settings).as_bytes())?;
        return Ok(Answer::Yes);
    }
    telemetry::start(config.telemetry);
    let runtime = Runtime::new().map_err(|error| Error::input("serve", error))?;
    let served = runtime.block_on(async {
        let stop = shutdown::signals()?;
        run::run(config, stop).await
    });
    served.map(|()| Answer::Yes).map_err(failed)
}

fn told(error: config::Error) -> Error {
    match &error {
        config::Error::Missing { .. } | config::Error::Wrong { .. } => {
            Error::Usage(error.to_string())
        }
        config::Error::Read { .. } | config::Error::File { .. } | config::Error::Kinds { .. } => {
            Error::input("serve", error)
        }
    }
}

fn failed(error: run::Error) -> Error {
    match &error {
        run::Error::Log(_) | run::Error::Store(_) | run::Error::Close(_) => {
            Error::log("or store", error)
        }
        _ => Error::input("serve", error),
    }
}
