//! `bizrq review`: would it fit? AdmissionReviews and plain manifests, answered one after another, without a cluster.

mod explain;
mod input;
mod world;

use super::{
    Answer, Error,
    opened_log::OpenedLog,
    out::{Out, Style, printable},
    quota::file,
};
use crate::{
    clock,
    domain::{
        label_keys::{Label, LabelKeys},
        time::Timestamp,
    },
    webhook::Response,
};
use std::{fs, path::PathBuf};
use world::World;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq review --quotas tests/fixtures/readme/quotas.yaml tests/fixtures/readme/workloads.yaml
  bizrq review --quotas tests/fixtures/readme/quotas.yaml --explain tests/fixtures/readme/workloads.yaml
  bizrq review --log ./log -o json review.json
  kubectl create deployment shop --image shop --dry-run=server -o yaml | bizrq review --log ./log -

What is allowed is taken as done for what comes after it. Manifests of namespaces, limit ranges and runtime classes among
the files say what the others are judged by. With --quotas the quotas of the log are left out.")]
#[command(group(clap::ArgGroup::new("basis").required(true).multiple(true).args(["quotas", "log"])))]
pub(super) struct Args {
    /// YAML files of quotas; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    quotas: Vec<PathBuf>,
    /// The log to read
    #[arg(long, value_name = "DIR")]
    log: Option<String>,
    /// A table of further kinds, in YAML
    #[arg(long, value_name = "FILE")]
    kinds: Option<PathBuf>,
    /// A label that names an object's group or one of its models, as `bizrq serve --label` has it
    #[arg(long = "label", value_name = "WHAT=KEY", env = "BIZRQ_LABELS", value_delimiter = ',')]
    labels: Vec<Label>,
    /// The cluster that asks
    #[arg(long, value_name = "NAME", default_value = "cluster")]
    cluster: String,
    /// Judge budgets by what is spent at this instant; now, unless given
    #[arg(long, value_name = "T", value_parser = super::quota::tree::instant)]
    at: Option<Timestamp>,
    /// Show what each asks for, and what its groups have
    #[arg(long)]
    explain: bool,
    /// How the answers are shown; `json` prints what an API server would be told
    #[arg(short, long, value_enum, default_value_t)]
    output: Shown,
    /// AdmissionReviews and manifests, JSON or YAML; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// How answers are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Shown {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let mut world = world(args)?;
    let documents = input::read(&args.files)?;
    for document in &documents {
        world.learn(document)?;
    }
    let mut fine = true;
    for document in &documents {
        let Some(reviewed) = world.review(document)? else { continue };
        fine &= reviewed.response.allowed;
        match args.output {
            Shown::Json => out.json(&reviewed.response.review())?,
            Shown::Table => print(out, &document.place, &reviewed)?,
        }
        if args.explain && args.output == Shown::Table {
            reviewed.explain.iter().try_for_each(|line| out.line(printable(line)))?;
        }
    }
    Ok(Answer::of(fine))
}

/// The quotas, and what the log says.
fn world(args: &Args) -> Result<World, Error> {
    let at = args.at.unwrap_or_else(clock::now);
    let labels = LabelKeys::with(&args.labels).map_err(|e| Error::Usage(e.to_string()))?;
    let mut world = World::new(&args.cluster, at, labels)?;
    if let Some(path) = &args.kinds {
        let place = path.display();
        let table = fs::read_to_string(path).map_err(|e| Error::input(&place, e))?;
        world.declare_kinds(&table).map_err(|e| Error::input(&place, e))?;
    }
    let declared = world.declare(file::load(&args.quotas)?)?;
    if let Some(place) = &args.log {
        world.read(&OpenedLog::open_read(place)?, declared)?;
    }
    Ok(world)
}

/// `web.yaml:1: Deployment web/shop: allowed`, and below it why, or what should be known.
fn print(out: &mut Out, place: &str, reviewed: &world::Reviewed) -> Result<(), Error> {
    let Response { allowed, status, warnings, .. } = &reviewed.response;
    let paint = out.paint();
    let (style, text) = if *allowed { (Style::Good, "allowed") } else { (Style::Bad, "refused") };
    let what = printable(&reviewed.what).into_owned();
    let answer = paint.styled(style, text).into_owned();
    out.line(format_args!("{}: {what}: {answer}", printable(place)))?;
    if let Some(status) = status {
        let [cause] = &status.details.causes;
        out.line(format_args!("  {}: {}", cause.reason, printable(&status.message)))?;
    }
    warnings.iter().try_for_each(|w| out.line(format_args!("  warning: {}", printable(w))))
}
