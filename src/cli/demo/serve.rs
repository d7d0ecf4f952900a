//! `bizrq demo --serve`: the query API and its page over the fortnight that was simulated, at the instant it ended.

use crate::{
    api,
    cli::{
        Error,
        opened_log::OpenedLog,
        out::{Out, note},
    },
    demo,
    event_log::AnyLog,
    k8s::kinds::Kinds,
    projection::{MemoryStore, Projection, Runner, runner},
    run::judge::ByWebhook,
    webhook::{self, manifest::Manifests},
};
use std::{net::SocketAddr, sync::Arc};

/// Serves until Ctrl-C.
pub(super) fn serve(place: &str, address: SocketAddr, out: &mut Out) -> Result<(), Error> {
    let log = OpenedLog::open_read(place)?;
    let shared = log.shared();
    log.with_log(async |_| answer(shared, place, address, out).await)
}

async fn answer(
    log: Arc<AnyLog>,
    place: &str,
    address: SocketAddr,
    out: &mut Out,
) -> Result<(), Error> {
    let flag = |why| Error::input(format!("--listen {address}"), why);
    let access = api::Access::default();
    let listener = api::bind(address, &access).await.map_err(flag)?;
    let address = listener.local_addr().map_err(flag)?;
    let (runner, mut projection) = Runner::new(MemoryStore::default(), runner::Options::default());
    let source = api::Source {
        log: Arc::clone(&log),
        projection: projection.clone(),
        now: demo::end,
        access,
        judge: Some(Arc::new(judge(&projection)?)),
        metrics: None,
    };
    let folding =
        tokio::spawn(async move { runner.run(&*log, std::future::pending::<()>()).await });
    projection.caught_up().await.map_err(|why| Error::log(place, why))?;
    // The report may be meant for a program.
    out.flush()?;
    note(format_args!("look at it: http://{address}/"));
    note(format_args!("ask it: curl http://{address}/v1/quotas/language"));
    note("Ctrl-C ends it");
    let interrupted = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let served = api::serve(listener, None, source, interrupted).await.map_err(flag);
    folding.abort();
    served
}

/// Reads manifests for the first of the simulated clusters, of which it knows no objects.
fn judge(projection: &Projection) -> Result<ByWebhook, Error> {
    let kinds = Kinds::builtin().map_err(|why| Error::input("the table of kinds", why))?;
    Ok(ByWebhook::new([Manifests {
        kinds: Arc::new(kinds),
        context: Arc::default(),
        options: webhook::Options::new("east"),
        projection: projection.clone(),
    }]))
}
