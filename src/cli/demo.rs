//! `bizrq demo`: a simulated fortnight in a real log, read back, proved and explained.

mod people;
mod report;
#[cfg(feature = "service")]
mod serve;

use super::{
    Answer, Error,
    opened_log::OpenedLog,
    out::{Out, note},
    progress::Progress,
};
use crate::{
    demo::{self, Options},
    domain::{
        event::Position,
        ledger::{Ledger, ahead::TOGETHER},
    },
    event_log::{
        OpenError,
        any::is_address,
        bulk::{self, Source},
        file::roots::Roots,
    },
    projection::fold::ahead,
};
use report::{Proof, Report};
use std::{fs, io, path::Path};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq demo
  bizrq demo --seed 7 --log ./demo
  bizrq demo --pods 1000000 --log ./bench
  bizrq demo --json | jq .exhausted
  bizrq demo --serve

The fortnight is 2026-11-02 to 2026-11-16, whatever the clock says. The same seed gives the same bytes. Nothing is
staged: quotas are proposed and declared, workloads reviewed and admitted or refused by the rules that the webhook
uses, everything is appended to a real log, and every number that is printed was read back from it.")]
pub(super) struct Args {
    /// Another seed, another fortnight
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Pods in all; the story alone has about a hundred and twenty
    #[arg(long, value_name = "N", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pods: u64,
    /// Keep the log in this folder or stream (nats://host:port), which must be new or empty
    #[arg(long, value_name = "LOG")]
    log: Option<String>,
    /// Leave the query API and its page running on the fortnight, until Ctrl-C
    #[cfg(feature = "service")]
    #[arg(long)]
    serve: bool,
    /// Where they listen
    #[cfg(feature = "service")]
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090", requires = "serve")]
    listen: std::net::SocketAddr,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let place = Place::of(args.log.as_deref())?;
    let options = Options { seed: args.seed, pods: args.pods };
    let played = play(&place.name, options)?;
    if args.pods < played.pods {
        note(format_args!(
            "the story itself takes {} pods; {} were asked for",
            played.pods, args.pods
        ));
    }
    let (ledger, proof) = read_back(&place.name)?;
    let report = Report::of(options, args.log.as_deref(), &played, &ledger, proof)?;
    if args.json {
        out.json(&report)?;
    } else {
        people::print(&report, &played, out)?;
    }
    #[cfg(feature = "service")]
    if args.serve {
        serve::serve(&place.name, args.listen, out)?;
    }
    Ok(Answer::of(report.is_proved()))
}

fn play(place: &str, options: Options) -> Result<demo::Played, Error> {
    let log = OpenedLog::open(place)?;
    // A pod is told of in two records, a little more with its workload.
    let records = options.pods.saturating_mul(9) / 4;
    let bar = Progress::items("simulating", Some(records));
    let played = perform(&log, options, |done| bar.at(done));
    let played = played.map_err(|e| Error::log(place, e))?;
    log.close()?;
    Ok(played)
}

/// Through the webhook, where this build has one.
fn perform(
    log: &OpenedLog,
    options: Options,
    progress: impl FnMut(u64),
) -> Result<demo::Played, demo::Error> {
    #[cfg(feature = "service")]
    {
        let stage = demo::Stage::open(log.shared(), &demo::CLUSTERS)?;
        log.with_log(async |_| demo::play_on(stage, options, progress).await)
    }
    #[cfg(not(feature = "service"))]
    log.with_log(async |log| demo::play(log, options, progress).await)
}

/// Reads the log as an auditor would: every record against its leaf, the tree against the recorded roots, where there
/// are such; and folds it.
fn read_back(place: &str) -> Result<(Ledger, Proof), Error> {
    let failed = |e: OpenError| Error::log(place, e);
    let roots = Roots::read(Path::new(place)).map_err(failed)?;
    let bar = Progress::items("reading back", Some(roots.last_position()));
    let mut ledger = Ledger::default();
    let source = Source::log(place, Position::MAX).map_err(failed)?;
    let summary = bulk::read(source, |batch| {
        for events in batch.events_by(TOGETHER) {
            for (position, read) in ahead([&ledger], events) {
                // The reading thread has grown the tree; the root is that of its tree.
                ledger.fold(position, &read.record()).map_err(|e| Error::log(place, e))?;
            }
        }
        bar.more(batch.len() as u64);
        Ok::<_, Failed>(())
    })
    .map_err(|failed: Failed| failed.told(place))?;
    let proof = Proof {
        records: summary.lines,
        bytes: summary.bytes,
        roots: roots.entries().len() as u64,
        root: summary.tree.map(|tree| tree.root()).unwrap_or_default(),
        last_root: roots.entries().last().map(|(_, root)| *root),
        keeps_roots: !is_address(place),
    };
    Ok((ledger, proof))
}

/// Why reading back ended.
enum Failed {
    Open(OpenError),
    Told(Error),
}

impl From<OpenError> for Failed {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl Failed {
    fn told(self, place: &str) -> Error {
        match self {
            Self::Open(error) => Error::log(place, error),
            Self::Told(error) => error,
        }
    }
}

/// Where the log is: a place to keep, or a folder that goes when the command ends.
struct Place {
    name: String,
    keep: bool,
}

impl Place {
    fn of(kept: Option<&str>) -> Result<Self, Error> {
        let Some(place) = kept else { return Self::temporary() };
        // A log that is there already belongs to somebody; what is missing cannot be opened, and is made later.
        if let Ok(log) = OpenedLog::open_read(place) {
            let position = log.head()?.position;
            if position > 0 {
                let why = format!("holds a log of {position} records already; give a new one");
                return Err(Error::log(place, why));
            }
        }
        Ok(Self { name: place.to_owned(), keep: true })
    }

    fn temporary() -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        for n in 0_u32..1000 {
            let path = parent.join(format!("bizrq-demo-{}-{n}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { name: path.display().to_string(), keep: false }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::log(path.display(), e)),
            }
        }
        Err(Error::log(parent.display(), "is full of earlier demos; remove bizrq-demo-* there"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed is left to whoever cleans the temporary folder.
            let _ = fs::remove_dir_all(&self.name);
        }
    }
}
