//! `bizrq log info`: where a log ends, what it holds, how it is kept.

use super::{Format, facts};
use crate::{
    cli::{
        Answer, Error,
        opened_log::OpenedLog,
        out::{Align, Out, Table},
    },
    clock,
    event_log::{Facts, survey::Survey},
};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq log info --log ./log
  bizrq log info --log ./log -o json
  bizrq log info --log ./log --quick

The root is computed from every record, at about a million records a second; --quick leaves out what needs that.")]
pub(super) struct Args {
    /// The log
    #[arg(long, value_name = "LOG")]
    log: String,
    /// Only what is known without reading all records: no root, no counts
    #[arg(long)]
    quick: bool,
    /// How the report is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What is said of a log.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'l> {
    log: &'l str,
    position: u64,
    last_decision: u64,
    #[serde(flatten)]
    read: Option<Read>,
    storage: Facts,
}

/// What only a reading tells.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    base: u64,
    records: u64,
    root: String,
    recorded_from: Option<String>,
    recorded_to: Option<String>,
    event_bytes: u64,
    version: u32,
    types: BTreeMap<String, u64>,
    #[serde(skip)]
    millis: i64,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let log = OpenedLog::open_read(&args.log)?;
    let begun = clock::now();
    let (read, position, last_decision) = if args.quick {
        let head = log.head()?;
        (None, head.position, head.last_decision)
    } else {
        let survey = log.survey("reading", |_, _, _| Ok(()))?;
        let (position, last) = (survey.tree.position(), survey.last_decision);
        (
            Some(Read::new(survey, clock::now().millis().saturating_sub(begun.millis()))),
            position,
            last,
        )
    };
    let storage = log.storage()?;
    let report = Report { log: &args.log, position, last_decision, read, storage };
    match args.output {
        Format::Json => out.json(&report)?,
        Format::Table => report.print(out)?,
    }
    Ok(Answer::Yes)
}

impl Read {
    fn new(survey: Survey, millis: i64) -> Self {
        let [recorded_from, recorded_to] = match survey.recorded {
            Some((from, to)) => [from, to].map(|at| Some(at.to_string())),
            None => [None, None],
        };
        Self {
            base: survey.base.position(),
            records: survey.records(),
            root: survey.tree.root().to_string(),
            recorded_from,
            recorded_to,
            event_bytes: survey.bytes,
            version: survey.version,
            types: survey.types,
            millis,
        }
    }

    fn lines(&self) -> impl Iterator<Item = (&'static str, String)> {
        let continues = match self.base {
            0 => String::new(),
            base => format!("the log before, which ends at position {base}"),
        };
        let recorded = self.recorded_from.as_deref().zip(self.recorded_to.as_deref());
        let recorded = recorded.map(|(from, to)| format!("{from} to {to}")).unwrap_or_default();
        let cost = format!("{} records in {} ms", self.records, self.millis);
        [
            ("continues", continues),
            ("root", self.root.clone()),
            ("computed from", cost),
            ("recorded", recorded),
            ("event bytes", self.event_bytes.to_string()),
            ("version", self.version.to_string()),
        ]
        .into_iter()
    }
}

impl Report<'_> {
    fn print(&self, out: &mut Out) -> Result<(), Error> {
        let last = match self.last_decision {
            0 => "none".to_owned(),
            at => format!("at position {at}"),
        };
        let mut lines = vec![
            ("log".to_owned(), self.log.to_owned()),
            ("position".to_owned(), self.position.to_string()),
            ("last decision".to_owned(), last),
        ];
        if let Some(read) = &self.read {
            lines.extend(read.lines().map(|(label, says)| (label.to_owned(), says)));
        }
        lines.extend(self.storage.iter().map(|(name, says)| (words(name), says.clone())));
        facts(out, &lines)?;
        let types = self.read.iter().flat_map(|read| &read.types);
        let mut table = Table::new(&[("type", Align::Left), ("records", Align::Right)]);
        types.for_each(|(name, n)| table.push([name.as_str().into(), n.to_string().into()]));
        if table.is_empty() { Ok(()) } else { out.table(&table) }
    }
}

/// `lastRecordedRoot` for people.
fn words(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}
