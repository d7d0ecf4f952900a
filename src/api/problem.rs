//! What went wrong, as RFC 9457 tells it: every detail names the field, the value and the remedy.

use axum::{
    Json,
    extract::rejection::{BytesRejection, PathRejection, QueryRejection},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// A problem; `type` is always `about:blank`, so the status says of which kind it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct Told<'p> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'p str,
}

impl Problem {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// What is asked makes no sense.
    pub(super) fn wrong(parameter: &str, value: &str, why: &str) -> Self {
        let value: String = value.chars().take(64).collect();
        Self::new(StatusCode::BAD_REQUEST, format!("{parameter}: `{value}` {why}"))
    }

    /// There is no such thing.
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The host was called by a name that leads elsewhere.
    pub(super) fn misdirected() -> Self {
        let why = "call this host 127.0.0.1, [::1] or localhost; it answers to no other name";
        Self::new(StatusCode::MISDIRECTED_REQUEST, why)
    }

    /// Nobody knows who asks.
    pub(super) fn unauthorized() -> Self {
        let why = "send `Authorization: Bearer TOKEN` with a token that is known here";
        Self::new(StatusCode::UNAUTHORIZED, why)
    }

    /// Who asks may not.
    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// A group that is not shown to who asks, or that is not there: the two are told alike.
    pub(super) fn hidden(group: &str) -> Self {
        let group: String = group.chars().take(64).collect();
        Self::forbidden(format!("Bizrq-Group: `{group}` is no group that this token shows"))
    }

    /// The same, where it is what is asked about.
    pub(super) fn no_group(name: &str) -> Self {
        let name: String = name.chars().take(64).collect();
        Self::not_found(format!("no group that is shown to you is called `{name}`"))
    }

    /// Whether it says that somebody may not ask this.
    pub(super) fn is_denial(&self) -> bool {
        matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// Who knows who asks is away.
    pub(super) fn away(why: &str) -> Self {
        let why = format!("the cluster's API server was asked about the token: {why}; come again");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }

    /// What was sent cannot be understood.
    pub(super) fn unreadable(why: String) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, why)
    }

    /// A path has no such method.
    pub(super) fn no_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "this path is not asked so; see the header Allow")
    }

    /// It takes longer than a question may.
    pub(super) fn late() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "it took too long; come again, or ask for less")
    }

    /// Records are being read for it.
    pub(super) fn unfinished(position: u64, head: u64) -> Self {
        let why = format!("the log is read, now at {position} of {head} records; come again");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }

    /// The ledger still reads its log.
    pub(super) fn not_ready() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the ledger is read from the log; come again")
    }

    /// Too many ask at once.
    pub(super) fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too many ask at once; come again")
    }

    /// A fault of the program, or of the log.
    pub(super) fn internal(why: &dyn ToString) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl From<QueryRejection> for Problem {
    fn from(why: QueryRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("query: {}", why.body_text()))
    }
}

impl From<BytesRejection> for Problem {
    fn from(why: BytesRejection) -> Self {
        Self::new(why.status(), format!("body: {}", why.body_text()))
    }
}

impl From<PathRejection> for Problem {
    fn from(why: PathRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("path: {}", why.body_text()))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or_default();
        let told = Told {
            r#type: "about:blank",
            title,
            status: self.status.as_u16(),
            detail: &self.detail,
        };
        let mut response = (self.status, Json(told)).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer realm=\"bizrq\"");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
