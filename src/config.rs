//! What `bizrq serve` is to do: what was typed, the environment and a file become one checked [`Config`].
//!
//! ```text
//!  flags, BIZRQ_… ─┐
//!                  ├─▶ Settings (what was said) ─check─▶ Config (what the program needs)
//!  --config FILE  ─┘    the first that says something counts
//! ```
//!
//! Nothing is opened or connected here but the files that are named. Each error names the setting, its value and the
//! remedy.

mod file;
mod settings;

pub use settings::{ApiServer, ClusterSetting, GroupSetting, Growth, Role, Settings};

use crate::{
    decider::Missing,
    domain::label_keys::{Label, LabelKeys, Named},
    event_log::shown,
    k8s::kinds::{Kinds, TableError},
    telemetry,
    webhook::{self, server::Limits},
};
use hyper::{Uri, http::uri::Scheme};
use std::{
    collections::BTreeSet,
    env, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// Everything that a serving process must know.
#[derive(Debug)]
pub struct Config {
    /// What this process does.
    pub roles: BTreeSet<Role>,
    /// Its name among those of one log.
    pub replica: String,
    /// The log: a folder, or an address.
    pub log: String,
    /// The folder of the projection's rows and snapshots; without, a restart reads the whole log.
    pub store: Option<PathBuf>,
    /// The clusters that it serves, at least one.
    pub clusters: Vec<Cluster>,
    /// The cluster whose quota objects are facts.
    pub quota_cluster: String,
    /// Whether an operator said so.
    pub quota_cluster_named: bool,
    /// The namespace of bizrq's own Secret and Lease, in every cluster.
    pub namespace: String,
    /// Which kinds ask for what.
    pub kinds: Kinds,
    /// By which labels objects name their group and their models.
    pub labels: LabelKeys,
    /// By which labels nodes name the models of their CPUs, memory and cards.
    pub node_models: [Option<String>; 3],
    /// Where the webhook listens.
    pub listen: SocketAddr,
    /// Where metrics and health are told.
    pub metrics: SocketAddr,
    /// Groups' keys that are told there at most; 0: none.
    pub group_metrics: usize,
    /// Where the query API listens, if anywhere.
    pub api: Option<SocketAddr>,
    /// The folder with the API's `tls.crt` and `tls.key`, read again when they change; `None`: it speaks plain HTTP.
    pub api_tls: Option<PathBuf>,
    /// The file of the API's tokens.
    pub api_tokens: Option<PathBuf>,
    /// The place among [`Config::clusters`] of the one that is asked about the API's tokens.
    pub api_cluster: Option<usize>,
    /// Alertmanagers that are told what stands.
    pub alertmanagers: Vec<Uri>,
    /// How the webhook proves who it is.
    pub certificate: Certificate,
    /// The webhook's bounds.
    pub limits: Limits,
    /// What is told to stderr.
    pub telemetry: telemetry::Options,
}

/// A cluster that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// How its API server is reached; `None`: it only asks.
    pub api: Option<ApiServer>,
    /// What its reviews are answered by.
    pub reviews: webhook::Options,
}

/// How the webhook proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// No webhook is served here.
    None,
    /// `tls.crt` and `tls.key` in this folder, read again when they change.
    Folder(PathBuf),
    /// Made here, kept in a Secret of this cluster, and trusted by bizrq's webhook configurations of all clusters.
    Own {
        /// The place of the cluster among [`Config::clusters`].
        cluster: usize,
        /// The Secret's name.
        secret: String,
        /// The names that the webhook is reached under.
        names: Vec<String>,
    },
}

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that must be there.
    #[error("{setting} is missing: {remedy}")]
    Missing {
        /// The flag.
        setting: &'static str,
        /// What to give.
        remedy: &'static str,
    },
    /// A setting that cannot be used.
    #[error("{setting}: `{value}`: {why}")]
    Wrong {
        /// The flag.
        setting: &'static str,
        /// What was given.
        value: String,
        /// What is wrong, and the remedy.
        why: String,
    },
    /// A file that cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A line of the configuration that cannot be used.
    #[error("{}, line {line}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Setting, value and remedy.
        why: String,
    },
    /// A table of kinds that cannot be used.
    #[error("{}, {source}", path.display())]
    Kinds {
        /// The file; of the table that was built in, its name.
        path: PathBuf,
        /// Line and remedy.
        source: TableError,
    },
}

/// The webhook's usual place: a port above 1,023 needs no right.
const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 8443);
/// The usual place of metrics and health.
const METRICS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 9090);
/// The Secret that keeps certificates of our own.
const SECRET: &str = "bizrq-webhook-tls";
/// The Service that leads to the webhook, in the same namespace.
const SERVICE: &str = "bizrq-webhook";
/// Where a pod finds the namespace that it runs in.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The namespace that deploy/ installs into.
const NAMESPACE: &str = "bizrq";

impl Config {
    /// What `typed` says; what it leaves open, the file that it names; what that leaves open, the defaults.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(typed: Settings) -> Result<Self, Error> {
        Self::check(Self::settings(typed)?)
    }

    /// What was said, in the order of who says it.
    ///
    /// # Errors
    /// [`Error`]: the file that is named cannot be read or understood.
    pub fn settings(typed: Settings) -> Result<Settings, Error> {
        let Some(path) = typed.config.clone() else { return Ok(typed) };
        Ok(typed.or(file::read(&path)?))
    }

    /// What the settings mean.
    ///
    /// # Errors
    /// [`Error`].
    pub fn check(settings: Settings) -> Result<Self, Error> {
        let mut clusters = clusters(&settings)?;
        let namespace = settings.namespace.clone().unwrap_or_else(namespace);
        let roles: BTreeSet<Role> = match settings.roles.is_empty() {
            true => Role::ALL.into(),
            false => settings.roles.iter().copied().collect(),
        };
        if roles == [Role::Api].into() && settings.api.is_none() {
            return Err(Error::Missing {
                setting: "--api",
                remedy: "say where who asks is answered, as in 127.0.0.1:8090, or leave the role api out",
            });
        }
        let certificate = match roles.contains(&Role::Webhook) {
            true => certificate(&settings, &clusters, &namespace)?,
            false => Certificate::None,
        };
        let api_cluster = api_cluster(settings.api_cluster, &clusters)?;
        let quota_cluster_named = settings.quota_cluster.is_some();
        let quota_cluster = quota_cluster(settings.quota_cluster, &mut clusters)?;
        let log = settings.log.ok_or(Error::Missing {
            setting: "--log",
            remedy: "name a folder, or nats://host:port of a NATS server",
        })?;
        let usual = Limits::default();
        let limits = Limits {
            notice: settings.notice.map_or(usual.notice, Duration::from_secs),
            farewell: settings.farewell.map_or(usual.farewell, Duration::from_secs),
            ..usual
        };
        Ok(Self {
            api: settings.api.filter(|_| roles.contains(&Role::Api)),
            roles,
            replica: settings.replica.unwrap_or_else(replica),
            log,
            store: settings.store,
            clusters,
            quota_cluster,
            quota_cluster_named,
            namespace,
            kinds: kinds(&settings.kinds)?,
            labels: labels(&settings.labels)?,
            node_models: node_models(&settings.node_labels)?,
            listen: settings.listen.unwrap_or(LISTEN),
            metrics: settings.metrics.unwrap_or(METRICS),
            group_metrics: settings.group_metrics.unwrap_or_default(),
            api_tls: settings.api_tls_dir,
            api_tokens: settings.api_tokens,
            api_cluster,
            alertmanagers: settings
                .alertmanagers
                .iter()
                .map(|url| alertmanager(url))
                .collect::<Result<_, _>>()?,
            certificate,
            limits,
            telemetry: telemetry::Options {
                format: settings.log_format.unwrap_or_default(),
                level: settings.log_level.unwrap_or_default(),
            },
        })
    }

    /// Whether no cluster that is served here has the quota objects that count.
    #[must_use]
    pub fn quotas_are_elsewhere(&self) -> bool {
        self.clusters.iter().all(|cluster| cluster.reviews.quotas_elsewhere.is_some())
    }

    /// What other replicas at the log know this one by. Pods of two clusters may have the same name.
    #[must_use]
    pub fn name_at_log(&self) -> String {
        let clusters = self.clusters.iter().map(|cluster| cluster.reviews.cluster.as_str());
        format!("{}/{}", clusters.collect::<Vec<_>>().join("+"), self.replica)
    }

    /// What all settings together say, as a file would say it; what is secret is masked.
    #[must_use]
    pub fn print(&self, mut settings: Settings) -> String {
        settings.log = Some(shown(&self.log));
        settings.roles = self.roles.iter().copied().collect();
        settings.replica = Some(self.replica.clone());
        settings.quota_cluster = Some(self.quota_cluster.clone());
        settings.labels = self.labels.labels().into();
        settings.listen = Some(self.listen);
        settings.metrics = Some(self.metrics);
        settings.notice = Some(self.limits.notice.as_secs());
        settings.farewell = Some(self.limits.farewell.as_secs());
        settings.log_format = Some(self.telemetry.format);
        settings.log_level = Some(self.telemetry.level);
        settings.without_log = Some(settings.without_log.unwrap_or_default());
        settings.missing_group = settings.missing_group.or(Some(GroupSetting::Allow));
        settings.namespace = Some(self.namespace.clone());
        if let Certificate::Own { secret, names, .. } = &self.certificate {
            settings.tls_secret = Some(secret.clone());
            settings.tls_names.clone_from(names);
        }
        let mut text = serde_saphyr::to_string(&settings).unwrap_or_default();
        for (name, _) in env::vars().filter(|(name, _)| name.starts_with("BIZRQ_NATS_")) {
            text.push_str(&format!("# {name} is set: ***\n"));
        }
        text
    }

    /// Whether this process has a role.
    #[must_use]
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

fn alertmanager(url: &str) -> Result<Uri, Error> {
    let wrong = |why: &str| {
        let (setting, value) = ("--alertmanager", shown(url));
        Error::Wrong { setting, value, why: format!("{why}; write http://HOST:PORT") }
    };
    let uri: Uri = url.parse().map_err(|_| wrong("it is no address"))?;
    if url.contains('@') {
        return Err(wrong("it has a user or password, which others see and it is not sent"));
    }
    match (uri.scheme() == Some(&Scheme::HTTP), uri.authority(), uri.query()) {
        (true, Some(_), None) => Ok(uri),
        (true, Some(_), Some(_)) => Err(wrong("it has a query")),
        _ => Err(wrong("only plain HTTP is spoken to it")),
    }
}

fn clusters(settings: &Settings) -> Result<Vec<Cluster>, Error> {
    let wrong = |value: &str, why: &str| Error::Wrong {
        setting: "--cluster",
        value: value.to_owned(),
        why: why.to_owned(),
    };
    if settings.clusters.is_empty() {
        return Err(Error::Missing {
            setting: "--cluster",
            remedy: "name the cluster whose API server asks: NAME=in-cluster, NAME=CONTEXT of your \
                     kubeconfig, or NAME alone to answer reviews and watch nothing",
        });
    }
    let mut names = BTreeSet::new();
    let twice = settings.clusters.iter().find(|cluster| !names.insert(&cluster.name));
    if let Some(twice) = twice {
        return Err(wrong(&twice.name, "is named twice; give each cluster one name"));
    }
    let inside = settings.clusters.iter().filter(|c| c.api == Some(ApiServer::InCluster));
    if let Some(second) = inside.clone().nth(1) {
        return Err(wrong(
            &second.to_string(),
            "a pod runs in one cluster only; reach the others by contexts",
        ));
    }
    let missing = match &settings.missing_group {
        None | Some(GroupSetting::Allow) => Missing::Allow,
        Some(GroupSetting::Refuse) => Missing::Refuse,
        Some(GroupSetting::Default(group)) => Missing::Default(group.clone()),
    };
    let unavailable = match settings.without_log.unwrap_or_default() {
        Growth::Refuse => webhook::Unavailable::Refuse,
        Growth::Admit => webhook::Unavailable::Admit,
    };
    let clusters = settings.clusters.iter().map(|cluster| Cluster {
        api: cluster.api.clone(),
        reviews: webhook::Options {
            missing: missing.clone(),
            unavailable,
            mirrored: settings.mirrors,
            ..webhook::Options::new(&cluster.name)
        },
    });
    Ok(clusters.collect())
}

fn certificate(
    settings: &Settings,
    clusters: &[Cluster],
    namespace: &str,
) -> Result<Certificate, Error> {
    if let Some(folder) = &settings.tls_dir {
        return Ok(Certificate::Folder(folder.clone()));
    }
    let cluster = clusters.iter().position(|cluster| cluster.api.is_some());
    let Some(cluster) = cluster else {
        return Err(Error::Missing {
            setting: "--tls-dir",
            remedy: "name a folder with tls.crt and tls.key; bizrq makes certificates of its own \
                     only where a --cluster has an API server to keep them",
        });
    };
    let mut names = settings.tls_names.clone();
    if names.is_empty() {
        names = vec![format!("{SERVICE}.{namespace}.svc")];
    }
    let secret = settings.tls_secret.clone().unwrap_or_else(|| SECRET.to_owned());
    Ok(Certificate::Own { cluster, secret, names })
}

/// The cluster that is asked about tokens must have an API server.
fn api_cluster(named: Option<String>, clusters: &[Cluster]) -> Result<Option<usize>, Error> {
    let Some(name) = named else { return Ok(None) };
    let place = clusters.iter().position(|c| c.reviews.cluster == name && c.api.is_some());
    place.map(Some).ok_or_else(|| Error::Wrong {
        setting: "--api-cluster",
        value: name,
        why: "is no --cluster whose API server is reached; name one that is".to_owned(),
    })
}

/// Of clusters with a bizrq each, the objects of one count: so it need not be one that is served here.
fn quota_cluster(named: Option<String>, clusters: &mut [Cluster]) -> Result<String, Error> {
    let first = || clusters.first().map(|cluster| cluster.reviews.cluster.clone());
    let name = named.or_else(first).unwrap_or_default();
    settings::cluster_name(&name).map_err(|why| {
        let (setting, value) = ("--quota-cluster", name.clone());
        Error::Wrong { setting, value, why }
    })?;
    for cluster in clusters.iter_mut().filter(|cluster| cluster.reviews.cluster != name) {
        cluster.reviews.quotas_elsewhere = Some(name.clone());
    }
    Ok(name)
}

fn labels(labels: &[Label]) -> Result<LabelKeys, Error> {
    LabelKeys::with(labels).map_err(|wrong| Error::Wrong {
        setting: "--label",
        value: wrong.label.to_string(),
        why: wrong.why,
    })
}

fn node_models(labels: &[Label]) -> Result<[Option<String>; 3], Error> {
    let mut models = [const { None }; 3];
    for label in labels {
        let wrong = |why: &str| Error::Wrong {
            setting: "--node-label",
            value: label.to_string(),
            why: why.to_owned(),
        };
        let [cpu, memory, gpu] = &mut models;
        let place = match label.what {
            Named::Cpu => cpu,
            Named::Memory => memory,
            Named::Gpu => gpu,
            Named::Group => return Err(wrong("nodes belong to no group; name cpu, memory or gpu")),
        };
        if place.replace(label.key.clone()).is_some() {
            return Err(wrong("is given twice; give one label"));
        }
    }
    Ok(models)
}

/// The kinds that ship with bizrq, and those of these tables.
///
/// # Errors
/// [`Error::Read`], [`Error::Kinds`].
pub fn kinds(files: &[PathBuf]) -> Result<Kinds, Error> {
    let built_in = |source| Error::Kinds { path: "the built-in table".into(), source };
    let mut kinds = Kinds::builtin().map_err(built_in)?;
    for path in files {
        kinds
            .declare(&read(path)?)
            .map_err(|source| Error::Kinds { path: path.clone(), source })?;
    }
    Ok(kinds)
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// The namespace of the pod that this is; elsewhere, the usual one.
fn namespace() -> String {
    let inside = fs::read_to_string(NAMESPACE_FILE).ok().map(|text| text.trim().to_owned());
    inside.filter(|name| !name.is_empty()).unwrap_or_else(|| NAMESPACE.to_owned())
}

/// The host's name (of a pod: the pod's), and the process: two on one host are two.
fn replica() -> String {
    let told = env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host = told.or_else(|| fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let host = host.unwrap_or_else(|| "host".to_owned());
    format!("{}-{}", host.trim(), std::process::id())
}

#[cfg(test)]
mod tests;
