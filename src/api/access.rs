//! Who asks, and what they may see.
//!
//! ```text
//!  Authorization: Bearer TOKEN ─▶ tokens (a file of hashes) ─▶ cluster (TokenReview, SubjectAccessReview) ─▶ Sees
//!  or Bizrq-Token: TOKEN
//!  Bizrq-Group: GROUP ─────────────── only this group and what is below it ───────────────────────────────────┘
//! ```
//!
//! Without either of them everybody who reaches the address sees everything, and it must be one of this host alone.

mod cluster;
mod tokens;

pub use tokens::{Error, Tokens};

use super::problem::Problem;
use axum::http::{HeaderMap, HeaderName, header};
use cluster::Cluster;
use std::sync::Arc;

/// The header that names the group whose subtree is asked about.
pub(super) static GROUP: HeaderName = HeaderName::from_static("bizrq-group");

/// Whom the API knows. Clones are the same; the default knows nobody.
#[derive(Clone, Debug, Default)]
pub struct Access {
    tokens: Option<Arc<Tokens>>,
    cluster: Option<Arc<Cluster>>,
}

/// The header of a token, for who comes through what keeps `Authorization` to itself, as an API server's proxy does.
pub static TOKEN: HeaderName = HeaderName::from_static("bizrq-token");

/// What somebody may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sees {
    /// These groups and what is below them; `None`: everything.
    pub(super) tops: Option<Arc<[String]>>,
    /// Of that, only this group and what is below it.
    pub(super) only: Option<Arc<str>>,
}

/// What a request says of who sent it.
#[derive(Clone)]
pub(super) struct Asker {
    token: Option<Arc<str>>,
    group: Option<Arc<str>>,
}

impl Sees {
    /// Whether everything is shown.
    pub(super) const fn is_whole(&self) -> bool {
        self.tops.is_none() && self.only.is_none()
    }
}

impl Access {
    /// Knows the tokens of a file, too.
    #[must_use]
    pub fn with_tokens(self, tokens: Arc<Tokens>) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Knows whom the API server that `client` leads to knows, too: who may `get` the quota object of a group there sees
    /// that group and everything below it; who may `get` all of them, everything.
    #[must_use]
    pub fn with_cluster(self, client: kube::Client) -> Self {
        Self { cluster: Some(Arc::new(Cluster::new(client))), ..self }
    }

    /// Whether nobody is asked who they are.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.tokens.is_none() && self.cluster.is_none()
    }

    /// What `asker` may see, as of now.
    pub(super) async fn sees(&self, asker: &Asker) -> Result<Sees, Problem> {
        let only = asker.group.clone();
        if self.is_open() {
            return Ok(Sees { tops: None, only });
        }
        let token = asker.token.as_deref().ok_or_else(Problem::unauthorized)?;
        if let Some(tops) = self.tokens.as_ref().and_then(|tokens| tokens.tops(token)) {
            return Ok(Sees { tops, only });
        }
        match &self.cluster {
            Some(cluster) => cluster.sees(token, only).await,
            None => Err(Problem::unauthorized()),
        }
    }
}

impl Asker {
    /// # Errors
    /// A header that is given and cannot be understood.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let token = match (headers.get(&TOKEN), headers.get(header::AUTHORIZATION)) {
            // It can be meant for nobody else.
            (Some(value), _) => Some(value.to_str().ok()),
            (None, value) => value.map(|value| {
                let bearer = value.to_str().ok().and_then(|text| text.split_once(' '));
                let token = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                token.map(|(_, token)| token)
            }),
        };
        let token = token.map(|text| text.map(str::trim).filter(|token| !token.is_empty()));
        let group = headers.get(&GROUP).map(|value| value.to_str().ok().map(str::trim));
        let (token, group) = match (token, group) {
            (Some(None), _) => return Err(Problem::unauthorized()),
            (_, Some(None | Some(""))) => {
                return Err(Problem::wrong("Bizrq-Group", "?", "is no group's name"));
            }
            (token, group) => (token.flatten(), group.flatten()),
        };
        Ok(Self { token: token.map(Into::into), group: group.map(Into::into) })
    }
}

/// A token's SHA-256: what is kept of it.
type Digest = [u8; 32];

fn digest(token: &str) -> Digest {
    use sha2::Digest as _;
    sha2::Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn asker(name: &'static str, value: &'static str) -> Result<Asker, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        Asker::of(&headers)
    }

    #[test]
    fn a_token_of_our_own_header_goes_before_what_is_meant_for_a_proxy() {
        assert_eq!(asker("bizrq-token", " a b ").unwrap().token.as_deref(), Some("a b"));
        let both = HeaderMap::from_iter([
            (header::AUTHORIZATION, HeaderValue::from_static("Basic abc")),
            (TOKEN.clone(), HeaderValue::from_static("ours")),
        ]);
        assert_eq!(Asker::of(&both).unwrap().token.as_deref(), Some("ours"));
    }

    #[test]
    fn a_token_is_what_stands_behind_bearer() {
        for (value, token) in
            [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("BEARER a b", "a b")]
        {
            assert_eq!(asker("authorization", value).unwrap().token.as_deref(), Some(token));
        }
        for wrong in ["abc", "Basic abc", "Bearer", "Bearer ", ""] {
            assert!(asker("authorization", wrong).is_err(), "{wrong}");
        }
        for wrong in [" ", "\u{fc}"] {
            assert!(asker("bizrq-token", wrong).is_err(), "{wrong}");
        }
        assert!(asker("bizrq-group", " ").is_err());
        assert_eq!(asker("bizrq-group", " a ").unwrap().group.as_deref(), Some("a"));
    }
}
