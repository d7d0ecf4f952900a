//! `bizrq log export`: copies a log, record for record, into a folder that is itself a log.
//!
//! ```text
//! source  1 ── compared ── p ── copied ──────── n     p: where an interrupted export stopped
//! DIR     1 ────────────── p ───────────────▶ n       same root at p, or it is another log and is left alone
//! ```

use super::{Format, facts, is_held};
use crate::{
    cli::{Answer, Error, opened_log::OpenedLog, out::Out, stop},
    clock,
    domain::{
        event::Position,
        merkle::{Frontier, Hash},
    },
    event_log::{
        NewEvent,
        archive::{Manifest, ManifestError},
        codec::Scanned,
        file::{rollover, segments},
        survey::Survey,
    },
};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq log export --log ./log ./archive
  bizrq log export --log nats://localhost:4222 ./archive-2026

An export that was interrupted goes on where it stopped; one that was finished takes what came since. The folder is
a log: every command that reads one reads it, and `bizrq-replay verify` gives it the same root.")]
pub(super) struct Args {
    /// The log to copy
    #[arg(long, value_name = "LOG")]
    log: String,
    /// How the report is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// The archive; a folder that is missing is made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    archive: String,
    base: Position,
    position: Position,
    copied: u64,
    root: Hash,
}

/// Records of one append to the archive.
const BATCH: usize = 4096;

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    not_itself(&args.log, &args.dir)?;
    let source = OpenedLog::open_read(&args.log)?;
    let mut archive = Archive::open(&args.dir, source.address())?;
    let read = source
        .survey("exporting", |position, scanned, survey| archive.take(position, scanned, survey))?;
    let copied = archive.finish(&read)?;
    attest(&args.dir, source.address(), &read.tree, copied)?.print(args.output, out)?;
    Ok(Answer::Yes)
}

/// Sees that a log is not copied into itself, however its folder is called.
pub(super) fn not_itself(log: &str, dir: &Path) -> Result<(), Error> {
    let whole = |path: &Path| path.canonicalize().ok();
    match (whole(dir), log.split(',').any(|log| whole(Path::new(log)) == whole(dir))) {
        (Some(_), true) => Err(Error::Usage(format!(
            "{} is the log itself; give its archive a folder of its own",
            dir.display()
        ))),
        _ => Ok(()),
    }
}

/// Reads an archive back and puts its manifest beside it: what is claimed is what can be read.
pub(super) fn attest(
    dir: &Path,
    source: &str,
    wanted: &Frontier,
    copied: u64,
) -> Result<Report, Error> {
    let written = OpenedLog::open_read(&dir.display().to_string())?;
    let survey = written.survey("reading back", |_, _, _| Ok(()))?;
    if survey.tree != *wanted {
        let why = format!("read back it has root {}, not {}", survey.tree.root(), wanted.root());
        return Err(Error::log(dir.display(), why));
    }
    let failed = |e: ManifestError| Error::log(dir.display(), e);
    // An archive that did not grow stays as it is, byte for byte.
    let before = Manifest::read(dir).map_err(failed)?;
    if before.is_none_or(|before| before.bears_out(&survey.tree).is_err()) {
        Manifest::new(source, &survey, clock::now()).write(dir).map_err(failed)?;
    }
    Ok(Report {
        archive: dir.display().to_string(),
        base: survey.base.position(),
        position: survey.tree.position(),
        copied,
        root: survey.tree.root(),
    })
}

impl Report {
    pub(super) fn print(&self, format: Format, out: &mut Out) -> Result<(), Error> {
        if format == Format::Json {
            return out.json(self);
        }
        let lines = [
            ("archive", self.archive.clone()),
            ("position", self.position.to_string()),
            ("copied", format!("{} records", self.copied)),
            ("root", self.root.to_string()),
        ];
        facts(out, &lines)
    }
}

/// Where the archive ended the log had this tree, or it is another log.
pub(super) fn compare(
    dir: &Path,
    held: &Frontier,
    source: &str,
    log: &Frontier,
) -> Result<(), Error> {
    if log == held {
        return Ok(());
    }
    let end = |tree: &Frontier| format!("root {} at position {}", tree.root(), tree.position());
    let (held, log) = (end(held), end(log));
    let why = format!(
        "it ends with {held}, and {source} has {log}: it is no beginning of that log; export into a new folder"
    );
    Err(Error::log(dir.display(), why))
}

/// The folder that is being filled.
struct Archive<'a> {
    dir: &'a Path,
    /// The log that is copied.
    source: &'a str,
    /// Not open before its first record is known: a log that continues another begins with it.
    log: Option<OpenedLog>,
    /// What it held before, which is compared, not copied.
    held: Frontier,
    events: Vec<NewEvent>,
    copied: u64,
}

impl<'a> Archive<'a> {
    fn open(dir: &'a Path, source: &'a str) -> Result<Self, Error> {
        let (events, held) = Default::default();
        let mut archive = Self { dir, source, log: None, held, events, copied: 0 };
        if segments::list(dir).is_ok_and(|firsts| !firsts.is_empty()) {
            archive.held = archive.writing()?.tree()?;
        }
        Ok(archive)
    }

    fn writing(&mut self) -> Result<&OpenedLog, Error> {
        if self.log.is_none() {
            self.log = Some(OpenedLog::open_to_fill(&self.dir.display().to_string())?);
        }
        // It is there: the line above.
        self.log.as_ref().ok_or_else(|| Error::log(self.dir.display(), "it is not open"))
    }

    fn take(
        &mut self,
        position: Position,
        scanned: &Scanned<'_>,
        survey: &Survey,
    ) -> Result<(), Error> {
        // A folder in which nothing is yet can begin anywhere.
        let is_new = self.log.is_none();
        if !is_new && is_held(&self.held, position, survey, |tree| self.compare(tree))? {
            return Ok(());
        }
        let first = survey.records() == 1;
        let event = NewEvent::copied(scanned)
            .map_err(|e| Error::log(self.source, format!("position {position}: {e}")))?;
        if first && survey.base.position() > 0 && self.log.is_none() {
            rollover::begin(self.dir, &survey.base, &event)
                .map_err(|e| Error::log(self.dir.display(), e))?;
            self.copied = 1;
            return Ok(());
        }
        self.events.push(event);
        if self.events.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn compare(&self, log: &Frontier) -> Result<(), Error> {
        compare(self.dir, &self.held, self.source, log)
    }

    fn flush(&mut self) -> Result<(), Error> {
        let events = std::mem::take(&mut self.events);
        let count = events.len() as u64;
        if count > 0 {
            let _whole = stop::whole();
            self.writing()?.append(events)?;
            self.copied = self.copied.saturating_add(count);
        }
        Ok(())
    }

    fn finish(mut self, read: &Survey) -> Result<u64, Error> {
        if self.held.position() > read.tree.position() {
            self.compare(&read.tree)?;
        }
        self.flush()?;
        // An empty log has an archive, too.
        self.writing()?;
        let copied = self.copied;
        self.log.map_or(Ok(()), OpenedLog::close)?;
        Ok(copied)
    }
}
