//! A webhook on this host, on the simulated log: the server, the decider and the projection that run in a cluster, and
//! a client that asks as an API server does. Certificates are made for it and trusted by nobody else.

use super::{
    Error,
    door::{Door, Told},
    record::Recorder,
};
use crate::{
    clock,
    decider::{self, transport::Alone},
    domain::time::{HOUR_MS, Timestamp},
    event_log::EventLog,
    k8s::{context::Context, kinds::Kinds},
    projection::{MemoryStore, Projection, Runner, runner},
    webhook::{
        self,
        clusters::{Cluster, Clusters},
        metrics::Metrics,
        server::{Limits, Server},
        tls::{Current, Pair, issue},
    },
};
use axum::body::{Body, to_bytes};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpStream, runtime::Runtime, sync::watch, task::JoinHandle};
use tokio_rustls::TlsConnector;

/// See the head of this file.
pub struct Stage<L> {
    log: Arc<L>,
    runtime: Runtime,
    projection: Projection,
    kinds: Arc<Kinds>,
    contexts: BTreeMap<String, Arc<RwLock<Context>>>,
    /// The simulated time, in milliseconds.
    now: Arc<AtomicI64>,
    client: SendRequest<Body>,
    end: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// What the certificate is for.
const NAME: &str = "localhost";
/// Nothing that is left to do takes so long.
const LEAVING: Duration = Duration::from_secs(60);
/// An answer is a few hundred bytes.
const ANSWER_BYTES: usize = 1 << 20;

impl<L: EventLog + 'static> Stage<L>
where
    L::Reader: 'static,
{
    /// Opens it on `log`, for these clusters.
    ///
    /// # Errors
    /// [`Error::Stage`].
    pub fn open(log: Arc<L>, clusters: &[&str]) -> Result<Self, Error> {
        let runtime = Runtime::new().map_err(failed)?;
        let inside = runtime.enter();
        let end = watch::Sender::new(false);
        let kinds = Arc::new(Kinds::builtin().map_err(failed)?);
        let contexts: BTreeMap<_, Arc<RwLock<Context>>> =
            clusters.iter().map(|name| ((*name).to_owned(), Arc::default())).collect();
        let now = Arc::new(AtomicI64::new(0));

        let never = Duration::from_secs(86_400);
        let options =
            runner::Options { commit_every: never, commit_records: u64::MAX, ..Default::default() };
        let (runner, projection) = Runner::new(MemoryStore::default(), options);
        let simulated = Arc::clone(&now);
        let options = decider::Options {
            now: Arc::new(move || Timestamp::MIN.shifted(simulated.load(Ordering::Relaxed))),
            ..decider::Options::default()
        };
        let (decider, worker) = decider::new(Arc::clone(&log), projection.clone(), Alone, options);
        let answering = contexts.iter().map(|(name, context)| Cluster {
            options: webhook::Options::new(name),
            context: Arc::clone(context),
        });
        let reviews = Clusters::new(Arc::clone(&kinds), answering, decider, projection.clone());

        let (current, bundle) = certificate()?;
        let metrics = Metrics::new(&prometheus::Registry::new()).map_err(failed)?;
        let limits = Limits { notice: Duration::ZERO, ..Limits::default() };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(any, reviews, current, Arc::new(metrics), limits);
        let server = server.map_err(failed)?;
        let address = server.address().map_err(failed)?;

        let (folded, ended) = (Arc::clone(&log), [ended(&end), ended(&end), ended(&end)]);
        let [served, decided, read] = ended;
        let tasks = vec![
            tokio::spawn(async move { drop(server.serve(served).await) }),
            tokio::spawn(worker.run(decided)),
            // Why it stopped is told to whoever waits for the projection.
            tokio::spawn(async move { drop(runner.run(&*folded, read).await) }),
        ];
        drop(inside);
        let mut folded = projection.clone();
        // Until then it answers that it is not ready.
        wait(&runtime, async move { folded.caught_up().await.map_err(failed) })?;
        let client = wait(&runtime, connect(address, &bundle))?;
        Ok(Self { log, runtime, projection, kinds, contexts, now, client, end, tasks })
    }

    pub(super) fn log(&self) -> Arc<L> {
        Arc::clone(&self.log)
    }
}

impl<L: EventLog + 'static> Door for Stage<L>
where
    L::Reader: 'static,
{
    fn ask(
        &mut self,
        record: &mut Recorder,
        path: &str,
        review: String,
        now: Timestamp,
    ) -> Result<Told, Error> {
        self.now.store(now.millis(), Ordering::Relaxed);
        let Self { log, runtime, projection, client, .. } = self;
        wait(runtime, async {
            record.send(&**log).await?;
            // By what an observer told a moment ago the webhook decides, too.
            projection.wait_for(record.position()).await.map_err(failed)?;
            let text = post(client, path, review).await?;
            let told = Told::read(&text);
            let told = told.ok_or_else(|| failed(String::from_utf8_lossy(&text)))?;
            if told.recorded {
                record.read_back(&**log).await?;
            }
            Ok(told)
        })
    }

    fn show(&mut self, cluster: &str, object: &Value) -> Result<(), Error> {
        let Some(context) = self.contexts.get(cluster) else { return Ok(()) };
        let mut context = context.write().unwrap_or_else(PoisonError::into_inner);
        context.see(&self.kinds, &object.to_string()).map(drop).map_err(failed)
    }

    fn close(self: Box<Self>) {
        let Self { runtime, client, end, tasks, .. } = *self;
        end.send_replace(true);
        drop(client);
        wait(&runtime, async {
            for task in tasks {
                // One that panicked has said so.
                let _ = task.await;
            }
        });
        // Whoever gave us the log has it to himself again: no task that holds it is left. A thread of another runtime
        // must not wait, so one of its own does.
        std::thread::scope(|scope| {
            scope.spawn(|| runtime.shutdown_timeout(LEAVING));
        });
    }
}

fn failed(why: impl ToString) -> Error {
    Error::Stage { why: why.to_string() }
}

/// Waits for `work`, wherever this thread runs: it may belong to another runtime.
fn wait<T: Send>(runtime: &Runtime, work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let working = scope.spawn(|| runtime.block_on(work));
        working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn ended(end: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut end = end.subscribe();
    async move {
        let _ = end.wait_for(|end| *end).await;
    }
}

/// A certificate for this host that holds for a day, and the authority that it is to be believed by.
fn certificate() -> Result<(Arc<Current>, String), Error> {
    let now = clock::now();
    let until = now.shifted(24 * HOUR_MS);
    let authority = issue::authority(now, until).map_err(failed)?;
    let own = issue::serving(&authority, &[NAME.to_owned()], now, until).map_err(failed)?;
    let pair = Pair::parse(own.certificate.as_bytes(), own.key.as_bytes(), now).map_err(failed)?;
    let current = Arc::new(Current::default());
    current.show(pair);
    Ok((current, authority.certificate))
}

async fn connect(address: SocketAddr, bundle: &str) -> Result<SendRequest<Body>, Error> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(bundle.as_bytes()).map_err(failed)?;
    roots.add(authority).map_err(failed)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpStream::connect(address).await.map_err(failed)?;
    tcp.set_nodelay(true).map_err(failed)?;
    let name = ServerName::try_from(NAME).map_err(failed)?;
    let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map_err(failed)?;
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await;
    let (client, connection) = handshake.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}

async fn post(
    client: &mut SendRequest<Body>,
    path: &str,
    review: String,
) -> Result<Vec<u8>, Error> {
    let request = hyper::Request::post(format!("https://{NAME}{path}?timeout=10s"))
        .header("content-type", "application/json")
        .body(Body::from(review))
        .map_err(failed)?;
    client.ready().await.map_err(failed)?;
    let response = client.send_request(request).await.map_err(failed)?;
    let body = to_bytes(Body::new(response.into_body()), ANSWER_BYTES).await.map_err(failed)?;
    Ok(body.to_vec())
}
