//! Tokens of a cluster: its API server says whose a token is (TokenReview) and whether they may `get` the quota object
//! of a group (SubjectAccessReview). An answer holds for 30 s.

use super::{Digest, Sees, digest};
use crate::api::problem::Problem;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, Resource, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

/// So long an answer holds, good or bad: whoever loses a right sees for half a minute more.
const HOLDS: Duration = Duration::from_secs(30);
/// So many answers are kept.
const KEPT: usize = 4096;
/// Questions to the API server at once; whoever comes with made-up tokens must not flood it.
const AT_ONCE: usize = 8;
/// So long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// An API server that knows tokens.
pub(super) struct Cluster {
    client: Client,
    /// By token and group. Held for a look, never while the API server is asked.
    told: Mutex<HashMap<Key, (Instant, Told)>>,
    places: Semaphore,
}

type Key = (Digest, Option<Arc<str>>);

/// What the API server said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nobody,
    Denied,
    Allowed,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    pub(super) fn new(client: Client) -> Self {
        Self { client, told: Mutex::default(), places: Semaphore::new(AT_ONCE) }
    }

    /// What the bearer of `token` sees of `group`, or of everything.
    pub(super) async fn sees(&self, token: &str, group: Option<Arc<str>>) -> Result<Sees, Problem> {
        let key = (digest(token), group.clone());
        let told = match self.known(&key) {
            Some(told) => told,
            None => {
                let told = self.ask(token, group.as_deref()).await?;
                self.keep(key, told);
                told
            }
        };
        match (told, group) {
            (Told::Nobody, _) => Err(Problem::unauthorized()),
            (Told::Allowed, None) => Ok(Sees::default()),
            (Told::Allowed, Some(group)) => {
                Ok(Sees { tops: Some([group.to_string()].into()), only: Some(group) })
            }
            (Told::Denied, None) => Err(Problem::forbidden(
                "this token does not show every group; name yours in the header Bizrq-Group",
            )),
            (Told::Denied, Some(group)) => Err(Problem::hidden(&group)),
        }
    }

    fn known(&self, key: &Key) -> Option<Told> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(key).filter(|(at, _)| at.elapsed() < HOLDS).map(|(_, told)| *told)
    }

    fn keep(&self, key: Key, said: Told) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= KEPT {
            told.retain(|_, (at, _)| at.elapsed() < HOLDS);
        }
        if told.len() >= KEPT {
            told.clear();
        }
        told.insert(key, (Instant::now(), said));
    }

    async fn ask(&self, token: &str, group: Option<&str>) -> Result<Told, Problem> {
        let asking = async {
            let _place = self.places.acquire().await.map_err(|_| Problem::busy())?;
            let Some(user) = self.user(token).await? else { return Ok(Told::Nobody) };
            Ok(if self.may_get(user, group).await? { Told::Allowed } else { Told::Denied })
        };
        timeout(PATIENCE, asking).await.unwrap_or_else(|_| Err(Problem::away("it is silent")))
    }

    async fn user(&self, token: &str) -> Result<Option<UserInfo>, Problem> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let status = self.create(&review).await?.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn may_get(&self, user: UserInfo, group: Option<&str>) -> Result<bool, Problem> {
        let attributes = ResourceAttributes {
            group: Some("bizrq.io".to_owned()),
            resource: Some("bizgroupresourcequotas".to_owned()),
            verb: Some("get".to_owned()),
            name: group.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let status = self.create(&review).await?.status.unwrap_or_default();
        Ok(status.allowed && status.denied != Some(true))
    }

    async fn create<K>(&self, review: &K) -> Result<K, Problem>
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let created = api.create(&PostParams::default(), review).await;
        created.map_err(|why| match why {
            // Its own words, without all that came with them.
            kube::Error::Api(status) => Problem::away(&status.message),
            why => Problem::away(&why.to_string()),
        })
    }
}
