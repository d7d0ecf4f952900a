//! `bizrq log tail`: the last records of a log, and those that come.

use crate::{
    cli::{
        Answer, Error,
        opened_log::OpenedLog,
        out::{Out, printable},
    },
    domain::{
        event::{Kind, Position, TYPE_PREFIX},
        merkle::LeafHasher,
    },
    event_log::{
        AnyLog, EventLog, NewEvent, Reader, Records,
        codec::{Decoded, Decoder, Scanned},
    },
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::VecDeque;

mod group;

use group::Group;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq log tail --log ./log
  bizrq log tail --log ./log --follow --type workloads.refused,quota
  bizrq log tail --log ./log --from 4711 -o lines
  bizrq log tail --log ./log --last 5 --group team-b -o json

`-o json` prints an object a line, with the position; `-o lines` prints records as a file log keeps them.")]
pub(super) struct Args {
    /// The log
    #[arg(long, value_name = "LOG")]
    log: String,
    /// Go on with the records that come, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// From this position on
    #[arg(long, value_name = "N", conflicts_with = "last")]
    from: Option<Position>,
    /// The last so many (of those that --type and --group let through)
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: usize,
    /// Only these types: a name (pod.started) or what it begins with (pod)
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = type_name)]
    types: Vec<String>,
    /// Only what is about this business group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// How records are shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// How records are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    #[default]
    Table,
    /// An object a line, for programs
    Json,
    /// As a file log keeps them
    Lines,
}

/// A record in `-o json`.
#[derive(Serialize)]
struct Shown<'r> {
    position: Position,
    event: &'r RawValue,
}

/// Characters of a record's data in a table.
const DATA_CHARS: usize = 120;

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let log = OpenedLog::open_read(&args.log)?;
    let failed = |e: crate::event_log::ReadError| Error::log(log.address(), e);
    log.with_log(async |log: &AnyLog| {
        let (first, head) = log.range().await.map_err(failed)?;
        let mut tail = Tail::new(args, first, head);
        let mut reader = log.read(tail.begin(args, first)).map_err(failed)?;
        loop {
            // What is there is shown before anything is waited for.
            let records = tokio::select! {
                biased;
                _ = tokio::signal::ctrl_c() => break,
                records = reader.next() => records.map_err(failed)?,
            };
            let records = match records {
                Some(records) => records,
                None if !args.follow => break,
                None => {
                    tail.print_last(out)?;
                    out.flush()?;
                    tokio::select! {
                        _ = tokio::signal::ctrl_c() => break,
                        records = reader.tail() => records.map_err(failed)?,
                    }
                }
            };
            tail.take(&records, out)?;
        }
        tail.print_last(out)
    })?;
    Ok(Answer::Yes)
}

/// What is shown of the records that are read.
struct Tail {
    format: Format,
    types: Vec<String>,
    group: Option<Group>,
    /// Nothing before this is shown, though it may be read: a pod's end does not name its group.
    from: Position,
    /// The last lines up to where the log ended, and how many there may be; `None` once they are printed.
    last: Option<(VecDeque<String>, usize)>,
    head: Position,
    decoder: Decoder,
    hasher: LeafHasher,
}

impl Tail {
    fn new(args: &Args, first: Position, head: Position) -> Self {
        let last = args.from.is_none().then(|| (VecDeque::new(), args.last));
        Self {
            format: args.output,
            types: args.types.clone(),
            group: args.group.as_deref().map(Group::new),
            from: args.from.unwrap_or(first).max(first),
            last,
            head,
            decoder: Decoder::default(),
            hasher: LeafHasher::default(),
        }
    }

    /// Where reading begins.
    fn begin(&self, args: &Args, first: Position) -> Position {
        match (&self.group, args.from) {
            (None, Some(_)) => self.from,
            (None, None) if self.types.is_empty() => {
                let last = u64::try_from(args.last).unwrap_or(u64::MAX);
                self.head.saturating_add(1).saturating_sub(last).max(first)
            }
            _ => first,
        }
    }

    fn take(&mut self, records: &Records, out: &mut Out) -> Result<(), Error> {
        for (position, raw) in records.iter() {
            let scanned = match raw.scan() {
                Ok(scanned) => scanned,
                Err(why) => {
                    self.show(position, format!("{position:>10}  no event: {why}"), out)?;
                    continue;
                }
            };
            if self.wants(&scanned) && position >= self.from {
                let line = self.line(position, &scanned)?;
                self.show(position, line, out)?;
            }
            if position == self.head {
                self.print_last(out)?;
            }
        }
        Ok(())
    }

    fn wants(&mut self, scanned: &Scanned<'_>) -> bool {
        // A group is learned from all types.
        let of_group = self.group.as_mut().is_none_or(|group| {
            let decoded = self.decoder.decode(scanned);
            matches!(decoded, Ok(Decoded::Event(event)) if group.concerns(&event))
        });
        let name = scanned.type_name.strip_prefix(TYPE_PREFIX).unwrap_or(&scanned.type_name);
        let is = |wanted: &String| {
            let rest = name.strip_prefix(wanted.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        of_group && (self.types.is_empty() || self.types.iter().any(is))
    }

    fn show(&mut self, position: Position, line: String, out: &mut Out) -> Result<(), Error> {
        match &mut self.last {
            Some((lines, most)) if position <= self.head => {
                lines.push_back(line);
                if lines.len() > *most {
                    lines.pop_front();
                }
                Ok(())
            }
            _ => out.line(line),
        }
    }

    /// Prints what was kept.
    fn print_last(&mut self, out: &mut Out) -> Result<(), Error> {
        let lines = self.last.take().map(|(lines, _)| lines).unwrap_or_default();
        lines.into_iter().try_for_each(|line| out.line(line))
    }

    fn line(&mut self, position: Position, scanned: &Scanned<'_>) -> Result<String, Error> {
        if self.format == Format::Table {
            return Ok(row(position, scanned));
        }
        let failed = |e: &dyn ToString| Error::input(format!("position {position}"), e.to_string());
        let mut line = Vec::new();
        let event = NewEvent::copied(scanned).map_err(|e| failed(&e))?;
        event.write_line(position, &mut self.hasher, &mut line);
        let line = String::from_utf8(line).map_err(|e| failed(&e))?;
        let line = line.trim_end();
        if self.format == Format::Lines {
            return Ok(line.to_owned());
        }
        let event = serde_json::from_str(line).map_err(|e| failed(&e))?;
        serde_json::to_string(&Shown { position, event }).map_err(|e| failed(&e))
    }
}

/// One line for people.
fn row(position: Position, scanned: &Scanned<'_>) -> String {
    let name = scanned.type_name.strip_prefix(TYPE_PREFIX).unwrap_or(&scanned.type_name);
    let name = name.strip_suffix(".v1").unwrap_or(name);
    let (time, subject) = (&scanned.time, &scanned.subject);
    let mut data: String = scanned.data.chars().take(DATA_CHARS).collect();
    if data.len() < scanned.data.len() {
        data.push('…');
    }
    printable(&format!("{position:>10}  {time}  {name:<20}  {subject:<32}  {data}")).into_owned()
}

/// A type, or the beginning of several; a name that is none would silently show nothing.
fn type_name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix(TYPE_PREFIX).unwrap_or(text);
    let begins = |kind: &Kind| {
        kind.name() == name || kind.name().strip_prefix(name).is_some_and(|r| r.starts_with('.'))
    };
    match Kind::ALL.iter().any(begins) || text.starts_with(TYPE_PREFIX) {
        true => Ok(name.to_owned()),
        false => {
            let all: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            Err(format!("no event type; the types are {}", all.join(", ")))
        }
    }
}
