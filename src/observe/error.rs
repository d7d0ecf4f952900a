//! What ends an observer by itself: nothing that waiting mends, so a person must look first.

use crate::domain::time::Timestamp;

/// Why an observer ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name stands for another cluster.
    #[error(
        "cluster {cluster}: the log knows it by uid {bound}, but the API server's kube-system has uid {found}; if this is \
         meant, say `bizrq cluster rebind {cluster}`"
    )]
    Rebound {
        /// Its name.
        cluster: String,
        /// In the log.
        bound: String,
        /// At the API server.
        found: String,
    },
    /// The cluster was retired.
    #[error(
        "cluster {cluster}: it was retired as of {at}, but its API server answers; if this is meant, say `bizrq cluster rebind \
         {cluster}`"
    )]
    Retired {
        /// Its name.
        cluster: String,
        /// When it ended.
        at: Timestamp,
    },
    /// Quota objects of two clusters would be told, each in place of the other's.
    #[error(
        "cluster {cluster}: the quota objects of cluster {elsewhere} were there first, and nobody said whose count; give every \
         bizrq --quota-cluster {elsewhere}, or, if those are to go and {cluster}'s to come, --quota-cluster {cluster}"
    )]
    Quotas {
        /// Its name.
        cluster: String,
        /// The other one.
        elsewhere: String,
    },
    /// The API server is older than the log.
    #[error(
        "cluster {cluster}: the API server lists {kind} at version {version}, but the log knows version {known}; it was \
         restored from an older copy, or is another cluster: if this is meant, say `bizrq cluster rebind {cluster}`"
    )]
    Older {
        /// Its name.
        cluster: String,
        /// `pods`, …
        kind: String,
        /// At the API server.
        version: u64,
        /// In the log.
        known: u64,
    },
}
