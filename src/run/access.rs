//! Whom the query API knows.

use super::{Clients, Error};
use crate::{
    api::{Access, access::Tokens},
    config::Config,
    shutdown::{Stage, Tasks},
};
use std::{sync::Arc, time::Duration};
use tracing::{error, info};

/// The file of tokens is looked at this often: a token that is taken out is known no more.
const EVERY: Duration = Duration::from_secs(5);

/// Whom the settings name; a file of tokens is looked after until the API ends.
pub(super) fn whom(tasks: &mut Tasks, config: &Config, clients: &Clients) -> Result<Access, Error> {
    let mut access = Access::default();
    if let Some(path) = &config.api_tokens {
        let tokens = Arc::new(Tokens::open(path)?);
        access = access.with_tokens(Arc::clone(&tokens));
        let end = tasks.staged().until(Stage::Accept);
        tasks.spawn(Stage::Accept, "tokens", async move {
            tokio::select! {
                () = look_after(&tokens) => {}
                () = end => {}
            }
            Ok(())
        });
    }
    if let Some(client) = config.api_cluster.and_then(|place| clients.get(&place)) {
        access = access.with_cluster(client.clone());
    }
    Ok(access)
}

async fn look_after(tokens: &Tokens) {
    loop {
        tokio::time::sleep(EVERY).await;
        match tokens.look() {
            Ok(true) => info!("the API's tokens were read again"),
            Ok(false) => {}
            Err(error) => error!(%error, "the API's tokens stay as they were"),
        }
    }
}
