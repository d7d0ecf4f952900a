//! Usage events, told by whoever leads.

use super::{Error, Shared, clock};
use crate::{
    projection::Snapshots,
    shutdown::{Stage, Tasks},
    usage::{Teller, metrics::Metrics},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::sleep};
use tracing::warn;

/// After a failure.
const AGAIN: Duration = Duration::from_secs(1);

/// Tells usage while `leads` says that it is for us to do.
pub(super) fn tell(
    tasks: &mut Tasks,
    shared: &Shared,
    snapshots: Option<Snapshots>,
    mut leads: watch::Receiver<bool>,
) -> Result<(), Error> {
    let metrics = Metrics::new(&shared.registry)?;
    let teller = Teller::new(Arc::clone(&shared.log), snapshots, metrics, clock::now);
    let end = tasks.staged().until(Stage::Watch);
    tasks.spawn(Stage::Watch, "usage events", async move {
        let telling = async {
            let mut told = String::new();
            // Without anybody who could say so it never leads.
            while leads.wait_for(|leads| *leads).await.is_ok() {
                let mut losing = leads.clone();
                let lost = async move { losing.wait_for(|leads| !*leads).await.is_ok() };
                tokio::select! {
                    Err(error) = teller.tell() => {
                        let (begins, why) = (teller.waits(true), error.to_string());
                        // Once: it is tried every second.
                        if begins || why != told {
                            warn!(error = why, "usage events wait");
                            told = why;
                        }
                        sleep(AGAIN).await;
                    }
                    true = lost => {}
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = telling => {}
            _ = end => {}
        }
        Ok(())
    });
    Ok(())
}
