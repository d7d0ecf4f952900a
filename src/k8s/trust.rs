//! What proves bizrq to API servers, as a cluster keeps it: a Secret, and the `caBundle` of webhook configurations.
//!
//! The only file that changes objects of a cluster on the webhook's behalf; no review comes by here.

use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A Secret by its name, which may not be there.
#[derive(Clone)]
pub struct NamedSecret {
    api: Api<Secret>,
    place: String,
    name: String,
}

/// A Secret's data, and the version that it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// What it holds.
    pub data: BTreeMap<String, Vec<u8>>,
    /// Named again by whoever writes over it.
    pub version: String,
}

/// Why a cluster does not do it.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// Somebody else wrote first.
    #[error("{place}: somebody else changed it meanwhile")]
    Conflict {
        /// Kind and name.
        place: String,
    },
    /// It cannot be reached, or says no.
    #[error("{place}: {source}")]
    Api {
        /// Kind and name.
        place: String,
        /// What came back.
        source: Box<kube::Error>,
    },
}

impl NamedSecret {
    /// The Secret `name` in `namespace`.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        let place = format!("secret {namespace}/{name}");
        Self { api: Api::namespaced(client, namespace), place, name: name.to_owned() }
    }

    /// Kind, namespace and name, for people.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What it holds; `None`: it is not there.
    ///
    /// # Errors
    /// [`TrustError::Api`].
    pub async fn load(&self) -> Result<Option<Loaded>, TrustError> {
        let secret = self.api.get_opt(&self.name).await;
        let Some(secret) = secret.map_err(|error| failed(&self.place, error))? else {
            return Ok(None);
        };
        let data = secret.data.unwrap_or_default().into_iter();
        let data = data.map(|(key, ByteString(bytes))| (key, bytes)).collect();
        let version = secret.metadata.resource_version.unwrap_or_default();
        Ok(Some(Loaded { data, version }))
    }

    /// Writes `data` over that version; over none, it is made.
    ///
    /// # Errors
    /// [`TrustError::Conflict`] when it is not that version any more, or is there already.
    pub async fn save(
        &self,
        data: BTreeMap<String, Vec<u8>>,
        over: Option<String>,
    ) -> Result<(), TrustError> {
        let exists = over.is_some();
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            resource_version: over,
            ..ObjectMeta::default()
        };
        let data = data.into_iter().map(|(key, bytes)| (key, ByteString(bytes))).collect();
        let type_ = Some("kubernetes.io/tls".to_owned());
        let secret = Secret { metadata, data: Some(data), type_, ..Secret::default() };
        let how = PostParams::default();
        let saved = match exists {
            true => self.api.replace(&self.name, &how, &secret).await,
            false => self.api.create(&how, &secret).await,
        };
        saved.map(drop).map_err(|error| failed(&self.place, error))
    }
}

/// Makes every webhook of the validating configuration `name` trust exactly `bundle` (PEM), and says whether that
/// was news. It is patched, on the condition that nobody else changed it meanwhile.
///
/// # Errors
/// [`TrustError`].
pub async fn trust(client: Client, name: &str, bundle: &str) -> Result<bool, TrustError> {
    let place = format!("validatingwebhookconfiguration {name}");
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let found = api.get(name).await.map_err(|error| failed(&place, error))?;
    let bundle = ByteString(bundle.as_bytes().to_vec());
    let webhooks = found.webhooks.unwrap_or_default();
    let mut operations: Vec<Value> = (0..)
        .zip(&webhooks)
        .filter(|(_, webhook)| webhook.client_config.ca_bundle.as_ref() != Some(&bundle))
        .map(|(at, _): (usize, _)| {
            json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": bundle})
        })
        .collect();
    if operations.is_empty() {
        return Ok(false);
    }
    // The places are those of this version.
    let version = found.metadata.resource_version;
    let same = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    operations.insert(0, same);
    let operations = serde_json::from_value(Value::from(operations))
        .map_err(|error| failed(&place, kube::Error::SerdeError(error)))?;
    let patch = Patch::<()>::Json(operations);
    let patched = api.patch(name, &PatchParams::default(), &patch).await;
    patched.map(|_| true).map_err(|error| failed(&place, error))
}

fn failed(place: &str, error: kube::Error) -> TrustError {
    let place = place.to_owned();
    match error {
        // Of a test in a patch that fails the API server says 422, of a version 409.
        kube::Error::Api(status) if [409, 422].contains(&status.code) => {
            TrustError::Conflict { place }
        }
        error => TrustError::Api { place, source: Box::new(error) },
    }
}
