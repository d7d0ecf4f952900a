//! `bizrq quota validate`: are these files right, each in itself and together as a tree?

use super::{check, file};
use crate::cli::{
    Answer, Error,
    out::{Format, Out, Style, printable},
};
use crate::domain::{ledger::Ledger, time::Timestamp};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq quota validate quotas.yaml
  bizrq quota validate -o json depts.yaml teams.yaml
  kubectl get bizrq -o yaml | bizrq quota validate -

An object:
  apiVersion: bizrq.io/v1
  kind: BizGroupResourceQuota
  metadata: {name: team-a}
  spec:
    parent: dept-1
    hard:
      limits.cpu: \"10\"
      limits.nvidia.com/gpu.A30: \"4\"
      cash/limits.cpu: \"100\"       # core-hours")]
pub(super) struct Args {
    /// YAML files, each of one or more documents; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How the answer is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The answer in JSON.
#[derive(Serialize)]
struct Report<'f> {
    valid: bool,
    groups: usize,
    faults: &'f [file::Fault],
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let file::Objects { good, mut faults } = file::read(&args.files)?;
    let groups = good.len();
    let objects = check::parents_first(good);
    let declared = |object| check::event(object, 1, "/operators/validate", Timestamp::MIN);
    let events: Vec<_> = objects.iter().map(declared).collect();
    let tree = check::declare(&mut Ledger::default(), &objects, &events);
    faults.extend(tree.map_err(|e| Error::input("quotas", e))?);
    print(out, args.output, groups, &faults)?;
    Ok(Answer::of(faults.is_empty()))
}

/// Prints what is wrong, or that nothing is.
pub(super) fn print(
    out: &mut Out,
    format: Format,
    groups: usize,
    faults: &[file::Fault],
) -> Result<(), Error> {
    match format {
        Format::Json => out.json(&Report { valid: faults.is_empty(), groups, faults }),
        Format::Csv => {
            out.csv_row(["place", "group", "reason", "message"])?;
            faults.iter().try_for_each(|f| out.csv_row([&*f.place, &f.group, f.reason, &f.why]))
        }
        Format::Table => {
            let paint = out.paint();
            for f in faults {
                let reason = paint.styled(Style::Bad, f.reason).into_owned();
                let group =
                    if f.group.is_empty() { String::new() } else { format!("{}: ", f.group) };
                out.line(format_args!(
                    "{}: {}{reason}: {}",
                    printable(&f.place),
                    printable(&group),
                    printable(&f.why)
                ))?;
            }
            match faults.len() {
                0 => out
                    .line(format_args!("{groups} groups, {}", paint.styled(Style::Good, "valid"))),
                1 => out.line("1 fault"),
                n => out.line(format_args!("{n} faults")),
            }
        }
    }
}
