//! The certificates of the webhook and of the API: from a folder, or (the webhook's) of our own, kept in a Secret. All
//! are looked at again and again.

use crate::{
    clock,
    config::{self, Config},
    shutdown::{Stage, Tasks},
    webhook::{
        configuration,
        tls::{
            Current,
            cluster::InCluster,
            files::{self, Files, FilesError, Look},
            metrics,
            own::{self, Keeper, Store, StoreError},
            rotation::Kept,
            server_config,
        },
    },
};
use kube::Client;
use prometheus::Registry;
use rustls::ServerConfig;
use std::{collections::BTreeMap, future::Future, path::Path, sync::Arc};
use tracing::{error, info};

/// Why there is no certificate to show.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder holds none.
    #[error("{setting}: {source}")]
    Files {
        /// The flag.
        setting: &'static str,
        /// What is wrong.
        source: FilesError,
    },
    /// Never with the crypto provider that is built in.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// Two parts count under one name; this is a fault of the program.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Shows a certificate in `current`, and keeps it in order until the webhook ends.
pub(super) fn keep(
    tasks: &mut Tasks,
    config: &Config,
    clients: &BTreeMap<usize, Client>,
    current: &Arc<Current>,
) -> Result<(), Error> {
    let current = Arc::clone(current);
    match &config.certificate {
        config::Certificate::None => {}
        config::Certificate::Folder(folder) => {
            show(tasks, "--tls-dir", folder, current)?;
        }
        config::Certificate::Own { cluster, secret, names } => {
            let own = |client: &Client| {
                let configurations = configuration::NAMES.map(str::to_owned).to_vec();
                InCluster::new(client.clone(), &config.namespace, secret, configurations)
            };
            let home = clients.get(cluster).map(own);
            let others = clients.iter().filter(|(place, _)| *place != cluster);
            let others = others.map(|(_, client)| own(client)).collect();
            // The configuration names a cluster that has an API server.
            if let Some(home) = home {
                let keeper = Keeper::new(Everywhere { home, others }, names.clone(), current);
                until_the_end(tasks, look_after(keeper));
            }
        }
    }
    Ok(())
}

/// How the API is served with the certificate of `folder`, whose times are told in `registry`.
pub(super) fn of_api(
    tasks: &mut Tasks,
    folder: &Path,
    registry: &Registry,
) -> Result<Arc<ServerConfig>, Error> {
    let current = Arc::new(Current::default());
    show(tasks, "--api-tls-dir", folder, Arc::clone(&current))?;
    metrics::register(registry, "api", Arc::clone(&current))?;
    Ok(Arc::new(server_config(current)?))
}

fn show(
    tasks: &mut Tasks,
    setting: &'static str,
    folder: &Path,
    current: Arc<Current>,
) -> Result<(), Error> {
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    let files = Files::open(certificate, key, current, clock::now());
    let files = files.map_err(|source| Error::Files { setting, source })?;
    until_the_end(tasks, look_at(setting, files));
    Ok(())
}

fn until_the_end(tasks: &mut Tasks, work: impl Future<Output = ()> + Send + 'static) {
    let end = tasks.staged().until(Stage::Accept);
    tasks.spawn(Stage::Accept, "certificate", async move {
        tokio::select! {
            () = work => {}
            () = end => {}
        }
        Ok(())
    });
}

async fn look_at(setting: &'static str, mut files: Files) {
    loop {
        tokio::time::sleep(files::EVERY).await;
        match files.look(clock::now()) {
            Ok(Look::Taken { until }) => info!(setting, %until, "a new certificate is shown"),
            Ok(Look::Same | Look::Doubted) => {}
            Err(error) => error!(setting, %error, "the certificate stays as it was"),
        }
    }
}

async fn look_after(mut keeper: Keeper<Everywhere>) {
    loop {
        match keeper.keep(clock::now()).await {
            Ok(true) => info!("a new certificate is shown"),
            Ok(false) => {}
            Err(error) => error!(%error, "certificates are not in order; it is tried again"),
        }
        tokio::time::sleep(own::EVERY).await;
    }
}

/// One Secret, in the cluster that is home, and webhook configurations in every cluster.
struct Everywhere {
    home: InCluster,
    others: Vec<InCluster>,
}

impl Store for Everywhere {
    type Version = String;

    async fn load(&self) -> Result<Option<(Kept, String)>, StoreError> {
        self.home.load().await
    }

    async fn save(&self, kept: &Kept, over: Option<String>) -> Result<(), StoreError> {
        self.home.save(kept, over).await
    }

    /// One cluster that cannot be reached keeps none of the others from knowing; it keeps an authority from being
    /// used that it has not heard of.
    async fn trust(&self, bundle: &str) -> Result<(), StoreError> {
        let mut trusted = self.home.trust(bundle).await;
        for other in &self.others {
            trusted = trusted.and(other.trust(bundle).await);
        }
        trusted
    }
}
