//! `bizrq quota tree`: who may use what, who does, and what is left, drawn as the tree that it is.

pub(in crate::cli) mod draw;

use super::{
    check,
    file::{self, QuotaObject},
};
use crate::{
    cli::{
        Answer, Error,
        opened_log::OpenedLog,
        out::{Format, Out},
    },
    clock,
    domain::{
        event::Data,
        ledger::{self, Ledger},
        standing::{RowJson, Tree},
        time::Timestamp,
    },
};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq quota tree --log ./log
  bizrq quota tree --log ./log --at 2026-11-30T00:00:00Z dept-1
  bizrq quota tree --quotas quotas.yaml
  bizrq quota tree --log ./log --quotas planned.yaml -o json

Columns: hard (the limit), used (own use and what was given to children: the larger of a child's hard and used), self
(own use), consumed (unit-hours spent by the whole subtree), left (hard less used). A row cash/K counts unit-hours.
With --quotas the quotas of the log are left out: the tree shows what these files would make of its history.")]
#[command(group(clap::ArgGroup::new("input").required(true).multiple(true).args(["quotas", "log"])))]
pub(super) struct Args {
    /// YAML files of quotas; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    quotas: Vec<PathBuf>,
    /// The log to read: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: Option<String>,
    /// Count spend up to this instant; now, unless given
    #[arg(long, value_name = "T", value_parser = instant)]
    at: Option<Timestamp>,
    /// Show keys that a group uses and does not list, too
    #[arg(long)]
    all: bool,
    /// How the tree is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Show this group and what is below it
    group: Option<String>,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let objects = file::load(&args.quotas)?;
    let mut ledger = Ledger::new(ledger::Options::default());
    let log = args.log.as_deref().map(OpenedLog::open_read).transpose()?;
    let since = since(&objects, log.as_ref())?;
    let declared = declare(&mut ledger, objects, since)?;
    ledger.begin_log();
    if let Some(log) = &log {
        let is_quota = |data: &Data<'_>| {
            matches!(data, Data::QuotaDeclared(_) | Data::QuotaRemoved(_) | Data::QuotaProposed(_))
        };
        log.fold(&mut ledger, |event| !declared || !is_quota(&event.data), |_| {})?;
    }
    let at = args.at.unwrap_or_else(clock::now);
    let mut tree = Tree::of(&ledger, at, args.all).map_err(|e| Error::input("--at", e))?;
    if let Some(name) = &args.group {
        let none = || format!("no group is called `{name}`; leave it out to see all");
        tree = tree.below(name).ok_or_else(|| Error::Usage(none()))?;
    }
    match args.output {
        Format::Json => out.json(&tree)?,
        Format::Csv => csv(&tree, out)?,
        Format::Table => draw::draw(&tree, out)?,
    }
    Ok(Answer::Yes)
}

/// When the objects of files come into force: before everything; if their budgets begin anew, no period is counted
/// before the first thing that happened.
fn since(objects: &[QuotaObject], log: Option<&OpenedLog>) -> Result<Timestamp, Error> {
    let Some(log) = log.filter(|_| objects.iter().any(|o| o.spec.cash_period.is_some())) else {
        return Ok(Timestamp::MIN);
    };
    let mut first: Option<Timestamp> = None;
    log.read(
        |_| true,
        |_, event| first = Some(first.map_or(event.time, |first| first.min(event.time))),
    )?;
    Ok(first.unwrap_or(Timestamp::MIN))
}

/// Declares the objects of files before anything else happened; whether there were any.
fn declare(
    ledger: &mut Ledger,
    objects: Vec<QuotaObject>,
    since: Timestamp,
) -> Result<bool, Error> {
    let objects = check::parents_first(objects);
    let event = |object| check::event(object, 1, "/operators/tree", since);
    let events: Vec<_> = objects.iter().map(event).collect();
    check::declare(ledger, &objects, &events).map_err(|e| Error::input("quotas", e))?;
    Ok(!objects.is_empty())
}

fn csv(tree: &Tree, out: &mut Out) -> Result<(), Error> {
    out.csv_row([
        "group",
        "parent",
        "state",
        "key",
        "unit",
        "hard",
        "used",
        "self",
        "consumedHours",
        "left",
    ])?;
    for group in &tree.groups {
        for row in &group.keys {
            let json = RowJson::from(row.clone());
            out.csv_row([
                &*group.group,
                group.parent.as_deref().unwrap_or_default(),
                group.state,
                &json.key,
                json.unit,
                json.hard.as_deref().unwrap_or_default(),
                &json.used,
                &json.self_used,
                &json.consumed_hours,
                json.left.as_deref().unwrap_or_default(),
            ])?;
        }
    }
    Ok(())
}

pub(in crate::cli) fn instant(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).map_err(|e| e.to_string())
}
