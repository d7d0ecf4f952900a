//! Certificates of our own in a cluster: a Secret that other programs can read, too, and the two configurations.
//!
//! | key | holds |
//! |---|---|
//! | `tls.crt`, `tls.key` | what the server shows, as in every Secret of type `kubernetes.io/tls` |
//! | `ca.crt` | what API servers are to trust |
//! | `bizrq.json` | everything, with the authorities' keys and times: the truth of which the others are copies |

use super::{
    own::{Store, StoreError},
    rotation::Kept,
};
use crate::k8s::trust::{self, Loaded, NamedSecret, TrustError};
use kube::Client;
use std::collections::BTreeMap;

/// Where a cluster keeps the certificates.
#[derive(Clone)]
pub struct InCluster {
    client: Client,
    secret: NamedSecret,
    configurations: Vec<String>,
}

const WHOLE: &str = "bizrq.json";

impl InCluster {
    /// In the Secret `name` of `namespace`; these validating webhook configurations are bizrq's own.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str, configurations: Vec<String>) -> Self {
        let secret = NamedSecret::new(client.clone(), namespace, name);
        Self { client, secret, configurations }
    }

    fn read(&self, data: &BTreeMap<String, Vec<u8>>) -> Result<Kept, StoreError> {
        let foreign = |why| StoreError::Foreign { place: self.secret.place().to_owned(), why };
        let whole = data.get(WHOLE).ok_or_else(|| foreign(format!("no key {WHOLE}")))?;
        serde_json::from_slice(whole).map_err(|error| foreign(format!("{WHOLE}: {error}")))
    }
}

impl Store for InCluster {
    type Version = String;

    async fn load(&self) -> Result<Option<(Kept, String)>, StoreError> {
        let Some(Loaded { data, version }) = self.secret.load().await? else { return Ok(None) };
        Ok(Some((self.read(&data)?, version)))
    }

    async fn save(&self, kept: &Kept, over: Option<String>) -> Result<(), StoreError> {
        let place = || self.secret.place().to_owned();
        let whole = serde_json::to_vec(kept)
            .map_err(|error| StoreError::Failed { place: place(), why: error.to_string() })?;
        // A Secret of this type has both keys from its first version on.
        let (certificate, key) = match &kept.serving {
            Some(serving) => (serving.certificate.clone(), serving.key.clone()),
            None => Default::default(),
        };
        let data = [
            ("tls.crt", certificate.into_bytes()),
            ("tls.key", key.into_bytes()),
            ("ca.crt", kept.bundle().into_bytes()),
            (WHOLE, whole),
        ];
        let data = data.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        Ok(self.secret.save(data, over).await?)
    }

    async fn trust(&self, bundle: &str) -> Result<(), StoreError> {
        for name in &self.configurations {
            trust::trust(self.client.clone(), name, bundle).await?;
        }
        Ok(())
    }
}

impl From<TrustError> for StoreError {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Conflict { .. } => Self::Conflict,
            TrustError::Api { place, source } => Self::Failed { place, why: source.to_string() },
        }
    }
}
