//! How the server proves who it is: certificates that change while connections come and go.
//!
//! ```text
//!  files (cert-manager, an operator) ─▶ files::Watch ─┐
//!  Secret ◀─▶ own::Keeper ─ rotation (pure) ─ issue  ─┴─▶ Current ─▶ every new handshake
//!                 └─▶ caBundle of bizrq's two webhook configurations
//! ```
//!
//! A certificate that is bad or late never replaces one that works, and never goes unsaid.

pub mod cluster;
pub mod files;
pub mod issue;
pub mod metrics;
pub mod own;
pub mod pair;
pub mod rotation;
mod validity;

pub use pair::{Pair, PairError};
pub use validity::Validity;

use crate::domain::time::Timestamp;
use rustls::{
    ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::sync::{Arc, PoisonError, RwLock};

/// The pair that is shown to whoever connects. Connections that exist keep theirs.
#[derive(Debug, Default)]
pub struct Current {
    /// Read at each handshake, written a few times a year; nobody waits while holding it.
    pair: RwLock<Option<Arc<Pair>>>,
}

impl Current {
    /// Shows `pair` from now on.
    pub fn show(&self, pair: Pair) {
        *self.pair.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(pair));
    }

    /// From when to when the pair holds; `None`: there is none yet.
    #[must_use]
    pub fn validity(&self) -> Option<Validity> {
        self.pair().map(|pair| pair.validity())
    }

    /// Whether clients can believe it at `now`.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.validity().is_some_and(|validity| validity.check(now).is_ok())
    }

    fn pair(&self) -> Option<Arc<Pair>> {
        self.pair.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.pair().map(|pair| pair.key())
    }
}

/// TLS 1.2 and 1.3 with HTTP/2 and 1.1, showing `current`.
///
/// # Errors
/// Never with the crypto provider that is built in.
pub fn server_config(current: Arc<Current>) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(current);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
