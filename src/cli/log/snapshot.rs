//! `bizrq log snapshot`: the state at the log's head in one file, from which a new replica starts.

use super::facts;
use crate::{
    cli::{Answer, Error, opened_log::OpenedLog, out::Out},
    projection::{MemoryStore, Runner, Snapshots, runner},
};
use std::path::PathBuf;
use tokio::sync::oneshot;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq log snapshot --log ./log --to ./store/snapshots
  bizrq log snapshot --log ./log --to ./snapshots --keep 7

The fold goes on from the newest snapshot in the folder that can be read and that the log bears out, else from the
log's first record. A snapshot holds nothing that the log does not say: remove it at any time.")]
pub(super) struct Args {
    /// The log
    #[arg(long, value_name = "LOG")]
    log: String,
    /// The folder that gets it; of a replica, the folder `snapshots` in its store
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// How many are kept, the newest
    #[arg(long, value_name = "N", default_value_t = 3)]
    keep: u16,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let log = OpenedLog::open_read(&args.log)?;
    let snapshots = Snapshots::new(&args.to, args.keep.into());
    let failed = |why: String| Error::log(&args.log, why);
    let (store, began) = log.with_log(async |log| folded(log, &snapshots).await).map_err(failed)?;
    let written = snapshots.copy(&store).map_err(|e| failed(e.to_string()))?;
    let snapshot = written.ok_or_else(|| failed("it holds no record yet".to_owned()))?;
    let began =
        if began == 0 { "the first record".to_owned() } else { format!("the snapshot of {began}") };
    let said = [
        ("file", snapshot.path.display().to_string()),
        ("position", snapshot.mark.position().to_string()),
        ("root", snapshot.mark.root().to_string()),
        ("rows", snapshot.mark.rows.to_string()),
        ("bytes", snapshot.bytes.to_string()),
        ("folded from", began),
    ];
    facts(out, &said)?;
    Ok(Answer::Yes)
}

/// The rows at the log's head, and where the fold began.
async fn folded(
    log: &crate::event_log::AnyLog,
    snapshots: &Snapshots,
) -> Result<(MemoryStore, u64), String> {
    // Rows are wanted once, at the end.
    let options = runner::Options { commit_records: u64::MAX, ..runner::Options::default() };
    let (runner, mut seen) = Runner::new(MemoryStore::default(), options);
    let (end, ended) = oneshot::channel::<()>();
    let watch = async {
        let caught_up = seen.caught_up().await;
        drop(end);
        caught_up
    };
    let (store, caught_up) =
        tokio::join!(runner.with_snapshots(snapshots.clone()).run(log, ended), watch);
    let store = store.map_err(|e| e.to_string())?;
    caught_up.map_err(|e| e.to_string())?;
    Ok((store.ok_or("rows cannot be kept")?, seen.status().began))
}
