//! Opening the log, and closing it. A server that is away is waited for: in a cluster that starts anew, NATS and bizrq
//! come in any order.

use super::Error;
use crate::{
    event_log::{AnyLog, OpenError, file::control::Control, shown},
    shutdown::{Stage, Tasks},
};
use std::{sync::Arc, time::Duration};
use tracing::{info, warn};

/// Between two attempts to reach a server.
const AGAIN: Duration = Duration::from_secs(2);

/// Opens the log at `place`, however long its server is away.
pub(super) async fn open(place: &str) -> Result<AnyLog, Error> {
    loop {
        match AnyLog::open(place).await {
            Ok(log) => {
                if let Some(torn) = log.torn() {
                    let (path, bytes) = (torn.path.display(), torn.bytes);
                    warn!(%path, bytes, "half a line at the end of the log was cut off");
                }
                info!(log = shown(place), "the log is open");
                return Ok(log);
            }
            Err(error) if is_away(&error) => {
                warn!(%error, "the log's server is waited for");
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Appends to a log in a folder, which this process alone may write, what commands ask for; but ends for them nothing of
/// the clusters that are `observed` here, by their sources.
pub(super) fn take_from_commands(tasks: &mut Tasks, log: &Arc<AnyLog>, observed: Vec<String>) {
    let AnyLog::File(file) = &**log else { return };
    let control = match Control::open(file.dir()) {
        Ok(control) => control.with_own(observed),
        Err(error) => {
            let log = file.dir().display();
            warn!(%log, %error, "commands cannot ask this process to append; they find the log locked");
            return;
        }
    };
    let (log, end) = (Arc::clone(log), tasks.staged().until(Stage::Watch));
    tasks.spawn(Stage::Watch, "control", async move {
        let told = |reply: &str| info!(reply, "a command asked to append");
        control.serve(&*log, end, told).await;
        Ok(())
    });
}

/// Ends writing, and says whether the last root was written. A log that a task left behind still uses is not closed:
/// what is in it is safe, and the next start finds the root by itself.
pub(super) fn close(log: Arc<AnyLog>) -> Result<(), Error> {
    match Arc::try_unwrap(log) {
        Ok(log) => Ok(log.close()?),
        Err(_) => {
            warn!("the log is still in use; its last root is written by the next start");
            Ok(())
        }
    }
}

#[cfg(feature = "jetstream")]
fn is_away(error: &OpenError) -> bool {
    use crate::event_log::jetstream::{OpenError as Stream, StreamError};
    matches!(
        error,
        OpenError::Stream(Stream::Connect { .. } | Stream::Stream(StreamError::Away { .. }))
    )
}

#[cfg(not(feature = "jetstream"))]
fn is_away(_: &OpenError) -> bool {
    false
}
