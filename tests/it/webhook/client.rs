//! A client as an API server is one: HTTP/1.1 or 2 over TLS, trusting one bundle.

use axum::body::{Body, to_bytes};
use hyper::{
    Request, StatusCode,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::Value;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// However busy the machine is, nothing takes so long that is not stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) enum Client {
    One(http1::SendRequest<Body>),
    Two(http2::SendRequest<Body>),
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<String>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn uid(&self) -> String {
        let json: Value = serde_json::from_str(&self.text).unwrap();
        json["response"]["uid"].as_str().unwrap().to_owned()
    }
}

/// Trusts the authorities in `bundle` and speaks `protocol`.
pub(crate) fn config(bundle: &str, protocol: &[u8]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

/// A TLS connection, for who wants to say something else than HTTP on it.
pub(crate) async fn tls(
    address: SocketAddr,
    bundle: &str,
    protocol: &[u8],
) -> io::Result<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(Arc::new(config(bundle, protocol)));
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = async { connector.connect(name, TcpStream::connect(address).await?).await };
    timeout(PATIENCE, connecting).await.expect("a handshake is stuck")
}

impl Client {
    pub(crate) async fn connect(
        address: SocketAddr,
        bundle: &str,
        protocol: &[u8],
    ) -> io::Result<Self> {
        let io = TokioIo::new(tls(address, bundle, protocol).await?);
        if protocol == b"h2" {
            let handshake = http2::handshake(TokioExecutor::new(), io).await;
            let (sender, connection) = handshake.map_err(io::Error::other)?;
            tokio::spawn(connection);
            Ok(Self::Two(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(io::Error::other)?;
            tokio::spawn(connection);
            Ok(Self::One(sender))
        }
    }

    /// Another one on the same connection of HTTP/2.
    pub(crate) fn clone_http2(&self) -> Self {
        match self {
            Self::Two(sender) => Self::Two(sender.clone()),
            Self::One(_) => panic!("a connection of HTTP/1.1 has one request at a time"),
        }
    }

    /// Whether the server has not ended the connection.
    pub(crate) async fn is_open(&mut self) -> bool {
        match self {
            Self::One(sender) => sender.ready().await.is_ok(),
            Self::Two(sender) => sender.ready().await.is_ok(),
        }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer, hyper::Error> {
        self.send(request("GET", path, Body::empty())).await
    }

    /// Posts a review about workloads of `east`.
    pub(crate) async fn review(&mut self, body: Vec<u8>) -> Result<Answer, hyper::Error> {
        self.send(request("POST", "/validate/workloads/east?timeout=30s", body.into())).await
    }

    pub(crate) async fn send(&mut self, request: Request<Body>) -> Result<Answer, hyper::Error> {
        let sending = async {
            let response = match self {
                Self::One(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await?
                }
                Self::Two(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await?
                }
            };
            let (head, body) = response.into_parts();
            let text = to_bytes(Body::new(body), 16 << 20).await.unwrap_or_default();
            Ok(Answer {
                status: head.status,
                retry_after: head
                    .headers
                    .get("retry-after")
                    .map(|value| value.to_str().unwrap().to_owned()),
                text: String::from_utf8_lossy(&text).into_owned(),
            })
        };
        timeout(PATIENCE, sending).await.expect("an answer is stuck")
    }
}

/// A request to `localhost`.
pub(crate) fn request(method: &str, path: &str, body: Body) -> Request<Body> {
    let uri = format!("https://localhost{path}");
    let request = Request::builder().method(method).uri(uri).header("host", "localhost");
    request.header("content-type", "application/json").body(body).unwrap()
}
