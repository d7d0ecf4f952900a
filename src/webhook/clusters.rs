//! The reviews of several clusters, answered by one decider.
//!
//! ```text
//!  body ─decode─▶ Request ─context─▶ said at once, or Ask ─▶ [decider] ─▶ Answer ─▶ AdmissionReview
//! ```
//!
//! What a review must know of its cluster, somebody else keeps in the context. Nothing here can ask an API server.

use super::{
    Next, Options, Request, Response, Surroundings,
    mirrors::Mirror,
    refusals::Refusals,
    review::Malformed,
    server::{About, Answered, NoReview, Readiness, Reviews},
};
use crate::{
    clock,
    decider::{Answer, Decider},
    k8s::{context::Context, kinds::Kinds},
    projection::Projection,
};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};
use tokio::{task::spawn_blocking, time::Instant};

/// A review of this size takes about a millisecond to read; larger ones are read where they keep no others waiting.
const LARGE: usize = 256 << 10;

/// One cluster whose reviews are answered.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// What the operator chose for it.
    pub options: Options,
    /// What is known of it. Read for one review at a time, written by whoever watches the cluster.
    pub context: Arc<RwLock<Context>>,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Clusters {
    kinds: Arc<Kinds>,
    clusters: Arc<BTreeMap<String, Cluster>>,
    decider: Decider,
    projection: Projection,
    refusals: Refusals,
}

impl Clusters {
    /// Answers for `clusters` by what `decider` says, once `projection` has caught up.
    #[must_use]
    pub fn new(
        kinds: Arc<Kinds>,
        clusters: impl IntoIterator<Item = Cluster>,
        decider: Decider,
        projection: Projection,
    ) -> Self {
        let named = clusters.into_iter().map(|cluster| (cluster.options.cluster.clone(), cluster));
        let (clusters, refusals) = (Arc::new(named.collect()), Refusals::default());
        Self { kinds, clusters, decider, projection, refusals }
    }

    /// What was refused; whoever takes it tells it.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.refusals.clone()
    }
}

impl Reviews for Clusters {
    fn knows(&self, cluster: &str) -> bool {
        self.clusters.contains_key(cluster)
    }

    async fn review(
        &self,
        _: About,
        cluster: &str,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Answered, NoReview> {
        let Some(cluster) = self.clusters.get(cluster) else {
            return Err(NoReview(format!("cluster `{cluster}` is not served here")));
        };
        let next = if body.len() < LARGE {
            cluster.next(&self.kinds, &body, &self.projection)
        } else {
            let (cluster, kinds) = (cluster.clone(), Arc::clone(&self.kinds));
            let projection = self.projection.clone();
            let reading = spawn_blocking(move || cluster.next(&kinds, &body, &projection)).await;
            reading.map_err(|error| NoReview(error.to_string()))?
        };
        let response = match next.map_err(|malformed| NoReview(malformed.to_string()))? {
            Next::Said(response) => response,
            Next::Ask(question) => {
                let answer = self.decider.decide(question.ask.clone(), deadline).await;
                if let Answer::Refused(no) = &answer {
                    self.refusals.note(&question.ask, no, clock::now());
                }
                question.response(&answer)
            }
        };
        answered(&response)
    }

    fn readiness(&self) -> Readiness {
        if let Some(why) = self.projection.ended() {
            return Readiness::Stopped(format!("the ledger stopped: {why}"));
        }
        let status = self.projection.status();
        if status.caught_up {
            return Readiness::Ready;
        }
        Readiness::CatchingUp(format!(
            "the ledger is read from the log, now at {}",
            status.position
        ))
    }
}

impl Cluster {
    fn next(&self, kinds: &Kinds, body: &[u8], projection: &Projection) -> Result<Next, Malformed> {
        let request = Request::decode(body, kinds)?;
        if let Some(mirror) = Mirror::of(&request, &self.options) {
            return Ok(Next::Said(mirror.response(&projection.ledger())));
        }
        let context = self.context.read().unwrap_or_else(PoisonError::into_inner);
        Ok(request.next(&Surroundings { kinds, context: &context, options: &self.options }))
    }
}

fn answered(response: &Response) -> Result<Answered, NoReview> {
    let decision = if response.allowed { "allowed" } else { "refused" };
    let reason = response.audit_annotations.get("reason").cloned().unwrap_or_default();
    let json = response.to_json().map_err(|error| NoReview(error.to_string()))?;
    Ok(Answered { json, decision, reason })
}
