//! What can be said about a serving process: each setting once, for the command line, the environment and the file.
//!
//! In the file a setting has the name of its field in camelCase: `--quota-cluster`, `BIZRQ_QUOTA_CLUSTER` and
//! `quotaCluster` are one.

use crate::{
    domain::{label_keys::Label, resources::is_model},
    telemetry::{Format, Level},
};
use serde::{Deserialize, Serialize};
use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

/// What was said; what was not is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Settings {
    /// A YAML file with any of these settings, by their names in camelCase (`quotaCluster: east`)
    #[arg(long, value_name = "FILE", env = "BIZRQ_CONFIG")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// What this process does, with commas between; all of it if not given
    #[arg(long, value_name = "ROLES", env = "BIZRQ_ROLES", value_delimiter = ',', value_enum)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// The log: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG", env = "BIZRQ_LOG")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The folder of this replica's rows and snapshots; without, a start reads the whole log
    #[arg(long, value_name = "DIR", env = "BIZRQ_STORE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<PathBuf>,
    /// A cluster that is served, and how its API server is reached: NAME=in-cluster, NAME=CONTEXT of your
    /// kubeconfig, or NAME alone, which asks and is not watched. May be given several times
    #[arg(
        long = "cluster",
        value_name = "NAME[=API]",
        env = "BIZRQ_CLUSTERS",
        value_delimiter = ','
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterSetting>,
    /// The cluster whose quota objects count, served here or by another bizrq at the same log; the first if not given
    #[arg(long, value_name = "NAME", env = "BIZRQ_QUOTA_CLUSTER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_cluster: Option<String>,
    /// Keep read-only mirrors of the quota objects that count in the other clusters that are served here; bizrq must be
    /// allowed to write quota objects there
    #[arg(long, env = "BIZRQ_MIRRORS")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mirrors: bool,
    /// A table of further kinds of workloads, in YAML. May be given several times
    #[arg(long, value_name = "FILE", env = "BIZRQ_KINDS", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<PathBuf>,
    /// A label (or annotation) that names an object's group or one of its models, if not
    /// biz.group.resource.quota, or that with /cpu-type, /memory-type, /gpu-type: group=KEY, cpu=KEY, memory=KEY,
    /// gpu=KEY. May be given several times
    #[arg(long = "label", value_name = "WHAT=KEY", env = "BIZRQ_LABELS", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
    /// A label of nodes that names the model that they really have: cpu=KEY, memory=KEY, gpu=KEY, such as
    /// gpu=nvidia.com/gpu.product; pods count under that, whatever they declare. May be given several times
    #[arg(
        long = "node-label",
        value_name = "WHAT=KEY",
        env = "BIZRQ_NODE_LABELS",
        value_delimiter = ','
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_labels: Vec<Label>,
    /// What becomes of a workload that names no group: allow, refuse, or default:GROUP
    #[arg(long, value_name = "WHAT", env = "BIZRQ_MISSING_GROUP")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_group: Option<GroupSetting>,
    /// What becomes of growth while the log is away
    #[arg(long, value_name = "WHAT", env = "BIZRQ_WITHOUT_LOG", value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_log: Option<Growth>,
    /// Where the webhook listens, with TLS; 0.0.0.0:8443 if not given
    #[arg(long, value_name = "ADDRESS", env = "BIZRQ_LISTEN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Where metrics and health are told, without TLS; 0.0.0.0:9090 if not given
    #[arg(long, value_name = "ADDRESS", env = "BIZRQ_METRICS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
    /// Tell there what groups may use, use and have left, of so many keys of groups at most; none if not given, since
    /// whoever reaches the address reads them
    #[arg(long, value_name = "KEYS", env = "BIZRQ_GROUP_METRICS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_metrics: Option<usize>,
    /// Where the query API and its page listen; nowhere if not given. Without tokens an address of this host alone, such
    /// as 127.0.0.1:8090
    #[arg(long, value_name = "ADDRESS", env = "BIZRQ_API")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<SocketAddr>,
    /// The folder with the API's tls.crt and tls.key; without, it speaks plain HTTP, which shows tokens to who listens in
    #[arg(long, value_name = "DIR", env = "BIZRQ_API_TLS_DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_tls_dir: Option<PathBuf>,
    /// A YAML file of tokens for the API, by their hashes, and the groups that each shows
    #[arg(long, value_name = "FILE", env = "BIZRQ_API_TOKENS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_tokens: Option<PathBuf>,
    /// The cluster whose API server is asked about tokens for the API, and what they show; nobody if not given
    #[arg(long, value_name = "NAME", env = "BIZRQ_API_CLUSTER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_cluster: Option<String>,
    /// An Alertmanager that is told what stands, by its API v2: http://HOST:PORT, with the path that it has in front of
    /// /api/v2, if any. May be given several times: every member of a cluster of them
    #[arg(
        long = "alertmanager",
        value_name = "URL",
        env = "BIZRQ_ALERTMANAGER",
        value_delimiter = ','
    )]
    #[serde(rename = "alertmanager", skip_serializing_if = "Vec::is_empty")]
    pub alertmanagers: Vec<String>,
    /// The folder with the webhook's tls.crt and tls.key; without, bizrq makes its own and keeps them in a Secret
    #[arg(long, value_name = "DIR", env = "BIZRQ_TLS_DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_dir: Option<PathBuf>,
    /// The Secret that keeps bizrq's own certificates; bizrq-webhook-tls if not given
    #[arg(long, value_name = "NAME", env = "BIZRQ_TLS_SECRET", conflicts_with = "tls_dir")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_secret: Option<String>,
    /// A name or address that the webhook is reached under, for bizrq's own certificates; the Service's if not given
    /// (NAMESPACE.svc behind bizrq-webhook). May be given several times
    #[arg(long = "tls-name", value_name = "NAME", env = "BIZRQ_TLS_NAMES", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tls_names: Vec<String>,
    /// The namespace of bizrq's Secret and Lease; the pod's own if not given
    #[arg(long, value_name = "NAME", env = "BIZRQ_NAMESPACE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of this replica; the host's and the process's number if not given
    #[arg(long, value_name = "NAME", env = "BIZRQ_REPLICA")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<String>,
    /// Seconds between "not ready" and the end of accepting; 5 if not given
    #[arg(long, value_name = "SECONDS", env = "BIZRQ_NOTICE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<u64>,
    /// Seconds that the last reviews have after that; 15 if not given
    #[arg(long, value_name = "SECONDS", env = "BIZRQ_FAREWELL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub farewell: Option<u64>,
    /// How messages are written to stderr; as text if not given
    #[arg(long, value_name = "FORMAT", env = "BIZRQ_LOG_FORMAT", value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<Format>,
    /// Which messages are written; info if not given
    #[arg(long, value_name = "LEVEL", env = "BIZRQ_LOG_LEVEL", value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<Level>,
}

/// What a process does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Deserialize, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Answer reviews
    Webhook,
    /// Tell the log what the clusters show, where this process leads
    Observe,
    /// Show statuses and take snapshots, where this process leads
    Control,
    /// Answer who asks by HTTP, at --api
    Api,
}

/// A cluster, and how its API server is reached.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterSetting {
    /// The name that it has in the log.
    pub name: String,
    /// `None`: it is not.
    pub api: Option<ApiServer>,
}

/// How an API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiServer {
    /// As a pod's service account.
    InCluster,
    /// As a context of the kubeconfig says (`$KUBECONFIG`, or `~/.kube/config`).
    Context(String),
}

/// What becomes of a workload that names no group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum GroupSetting {
    /// It is allowed, and metered under the empty group.
    Allow,
    /// `GroupMissing`.
    Refuse,
    /// This group's.
    Default(String),
}

/// What becomes of growth while the log is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// Refuse it as `LogUnavailable`; this is the default
    #[default]
    Refuse,
    /// Admit it, and charge it as unreviewed once it is seen
    Admit,
}

impl Role {
    /// Everything that a process can do.
    pub const ALL: [Self; 4] = [Self::Webhook, Self::Observe, Self::Control, Self::Api];
}

impl Settings {
    /// What is not said here is taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        fn list<T>(first: Vec<T>, second: Vec<T>) -> Vec<T> {
            if first.is_empty() { second } else { first }
        }
        Self {
            config: self.config.or(other.config),
            roles: list(self.roles, other.roles),
            log: self.log.or(other.log),
            store: self.store.or(other.store),
            clusters: list(self.clusters, other.clusters),
            quota_cluster: self.quota_cluster.or(other.quota_cluster),
            mirrors: self.mirrors || other.mirrors,
            kinds: list(self.kinds, other.kinds),
            labels: list(self.labels, other.labels),
            node_labels: list(self.node_labels, other.node_labels),
            missing_group: self.missing_group.or(other.missing_group),
            without_log: self.without_log.or(other.without_log),
            listen: self.listen.or(other.listen),
            metrics: self.metrics.or(other.metrics),
            group_metrics: self.group_metrics.or(other.group_metrics),
            api: self.api.or(other.api),
            api_tls_dir: self.api_tls_dir.or(other.api_tls_dir),
            api_tokens: self.api_tokens.or(other.api_tokens),
            api_cluster: self.api_cluster.or(other.api_cluster),
            alertmanagers: list(self.alertmanagers, other.alertmanagers),
            tls_dir: self.tls_dir.or(other.tls_dir),
            tls_secret: self.tls_secret.or(other.tls_secret),
            tls_names: list(self.tls_names, other.tls_names),
            namespace: self.namespace.or(other.namespace),
            replica: self.replica.or(other.replica),
            notice: self.notice.or(other.notice),
            farewell: self.farewell.or(other.farewell),
            log_format: self.log_format.or(other.log_format),
            log_level: self.log_level.or(other.log_level),
        }
    }
}

impl FromStr for ClusterSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, api) = match text.split_once('=') {
            None => (text, None),
            Some((_, "")) => {
                return Err(format!(
                    "`{text}` names no API server; write NAME=in-cluster, NAME=CONTEXT, or NAME alone"
                ));
            }
            Some((name, "in-cluster")) => (name, Some(ApiServer::InCluster)),
            Some((name, context)) => (name, Some(ApiServer::Context(context.to_owned()))),
        };
        cluster_name(name)?;
        Ok(Self { name: name.to_owned(), api })
    }
}

/// Whether a cluster may be called so.
pub(super) fn cluster_name(name: &str) -> Result<(), String> {
    match is_model(name) {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is no name of a cluster; use at most 63 letters, digits, `.`, `_` or `-`, beginning with a letter or digit"
        )),
    }
}

impl FromStr for GroupSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("default:")) {
            ("allow", _) => Ok(Self::Allow),
            ("refuse", _) => Ok(Self::Refuse),
            (_, Some(group)) if !group.is_empty() => Ok(Self::Default(group.to_owned())),
            _ => Err(format!("`{text}` is none of allow, refuse and default:GROUP")),
        }
    }
}

impl fmt::Display for ClusterSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.api {
            None => write!(f, "{}", self.name),
            Some(ApiServer::InCluster) => write!(f, "{}=in-cluster", self.name),
            Some(ApiServer::Context(context)) => write!(f, "{}={context}", self.name),
        }
    }
}

impl fmt::Display for GroupSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allow"),
            Self::Refuse => f.write_str("refuse"),
            Self::Default(group) => write!(f, "default:{group}"),
        }
    }
}

impl TryFrom<String> for ClusterSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl TryFrom<String> for GroupSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ClusterSetting> for String {
    fn from(cluster: ClusterSetting) -> Self {
        cluster.to_string()
    }
}

impl From<GroupSetting> for String {
    fn from(group: GroupSetting) -> Self {
        group.to_string()
    }
}
