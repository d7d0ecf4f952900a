//! `bizrq import csv`: a trace from somewhere else becomes part of a log.

use super::{
    Answer, Error,
    opened_log::OpenedLog,
    out::{Align, Cell, Format, Out, Style, Table},
    progress::Progress,
};
use crate::{
    clock,
    domain::merkle::Frontier,
    event_log::NewEvent,
    import::{Counts, Importer, Map, ReadError, RowError, Rows},
    input,
};
use serde::Serialize;
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Import a delimited export, one run a row
    Csv(Csv),
}

/// Import a delimited export, one run a row
///
/// Each row becomes a start and, once it ended, a stop, under the source /imports/NAME. A map says what the columns
/// mean. Rows that cannot be taken are listed and counted (exit code 1); the good ones are kept. Importing a file
/// again appends nothing; a later export of the same runs appends what is new.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq import csv --map openb.toml --cluster openb --log ./log openb_pod_list_default.csv
  bizrq import csv --map runs.toml --cluster lab --log ./log runs.csv.gz

A map:
  delimiter = \",\"
  [time]
  format = \"rfc3339\"          # or epoch-seconds, epoch-milliseconds, seconds (since `epoch`)
  [columns]
  name = \"job\"                # the row's identity, unless `uid` names another column
  group = \"team\"
  start = \"started\"           # empty: never ran
  stop = \"ended\"              # empty: still running
  [models]
  gpu = \"gpu_model\"           # which of cpu, memory, gpu it types
  [resources]
  cpu = { columns = [\"cores\"] }
  \"nvidia.com/gpu\" = { columns = [\"gpus\", \"share\"], unit = \"m\" }   # product of the columns")]
struct Csv {
    /// What the columns mean (TOML)
    #[arg(long, value_name = "MAP.toml")]
    map: PathBuf,
    /// The name under which the runs are known
    #[arg(long, value_name = "NAME", value_parser = cluster_name)]
    cluster: String,
    /// The log to append to: a folder, or nats://host:port,…; it is made if it is missing
    #[arg(long, value_name = "LOG")]
    log: String,
    /// How the report is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// The export, plain, gzip or zstd; `-` reads standard input
    file: PathBuf,
}

/// A map is a page of text.
const MAX_MAP_BYTES: u64 = 1 << 20;
/// Events of one append: enough for the disk, little enough that a kill loses little work.
const BATCH: usize = 2048;

pub(super) fn run(args: Args, out: &mut Out) -> Result<Answer, Error> {
    let What::Csv(args) = args.what;
    let map = read_map(&args.map)?;
    let name = args.file.display().to_string();
    let (input, bar) = open(&args.file)?;
    // The header is judged before a log is made for it.
    let rows = Rows::open(input, map).map_err(|e| read_error(&name, &e))?;
    let log = OpenedLog::open(&args.log)?;
    let mut importer = Importer::new(&args.cluster);
    let source = format!("/imports/{}", args.cluster);
    log.read(|scanned| scanned.source == *source, |_, event| importer.learn(event))?;
    let mut report = Report::begin(out, args.output)?;
    let mut batch = Batch { log: &log, events: Vec::new(), appended: 0 };
    let ended = import(rows, &mut importer, &mut batch, &mut report, &bar);
    drop(bar);
    // What was taken before a file broke off stays: the next try finds it there.
    let flushed = batch.flush();
    // What a failed append left on the log nobody knows who has not read it again.
    let is_known = flushed.is_ok() && !matches!(ended, Err(Ended::Told(_)));
    let at_end = is_known.then(|| Ok::<_, Error>((batch.appended, log.tree()?))).transpose()?;
    report.end(importer.counts(), at_end)?;
    ended.map_err(|e| match e {
        Ended::Read(e) => read_error(&name, &e),
        Ended::Told(e) => e,
    })?;
    flushed?;
    Ok(Answer::of(importer.counts().rejected == 0))
}

/// Why an import ended before its file did.
enum Ended {
    Read(ReadError),
    Told(Error),
}

fn import<R: Read>(
    rows: Rows<R>,
    importer: &mut Importer,
    batch: &mut Batch<'_>,
    report: &mut Report<'_>,
    bar: &Bar,
) -> Result<(), Ended> {
    for row in rows {
        let taken = match row.map_err(Ended::Read)? {
            Ok(row) => importer.take(&row, clock::now()),
            Err(e) => {
                importer.reject();
                Err(e)
            }
        };
        match taken {
            Ok(events) => {
                for event in &events {
                    let new =
                        NewEvent::new(event).map_err(|e| Ended::Told(Error::input("event", e)))?;
                    batch.push(new).map_err(Ended::Told)?;
                }
            }
            Err(e) => report.rejected(&e),
        }
        bar.show();
    }
    Ok(())
}

/// Events that wait for their append.
struct Batch<'l> {
    log: &'l OpenedLog,
    events: Vec<NewEvent>,
    appended: u64,
}

impl Batch<'_> {
    fn push(&mut self, event: NewEvent) -> Result<(), Error> {
        self.events.push(event);
        if self.events.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let events = std::mem::take(&mut self.events);
        let count = events.len() as u64;
        if count > 0 {
            self.log.append(events)?;
            self.appended = self.appended.saturating_add(count);
        }
        Ok(())
    }
}

/// The report as it is printed: refused rows as they are found, then the sums.
struct Report<'o> {
    out: &'o mut Out,
    format: Format,
    rejected: u64,
    /// The first failure to print; the import goes on without words, since half an import helps nobody.
    failed: Option<Error>,
}

/// The sums of an import in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sums<'c> {
    rows: u64,
    rejected: u64,
    never_ran: u64,
    started: u64,
    stopped: u64,
    running: u64,
    known: u64,
    repeated: u64,
    model_ambiguous: u64,
    ambiguous_texts: &'c std::collections::BTreeMap<String, u64>,
    /// These three are null where an append failed.
    appended: Option<u64>,
    position: Option<u64>,
    root: Option<String>,
}

impl<'o> Report<'o> {
    fn begin(out: &'o mut Out, format: Format) -> Result<Self, Error> {
        match format {
            Format::Json => out.bytes(b"{\"rejections\":[")?,
            Format::Csv => out.line("line,reason")?,
            Format::Table => {}
        }
        Ok(Self { out, format, rejected: 0, failed: None })
    }

    fn rejected(&mut self, row: &RowError) {
        if self.failed.is_none() {
            self.failed = self.print(row).err();
        }
    }

    fn print(&mut self, row: &RowError) -> Result<(), Error> {
        let (line, why) = (row.line, row.cause.to_string());
        match self.format {
            Format::Table => self.out.line(super::out::printable(&row.to_string()))?,
            Format::Csv => self.out.csv_row([line.to_string(), why])?,
            Format::Json => {
                let comma = if self.rejected == 0 { "" } else { "," };
                let row = serde_json::json!({ "line": line, "reason": why });
                self.out.bytes(format!("{comma}\n{row}").as_bytes())?;
            }
        }
        self.rejected = self.rejected.saturating_add(1);
        Ok(())
    }

    /// `at_end`: events appended, and the log's tree behind them, if they are known.
    fn end(self, counts: &Counts, at_end: Option<(u64, Frontier)>) -> Result<(), Error> {
        let sums = Sums {
            rows: counts.rows,
            rejected: counts.rejected,
            never_ran: counts.never_ran,
            started: counts.started,
            stopped: counts.stopped,
            running: counts.running,
            known: counts.known,
            repeated: counts.repeated,
            model_ambiguous: counts.ambiguous,
            ambiguous_texts: &counts.ambiguous_texts,
            appended: at_end.as_ref().map(|(appended, _)| *appended),
            position: at_end.as_ref().map(|(_, tree)| tree.position()),
            root: at_end.as_ref().map(|(_, tree)| tree.root().to_string()),
        };
        match self.format {
            _ if self.failed.is_some() => self.failed.map_or(Ok(()), Err),
            Format::Csv => Ok(()),
            Format::Json => {
                // The object was begun before its sums were known: they go on where the list ends.
                let sums = serde_json::to_string(&sums).map_err(|e| Error::Output(e.into()))?;
                self.out.line(format_args!("],\n{}", sums.trim_start_matches('{')))
            }
            Format::Table => sums.print(self.out),
        }
    }
}

impl Sums<'_> {
    fn print(&self, out: &mut Out) -> Result<(), Error> {
        let mut table = Table::new(&[("count", Align::Right), ("what", Align::Left)]);
        table.push([self.rows.to_string().into(), "rows below the header".into()]);
        let mut line = |style, count: u64, what: &str| {
            if count > 0 {
                table.push([Cell::styled(style, count.to_string()), what.into()]);
            }
        };
        line(Style::Bad, self.rejected, "rejected, listed above");
        line(Style::Plain, self.never_ran, "never ran: no start");
        line(Style::Plain, self.started, "runs that the log did not hold");
        line(Style::Plain, self.known, "runs that the log holds already");
        line(Style::Plain, self.repeated, "rows that repeat an earlier one");
        line(Style::Plain, self.running, "runs without an end");
        line(
            Style::Near,
            self.model_ambiguous,
            "runs whose model is a choice, no model (modelAmbiguous): counted under the generic key only",
        );
        out.table(&table)?;
        for (text, count) in &self.ambiguous_texts.iter().take(20).collect::<Vec<_>>() {
            out.line(format_args!("  {count:>6} × {}", super::out::printable(text)))?;
        }
        let more = self.ambiguous_texts.len().saturating_sub(20);
        if more > 0 {
            out.line(format_args!("         and {more} more texts"))?;
        }
        match (self.appended, self.position, &self.root) {
            (Some(appended), Some(position), Some(root)) => out.line(format_args!(
                "{appended} events appended; the log is at position {position}, root {root}"
            )),
            _ => out.line("how much was appended is not known; run it again: what is there is not appended twice"),
        }
    }
}

fn read_map(path: &Path) -> Result<Map, Error> {
    let place = path.display();
    let unreadable = |e: io::Error| Error::input(&place, format!("cannot be read: {e}"));
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_MAP_BYTES.saturating_add(1)).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_MAP_BYTES {
        return Err(Error::input(&place, "has more than a megabyte; is this a map?"));
    }
    Map::parse(&text).map_err(|e| Error::input(&place, e.to_string().trim_end()))
}

/// How far the file is, shown now and then.
struct Bar {
    progress: Progress,
    read: Arc<AtomicU64>,
}

impl Bar {
    fn show(&self) {
        self.progress.at(self.read.load(Ordering::Relaxed));
    }
}

/// Counts what is read of a file.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn open(path: &Path) -> Result<(Box<dyn Read + Send>, Bar), Error> {
    let stdin = path == Path::new("-");
    let unreadable = |e| Error::input(path.display(), format!("cannot be read: {e}"));
    let inner: Box<dyn Read + Send> =
        if stdin { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(unreadable)?) };
    let total = fs::metadata(path).ok().filter(|m| m.is_file() && !stdin).map(|m| m.len());
    let read = Arc::new(AtomicU64::new(0));
    let bar = Bar { progress: Progress::bytes("importing", total), read: Arc::clone(&read) };
    // Counted below the compression: the bar shows how far the file is.
    let input = input::decompressed(Counted { inner, read }).map_err(unreadable)?;
    Ok((input, bar))
}

fn read_error(name: &str, error: &ReadError) -> Error {
    Error::input(name, error)
}

/// A name of letters, digits, `.`, `_`, `-`, at most 63 of them: it becomes part of the source.
fn cluster_name(text: &str) -> Result<String, String> {
    if crate::domain::resources::is_model(text) {
        return Ok(text.to_owned());
    }
    Err("use at most 63 letters, digits, `.`, `_` or `-`, beginning with a letter or digit"
        .to_owned())
}
