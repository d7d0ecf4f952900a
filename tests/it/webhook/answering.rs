//! What answers reviews, on a log: the fold, who decides, and what makes questions of reviews.

use bizrq::{
    clock,
    decider::{self, transport::Alone},
    domain::{
        event::{Data, Event, EventId, QuotaDeclared},
        ident,
        quota::TypedSpec,
    },
    event_log::{EventLog, NewEvent},
    k8s::kinds::Kinds,
    projection::{MemoryStore, Projection, Runner, runner},
    webhook::clusters::{Cluster, Clusters},
};
use std::{future::pending, sync::Arc};

/// Reviews of this cluster, answered by what `log` says; and what it is folded to.
pub(crate) async fn answering<L: EventLog + 'static>(
    log: Arc<L>,
    cluster: Cluster,
) -> (Clusters, Projection)
where
    L::Reader: 'static,
{
    let (runner, projection) = Runner::new(MemoryStore::default(), runner::Options::default());
    let options = decider::Options::default();
    let (decider, worker) = decider::new(Arc::clone(&log), projection.clone(), Alone, options);
    tokio::spawn(async move { runner.run(&*log, pending::<()>()).await.map(drop).unwrap() });
    tokio::spawn(worker.run(pending::<()>()));
    projection.clone().caught_up().await.unwrap();
    let kinds = Arc::new(Kinds::builtin().unwrap());
    (Clusters::new(kinds, [cluster], decider, projection.clone()), projection)
}

/// A quota object of this name in this cluster.
pub(crate) fn declared(cluster: &str, name: &str, spec: &TypedSpec<'_>) -> NewEvent {
    let spec = spec.accept(name).unwrap();
    let uid = format!("uid-{name}").into();
    let data = QuotaDeclared { uid, resource_version: "7".into(), generation: 1, spec };
    let (source, time) = (format!("/clusters/{cluster}"), clock::now());
    let data = Data::QuotaDeclared(data);
    let id = ident::fact(&source, time, &data).unwrap_or(EventId(1));
    let (source, subject) = (source.into(), format!("quotas/{name}").into());
    NewEvent::new(&Event { id, source, subject, time, recorded_at: time, data }).unwrap()
}
