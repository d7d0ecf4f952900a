//! `bizrq quota apply`: declares quota objects in a log that no API server writes quotas to.
//!
//! All or nothing is judged first: an object that is wrong, or does not fit the tree, keeps every other out.

use super::{
    check,
    file::{self, Fault, QuotaObject},
    validate,
};
use crate::{
    cli::{
        Answer, Error,
        opened_log::OpenedLog,
        operator,
        out::{Align, Cell, Format, Out, Style, Table},
    },
    clock,
    domain::{
        event::{Data, Event, Position, QuotaSpec},
        ledger::{self, Ledger},
    },
    event_log::NewEvent,
};
use serde::Serialize;
use std::{collections::HashMap, path::PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq quota apply --log ./log quotas.yaml
  bizrq quota apply --log ./log --as alice depts.yaml teams.yaml

What says the same as before appends nothing.")]
pub(super) struct Args {
    /// The log to append to: a folder, or nats://host:port,…; it is made if it is missing
    #[arg(long, value_name = "LOG")]
    log: String,
    /// Who declares it: the source becomes /operators/NAME
    #[arg(long = "as", value_name = "NAME", env = "USER", default_value = "cli", value_parser = operator)]
    operator: String,
    /// How the report is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// YAML files, each of one or more documents; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What the log says of a name last.
struct Last {
    uid: String,
    source: String,
    generation: i64,
    spec: QuotaSpec<'static>,
    removed: bool,
}

/// What became of an object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'o> {
    group: &'o str,
    generation: i64,
    changed: bool,
}

#[derive(Serialize)]
struct Report<'o> {
    groups: Vec<Row<'o>>,
    appended: usize,
    position: u64,
    root: String,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let file::Objects { good, mut faults } = file::read(&args.files)?;
    if !faults.is_empty() {
        // The tree is only worth judging when all of it can be read; and no log is made for nothing.
        validate::print(out, args.output, good.len(), &faults)?;
        return Ok(Answer::No);
    }
    let objects = check::parents_first(good);
    let log = OpenedLog::open_beside(&args.log)?;
    let (mut ledger, last) = read(&log)?;
    faults.extend(objects.iter().filter_map(|object| foreign(object, last.get(&object.name))));
    let (source, now) = (format!("/operators/{}", args.operator), clock::now());
    let generation = |object: &QuotaObject| last.get(&object.name).map_or(0, |l| l.generation);
    let changed = |object: &QuotaObject| !says_the_same(object, last.get(&object.name));
    let event = |o| check::event(o, generation(o).saturating_add(1), &source, now);
    let events: Vec<_> = objects.iter().filter(|o| changed(o)).map(event).collect();
    if faults.is_empty() {
        let unfit = check::declare(&mut ledger, &objects, &events);
        faults.extend(unfit.map_err(|e| Error::log(&args.log, e))?);
    }
    if !faults.is_empty() {
        validate::print(out, args.output, objects.len(), &faults)?;
        return Ok(Answer::No);
    }
    if append(&log, &args.log, &events)?.is_some_and(|last| last != ledger.position()) {
        // Somebody appended meanwhile, and the tree is judged by what stands before this.
        let mut unfit = check::unfit(&read(&log)?.0, &objects);
        if !unfit.is_empty() {
            for fault in &mut unfit {
                fault.why += "; somebody was faster: it is in the log and not in force, mend it and apply it again";
            }
            validate::print(out, args.output, objects.len(), &unfit)?;
            return Ok(Answer::No);
        }
    }
    let rows = objects.iter().map(|o| {
        let changed = changed(o);
        let generation = generation(o).saturating_add(i64::from(changed));
        Row { group: &o.name, generation, changed }
    });
    let tree = log.tree()?;
    let report = Report {
        groups: rows.collect(),
        appended: events.len(),
        position: tree.position(),
        root: tree.root().to_string(),
    };
    report.print(out, args.output)?;
    Ok(Answer::Yes)
}

/// The state of the log, and what it says of each quota.
fn read(log: &OpenedLog) -> Result<(Ledger, HashMap<String, Last>), Error> {
    // With hours: what went over from past periods is judged by what was spent in them.
    let mut ledger = Ledger::new(ledger::Options::default());
    let mut last: HashMap<String, Last> = HashMap::new();
    log.fold(&mut ledger, |_| true, |event| note(&mut last, event))?;
    Ok((ledger, last))
}

fn note(last: &mut HashMap<String, Last>, event: &Event<'_>) {
    let Some(name) = event.subject.strip_prefix("quotas/") else { return };
    match &event.data {
        Data::QuotaDeclared(declared) => {
            let spec = QuotaSpec {
                parent: declared.spec.parent.clone().into_owned(),
                hard: declared
                    .spec
                    .hard
                    .iter()
                    .map(|(k, q)| (k.clone().into_owned(), *q))
                    .collect(),
                notify_cash: declared.spec.notify_cash.clone(),
                notify_consumed: declared.spec.notify_consumed.clone(),
                cash_period: declared.spec.cash_period.clone(),
                ..declared.spec
            };
            let (uid, source) = (declared.uid.to_string(), event.source.to_string());
            let generation = declared.generation;
            let declared = Last { uid, source, generation, spec, removed: false };
            last.insert(name.to_owned(), declared);
        }
        Data::QuotaRemoved(removed) => {
            if let Some(last) = last.get_mut(name).filter(|l| l.uid == *removed.uid) {
                last.removed = true;
            }
        }
        _ => {}
    }
}

fn says_the_same(object: &QuotaObject, last: Option<&Last>) -> bool {
    last.is_some_and(|l| !l.removed && l.spec == object.spec)
}

/// A quota that an API server keeps is not declared beside it.
fn foreign(object: &QuotaObject, last: Option<&Last>) -> Option<Fault> {
    let last = last.filter(|l| l.uid != crate::domain::quota::uid_of(&object.name))?;
    Some(Fault {
        place: object.place.clone(),
        group: object.name.clone(),
        reason: "DeclaredElsewhere",
        why: format!(
            "{} keeps this quota (uid {}); change it there, with kubectl",
            last.source, last.uid
        ),
    })
}

/// Appends; the position of the last event, if there is any.
fn append(log: &OpenedLog, place: &str, events: &[Event<'_>]) -> Result<Option<Position>, Error> {
    let new: Result<Vec<_>, _> = events.iter().map(NewEvent::new).collect();
    let new = new.map_err(|e| Error::log(place, e))?;
    if new.is_empty() { Ok(None) } else { log.append(new).map(|appended| Some(appended.last)) }
}

impl Report<'_> {
    fn print(&self, out: &mut Out, format: Format) -> Result<(), Error> {
        let said = |row: &Row<'_>| if row.changed { "declared" } else { "unchanged" };
        match format {
            Format::Json => out.json(self),
            Format::Csv => out.csv(
                &["group", "generation", "outcome"],
                self.groups
                    .iter()
                    .map(|r| [r.group.to_owned(), r.generation.to_string(), said(r).to_owned()]),
            ),
            Format::Table => {
                let mut table = Table::new(&[
                    ("group", Align::Left),
                    ("generation", Align::Right),
                    ("", Align::Left),
                ]);
                for row in &self.groups {
                    let style = if row.changed { Style::Good } else { Style::Dim };
                    table.push([
                        row.group.into(),
                        row.generation.to_string().into(),
                        Cell::styled(style, said(row)),
                    ]);
                }
                out.table(&table)?;
                let Self { appended, position, root, .. } = self;
                out.line(format_args!(
                    "{appended} events appended; the log is at position {position}, root {root}"
                ))
            }
        }
    }
}
