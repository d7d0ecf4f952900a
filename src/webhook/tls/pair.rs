//! A certificate chain and its key, checked once: they belong together, and it is known from when to when they hold.

use super::validity::{self, Validity};
use crate::domain::time::Timestamp;
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use std::sync::Arc;

/// What a server shows of itself, with the key that proves it.
#[derive(Clone, Debug)]
pub struct Pair {
    key: Arc<CertifiedKey>,
    validity: Validity,
}

/// Why a chain and a key are of no use. Texts name the remedy; whoever has a place (a file, a Secret) puts it before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// No certificate in the text.
    #[error(
        "there is no certificate in the PEM text ({0}); it begins with -----BEGIN CERTIFICATE-----"
    )]
    NoCertificate(String),
    /// No key in the text.
    #[error(
        "there is no private key in the PEM text ({0}); it begins with -----BEGIN PRIVATE KEY-----"
    )]
    NoKey(String),
    /// A key of a kind that is not known, or a chain that is no chain.
    #[error("the key or certificate cannot be used ({0}); RSA, ECDSA P-256, P-384 and Ed25519 can")]
    Unusable(String),
    /// They do not belong together.
    #[error("the private key does not belong to the certificate; write both files of one issue")]
    Mismatch,
    /// No X.509 that says how long it holds.
    #[error("the certificate does not say from when to when it holds; is it X.509?")]
    NoValidity,
    /// Its time is over.
    #[error("the certificate expired at {until}; issue a new one")]
    Expired {
        /// When.
        until: Timestamp,
    },
    /// Its time has not come.
    #[error("the certificate holds from {from} on, which is in the future; look at the clocks")]
    NotYet {
        /// When it comes.
        from: Timestamp,
    },
}

impl Pair {
    /// The pair of two PEM texts, which must hold at `now`. The first certificate is the server's own.
    ///
    /// # Errors
    /// [`PairError`], the first that applies.
    pub fn parse(chain: &[u8], key: &[u8], now: Timestamp) -> Result<Self, PairError> {
        let pair = Self::parse_at_any_time(chain, key)?;
        pair.validity.check(now)?;
        Ok(pair)
    }

    fn parse_at_any_time(chain: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let none = |why: String| PairError::NoCertificate(why);
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| none(error.to_string()))?;
        let own = chain.first().ok_or_else(|| none("it is empty".to_owned()))?;
        let validity = validity::read(own).ok_or(PairError::NoValidity)?;
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|error| PairError::NoKey(error.to_string()))?;
        let provider = ring::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => PairError::Mismatch,
            error => PairError::Unusable(error.to_string()),
        })?;
        Ok(Self { key: Arc::new(key), validity })
    }

    /// From when to when it holds.
    #[must_use]
    pub const fn validity(&self) -> Validity {
        self.validity
    }

    pub(super) fn key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }
}
