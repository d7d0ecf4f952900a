//! Who reads manifests for the query API: the webhook's eyes, the running ledger, no record.

use crate::{
    api::fits::{Case, Fitted, Judge},
    domain::time::Timestamp,
    webhook::manifest::{Asked, Manifests},
};
use std::collections::BTreeMap;

/// Reads manifests as the webhook of each cluster does.
#[derive(Debug)]
pub struct ByWebhook {
    clusters: BTreeMap<String, Manifests>,
    /// Where nobody says which.
    first: String,
}

impl ByWebhook {
    /// Of these clusters, the first of which is meant when none is named.
    #[must_use]
    pub fn new(clusters: impl IntoIterator<Item = Manifests>) -> Self {
        let named = clusters.into_iter().map(|m| (m.options.cluster.clone(), m));
        let named: Vec<_> = named.collect();
        let first = named.first().map(|(name, _)| name.clone()).unwrap_or_default();
        Self { clusters: named.into_iter().collect(), first }
    }
}

impl Judge for ByWebhook {
    fn read(&self, cluster: Option<&str>, body: &[u8]) -> Result<Box<dyn Case>, String> {
        let name = cluster.unwrap_or(&self.first);
        let manifests = self.clusters.get(name).ok_or_else(|| {
            let known: Vec<_> = self.clusters.keys().map(String::as_str).collect();
            format!("cluster: `{name}` is not served here; those are: {}", known.join(", "))
        })?;
        Ok(Box::new(manifests.read(body)?))
    }
}

impl Case for Asked {
    fn group(&self) -> &str {
        self.group()
    }

    fn decide(&self, now: Timestamp) -> Fitted {
        let fitted = self.decide(now);
        let mut told = Fitted {
            replicas: fitted.replicas,
            asks: fitted.asks,
            cash: fitted.cash,
            ..Fitted::default()
        };
        if let Some(response) = fitted.response {
            told.allowed = response.allowed;
            told.warnings = response.warnings;
            if let Some(status) = response.status {
                let [cause] = status.details.causes;
                (told.reason, told.message) = (Some(cause.reason.to_owned()), Some(status.message));
            }
        }
        told
    }
}
