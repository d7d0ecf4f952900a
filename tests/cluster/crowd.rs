//! Twenty clients that create two thousand Deployments at once, of two groups in turn.

use super::{control_plane::runtime, nodes::client};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::PostParams};
use serde_json::Value;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

const CLIENTS: usize = 20;
/// What each of them creates.
const EACH: usize = 100;
/// What they create together.
pub(crate) const ALL: usize = CLIENTS * EACH;

/// What a group's Deployment of a number is.
pub(crate) type Object = dyn Fn(&str, usize) -> Value + Send + Sync;

/// How often each answer was given.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) admitted: AtomicUsize,
    pub(crate) over_quota: AtomicUsize,
    /// Another webhook said no.
    pub(crate) by_another: AtomicUsize,
}

impl Answers {
    /// Admitted, over quota, and refused by another webhook.
    pub(crate) fn counts(&self) -> [usize; 3] {
        [&self.admitted, &self.over_quota, &self.by_another]
            .map(|count| count.load(Ordering::Relaxed))
    }
}

/// Creates them as alice of this kubeconfig, and counts the answers as they come.
pub(crate) fn create(
    kubeconfig: &Path,
    groups: [&'static str; 2],
    object: Arc<Object>,
    answers: &Arc<Answers>,
) {
    runtime().block_on(async {
        let client = client(kubeconfig, "alice").await;
        let mut clients = JoinSet::new();
        for one in 0..CLIENTS {
            let (client, object, answers) =
                (client.clone(), Arc::clone(&object), Arc::clone(answers));
            clients.spawn(async move {
                for n in one * EACH..(one + 1) * EACH {
                    let group = groups[n % 2];
                    let made = serde_json::from_value(object(group, n)).unwrap();
                    answer(&client, &made, &answers).await;
                }
            });
        }
        clients.join_all().await;
    });
}

/// Creates it, or is refused; what fails for another reason (who was asked was killed) is tried again.
async fn answer(client: &kube::Client, object: &Deployment, answers: &Answers) {
    let api: Api<Deployment> =
        Api::namespaced(client.clone(), object.metadata.namespace.as_deref().unwrap());
    loop {
        let count = match api.create(&PostParams::default(), object).await {
            Ok(_) => &answers.admitted,
            Err(kube::Error::Api(status)) if status.message.contains("exceeded quota: ") => {
                &answers.over_quota
            }
            Err(kube::Error::Api(status)) if status.message.contains("every third") => {
                &answers.by_another
            }
            // The first attempt got there.
            Err(kube::Error::Api(status)) if status.code == 409 => &answers.admitted,
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
        return;
    }
}
