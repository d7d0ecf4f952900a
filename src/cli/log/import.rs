//! `bizrq log import`: puts an archive into a log, every record at the position that it had.
//!
//! The whole archive is proved first; only then is anything appended. What the log holds already is compared with the
//! archive record by record, and the import goes on behind it: so does one that was interrupted.

mod held;

use super::{Format, facts, is_held};
use crate::{
    cli::{Answer, Error, opened_log::OpenedLog, out, out::Out, stop},
    domain::{
        event::Position,
        merkle::{Frontier, Hash},
    },
    event_log::{NewEvent, archive::Manifest, codec::Scanned, survey::Survey},
};
use held::Held;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq log import --log ./restored ./archive
  bizrq log import --log nats://localhost:4222 ./archive
  bizrq log import --log nats://localhost:4222 ./log     # a file log moves to NATS

The log must be empty, or hold the archive's beginning, or all of it and more: what both hold is compared, and the
first record that differs is named. Nobody else may append to the log meanwhile. What was imported has the archive's
positions and its root.")]
pub(super) struct Args {
    /// The log to fill
    #[arg(long, value_name = "LOG")]
    log: String,
    /// How the report is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// The archive, or any file log
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    log: String,
    base: Position,
    position: Position,
    copied: u64,
    root: Hash,
}

/// Records of one append.
const BATCH: usize = 4096;

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let archive = OpenedLog::open_read(&args.dir.display().to_string())?;
    let (whole, opening) = prove(&archive, &args.dir)?;
    let target = open(&args.log, &whole.base, opening.as_ref())?;
    let (first, last) = (whole.base.position().saturating_add(1), whole.tree.position());
    let mut filling =
        Filling { target: &target, held: Held::of(&target, first)?, next: Vec::new(), copied: 0 };
    filling.held.meets(first, last)?;
    archive
        .survey("importing", |position, scanned, survey| filling.take(position, scanned, survey))?;
    filling.flush(last)?;
    let (copied, tree) = (filling.copied, target.tree()?);
    let held_all = filling.held.tree.position() > last;
    if tree != whole.tree && !held_all {
        let (root, wanted) = (tree.root(), whole.tree.root());
        let why = format!("it has root {root}, the archive has {wanted}: somebody else appended");
        return Err(Error::log(target.address(), why));
    }
    let report = Report {
        log: target.address().to_owned(),
        base: whole.base.position(),
        position: tree.position(),
        copied,
        root: tree.root(),
    };
    target.close()?;
    report.print(args.output, out)?;
    Ok(Answer::Yes)
}

impl Report {
    fn print(&self, format: Format, out: &mut Out) -> Result<(), Error> {
        if format == Format::Json {
            return out.json(self);
        }
        let lines = [
            ("log", self.log.clone()),
            ("position", self.position.to_string()),
            ("copied", format!("{} records", self.copied)),
            ("root", self.root.to_string()),
        ];
        facts(out, &lines)
    }
}

/// Proves every record of the archive, then its end by the manifest. Gives its first record, too, if it begins
/// by saying what it continues.
fn prove(archive: &OpenedLog, dir: &Path) -> Result<(Survey, Option<NewEvent>), Error> {
    let failed = |why: &dyn ToString| Error::input(dir.display(), why.to_string());
    let manifest = Manifest::read(dir).map_err(|e| failed(&e))?;
    let mut opening = None;
    let whole = archive.survey("proving", |position, scanned, survey| {
        if survey.records() == 1 && survey.base.position() > 0 {
            opening = Some(copied(position, scanned)?);
        }
        Ok(())
    })?;
    match manifest {
        Some(manifest) => manifest.bears_out(&whole.tree).map_err(|e| failed(&e))?,
        None => out::note(format!(
            "{} has no manifest: that nothing is missing at its end is not proved",
            dir.display()
        )),
    }
    Ok((whole, opening))
}

/// The log to fill: an archive that continues another log begins one with its own first record.
fn open(log: &str, base: &Frontier, opening: Option<&NewEvent>) -> Result<OpenedLog, Error> {
    match opening {
        Some(opening) => OpenedLog::open_continued(log, base, opening),
        None => OpenedLog::open(log),
    }
}

/// The log that is being filled.
struct Filling<'l> {
    target: &'l OpenedLog,
    held: Held<'l>,
    next: Vec<NewEvent>,
    copied: u64,
}

impl Filling<'_> {
    fn take(
        &mut self,
        position: Position,
        scanned: &Scanned<'_>,
        survey: &Survey,
    ) -> Result<(), Error> {
        if position <= self.held.tree.position() {
            // The first record that differs is named, before trees are compared.
            self.held.compare(position, scanned)?;
        }
        let held = &self.held;
        if is_held(&held.tree, position, survey, |tree| held.compare_trees(tree))? {
            return Ok(());
        }
        self.next.push(copied(position, scanned)?);
        if self.next.len() >= BATCH { self.flush(position) } else { Ok(()) }
    }

    /// Appends what waits, the last of which belongs at `last`.
    fn flush(&mut self, last: Position) -> Result<(), Error> {
        let count = self.next.len() as u64;
        if count > 0 {
            let first = last.saturating_add(1).saturating_sub(count);
            let _whole = stop::whole();
            self.target.append_at(first, std::mem::take(&mut self.next))?;
            self.copied = self.copied.saturating_add(count);
        }
        Ok(())
    }
}

fn copied(position: Position, scanned: &Scanned<'_>) -> Result<NewEvent, Error> {
    NewEvent::copied(scanned).map_err(|e| Error::input(format!("position {position}"), e))
}
