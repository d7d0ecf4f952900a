//! `bizrq meter`: exact usage per group from a log, from event lines, or from a recorded watch.

mod by;
mod feed;
mod money;
mod report;

use super::{Answer, Error, out::Format, out::Out};
use crate::{
    clock,
    domain::{
        event::Position,
        label_keys::Label,
        ledger::{Ledger, Options},
        meter::{Retain, Window},
        pod::Basis,
        time::Timestamp,
    },
};
use by::By;
use feed::Fed;
use std::path::PathBuf;

/// Exact usage per group: core-hours, card-hours, byte-hours
///
/// Reads what `kubectl get pods -A -o json --watch --output-watch-events` prints (one file a kind: pods,
/// deployments, replicasets, jobs, …, in any order), lists of objects, or bizrq's own event lines; plain, gzip or zstd;
/// told apart by looking. Or reads a log with --log.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl get pods -A -o json --watch --output-watch-events > pods.json     # and so on, one file a kind
  bizrq meter pods.json deployments.json replicasets.json
  bizrq meter --quotas quotas.yaml --by group,key,workload *.json.gz
  bizrq meter --log ./log --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z -o json
  zstd -dc events.jsonl.zst | bizrq meter -")]
#[command(group(clap::ArgGroup::new("input").required(true).args(["files", "log"])))]
pub(super) struct Args {
    /// Recordings or event lines; `-` reads standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The log to read: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: Option<String>,
    /// Quotas whose budgets to compare with: cash left, and when it runs out
    #[arg(long, value_name = "YAML")]
    quotas: Vec<PathBuf>,
    /// Count from this instant on (RFC 3339)
    #[arg(long, value_name = "T", value_parser = Timestamp::parse)]
    from: Option<Timestamp>,
    /// Count up to this instant, which is not counted any more
    #[arg(long, value_name = "T", value_parser = Timestamp::parse)]
    to: Option<Timestamp>,
    /// What still runs counts up to this instant, and what runs then is shown [default: --to, else now for a log, else
    /// the newest instant in the input]
    #[arg(long, value_name = "T", value_parser = Timestamp::parse)]
    at: Option<Timestamp>,
    /// As known at this position of the log
    #[arg(long, value_name = "N", requires = "log", conflicts_with = "as_known_at")]
    position: Option<Position>,
    /// As known at this instant: records that were published later do not count
    #[arg(long, value_name = "T", requires = "log", value_parser = Timestamp::parse)]
    as_known_at: Option<Timestamp>,
    /// Which time is metered: held (binding to recorded end, the API server's clock) or ran (first container's start
    /// to last one's end, the node's clock)
    #[arg(long, value_enum, default_value_t)]
    basis: WhichBasis,
    /// One line for each combination of these
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [By::Group, By::Key])]
    by: Vec<By>,
    /// The name of the cluster that was recorded
    #[arg(long, value_name = "NAME", default_value = "recorded", conflicts_with = "log")]
    cluster: String,
    /// A label that names an object's group or one of its models, as `bizrq serve --label` has it
    #[arg(long = "label", value_name = "WHAT=KEY", env = "BIZRQ_LABELS", value_delimiter = ',')]
    labels: Vec<Label>,
    /// How the report is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum WhichBasis {
    #[default]
    Held,
    Ran,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let quotas = super::quota::file::load(&args.quotas)?;
    let until = args.until()?;
    let mut ledger = Ledger::new(args.options(until, !quotas.is_empty()));
    let mut names = by::Names::default();
    let fed = feed::feed(args, &mut ledger, by::needs_pods(&args.by).then_some(&mut names))?;
    let Some(at) = until.or(fed.newest).or_else(|| ledger.meter().newest()) else {
        return report::print(out, args.output, &Fed::default(), None, &[], &[])
            .map(|()| Answer::Yes);
    };
    if let Some(from) = args.from.filter(|from| *from > at) {
        let why =
            format!("--from {from} lies after {at}, the newest instant in the input; give --to");
        return Err(Error::Usage(why));
    }
    let lines = by::lines(&ledger, &names, &args.by, at)?;
    let oldest = fed.oldest.map(|oldest| oldest.min(at));
    let from = args.from.or(oldest).unwrap_or(at);
    let budgets = money::budgets(&ledger, quotas, from, at)?;
    report::print(out, args.output, &fed, Some((from, at)), &lines, &budgets)?;
    Ok(Answer::Yes)
}

impl Args {
    /// The instant that everything is counted up to, if that is known beforehand.
    fn until(&self) -> Result<Option<Timestamp>, Error> {
        let usage = |why: &str| Err(Error::Usage(why.to_owned()));
        if self.at.zip(self.to).is_some_and(|(at, to)| at > to) {
            return usage("--at must not lie after --to: what runs then would not be counted");
        }
        let known = self.as_known_at.or_else(|| self.log.is_some().then(clock::now));
        let until = self.at.or(self.to).or(known);
        if self.from.zip(until).is_some_and(|(from, until)| from > until) {
            return usage("--from must not lie after --to or --at");
        }
        Ok(until)
    }

    fn options(&self, until: Option<Timestamp>, quotas: bool) -> Options {
        let basis = match self.basis {
            WhichBasis::Held => Basis::Held,
            WhichBasis::Ran => Basis::Ran,
        };
        // Lines by anything but group and key are made of the pods' own rows.
        let retain = if by::needs_pods(&self.by) { Retain::Forever } else { Retain::Heartbeats };
        let window = Window { from: self.from, to: until };
        Options { basis, window, history: quotas, retain, quotas: false }
    }
}
