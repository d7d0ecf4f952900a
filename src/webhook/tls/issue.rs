//! Making keys and certificates: ECDSA on P-256, which every client since TLS 1.2 knows, and a handshake costs little.

use super::rotation::{Authority, Serving};
use crate::domain::time::{HOUR_MS, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::ServerName;
use std::time::Duration;

/// Why nothing could be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// A name that a certificate cannot bear.
    #[error("`{0}` is no DNS name and no IP address; a certificate bears nothing else")]
    Name(String),
    /// The key of the authority, or the maker of certificates, does not work.
    #[error("a certificate cannot be issued: {0}; if a Secret holds a damaged key, delete it")]
    Issue(#[from] rcgen::Error),
}

/// A new authority.
///
/// # Errors
/// [`IssueError`] when there is no randomness.
pub fn authority(from: Timestamp, until: Timestamp) -> Result<Authority, IssueError> {
    let key = KeyPair::generate()?;
    let certificate = authority_params(from, until).self_signed(&key)?.pem();
    Ok(Authority { certificate, key: key.serialize_pem(), from, until, trusted: None })
}

/// A new certificate of the server, signed by `by`.
///
/// # Errors
/// [`IssueError`].
pub fn serving(
    by: &Authority,
    names: &[String],
    from: Timestamp,
    until: Timestamp,
) -> Result<Serving, IssueError> {
    if let Some(name) = names.iter().find(|name| ServerName::try_from(name.as_str()).is_err()) {
        return Err(IssueError::Name(name.clone()));
    }
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "bizrq webhook");
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    hold(&mut params, from, until);
    let issuer = Issuer::new(authority_params(by.from, by.until), KeyPair::from_pem(&by.key)?);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?.pem();
    let (key, names) = (key.serialize_pem(), names.to_vec());
    Ok(Serving { certificate, key, from, until, names, by: by.from })
}

/// What an authority says of itself follows from its times, so that it can sign after a restart, too.
fn authority_params(from: Timestamp, until: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("bizrq webhook CA of {from}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    hold(&mut params, from, until);
    params
}

/// From an hour before `from`: the clock of an API server may be behind.
fn hold(params: &mut CertificateParams, from: Timestamp, until: Timestamp) {
    let instant =
        |t: Timestamp| date_time_ymd(1970, 1, 1) + Duration::from_millis(t.millis().unsigned_abs());
    params.not_before = instant(from.shifted(-HOUR_MS));
    params.not_after = instant(until);
}
