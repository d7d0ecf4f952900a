//! `bizrq log archive`: as `export`, into compressed segments, and up to an instant.
//!
//! ```text
//! source  1 ── compared ── p ── copied ── q │ published at T or later        p: where the archive ended
//! DIR     1 ────────────── p ───────────▶ q                                  T: --until
//! ```

use super::{
    Format,
    export::{attest, compare},
    is_held,
};
use crate::{
    cli::{Answer, Error, opened_log::OpenedLog, out::Out, quota::tree::instant, stop},
    domain::{event::Position, merkle::Frontier, time::Timestamp},
    event_log::{NewEvent, archive::Packer, codec::Scanned, file::segments, survey::Survey},
};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq log archive --log ./log ./archive
  bizrq log archive --log nats://localhost:4222 --until 2026-12-01T00:00:00Z ./archive
  bizrq meter --log ./archive,nats://localhost:4222

Every command that reads a log reads the archive, alone or before the log that goes on; both may hold the same records,
which are then proved to be the same. `bizrq log import` fills a log from it. Started again, it goes on where it ended.")]
pub(super) struct Args {
    /// The log to copy
    #[arg(long, value_name = "LOG")]
    log: String,
    /// End before the first record that was published at this instant or later [default: copy everything]
    #[arg(long, value_name = "T", value_parser = instant)]
    until: Option<Timestamp>,
    /// How the report is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// The archive; a folder that is missing is made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let source = OpenedLog::open_read(&args.log)?;
    let mut filling = Filling::open(args, source.address())?;
    let read = source
        .survey("archiving", |position, scanned, survey| filling.take(position, scanned, survey))?;
    let (tree, copied) = filling.finish(&read)?;
    attest(&args.dir, source.address(), &tree, copied)?.print(args.output, out)?;
    Ok(Answer::Yes)
}

/// The archive that is being filled.
struct Filling<'a> {
    dir: &'a Path,
    /// The log that is copied.
    source: &'a str,
    until: Option<Timestamp>,
    packer: Packer,
    /// What was there before, which is compared, not copied.
    held: Frontier,
    /// A record of the instant or later was met.
    ended: bool,
    copied: u64,
}

impl<'a> Filling<'a> {
    fn open(args: &'a Args, source: &'a str) -> Result<Self, Error> {
        let dir = args.dir.as_path();
        let failed = |e: &dyn ToString| Error::log(dir.display(), e.to_string());
        let mut packer = Packer::open(dir).map_err(|e| failed(&e))?;
        if !segments::list(dir).map_err(|e| failed(&e))?.is_empty() {
            let archive = OpenedLog::open_read(&dir.display().to_string())?;
            archive.survey("comparing", |_, _, survey| {
                packer.note(&survey.tree, survey.last_decision);
                Ok(())
            })?;
        }
        let held = packer.tree().clone();
        Ok(Self { dir, source, until: args.until, packer, held, ended: false, copied: 0 })
    }

    fn take(
        &mut self,
        position: Position,
        scanned: &Scanned<'_>,
        survey: &Survey,
    ) -> Result<(), Error> {
        let is_new = self.held.position() == 0;
        if !is_new && is_held(&self.held, position, survey, |tree| self.compare(tree))? {
            return Ok(());
        }
        self.ended |= self.is_later(scanned);
        if self.ended {
            return Ok(());
        }
        let event = NewEvent::copied(scanned)
            .map_err(|e| Error::log(self.source, format!("position {position}: {e}")))?;
        self.copied = self.copied.saturating_add(1);
        let pushed = self.packer.push(&event, &survey.tree, survey.last_decision);
        pushed.map_err(|e| Error::log(self.dir.display(), e))
    }

    /// What says no instant, as a message that is no event, is of none.
    fn is_later(&self, scanned: &Scanned<'_>) -> bool {
        let Some(until) = self.until else { return false };
        Timestamp::parse(&scanned.recorded_at).is_ok_and(|published| published >= until)
    }

    fn compare(&self, log: &Frontier) -> Result<(), Error> {
        compare(self.dir, &self.held, self.source, log)
    }

    fn finish(self, read: &Survey) -> Result<(Frontier, u64), Error> {
        if self.held.position() > read.tree.position() {
            self.compare(&read.tree)?;
        }
        if self.packer.tree().position() == 0 {
            return Err(Error::Usage(match self.until {
                Some(until) if self.ended => format!(
                    "--until {until}: nothing to archive; the first record of log {} was published at that instant or \
                     later",
                    self.source
                ),
                _ => format!("--log {}: nothing to archive; the log has no records", self.source),
            }));
        }
        let (dir, copied) = (self.dir, self.copied);
        // What did not grow stays as it is, byte for byte; what was interrupted gets what belongs beside its segments.
        let _whole = stop::whole();
        let tree = self.packer.finish().map_err(|e| Error::log(dir.display(), e))?;
        Ok((tree, copied))
    }
}
