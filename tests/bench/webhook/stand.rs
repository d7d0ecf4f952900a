//! What is measured: the webhook over a log, and beside it a server that says yes without a thought.

use crate::{
    answering::{answering, declared},
    server::{Server as Nats, Version},
};
use axum::{Router, body::Bytes, routing::post};
use axum_server::tls_rustls::RustlsConfig;
use bizrq::{
    clock,
    domain::{quota::TypedSpec, time::HOUR_MS},
    event_log::{AnyLog, EventLog, NewEvent},
    webhook::{
        Options,
        clusters::Cluster,
        metrics::Metrics,
        server::{Limits, Server},
        tls::{Current, Pair, issue, server_config},
    },
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde_json::{Value, json};
use std::{future::pending, net::SocketAddr, net::TcpListener, sync::Arc};
use tempfile::TempDir;
use tokio::runtime::Runtime;

#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Echoes the uid and says yes: what axum and rustls can do here.
    Echo,
    /// The webhook on a log in a folder.
    File,
    /// The webhook on a log on a NATS server of this machine.
    Nats,
}

/// A server on a runtime of its own.
pub(super) struct Stand {
    pub(super) address: SocketAddr,
    /// Whom its clients are to believe, in PEM.
    pub(super) bundle: String,
    runtime: Runtime,
    _folder: TempDir,
    _nats: Option<Nats>,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::File => "file",
            Self::Nats => "NATS",
        }
    }
}

impl Stand {
    pub(super) fn start(kind: Kind) -> Self {
        let now = clock::now();
        let until = now.shifted(24 * HOUR_MS);
        let authority = issue::authority(now, until).unwrap();
        let own = issue::serving(&authority, &["localhost".into()], now, until).unwrap();
        let pair = Pair::parse(own.certificate.as_bytes(), own.key.as_bytes(), now).unwrap();
        let current = Arc::new(Current::default());
        current.show(pair);
        let folder = TempDir::new().unwrap();
        let nats = matches!(kind, Kind::Nats).then(|| Nats::start(Version::New));
        let place = match &nats {
            Some(server) => server.url(),
            None => folder.path().to_str().unwrap().to_owned(),
        };
        let runtime = Runtime::new().unwrap();
        let address = runtime.block_on(async {
            match kind {
                Kind::Echo => echo(current),
                Kind::File | Kind::Nats => webhook(current, &place).await,
            }
        });
        Self { address, bundle: authority.certificate, runtime, _folder: folder, _nats: nats }
    }

    pub(super) fn client(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.bundle.as_bytes()).unwrap()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config
    }

    pub(super) fn stop(self) {
        self.runtime.shutdown_background();
    }
}

fn echo(current: Arc<Current>) -> SocketAddr {
    let yes = async |body: Bytes| {
        let review: Value = serde_json::from_slice(&body).unwrap();
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        let kind = "AdmissionReview";
        json!({"apiVersion": "admission.k8s.io/v1", "kind": kind, "response": response}).to_string()
    };
    let router = Router::new().route("/validate/workloads/{cluster}", post(yes));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = RustlsConfig::from_config(Arc::new(server_config(current).unwrap()));
    let server = axum_server::from_tcp_rustls(listener, config).unwrap();
    tokio::spawn(server.serve(router.into_make_service()));
    address
}

async fn webhook(current: Arc<Current>, place: &str) -> SocketAddr {
    let log = Arc::new(AnyLog::open(place).await.unwrap());
    log.append(vec![endless()]).await.unwrap();
    let east = Cluster { options: Options::new("east"), context: Arc::default() };
    let (clusters, _) = answering(log, east).await;
    let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).unwrap());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(any, clusters, current, metrics, Limits::default()).unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.serve(pending::<()>()));
    address
}

/// A quota that nobody will ever fill.
fn endless() -> NewEvent {
    let hard = vec![("limits.cpu", "1000000000"), ("limits.memory", "1000000Ti")];
    let spec = TypedSpec { parent: "", hard, charge: "", models: "", ..TypedSpec::default() };
    declared("east", "team-a", &spec)
}
