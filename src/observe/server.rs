//! Requests to an API server: a page of a list, the lines of a watch, what time it is there; as bytes, in bounded
//! memory. Nothing here knows what an object says, and nothing is asked twice.

use crate::{domain::time::Timestamp, k8s::meta::ObjectMeta};
use axum::body::{Body, BodyDataStream, to_bytes};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use hyper::{HeaderMap, Request, StatusCode, header};
use kube::Client;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// The largest page: 500 objects of at most 1.5 MiB would be more, real ones have some ten MiB.
const PAGE_BYTES: usize = 512 << 20;
/// The longest line of a watch: an object is at most 1.5 MiB in etcd, and JSON may escape it.
const LINE_BYTES: usize = 16 << 20;
/// A page that does not come within this never will: an API server ends requests after a minute.
const PAGE_WITHIN: Duration = Duration::from_secs(90);

/// An API server.
#[derive(Clone)]
pub(super) struct Server {
    client: Client,
}

/// A page.
pub(super) struct Page {
    /// Its text.
    pub(super) text: Bytes,
    /// What time the API server said it was.
    pub(super) at: Option<Timestamp>,
}

/// The lines of a watch.
pub(super) struct Lines {
    body: BodyDataStream,
    buffer: BytesMut,
    /// A watch that is silent for longer is dead: the server ends it earlier.
    silence: Duration,
}

/// Why an API server does not answer as wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// 410: what was asked for is no longer kept.
    #[error("the version is no longer kept there")]
    Gone,
    /// 404: it does not know the kind.
    #[error("not served there")]
    NotServed,
    /// Another status.
    #[error("{code}: {message}")]
    Refused {
        /// HTTP's.
        code: u16,
        /// What it says.
        message: String,
        /// When to ask again, in seconds.
        retry_after: Option<u64>,
    },
    /// Nothing came in time.
    #[error("silent for {} seconds", .0.as_secs())]
    Silent(Duration),
    /// The connection broke, or never was.
    #[error("{0}")]
    Cut(String),
    /// What came is not what an API server sends.
    #[error("not understood: {0}")]
    Odd(String),
}

/// What a refusal says of itself.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
}

#[derive(Deserialize)]
struct Named {
    metadata: ObjectMeta,
}

impl Server {
    pub(super) const fn new(client: Client) -> Self {
        Self { client }
    }

    /// The text at `uri`.
    pub(super) async fn page(&self, uri: &str) -> Result<Page, Failure> {
        let whole = async {
            let (headers, body) = self.ask(uri).await?;
            let text = to_bytes(body, PAGE_BYTES).await.map_err(cut)?;
            Ok(Page { text, at: date(&headers) })
        };
        timeout(PAGE_WITHIN, whole).await.unwrap_or(Err(Failure::Silent(PAGE_WITHIN)))
    }

    /// The lines at `uri`, as they come.
    pub(super) async fn lines(&self, uri: &str, silence: Duration) -> Result<Lines, Failure> {
        let asked = timeout(PAGE_WITHIN, self.ask(uri)).await;
        let (_, body) = asked.unwrap_or(Err(Failure::Silent(PAGE_WITHIN)))?;
        Ok(Lines { body: body.into_data_stream(), buffer: BytesMut::new(), silence })
    }

    /// The uid of a namespace, which tells one cluster from another.
    pub(super) async fn uid_of_namespace(&self, name: &str) -> Result<String, Failure> {
        let page = self.page(&format!("/api/v1/namespaces/{name}")).await?;
        let named: Named =
            serde_json::from_slice(&page.text).map_err(|e| Failure::Odd(e.to_string()))?;
        Ok(named.metadata.uid)
    }

    async fn ask(&self, uri: &str) -> Result<(HeaderMap, Body), Failure> {
        let request = Request::get(uri).header(header::ACCEPT, "application/json");
        let request = request.body(kube::client::Body::empty()).map_err(cut)?;
        let response = self.client.send(request).await.map_err(cut)?;
        let (head, body) = response.into_parts();
        let body = Body::new(body);
        if head.status.is_success() {
            return Ok((head.headers, body));
        }
        let text = to_bytes(body, 1 << 20).await.unwrap_or_default();
        Err(match head.status {
            StatusCode::GONE => Failure::Gone,
            StatusCode::NOT_FOUND => Failure::NotServed,
            status => {
                let said: Status = serde_json::from_slice(&text).unwrap_or_default();
                let after = head.headers.get(header::RETRY_AFTER);
                let after = after.and_then(|text| text.to_str().ok()?.parse().ok());
                let message = said.message.chars().take(300).collect();
                Failure::Refused { code: status.as_u16(), message, retry_after: after }
            }
        })
    }
}

impl Lines {
    /// The next whole lines, at least one, each with its line break; `None` when the server has ended the watch.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let next = timeout(self.silence, self.body.next()).await;
            let Some(chunk) = next.map_err(|_| Failure::Silent(self.silence))? else {
                // Half a line at the end is no event.
                return Ok(None);
            };
            self.buffer.extend_from_slice(&chunk.map_err(cut)?);
            if let Some(end) = memchr::memrchr(b'\n', &self.buffer) {
                return Ok(Some(self.buffer.split_to(end.saturating_add(1)).freeze()));
            }
            if self.buffer.len() > LINE_BYTES {
                return Err(Failure::Odd(format!("a line of more than {LINE_BYTES} bytes")));
            }
        }
    }
}

fn cut(error: impl std::fmt::Display) -> Failure {
    Failure::Cut(error.to_string())
}

/// The API server's clock, to the second.
fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(header::DATE)?.to_str().ok()?;
    let date = chrono::DateTime::parse_from_rfc2822(text).ok()?;
    Timestamp::from_millis(date.timestamp_millis()).ok()
}
